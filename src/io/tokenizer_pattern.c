/* tokenizer_pattern.c - a pattern of tokenizer.json for PCRE2. There it is read in Oniguruma's Ruby syntax;
 * what means something else in PCRE2 is written out, what cannot be is refused. */
#include "io/tokenizer_internal.h"

/* White_Space: PCRE2's own \s has U+180E too. */
#define SPACES                                                                                     \
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"
/* PCRE2's own \w knows no marks; Oniguruma's has these Latin-1 numbers, but not in a class. */
#define WORDS ZT_WORDS "\\xb2\\xb3\\xb9\\xbc-\\xbe"

static const struct {
    char escape;
    const char *outside, *inside; /* a class: NULL: cannot be said */
} escapes[] = {
    {'s', "[" SPACES "]", SPACES},
    {'S', "[^" SPACES "]", "\\S\\x{180e}"},
    {'w', "[" WORDS "]", ZT_WORDS},
    {'W', "[^" WORDS "]", NULL},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'v', "\\x0b", "\\x0b"},
    {'p', "\\p", "\\p"},
    {'P', "\\P", "\\P"},
    {'x', "\\x", "\\x"},
    {'n', "\\n", "\\n"},
    {'r', "\\r", "\\r"},
    {'t', "\\t", "\\t"},
    {'f', "\\f", "\\f"},
};

typedef struct {
    const zt_reader *r;
    const char *s;
    size_t n, i;
    bool in_class;
    zt_text *out;
} translator;

static bool ahead(const translator *p, const char *text)
{
    const size_t n = strlen(text);
    return n <= p->n - p->i && memcmp(p->s + p->i, text, n) == 0;
}

static zt_status refuse(const translator *p, const char *what)
{
    return zt_tokenizer_refuse(p->r, "in a pattern,", what);
}

/* Copies what stands in braces behind \p or \x, or a quantifier. */
static zt_status braces(translator *p)
{
    const char *end = memchr(p->s + p->i, '}', p->n - p->i);
    if (!end) return refuse(p, "{ without }");
    const size_t size = (size_t)(end + 1 - (p->s + p->i));
    ZT_TRY(zt_text_add(p->out, p->s + p->i, size));
    p->i += size;
    return ZT_OK;
}

static zt_status escape(translator *p)
{
    const char c = (char)(p->i + 1 < p->n ? p->s[p->i + 1] : 0);
    p->i += 2;
    for (size_t k = 0; k < sizeof escapes / sizeof *escapes; k++) {
        if (escapes[k].escape != c) continue;
        const char *as = p->in_class ? escapes[k].inside : escapes[k].outside;
        if (!as) break;
        ZT_TRY(zt_text_add(p->out, as, strlen(as)));
        return strchr("pPx", c) && ahead(p, "{") ? braces(p) : ZT_OK;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || !c) return refuse(p, (char[]){'\\', c, '\0'});
    return zt_text_add(p->out, p->s + p->i - 2, 2);
}

static zt_status open_class(translator *p)
{
    const size_t n = ahead(p, "[^") ? 2 : 1;
    ZT_TRY(zt_text_add(p->out, p->s + p->i, n));
    p->i += n;
    if (ahead(p, "]")) return refuse(p, "[]");
    p->in_class = true;
    return ZT_OK;
}

static zt_status group(const translator *p)
{
    static const char *const known[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (ahead(p, known[k])) return ZT_OK;
    return refuse(p, (char[]){'(', '?', (char)(p->i + 2 < p->n ? p->s[p->i + 2] : 0), '\0'});
}

static zt_status translate(translator *p)
{
    while (p->i < p->n) {
        if (ahead(p, "\\")) {
            ZT_TRY(escape(p));
            continue;
        }
        if (p->in_class && (ahead(p, "[") || ahead(p, "&&")))
            return refuse(p, "a class in a class");
        if (!p->in_class) {
            if (ahead(p, "(?")) ZT_TRY(group(p));
            if (ahead(p, "(*")) return refuse(p, "(*");
            if (ahead(p, "{,")) return refuse(p, "{,");
            if (ahead(p, "[")) {
                ZT_TRY(open_class(p));
                continue;
            }
            if (ahead(p, "{")) {
                ZT_TRY(braces(p));
                if (ahead(p, "+")) return refuse(p, "}+");
                continue;
            }
        }
        if (ahead(p, "]")) p->in_class = false;
        ZT_TRY(zt_text_add(p->out, p->s + p->i++, 1));
    }
    return ZT_OK;
}

zt_status zt_tokenizer_pattern(const zt_reader *r, const char *pattern, size_t n, bool literal,
                               pcre2_code **out)
{
    zt_text text = {0};
    translator p = {.r = r, .s = pattern, .n = n, .out = &text};
    int code = 0;
    PCRE2_SIZE at = 0;
    zt_status status = literal ? zt_text_add(&text, pattern, n) : translate(&p);
    if (status == ZT_OK && text.size == 0) status = refuse(&p, "nothing");
    if (status == ZT_OK) {
        const uint32_t flags = literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE;
        *out = pcre2_compile((PCRE2_SPTR)text.data, text.size, PCRE2_UTF | flags, &code, &at, NULL);
        if (!*out) {
            char why[120];
            (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
            status = ZT_FAIL(ZT_ERR_FORMAT, "%s: the pattern \"%s\": %s", r->origin, pattern, why);
        } else {
            (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without it matching is slower */
        }
    }
    zt_text_free(&text);
    return status;
}
