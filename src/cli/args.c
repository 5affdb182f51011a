/* args.c - reading the command line. */
#include "base/file.h"
#include "cli/cli.h"
#include "train/session.h"

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

zt_status zt_args_parse(int argc, char **argv, zt_flag *flags, int n_flags, zt_args *out)
{
    zt_args a = {.overrides = zt_calloc((size_t)argc, sizeof(char *)),
                 .rest = zt_calloc((size_t)argc, sizeof(char *))};
    zt_status status = a.overrides && a.rest ? ZT_OK : ZT_NOMEM();
    for (int i = 0; i < argc && status == ZT_OK; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            if (is_override(argv[i]))
                a.overrides[a.n_overrides++] = argv[i];
            else
                a.rest[a.n_rest++] = argv[i];
            continue;
        }
        const char *equals = strchr(argv[i], '=');
        const size_t n = equals ? (size_t)(equals - argv[i]) - 2 : strlen(argv[i]) - 2;
        int k = 0;
        while (k < n_flags &&
               (strlen(flags[k].name) != n || strncmp(flags[k].name, argv[i] + 2, n) != 0))
            k++;
        if (k == n_flags)
            status = ZT_FAIL(ZT_ERR_ARG, "there is no option %s here; --help lists them", argv[i]);
        else if (equals)
            flags[k].value = equals + 1;
        else if (i + 1 == argc)
            status = ZT_FAIL(ZT_ERR_ARG, "%s wants a value", argv[i]);
        else
            flags[k].value = argv[++i];
    }
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

zt_status zt_flag_number(const zt_flag *f, double low, double high, double *out)
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
