/* print.c - options and their documentation as text. */
#include "config/options.h"

#include <stdlib.h>

static void print_value(FILE *f, const zt_config *c, const zt_option *o)
{
    const void *at = (const char *)c + o->offset;
    switch (o->kind) {
    case ZT_OPT_BOOL:
        (void)fprintf(f, "%s", *(const bool *)at ? "true" : "false");
        break;
    case ZT_OPT_INT:
        (void)fprintf(f, "%lld", (long long)*(const int64_t *)at);
        break;
    case ZT_OPT_REAL:
        (void)fprintf(f, "%.10g", *(const double *)at);
        break;
    case ZT_OPT_STRING:
        (void)fprintf(f, "%s", *(char *const *)at);
        break;
    case ZT_OPT_LIST: {
        const zt_strings *s = at;
        for (int i = 0; i < s->n; i++)
            (void)fprintf(f, "%s%s", i ? "," : "", s->items[i]);
        break;
    }
    }
}

char *zt_option_value(const zt_config *c, const zt_option *o)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    print_value(f, c, o);
    if (fclose(f) == 0) return text;
    free(text);
    return NULL;
}

char *zt_config_canonical(const zt_config *c, bool given_only)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    for (int i = 0; i < zt_n_options; i++) {
        const zt_option *o = &zt_options[i];
        if (o->effect != ZT_OPT_HONOURED || (given_only && c->given[i] != ZT_GIVEN)) continue;
        (void)fprintf(f, "%s = ", o->key);
        print_value(f, c, o);
        (void)fputc('\n', f);
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void print_aliases(FILE *f, bool markdown)
{
    (void)fprintf(f, markdown ? "\n## Other names\n\n| key | stands for |\n|---|---|\n"
                              : "\nOther names (key, what it stands for):\n");
    for (int i = 0; i < zt_n_aliases; i++)
        (void)fprintf(f, markdown ? "| `%s` | `%s` |\n" : "  %-52s %s\n", zt_aliases[i].key,
                      zt_aliases[i].is);
}

static void print_option(FILE *f, const zt_option *o, bool markdown)
{
    static const char *const kinds[] = {"true, false", "whole number", "number", "text", "list"};
    if (!markdown) {
        const char *value = o->effect == ZT_OPT_LIMITED ? o->choices : o->fallback;
        (void)fprintf(f, "  %-52s %-14s %s\n", o->key, *value ? value : "-", o->meaning);
        return;
    }
    (void)fprintf(f, "| `%s` | ", o->key);
    if (o->choices) { /* a bar would end the cell */
        for (const char *p = o->choices; *p; p++)
            (void)fputs(*p == '|' ? ", " : (char[]){*p, 0}, f);
    } else if (o->low != 0 || o->high != 0) {
        (void)fprintf(f, "%s, %g to %g", kinds[o->kind], o->low, o->high);
    } else {
        (void)fputs(kinds[o->kind], f);
    }
    (void)fprintf(f, " | `%s` | %s |\n", *o->fallback ? o->fallback : " ", o->meaning);
}

void zt_config_write_docs(FILE *f, bool markdown)
{
    static const char *const titles[] = {
        "Options", "Accepted without effect",
        "Accepted with one value only (any other is refused with the reason)"};
    for (int e = ZT_OPT_HONOURED; e <= ZT_OPT_LIMITED; e++) {
        (void)fprintf(f, markdown ? "\n## %s\n\n" : "\n%s:\n", titles[e]);
        if (markdown)
            (void)fputs(e == ZT_OPT_HONOURED
                            ? "| key | values | default | meaning |\n|---|---|---|---|\n"
                        : e == ZT_OPT_NO_EFFECT ? "| key | why |\n|---|---|\n"
                                                : "| key | value | why |\n|---|---|---|\n",
                        f);
        for (int i = 0; i < zt_n_options; i++) {
            const zt_option *o = &zt_options[i];
            if ((int)o->effect != e) continue;
            if (e == ZT_OPT_HONOURED || !markdown)
                print_option(f, o, markdown);
            else if (e == ZT_OPT_NO_EFFECT)
                (void)fprintf(f, "| `%s` | %s |\n", o->key, o->meaning);
            else
                (void)fprintf(f, "| `%s` | %s | %s |\n", o->key,
                              *o->choices ? o->choices : "(absent)", o->meaning);
        }
    }
    print_aliases(f, markdown);
}
