/* config.c - reading a configuration by the table of options. */
#include "config/config.h"
#include "base/file.h"
#include "config/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- strings ---- */
static zt_status push(zt_strings *s, char *text)
{
    char **more = text ? zt_realloc(s->items, (size_t)(s->n + 1) * sizeof *more) : NULL;
    if (!more) {
        zt_free(text);
        return ZT_NOMEM();
    }
    s->items = more;
    s->items[s->n++] = text;
    return ZT_OK;
}

static void clear(zt_strings *s)
{
    for (int i = 0; i < s->n; i++)
        zt_free(s->items[i]);
    zt_free(s->items);
    *s = (zt_strings){0};
}

bool zt_config_given(const zt_config *c, const char *key)
{
    int i = zt_option_find(key);
    return i >= 0 && c->given[i] == ZT_GIVEN;
}

/* ---- values ---- */
static char *as_text(const json_t *v)
{
    if (json_is_string(v)) return zt_strdup(json_string_value(v));
    char *dump = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT),
         *text = dump ? zt_strdup(dump) : NULL;
    free(dump);
    return text;
}

static zt_status bad_value(const zt_option *o, const char *text, const char *want)
{
    return ZT_FAIL(ZT_ERR_CONFIG, "%s = %s: should be %s (%s)", o->key, text, want, o->meaning);
}

static zt_status parse_number(const zt_option *o, const char *text, double *x)
{
    char *end;
    errno = 0;
    *x = strtod(text, &end);
    if (end == text || *end || !isfinite(*x))
        return bad_value(o, text, o->kind == ZT_OPT_INT ? "a whole number" : "a finite number");
    if (o->kind == ZT_OPT_INT && *x != floor(*x)) return bad_value(o, text, "a whole number");
    if (o->low == 0 && o->high == 0) return ZT_OK;
    const bool unset = o->low == -1; /* -1 stands for something else, and -0.5 for nothing */
    if ((*x >= (unset ? 0 : o->low) && *x <= o->high) || (unset && *x == -1)) return ZT_OK;
    return ZT_FAIL(ZT_ERR_CONFIG, "%s = %s: should be %sfrom %g to %g (%s)", o->key, text,
                   unset ? "-1 or " : "", unset ? 0 : o->low, o->high, o->meaning);
}

static zt_status set_text(zt_config *c, const zt_option *o, const char *text)
{
    void *at = (char *)c + o->offset;
    double x = 0;
    switch (o->kind) {
    case ZT_OPT_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return bad_value(o, text, "true or false");
        *(bool *)at = strcmp(text, "true") == 0;
        return ZT_OK;
    case ZT_OPT_INT:
        ZT_TRY(parse_number(o, text, &x));
        *(int64_t *)at = (int64_t)x;
        return ZT_OK;
    case ZT_OPT_REAL:
        ZT_TRY(parse_number(o, text, &x));
        *(double *)at = x;
        return ZT_OK;
    case ZT_OPT_STRING: {
        if (o->choices && !zt_option_among(o->choices, text))
            return ZT_FAIL(ZT_ERR_CONFIG, "%s = %s: there are %s", o->key, text, o->choices);
        char *copy = zt_strdup(text);
        if (!copy) return ZT_NOMEM();
        zt_free(*(char **)at);
        *(char **)at = copy;
        return ZT_OK;
    }
    case ZT_OPT_LIST:
        clear(at);
        for (const char *p = text; *p;) {
            size_t n = strcspn(p, ",");
            ZT_TRY(push(at, zt_strndup(p, n)));
            p += n + (p[n] == ',');
        }
        return ZT_OK;
    }
    return ZT_OK;
}

static zt_status set_list(zt_config *c, const zt_option *o, const json_t *list)
{
    zt_strings *to = (zt_strings *)(void *)((char *)c + o->offset);
    size_t i;
    const json_t *v;
    clear(to);
    json_array_foreach(list, i, v)
    {
        if (json_is_array(v) || json_is_object(v))
            return ZT_FAIL(ZT_ERR_CONFIG, "%s: should be a list of plain values", o->key);
        ZT_TRY(push(to, as_text(v)));
    }
    return ZT_OK;
}

/* "auto" is DeepSpeed's word for a value that follows from others; a name may be any. */
static bool takes_auto(const zt_option *o)
{
    return o->effect == ZT_OPT_HONOURED &&
           (o->choices ? zt_option_among(o->choices, "auto") : o->kind == ZT_OPT_STRING);
}

static zt_status set_value(zt_config *c, const char *key, const json_t *v)
{
    char like[200];
    int i = zt_option_find(key);
    const zt_option *o = i >= 0 ? &zt_options[i] : NULL;
    if (!o && json_is_null(v) && zt_option_is_section(key)) return ZT_OK;
    if (!o && zt_option_is_section(key))
        return ZT_FAIL(ZT_ERR_CONFIG, "%s is a section: an object with options", key);
    if (!o)
        return ZT_FAIL(ZT_ERR_CONFIG, "there is no option \"%s\"%s", key,
                       zt_option_suggestion(key, like, sizeof like));
    const bool is_auto =
        json_is_string(v) && strcmp(json_string_value(v), "auto") == 0 && !takes_auto(o);
    if (json_is_null(v) || is_auto) { /* as if it were not there; on the command line: any more */
        if (o->effect != ZT_OPT_HONOURED || (c->given[i] == ZT_GIVEN && c->reading_file))
            return ZT_OK;
        c->given[i] = is_auto ? ZT_AUTO : ZT_NOT_GIVEN;
        return set_text(c, o, o->fallback);
    }
    if (c->given[i] == ZT_GIVEN && c->reading_file)
        return ZT_FAIL(ZT_ERR_CONFIG, "%s is given twice, once by another name of it", o->key);
    if (o->effect == ZT_OPT_HONOURED && o->kind == ZT_OPT_LIST && json_is_array(v)) {
        c->given[i] = ZT_GIVEN;
        return set_list(c, o, v);
    }
    char *text = as_text(v);
    if (!text) return ZT_NOMEM();
    zt_status status = ZT_OK;
    if (o->effect == ZT_OPT_NO_EFFECT) {
        if (c->given[i] != ZT_GIVEN)
            status = push(&c->notes, zt_format("%s has no effect: %s", o->key, o->meaning));
    } else if (o->effect == ZT_OPT_LIMITED) {
        if (!zt_option_among(o->choices, text))
            status = ZT_FAIL(ZT_ERR_CONFIG, "%s = %s is not supported: %s; %s%s", o->key, text,
                             o->meaning, *o->choices ? "the only value is " : "leave it out",
                             o->choices);
    } else if (o->kind == ZT_OPT_BOOL ? !json_is_boolean(v) && !json_is_string(v)
                                      : json_is_object(v) || json_is_array(v)) {
        static const char *const wants[] = {"true or false", "a whole number", "a number",
                                            "one text", "a list"};
        status = bad_value(o, text, wants[o->kind]);
    } else {
        status = set_text(c, o, text);
    }
    c->given[i] = ZT_GIVEN;
    zt_free(text);
    return status;
}

/* A section of what is not supported, and off in it: its "enabled" or "device" has the only value there is. */
static bool is_off(const char *section, const json_t *object)
{
    static const char *const switches[] = {"enabled", "device"};
    for (int k = 0; k < 2; k++) {
        char key[128];
        (void)snprintf(key, sizeof key, "%s.%s", section, switches[k]);
        const int i = zt_option_find(key);
        if (i < 0 || zt_options[i].effect != ZT_OPT_LIMITED) continue;
        const json_t *v = json_object_get(object, switches[k]);
        char *text = v ? as_text(v) : NULL;
        const bool off =
            !v || json_is_null(v) ||
            (text && (strcmp(text, "auto") == 0 || zt_option_among(zt_options[i].choices, text)));
        zt_free(text);
        return off;
    }
    return false;
}

static zt_status read_object(zt_config *c, const char *prefix, const json_t *object);

static zt_status read_section(zt_config *c, const char *key, const json_t *section)
{
    if (strcmp(key, "bfloat16") == 0) key = "bf16";
    char like[200];
    if (is_off(key, section) || json_object_size(section) == 0)
        return push(&c->notes, zt_format("%s is off: it has no effect", key));
    if (!zt_option_is_section(key))
        return ZT_FAIL(ZT_ERR_CONFIG, "there is no section \"%s\"%s", key,
                       zt_option_suggestion(key, like, sizeof like));
    return read_object(c, key, section);
}

static zt_status read_object(zt_config *c, const char *prefix, const json_t *object)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)object, name, v)
    {
        char *full = zt_format("%s%s%s", prefix, *prefix ? "." : "", name);
        if (!full) return ZT_NOMEM();
        const char *key = zt_option_unalias(full, json_is_object(v));
        zt_status status;
        if (json_is_object(v) && zt_option_find(key) < 0) {
            status = read_section(c, key, v);
        } else {
            status = set_value(c, key, v);
        }
        zt_free(full);
        ZT_TRY(status);
    }
    return ZT_OK;
}

/* JSON or, where that is not meant, the text as it is: a folder may be called 1.10. */
static json_t *override_value(const char *key, const char *text)
{
    const int i = zt_option_find(key);
    const bool is_text = i >= 0 && zt_options[i].effect == ZT_OPT_HONOURED &&
                         (zt_options[i].kind == ZT_OPT_STRING || zt_options[i].kind == ZT_OPT_LIST);
    json_error_t e;
    json_t *v = is_text && !strchr("\"[{", *text) ? NULL : json_loads(text, JSON_DECODE_ANY, &e);
    return v ? v : json_string(text);
}

static zt_status override(zt_config *c, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "\"%s\" is not understood: overrides are key=value, for example "
                       "zero_optimization.stage=2",
                       text);
    char *key = zt_strndup(text, (size_t)(equals - text));
    if (!key) return ZT_NOMEM();
    json_t *v = override_value(zt_option_unalias(key, false), equals + 1);
    zt_status status = !v ? ZT_FAIL(ZT_ERR_CONFIG, "%s: the value is not UTF-8", key)
                       : json_is_object(v) && zt_option_find(key) < 0
                           ? read_section(c, key, v)
                           : set_value(c, zt_option_unalias(key, false), v);
    json_decref(v);
    zt_free(key);
    return status;
}

/* ---- what must fit together ---- */
static zt_status check(zt_config *c)
{
    if (c->bf16 && c->fp16)
        return ZT_FAIL(ZT_ERR_CONFIG, "bf16.enabled and fp16.enabled are both true; choose one");
    if (c->betas.n != 0 && c->betas.n != 2)
        return ZT_FAIL(ZT_ERR_CONFIG, "optimizer.params.betas should be two numbers");
    c->beta1 = 0.9;
    c->beta2 = 0.999;
    double *to[] = {&c->beta1, &c->beta2};
    for (int i = 0; i < c->betas.n; i++) {
        char *end;
        *to[i] = strtod(c->betas.items[i], &end);
        if (*end || end == c->betas.items[i] || !(*to[i] >= 0 && *to[i] < 1))
            return ZT_FAIL(ZT_ERR_CONFIG, "optimizer.params.betas: %s should be from 0 to below 1",
                           c->betas.items[i]);
    }
    if (c->nesterov && (c->momentum == 0 || c->dampening != 0))
        return ZT_FAIL(ZT_ERR_CONFIG, "optimizer.params.nesterov needs momentum and no dampening");
    if (c->max_steps < 0 && c->epochs == 0)
        return ZT_FAIL(ZT_ERR_CONFIG, "max_steps or num_train_epochs must say how long to train");
    if (!*c->output_dir)
        return ZT_FAIL(ZT_ERR_CONFIG, "output_dir is empty: name a folder for checkpoints");
    if (!c->overlap_comm) c->prefetch = 0;
    return ZT_OK;
}

/* Which options count only with certain values of another. */
static const struct {
    const char *key, *with, *is;
} needs[] = {
    {"optimizer.params.betas", "optimizer.type", "AdamW|Adam"},
    {"optimizer.params.eps", "optimizer.type", "AdamW|Adam"},
    {"optimizer.params.adam_w_mode", "optimizer.type", "Adam"},
    {"fp16.initial_scale_power", "fp16.loss_scale", "0"},
    {"fp16.loss_scale_window", "fp16.loss_scale", "0"},
    {"fp16.hysteresis", "fp16.loss_scale", "0"},
    {"fp16.consecutive_hysteresis", "fp16.loss_scale", "0"},
    {"fp16.min_loss_scale", "fp16.loss_scale", "0"},
    {"data.isolate_documents", "data.packing", "true"},
    {"optimizer.params.momentum", "optimizer.type", "SGD"},
    {"optimizer.params.dampening", "optimizer.type", "SGD"},
    {"optimizer.params.nesterov", "optimizer.type", "SGD"},
    {"scheduler.params.warmup_min_lr", "scheduler.type", "WarmupLR|WarmupDecayLR"},
    {"scheduler.params.warmup_max_lr", "scheduler.type", "WarmupLR|WarmupDecayLR"},
    {"scheduler.params.total_num_steps", "scheduler.type", "WarmupDecayLR|WarmupCosineLR"},
    {"scheduler.params.warmup_min_ratio", "scheduler.type", "WarmupCosineLR"},
    {"scheduler.params.cos_min_ratio", "scheduler.type", "WarmupCosineLR"},
    {"fp16.loss_scale", "fp16.enabled", "true"},
    {"fp16.initial_scale_power", "fp16.enabled", "true"},
    {"fp16.loss_scale_window", "fp16.enabled", "true"},
    {"fp16.hysteresis", "fp16.enabled", "true"},
    {"fp16.consecutive_hysteresis", "fp16.enabled", "true"},
    {"fp16.min_loss_scale", "fp16.enabled", "true"},
    {"zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.stage", "3"},
    {"zero_optimization.stage3_param_persistence_threshold", "zero_optimization.stage", "3"},
    {"zero_optimization.overlap_comm", "zero_optimization.stage", "3"},
    {"data.text_field", "data.format", "auto|jsonl"},
    {"data.separator", "data.format", "auto|text"},
    {"data.seed", "data.shuffle", "true"},
    {"num_train_epochs", "max_steps", "-1"},
};

/* Nothing that was given is ignored silently. */
static zt_status say_unused(zt_config *c)
{
    for (int i = 0; i < zt_n_options; i++)
        if (c->given[i] == ZT_AUTO)
            ZT_TRY(push(&c->notes,
                        zt_format("%s is auto: the default, %s", zt_options[i].key,
                                  *zt_options[i].fallback ? zt_options[i].fallback : "nothing")));
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const int k = zt_option_find(needs[i].key), with = zt_option_find(needs[i].with);
        ZT_ASSERT(k >= 0 && with >= 0);
        if (c->given[k] != ZT_GIVEN) continue;
        char *text = zt_option_value(c, &zt_options[with]);
        zt_status status = !text ? ZT_NOMEM()
                           : zt_option_among(needs[i].is, text)
                               ? ZT_OK
                               : push(&c->notes, zt_format("%s has no effect: %s is %s",
                                                           needs[i].key, needs[i].with, text));
        free(text);
        ZT_TRY(status);
    }
    const bool held_back = c->validation.n > 0 || c->validation_split > 0;
    static const char *const evaluating[] = {"eval_steps", "eval_max_samples"};
    for (int i = 0; i < 2 && !held_back; i++)
        if (zt_config_given(c, evaluating[i]))
            ZT_TRY(push(&c->notes,
                        zt_format("%s has no effect: there is no data.validation", evaluating[i])));
    if (c->validation.n > 0 && c->validation_split > 0)
        ZT_TRY(push(&c->notes, zt_strdup("data.validation_split has no effect: there is "
                                         "data.validation")));
    return ZT_OK;
}

static zt_status load(zt_config *c, const char *path, int n, char *const *overrides)
{
    for (int i = 0; i < zt_n_options; i++)
        if (zt_options[i].effect == ZT_OPT_HONOURED)
            ZT_TRY(set_text(c, &zt_options[i], zt_options[i].fallback));
    if (path) {
        c->path = zt_strdup(path);
        if (!c->path) return ZT_NOMEM();
        json_t *j = NULL;
        ZT_TRY(zt_json_load(path, &j));
        c->reading_file = true;
        zt_status status = json_is_object(j)
                               ? read_object(c, "", j)
                               : ZT_FAIL(ZT_ERR_CONFIG, "a configuration is an object");
        c->reading_file = false;
        json_decref(j);
        if (status != ZT_OK) return ZT_FAIL(status, "%s: %s", path, zt_error_message());
    }
    for (int i = 0; i < n; i++) {
        zt_status status = override(c, overrides[i]);
        if (status != ZT_OK) return ZT_FAIL(status, "command line: %s", zt_error_message());
    }
    ZT_TRY(check(c));
    return say_unused(c);
}

zt_status zt_config_load(const char *path, int n_overrides, char *const *overrides, zt_config **out)
{
    zt_config *c = zt_calloc(1, sizeof *c);
    if (!c) return ZT_NOMEM();
    c->given = zt_calloc((size_t)zt_n_options, sizeof *c->given);
    zt_status status = c->given ? load(c, path, n_overrides, overrides) : ZT_NOMEM();
    if (status != ZT_OK)
        zt_config_free(&c);
    else
        *out = c;
    return status;
}

void zt_config_free(zt_config **config)
{
    zt_config *c = *config;
    if (!c) return;
    for (int i = 0; i < zt_n_options; i++) {
        const zt_option *o = &zt_options[i];
        void *at = (char *)c + o->offset;
        if (o->effect == ZT_OPT_HONOURED && o->kind == ZT_OPT_STRING) zt_free(*(char **)at);
        if (o->effect == ZT_OPT_HONOURED && o->kind == ZT_OPT_LIST) clear(at);
    }
    clear(&c->notes);
    zt_free(c->given);
    zt_free(c->path);
    zt_free(c);
    *config = NULL;
}

zt_status zt_config_batch(zt_config *c, int ranks)
{
    const int64_t all = c->train_batch_size;
    int64_t micro = c->micro_batch, steps = c->accumulation;
    if (all && all % ranks == 0 && !micro && steps && all % (steps * ranks) == 0)
        micro = all / (steps * ranks);
    if (all && micro && !steps && all % (micro * ranks) == 0) steps = all / (micro * ranks);
    if (all && !micro && !steps && all % ranks == 0) {
        micro = all / ranks;
        steps = 1;
    }
    micro = micro || all ? micro : 1;
    steps = steps || all ? steps : 1;
    if (micro < 1 || steps < 1 || (all && all != micro * steps * ranks)) {
        char given[2][24] = {"(not given)", "(not given)"};
        if (c->micro_batch)
            (void)snprintf(given[0], sizeof given[0], "%lld", (long long)c->micro_batch);
        if (c->accumulation)
            (void)snprintf(given[1], sizeof given[1], "%lld", (long long)c->accumulation);
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "train_batch_size %lld is not train_micro_batch_size_per_gpu %s x "
                       "gradient_accumulation_steps %s x %d ranks; %smake the product fit",
                       (long long)all, given[0], given[1], ranks,
                       c->micro_batch && c->accumulation ? "leave one of the three out, or " : "");
    }
    if (micro > 1000000 || steps > 1000000)
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "train_batch_size %lld means %lld samples a micro-step and %lld micro-steps "
                       "on each of %d "
                       "ranks; neither may exceed 1000000",
                       (long long)all, (long long)micro, (long long)steps, ranks);
    c->micro_batch = micro;
    c->accumulation = steps;
    c->train_batch_size = micro * steps * ranks;
    return ZT_OK;
}

zt_dtype zt_config_type(const zt_config *c)
{
    return c->bf16 ? ZT_BF16 : c->fp16 ? ZT_F16 : ZT_F32;
}
