/* tokenizer_parse.c - tokenizer.json: what is understood is turned into tables, the rest refused by name. */
#include "io/tokenizer_internal.h"

#include <stdlib.h>

/* GPT-2's pattern, which ByteLevel brings along. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

zt_status zt_tokenizer_refuse(const zt_reader *r, const char *part, const char *what)
{
    return ZT_FAIL(ZT_ERR_FORMAT, "%s: %s \"%s\" is not supported", r->origin, part,
                   what ? what : "(none)");
}

/* What every key that is looked at may hold; the same key is of one kind wherever it stands. */
enum {
    OBJECT = 1 << JSON_OBJECT,
    LIST = 1 << JSON_ARRAY,
    STRING = 1 << JSON_STRING,
    WHOLE = 1 << JSON_INTEGER,
    NUMBER = WHOLE | 1 << JSON_REAL,
    FLAG = 1 << JSON_TRUE | 1 << JSON_FALSE,
    EMPTY = 1 << JSON_NULL
};
static const struct {
    const char *key;
    unsigned kinds;
} members[] = {
    {"type", STRING},
    {"normalizer", OBJECT | EMPTY},
    {"pre_tokenizer", OBJECT | EMPTY},
    {"post_processor", OBJECT | EMPTY},
    {"decoder", OBJECT | EMPTY},
    {"model", OBJECT},
    {"added_tokens", LIST},
    {"truncation", OBJECT | EMPTY},
    {"padding", OBJECT | EMPTY},
    {"vocab", OBJECT},
    {"merges", LIST},
    {"dropout", NUMBER | EMPTY},
    {"unk_token", STRING | EMPTY},
    {"continuing_subword_prefix", STRING | EMPTY},
    {"end_of_word_suffix", STRING | EMPTY},
    {"byte_fallback", FLAG},
    {"ignore_merges", FLAG},
    {"fuse_unk", FLAG},
    {"id", WHOLE},
    {"content", STRING},
    {"single_word", FLAG},
    {"lstrip", FLAG},
    {"rstrip", FLAG},
    {"normalized", FLAG},
    {"special", FLAG},
    {"normalizers", LIST},
    {"pretokenizers", LIST},
    {"decoders", LIST},
    {"processors", LIST},
    {"pattern", OBJECT},
    {"Regex", STRING},
    {"String", STRING},
    {"behavior", STRING},
    {"invert", FLAG},
    {"prepend", STRING},
    {"replacement", STRING},
    {"prepend_scheme", STRING | EMPTY},
    {"add_prefix_space", FLAG | EMPTY},
    {"use_regex", FLAG},
    {"individual_digits", FLAG},
    {"split", FLAG | EMPTY},
    {"start", WHOLE},
    {"stop", WHOLE},
    {"single", LIST},
    {"special_tokens", OBJECT},
};

zt_status zt_tokenizer_members(const zt_reader *r, const char *what, const json_t *j)
{
    static const struct {
        unsigned kinds;
        const char *name;
    } names[] = {{OBJECT, "an object"},   {LIST, "a list"},     {STRING, "a string"},
                 {FLAG, "true or false"}, {NUMBER, "a number"}, {WHOLE, "a whole number"}};
    if (!json_is_object(j))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: %s should be an object", r->origin, what);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const json_t *v = json_object_get(j, members[i].key);
        if (!v || members[i].kinds >> json_typeof(v) & 1) continue;
        size_t n = 0;
        while ((members[i].kinds & ~(unsigned)EMPTY) != names[n].kinds)
            n++;
        char *value = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
        zt_status status = ZT_FAIL(ZT_ERR_FORMAT, "%s: in %s, %s = %.100s should be %s%s",
                                   r->origin, what, members[i].key, value ? value : "?",
                                   names[n].name, members[i].kinds & EMPTY ? " or null" : "");
        free(value);
        return status;
    }
    return ZT_OK;
}

static const char *type_of(const json_t *j)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    return type ? type : "(none)";
}

static bool is_type(const json_t *j, const char *type)
{
    return strcmp(type_of(j), type) == 0;
}

/* {"Regex": "..."} or {"String": "..."} */
static zt_status compile_json(const zt_reader *r, const json_t *j, pcre2_code **out)
{
    if (j) ZT_TRY(zt_tokenizer_members(r, "a pattern", j));
    const json_t *regex = json_object_get(j, "Regex"), *text = json_object_get(j, "String");
    const json_t *p = regex ? regex : text;
    if (!json_is_string(p))
        return zt_tokenizer_refuse(r, "the pattern", "neither Regex nor String");
    return zt_tokenizer_pattern(r, json_string_value(p), json_string_length(p), !regex, out);
}

/* ---- normalizers, pre-tokenizers, decoders: each a step or a Sequence of them ---- */
typedef zt_status step_fn(const zt_reader *r, const json_t *j);

static zt_status each(const zt_reader *r, const json_t *j, const char *list, step_fn *fn)
{
    if (!j || json_is_null(j)) return ZT_OK;
    ZT_TRY(zt_tokenizer_members(r, "a step", j));
    if (!is_type(j, "Sequence")) return fn(r, j);
    const json_t *steps = json_object_get(j, list), *step;
    size_t i;
    if (!json_is_array(steps)) return zt_tokenizer_refuse(r, "a Sequence without", list);
    json_array_foreach(steps, i, step) ZT_TRY(each(r, step, list, fn));
    return ZT_OK;
}

static zt_status copy_string(const zt_reader *r, const json_t *j, const char *key, char **out)
{
    const json_t *v = json_object_get(j, key);
    if (!json_is_string(v)) return zt_tokenizer_refuse(r, "a step without", key);
    *out = zt_strdup(json_string_value(v));
    return *out ? ZT_OK : ZT_NOMEM();
}

/* {"pattern": {"String": from}, "content": to} */
static zt_status read_replace(const zt_reader *r, const json_t *j, char **from, char **to)
{
    const json_t *pattern = json_object_get(j, "pattern");
    if (pattern) ZT_TRY(zt_tokenizer_members(r, "a pattern", pattern));
    if (!json_object_get(pattern, "String"))
        return zt_tokenizer_refuse(r, "Replace of", "a Regex pattern");
    ZT_TRY(copy_string(r, pattern, "String", from));
    return copy_string(r, j, "content", to);
}

static zt_status read_norm(const zt_reader *r, const json_t *j)
{
    zt_tokenizer *t = r->t;
    if (t->n_norms == ZT_MAX_STEPS)
        return zt_tokenizer_refuse(r, "a normalizer", "of so many steps");
    zt_norm_step *s = &t->norms[t->n_norms++];
    *s = (zt_norm_step){0};
    if (is_type(j, "NFC")) {
        s->kind = ZT_NORM_NFC;
        return ZT_OK;
    }
    if (is_type(j, "Prepend")) {
        s->kind = ZT_NORM_PREPEND;
        return copy_string(r, j, "prepend", &s->to);
    }
    if (is_type(j, "Replace")) {
        s->kind = ZT_NORM_REPLACE;
        return read_replace(r, j, &s->from, &s->to);
    }
    return zt_tokenizer_refuse(r, "the normalizer", type_of(j));
}

static zt_status read_split(const zt_reader *r, const json_t *j, zt_split_step *s)
{
    static const struct {
        const char *name;
        zt_behavior is;
    } behaviors[] = {{"Isolated", ZT_KEEP},
                     {"Removed", ZT_DROP},
                     {"MergedWithPrevious", ZT_JOIN_PREVIOUS},
                     {"MergedWithNext", ZT_JOIN_NEXT},
                     {"Contiguous", ZT_JOIN_ALIKE}};
    const char *name = json_string_value(json_object_get(j, "behavior"));
    size_t i = 0, n = sizeof behaviors / sizeof *behaviors;
    while (i < n && !(name && strcmp(name, behaviors[i].name) == 0))
        i++;
    if (i == n) return zt_tokenizer_refuse(r, "the split behavior", name);
    s->behavior = behaviors[i].is;
    s->invert = json_is_true(json_object_get(j, "invert"));
    return compile_json(r, json_object_get(j, "pattern"), &s->pattern);
}

static zt_status read_meta(const zt_reader *r, const json_t *j, bool *always, bool *first)
{
    const char *replacement = json_string_value(json_object_get(j, "replacement"));
    const char *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
    if (replacement && strcmp(replacement, ZT_META) != 0)
        return zt_tokenizer_refuse(r, "the Metaspace replacement", replacement);
    if (!scheme)
        scheme = json_is_false(json_object_get(j, "add_prefix_space")) ? "never" : "always";
    *always = strcmp(scheme, "always") == 0;
    *first = strcmp(scheme, "first") == 0;
    if (!*always && !*first && strcmp(scheme, "never") != 0)
        return zt_tokenizer_refuse(r, "the Metaspace prepend_scheme", scheme);
    return ZT_OK;
}

/* Rust's numbers are of a later Unicode than the patterns' \p{N}. */
static const char one_digit[] = "[\\p{N}\\x{11de0}-\\x{11de9}]";
static const char all_digits[] = "[\\p{N}\\x{11de0}-\\x{11de9}]+";

static zt_status read_pre(const zt_reader *r, const json_t *j)
{
    zt_tokenizer *t = r->t;
    if (t->n_splits == ZT_MAX_STEPS)
        return zt_tokenizer_refuse(r, "a pre-tokenizer", "of so many steps");
    if (t->byte_level) return zt_tokenizer_refuse(r, "behind ByteLevel, a", type_of(j));
    zt_split_step *s = &t->splits[t->n_splits++];
    *s = (zt_split_step){0};
    if (is_type(j, "Split")) return read_split(r, j, s);
    if (is_type(j, "Digits")) {
        const bool one = json_is_true(json_object_get(j, "individual_digits"));
        const char *digits = one ? one_digit : all_digits;
        return zt_tokenizer_pattern(r, digits, strlen(digits), false, &s->pattern);
    }
    if (is_type(j, "Metaspace")) {
        s->kind = ZT_SPLIT_META;
        s->split = !json_is_false(json_object_get(j, "split"));
        return read_meta(r, j, &s->prefix_always, &s->prefix_first);
    }
    if (!is_type(j, "ByteLevel")) return zt_tokenizer_refuse(r, "the pre-tokenizer", type_of(j));
    t->byte_level = true;
    s->kind = ZT_SPLIT_BYTES;
    s->prefix_always = json_is_true(json_object_get(j, "add_prefix_space"));
    return json_is_false(json_object_get(j, "use_regex"))
               ? ZT_OK
               : zt_tokenizer_pattern(r, byte_level_pattern, sizeof byte_level_pattern - 1, false,
                                      &s->pattern);
}

static zt_status read_strip(const zt_reader *r, const json_t *j, zt_dec_step *s)
{
    const json_t *v = json_object_get(j, "content");
    const char *content = json_is_string(v) ? json_string_value(v) : "";
    size_t length = 0;
    if (*content) (void)zt_utf8_next(content, strlen(content), &length, NULL);
    if (length == 0 || content[length])
        return zt_tokenizer_refuse(r, "Strip of what is not one character,", content);
    s->start = json_integer_value(json_object_get(j, "start"));
    s->stop = json_integer_value(json_object_get(j, "stop"));
    return copy_string(r, j, "content", &s->from);
}

static zt_status read_dec(const zt_reader *r, const json_t *j)
{
    static const struct {
        const char *name;
        zt_dec_kind is;
    } kinds[] = {{"ByteLevel", ZT_DEC_BYTES},       {"Replace", ZT_DEC_REPLACE},
                 {"ByteFallback", ZT_DEC_FALLBACK}, {"Fuse", ZT_DEC_FUSE},
                 {"Strip", ZT_DEC_STRIP},           {"Metaspace", ZT_DEC_META}};
    zt_tokenizer *t = r->t;
    if (t->n_decs == ZT_MAX_STEPS) return zt_tokenizer_refuse(r, "a decoder", "of so many steps");
    size_t i = 0, n = sizeof kinds / sizeof *kinds;
    while (i < n && !is_type(j, kinds[i].name))
        i++;
    if (i == n) return zt_tokenizer_refuse(r, "the decoder", type_of(j));
    zt_dec_step *s = &t->decs[t->n_decs++];
    *s = (zt_dec_step){.kind = kinds[i].is};
    if (s->kind == ZT_DEC_REPLACE) return read_replace(r, j, &s->from, &s->to);
    if (s->kind == ZT_DEC_STRIP) return read_strip(r, j, s);
    if (s->kind == ZT_DEC_META) {
        bool always, first;
        ZT_TRY(read_meta(r, j, &always, &first));
        s->prefix = always || first;
    }
    return ZT_OK;
}

/* Tokens in the byte-level alphabet are read with ByteLevel at both ends, or at neither. */
static zt_status check_alphabet(const zt_reader *r)
{
    const zt_tokenizer *t = r->t;
    for (int i = 0; i < t->n_decs; i++)
        if (t->decs[i].kind == ZT_DEC_BYTES && (i > 0 || !t->byte_level))
            return zt_tokenizer_refuse(r, "without it first among the pre-tokenizers and decoders,",
                                       "ByteLevel");
    if (t->byte_level && (t->n_decs == 0 || t->decs[0].kind != ZT_DEC_BYTES))
        return zt_tokenizer_refuse(r, "without ByteLevel as the decoder, the pre-tokenizer",
                                   "ByteLevel");
    return ZT_OK;
}

/* ---- post-processor ---- */
/* The ids that a template's special token stands for. */
static zt_status read_special(const zt_reader *r, const json_t *tokens, const char *name,
                              zt_ids *to)
{
    const json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL, *id;
    size_t i;
    if (!json_is_array(ids)) return zt_tokenizer_refuse(r, "the template item", name);
    json_array_foreach(ids, i, id)
    {
        const json_int_t x = json_integer_value(id);
        if (!json_is_integer(id) || x < 0 || x >= r->t->n)
            return zt_tokenizer_refuse(r, "an id of the template item", name);
        ZT_TRY(zt_ids_add(to, (int32_t)x));
    }
    return ZT_OK;
}

static zt_status read_post(const zt_reader *r, const json_t *j)
{
    if (is_type(j, "ByteLevel")) return ZT_OK; /* it moves offsets, not ids */
    if (!is_type(j, "TemplateProcessing"))
        return zt_tokenizer_refuse(r, "the post-processor", type_of(j));
    zt_ids *to = &r->t->prefix;
    if (to->count + r->t->suffix.count)
        return zt_tokenizer_refuse(r, "more than one", "TemplateProcessing");
    int n_texts = 0;
    size_t i;
    const json_t *item;
    json_array_foreach(json_object_get(j, "single"), i, item)
    {
        const json_t *special = json_object_get(item, "SpecialToken");
        if (json_is_object(json_object_get(item, "Sequence"))) {
            to = &r->t->suffix;
            n_texts++;
        } else {
            ZT_TRY(read_special(r, json_object_get(j, "special_tokens"),
                                json_string_value(json_object_get(special, "id")), to));
        }
    }
    if (n_texts != 1) return zt_tokenizer_refuse(r, "the template must have one", "Sequence");
    return ZT_OK;
}

zt_status zt_tokenizer_read(zt_tokenizer *t, const json_t *j, const char *origin)
{
    const zt_reader r = {t, origin};
    const json_t *model = json_object_get(j, "model"), *added = json_object_get(j, "added_tokens");
    const json_t *decoder = json_object_get(j, "decoder");
    if (!model)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s has no model: it is not a tokenizer.json", origin);
    ZT_TRY(zt_tokenizer_members(&r, "the file", j));
    ZT_TRY(each(&r, json_object_get(j, "normalizer"), "normalizers", read_norm));
    ZT_TRY(each(&r, json_object_get(j, "pre_tokenizer"), "pretokenizers", read_pre));
    ZT_TRY(each(&r, decoder, "decoders", read_dec));
    t->has_decoder = decoder && !json_is_null(decoder);
    ZT_TRY(check_alphabet(&r));
    ZT_TRY(zt_tokenizer_read_model(&r, model, added));
    ZT_TRY(zt_tokenizer_read_added(&r, added));
    ZT_TRY(each(&r, json_object_get(j, "post_processor"), "processors", read_post));
    t->describe = zt_format("%s BPE, %d tokens (%d added)",
                            t->byte_level      ? "byte-level"
                            : t->byte_fallback ? "SentencePiece-style"
                                               : "character-level",
                            (int)t->n, t->n_added);
    return t->describe ? ZT_OK : ZT_NOMEM();
}
