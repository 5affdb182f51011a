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

/* ---- finding keys ---- */
static int find(const char *key)
{
    for (int i = 0; i < zt_n_options; i++)
        if (strcmp(zt_options[i].key, key) == 0) return i;
    return -1;
}

bool zt_config_given(const zt_config *c, const char *key)
{
    int i = find(key);
    return i >= 0 && c->given[i];
}

/* Is there an option below this key? */
static bool is_section(const char *key)
{
    size_t n = strlen(key);
    for (int i = 0; i < zt_n_options; i++)
        if (strncmp(zt_options[i].key, key, n) == 0 && zt_options[i].key[n] == '.') return true;
    return false;
}

static const char *without_alias(const char *key, bool is_object)
{
    for (int i = 0; i < zt_n_aliases; i++)
        if (!is_object && strcmp(zt_aliases[i].key, key) == 0) return zt_aliases[i].is;
    return key;
}

/* Letters to change, add or leave out to make b of a. */
static int distance(const char *a, const char *b)
{
    enum { MOST = 96 };
    int row[MOST + 1];
    size_t n = strlen(b);
    if (n > MOST || strlen(a) > MOST) return MOST;
    for (size_t j = 0; j <= n; j++)
        row[j] = (int)j;
    for (size_t i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            int change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            int add = row[j - 1] + 1, drop = row[j] + 1;
            row[j] = change < add ? change : add;
            row[j] = row[j] < drop ? row[j] : drop;
        }
    }
    return row[n];
}

static const char *last_part(const char *key)
{
    const char *dot = strrchr(key, '.');
    return dot ? dot + 1 : key;
}

/* "; did you mean X?" with the known key that is most like it, as a whole or by its last part (the right key in a
 * wrong place); what is little like any is not suggested. */
static const char *suggestion(const char *key, char *text, size_t size)
{
    const char *best = NULL;
    const int most = (int)strlen(key) / 3, most_part = (int)strlen(last_part(key)) / 2;
    int least = 1000;
    for (int i = 0; i < zt_n_options + zt_n_aliases; i++) {
        const char *known = i < zt_n_options ? zt_options[i].key : zt_aliases[i - zt_n_options].key;
        const int whole = distance(key, known);
        const int part = distance(last_part(key), last_part(known)) + 1;
        const int d = part <= most_part && part < whole ? part : whole;
        if (d < least && (d <= most || d <= most_part)) {
            least = d;
            best = i < zt_n_options ? known : zt_aliases[i - zt_n_options].is;
        }
    }
    if (best)
        (void)snprintf(text, size, "; did you mean \"%s\"?", best);
    else
        (void)snprintf(text, size, "; zeroth info lists all");
    return text;
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

static bool among(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = choices;; p++) {
        size_t length = strcspn(p, "|");
        if (length == n && strncmp(p, text, n) == 0) return true;
        p += length;
        if (!*p) return false;
    }
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
        if (o->choices && !among(o->choices, text))
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
           (o->choices ? among(o->choices, "auto") : o->kind == ZT_OPT_STRING);
}

static zt_status set_value(zt_config *c, const char *key, const json_t *v)
{
    char like[200];
    int i = find(key);
    const zt_option *o = i >= 0 ? &zt_options[i] : NULL;
    if (!o && json_is_null(v) && is_section(key)) return ZT_OK;
    if (!o)
        return ZT_FAIL(ZT_ERR_CONFIG, "there is no option \"%s\"%s", key,
                       suggestion(key, like, sizeof like));
    if (json_is_null(v)) return ZT_OK; /* as if it were not there */
    if (json_is_string(v) && strcmp(json_string_value(v), "auto") == 0 && !takes_auto(o))
        return o->effect != ZT_OPT_HONOURED || c->given[i]
                   ? ZT_OK
                   : push(&c->notes, zt_format("%s is auto: the default, %s", o->key,
                                               *o->fallback ? o->fallback : "nothing"));
    if (c->given[i] && c->reading_file)
        return ZT_FAIL(ZT_ERR_CONFIG, "%s is given twice, once by another name of it", o->key);
    if (o->effect == ZT_OPT_HONOURED && o->kind == ZT_OPT_LIST && json_is_array(v)) {
        c->given[i] = true;
        return set_list(c, o, v);
    }
    char *text = as_text(v);
    if (!text) return ZT_NOMEM();
    zt_status status = ZT_OK;
    if (o->effect == ZT_OPT_NO_EFFECT) {
        if (!c->given[i])
            status = push(&c->notes, zt_format("%s has no effect: %s", o->key, o->meaning));
    } else if (o->effect == ZT_OPT_LIMITED) {
        if (!among(o->choices, text))
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
    c->given[i] = true;
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
        const int i = find(key);
        if (i < 0 || zt_options[i].effect != ZT_OPT_LIMITED) continue;
        const json_t *v = json_object_get(object, switches[k]);
        char *text = v ? as_text(v) : NULL;
        const bool off =
            !v || json_is_null(v) ||
            (text && (strcmp(text, "auto") == 0 || among(zt_options[i].choices, text)));
        zt_free(text);
        return off;
    }
    return false;
}

static zt_status read_object(zt_config *c, const char *prefix, const json_t *object);

static zt_status read_section(zt_config *c, const char *key, const json_t *section)
{
    char like[200];
    if (is_off(key, section) || json_object_size(section) == 0)
        return push(&c->notes, zt_format("%s is off: it has no effect", key));
    if (!is_section(key))
        return ZT_FAIL(ZT_ERR_CONFIG, "there is no section \"%s\"%s", key,
                       suggestion(key, like, sizeof like));
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
        const char *key = without_alias(full, json_is_object(v));
        zt_status status;
        if (json_is_object(v) && find(key) < 0) {
            status = read_section(c, strcmp(key, "bfloat16") == 0 ? "bf16" : key, v);
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
    const int i = find(key);
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
    json_t *v = override_value(without_alias(key, false), equals + 1);
    zt_status status = !v ? ZT_FAIL(ZT_ERR_CONFIG, "%s: the value is not UTF-8", key)
                       : json_is_object(v) ? read_section(c, key, v)
                                           : set_value(c, without_alias(key, false), v);
    json_decref(v);
    zt_free(key);
    return status;
}

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
    {"optimizer.params.torch_adam", "optimizer.type", "Adam"},
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

static char *value_text(const zt_config *c, const zt_option *o)
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

/* Nothing that was given is ignored silently. */
static zt_status say_unused(zt_config *c)
{
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const int k = find(needs[i].key), with = find(needs[i].with);
        ZT_ASSERT(k >= 0 && with >= 0);
        if (!c->given[k]) continue;
        char *text = value_text(c, &zt_options[with]);
        zt_status status = !text ? ZT_NOMEM()
                           : among(needs[i].is, text)
                               ? ZT_OK
                               : push(&c->notes, zt_format("%s has no effect: %s is %s",
                                                           needs[i].key, needs[i].with, text));
        free(text);
        ZT_TRY(status);
    }
    const bool held_back = c->validation.n > 0 || c->validation_split > 0;
    static const char *const evaluating[] = {"eval_steps", "eval_max_samples"};
    for (int i = 0; i < 2 && !held_back; i++)
        if (c->given[find(evaluating[i])])
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

/* ---- printing ---- */
char *zt_config_canonical(const zt_config *c, bool given_only)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    for (int i = 0; i < zt_n_options; i++) {
        const zt_option *o = &zt_options[i];
        if (o->effect != ZT_OPT_HONOURED || (given_only && !c->given[i])) continue;
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
