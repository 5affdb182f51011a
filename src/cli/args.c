/* args.c - reading the command line. */
#include "base/file.h"
#include "cli/cli.h"
#include "train/session.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static bool is_override(const char *s)
{
    const char *equals = strchr(s, '=');
    if (!equals || equals == s || s[0] == '/' || s[0] == '.') return false;
    for (const char *p = s; p < equals; p++)
        if (*p == '/' || *p == ' ') return false;
    return true;
}

static zt_status take_flag(int *i, int argc, char **argv, const zt_command_line *line)
{
    const char *name = argv[*i] + 2, *equals = strchr(name, '=');
    const size_t n = equals ? (size_t)(equals - name) : strlen(name);
    int k = 0;
    while (k < line->n_flags &&
           (strlen(line->flags[k].name) != n || strncmp(line->flags[k].name, name, n) != 0))
        k++;
    if (k == line->n_flags)
        return ZT_FAIL(ZT_ERR_ARG, "there is no option %s here; --help lists them", argv[*i]);
    if (line->flags[k].value && *line->flags[k].value)
        return ZT_FAIL(ZT_ERR_ARG, "--%s is given twice", line->flags[k].name);
    if (!equals && *i + 1 == argc) return ZT_FAIL(ZT_ERR_ARG, "%s wants a value", argv[*i]);
    line->flags[k].value = equals ? equals + 1 : argv[++*i];
    return ZT_OK;
}

/* Does the override's key begin with one of those that count? */
static bool counts(const char *keys, const char *override)
{
    if (!keys) return false;
    if (!*keys) return true;
    for (const char *p = keys; *p;) {
        const size_t n = strcspn(p, "|");
        if (strncmp(override, p, n) == 0) return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static zt_status parse(int argc, char **argv, const zt_command_line *line, zt_args *a)
{
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            ZT_TRY(take_flag(&i, argc, argv, line));
        } else if (!is_override(argv[i])) {
            a->rest[a->n_rest++] = argv[i];
        } else if (counts(line->overrides, argv[i])) {
            a->overrides[a->n_overrides++] = argv[i];
        } else {
            return ZT_FAIL(
                ZT_ERR_ARG,
                "%s has no effect here: this command takes %s%s (a file's name with = in "
                "it: begin it with ./)",
                argv[i], line->overrides ? "the options " : "no options",
                line->overrides ? line->overrides : "");
        }
    }
    if (a->n_rest < line->least || a->n_rest > line->most)
        return ZT_FAIL(ZT_ERR_ARG, "usage: zeroth %s", line->usage);
    return ZT_OK;
}

zt_status zt_args_parse(zt_comm *comm, int argc, char **argv, const zt_command_line *line,
                        zt_args *out)
{
    zt_args a = {.overrides = zt_calloc((size_t)argc + 1, sizeof(char *)),
                 .rest = zt_calloc((size_t)argc + 1, sizeof(char *))};
    zt_status status = a.overrides && a.rest ? parse(argc, argv, line, &a) : ZT_NOMEM();
    status = zt_comm_agree(comm, status);
    if (status != ZT_OK)
        zt_args_free(&a);
    else
        *out = a;
    return status;
}

void zt_args_free(zt_args *a)
{
    zt_free(a->overrides);
    zt_free(a->rest);
    *a = (zt_args){0};
}

zt_status zt_flag_real(const zt_flag *f, double low, double high, double *out)
{
    if (!f->value) return ZT_OK;
    char *end;
    double x = strtod(f->value, &end);
    if (end == f->value || *end || !isfinite(x) || x < low || x > high)
        return ZT_FAIL(ZT_ERR_ARG, "--%s %s: should be a number from %g to %g", f->name, f->value,
                       low, high);
    *out = x;
    return ZT_OK;
}

zt_status zt_flag_whole(const zt_flag *f, int64_t low, int64_t high, int64_t *out)
{
    if (!f->value) return ZT_OK;
    char *end;
    errno = 0;
    long long x = strtoll(f->value, &end, 10);
    if (end == f->value || *end || errno != 0 || x < low || x > high)
        return ZT_FAIL(ZT_ERR_ARG, "--%s %s: should be a whole number from %lld to %lld", f->name,
                       f->value, (long long)low, (long long)high);
    *out = x;
    return ZT_OK;
}

zt_status zt_cli_model_path(const char *path, char **out)
{
    char *config = zt_path_join(path, "config.json");
    if (!config) return ZT_NOMEM();
    zt_status status = ZT_OK;
    *out = NULL;
    if (zt_path_is_folder(path) && !zt_path_exists(config)) status = zt_checkpoint_last(path, out);
    zt_free(config);
    if (status == ZT_OK && !*out && !(*out = zt_strdup(path))) status = ZT_NOMEM();
    return status;
}

/* bf16 and fp16 models are used in their own type where nothing else is asked for. */
static const char *own_type(const char *model)
{
    zt_model_config c;
    const char *override = NULL;
    if (zt_model_config_load(model, &c) != ZT_OK) return NULL;
    const char *t = json_string_value(json_object_get(c.source, "torch_dtype"));
    t = t ? t : json_string_value(json_object_get(c.source, "dtype"));
    if (t && strcmp(t, "bfloat16") == 0) override = "bf16.enabled=true";
    if (t && strcmp(t, "float16") == 0) override = "fp16.enabled=true";
    zt_model_config_deinit(&c);
    return override;
}

zt_status zt_cli_model_config(const char *model, const zt_args *a, zt_config **out)
{
    char *path = NULL, *first = NULL;
    char **all = zt_calloc((size_t)a->n_overrides + 2, sizeof *all);
    zt_status status = all ? zt_cli_model_path(model, &path) : ZT_NOMEM();
    int n = 0;
    if (status == ZT_OK) {
        first = zt_format("model=%s", path);
        status = first ? ZT_OK : ZT_NOMEM();
    }
    if (status == ZT_OK) {
        const char *type = own_type(path);
        bool given = false;
        for (int i = 0; i < a->n_overrides; i++)
            given = given || strncmp(a->overrides[i], "bf16", 4) == 0 ||
                    strncmp(a->overrides[i], "fp16", 4) == 0;
        all[n++] = first;
        if (type && !given) all[n++] = (char *)(uintptr_t)type;
        for (int i = 0; i < a->n_overrides; i++)
            all[n++] = a->overrides[i];
        status = zt_config_load(NULL, n, all, out);
    }
    zt_free(all);
    zt_free(first);
    zt_free(path);
    return status;
}
