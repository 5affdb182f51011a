/* gguf_tokenizer.c - the vocabulary of a GGUF file as tokenizer.json and tokenizer_config.json.
 *
 * "gpt2" is byte-level BPE: tokens and merges are there, the pre-tokenizer is only named, so what
 * each name stands for is written down here. "llama" is SentencePiece BPE: the merges are rebuilt
 * from the scores, as Hugging Face's converter does. */
#include "io/gguf.h"
#include "io/unicode.h"

#include <stdlib.h>

enum { UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5 }; /* token types */

typedef struct {
    const zt_gguf *g;
    bool spm;
    zt_span *tokens, *merges;
    int64_t *types; /* NULL: not told */
    float *scores;
    size_t n, n_merges;
    int64_t bos, eos, unk, pad; /* -1: none */
    char **names;               /* [n] the tokens as C strings; NULL: unused */
} vocabulary;

static zt_status bad_vocabulary(const vocabulary *v, const char *what)
{
    return ZT_FAIL(ZT_ERR_FORMAT, "%s: the vocabulary cannot be used: %s", zt_gguf_origin(v->g),
                   what);
}

/* ---- what the names of pre-tokenizers stand for ---- */
#define BYTES_ALONE                                                                                \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":"      \
    "false}"
#define BYTES_SPLIT                                                                                \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
#define SEQUENCE(a, b) "{\"type\":\"Sequence\",\"pretokenizers\":[" a "," b "]}"
#define SPLIT(numbers)                                                                             \
    "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":\""     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" numbers                \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}}"
#define GPT2   BYTES_SPLIT, "null"
#define LLAMA3 SEQUENCE(SPLIT("\\\\p{N}{1,3}"), BYTES_ALONE), "null"
#define QWEN2  SEQUENCE(SPLIT("\\\\p{N}"), BYTES_ALONE), "{\"type\":\"NFC\"}"
#define DIGITS "{\"type\":\"Digits\",\"individual_digits\":true}"

static const struct style {
    const char *name, *pre_tokenizer, *normalizer;
    bool llama3; /* begin-of-text unless told otherwise; whole words before merges */
} styles[] = {
    {"gpt-2", GPT2, false},      {"default", GPT2, false},
    {"llama-bpe", LLAMA3, true}, {"llama3", LLAMA3, true},
    {"llama-v3", LLAMA3, true},  {"smollm", SEQUENCE(DIGITS, BYTES_SPLIT), "null", false},
    {"qwen2", QWEN2, false},     {"deepseek-r1-qwen", QWEN2, false},
};

static zt_status style_of(const vocabulary *v, const struct style **out)
{
    const char *name = NULL, *architecture = "";
    ZT_TRY(zt_gguf_get_str(v->g, "tokenizer.ggml.pre", &name));
    ZT_TRY(zt_gguf_get_str(v->g, "general.architecture", &architecture));
    if (!name) name = strcmp(architecture, "qwen2") == 0 ? "qwen2" : "default";
    if (strcmp(name, "default") == 0 && strcmp(architecture, "gpt2") != 0)
        zt_log(ZT_LOG_WARN,
               "%s does not say how text is split into words (tokenizer.ggml.pre); GPT-2's way "
               "is assumed",
               zt_gguf_origin(v->g));
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(styles[i].name, name) == 0) {
            *out = &styles[i];
            return ZT_OK;
        }
    return ZT_FAIL(ZT_ERR_FORMAT,
                   "%s: the pre-tokenizer %s is not supported; gpt-2, default, llama-bpe, "
                   "smollm and qwen2 are",
                   zt_gguf_origin(v->g), name);
}

/* ---- the tables of the file ---- */
static zt_status read_id(const vocabulary *v, const char *key, int64_t *id)
{
    *id = -1;
    ZT_TRY(zt_gguf_get_i64(v->g, key, id));
    if (*id < 0 || *id >= (int64_t)v->n || !v->names[*id])
        *id = -1; /* written as 2^32 - 1 for "none" by some */
    return ZT_OK;
}

static zt_status read_names(vocabulary *v)
{
    v->names = zt_calloc(v->n, sizeof *v->names);
    if (!v->names) return ZT_NOMEM();
    for (size_t i = 0; i < v->n; i++) {
        const zt_span s = v->tokens[i];
        if (v->types && v->types[i] == UNUSED && !v->spm) continue; /* padding of the embedding */
        if (!s.size || memchr(s.text, '\0', s.size) || !zt_utf8_valid(s.text, s.size))
            return bad_vocabulary(v, "a token is empty or no UTF-8");
        v->names[i] = zt_strndup(s.text, s.size);
        if (!v->names[i]) return ZT_NOMEM();
    }
    return ZT_OK;
}

static zt_status read_vocabulary(vocabulary *v)
{
    const char *model = "(none)";
    size_t n_types, n_scores;
    ZT_TRY(zt_gguf_get_str(v->g, "tokenizer.ggml.model", &model));
    v->spm = strcmp(model, "llama") == 0;
    if (!v->spm && strcmp(model, "gpt2") != 0)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: the tokenizer %s is not supported; gpt2 and llama are",
                       zt_gguf_origin(v->g), model);
    ZT_TRY(zt_gguf_get_strings(v->g, "tokenizer.ggml.tokens", &v->tokens, &v->n));
    ZT_TRY(zt_gguf_get_i64s(v->g, "tokenizer.ggml.token_type", &v->types, &n_types));
    ZT_TRY(zt_gguf_get_f32s(v->g, "tokenizer.ggml.scores", &v->scores, &n_scores));
    ZT_TRY(zt_gguf_get_strings(v->g, "tokenizer.ggml.merges", &v->merges, &v->n_merges));
    if (v->n == 0 || v->n > INT32_MAX || (v->types && n_types != v->n) ||
        (v->scores && n_scores != v->n))
        return bad_vocabulary(v, "tokens, types and scores differ in number");
    if (v->spm ? !v->scores : !v->merges)
        return bad_vocabulary(v, v->spm ? "there are no scores" : "there are no merges");
    ZT_TRY(read_names(v));
    ZT_TRY(read_id(v, "tokenizer.ggml.bos_token_id", &v->bos));
    ZT_TRY(read_id(v, "tokenizer.ggml.eos_token_id", &v->eos));
    ZT_TRY(read_id(v, "tokenizer.ggml.unknown_token_id", &v->unk));
    return read_id(v, "tokenizer.ggml.padding_token_id", &v->pad);
}

/* ---- merges out of scores ---- */
typedef struct {
    int32_t whole, left, right; /* ids */
    int32_t n_left, n_right;    /* characters */
    float score;
} merge;

typedef struct {
    const char *text;
    size_t size;
    int32_t id;
} word;

static int by_text(const void *a, const void *b)
{
    const word *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
    return c ? c : (x->size > y->size) - (x->size < y->size);
}

static int by_score(const void *a, const void *b)
{
    const merge *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->n_left != y->n_left) return x->n_left > y->n_left ? -1 : 1;
    if (x->n_right != y->n_right) return x->n_right > y->n_right ? -1 : 1;
    const int32_t p[] = {x->whole, x->left, x->right}, q[] = {y->whole, y->left, y->right};
    for (int i = 0; i < 3; i++)
        if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
    return 0;
}

static int32_t characters(const char *s, size_t n)
{
    int32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += (s[i] & 0xC0) != 0x80;
    return count;
}

/* Appends every way to cut token `id` into two tokens. */
static zt_status cut(const vocabulary *v, const word *words, int32_t id, merge **list, size_t *n,
                     size_t *room)
{
    const zt_span s = v->tokens[id];
    for (size_t at = 1; at < s.size; at++) {
        if ((s.text[at] & 0xC0) == 0x80) continue; /* inside a character */
        const word left = {s.text, at, 0}, right = {s.text + at, s.size - at, 0};
        const word *l = bsearch(&left, words, v->n, sizeof *words, by_text);
        const word *r = l ? bsearch(&right, words, v->n, sizeof *words, by_text) : NULL;
        if (!r) continue;
        if (*n == *room) {
            const size_t more = *room ? 2 * *room : 1024;
            merge *p = zt_realloc(*list, more * sizeof *p);
            if (!p) return ZT_NOMEM();
            *list = p;
            *room = more;
        }
        (*list)[(*n)++] = (merge){
            id,           l->id, r->id, characters(s.text, at), characters(right.text, right.size),
            v->scores[id]};
    }
    return ZT_OK;
}

static zt_status rebuild_merges(const vocabulary *v, merge **list, size_t *n)
{
    word *words = zt_calloc(v->n, sizeof *words);
    if (!words) return ZT_NOMEM();
    for (size_t i = 0; i < v->n; i++)
        words[i] = (word){v->tokens[i].text, v->tokens[i].size, (int32_t)i};
    qsort(words, v->n, sizeof *words, by_text);
    zt_status status = ZT_OK;
    size_t room = 0;
    for (size_t i = 0; i < v->n && status == ZT_OK; i++)
        status = cut(v, words, (int32_t)i, list, n, &room);
    zt_free(words);
    if (status == ZT_OK && *n) qsort(*list, *n, sizeof **list, by_score);
    return status;
}

static zt_status merges_of(const vocabulary *v, json_t *out)
{
    merge *list = NULL;
    size_t n = v->n_merges;
    zt_status status = ZT_OK;
    if (v->spm) {
        n = 0;
        status = rebuild_merges(v, &list, &n);
    }
    for (size_t i = 0; i < n && status == ZT_OK; i++) {
        json_t *text;
        if (v->spm) {
            char *pair = zt_format("%s %s", v->names[list[i].left], v->names[list[i].right]);
            text = pair ? json_string(pair) : NULL;
            zt_free(pair);
        } else if (!zt_utf8_valid(v->merges[i].text, v->merges[i].size)) {
            status = bad_vocabulary(v, "a merge is no UTF-8");
            break;
        } else {
            text = json_stringn(v->merges[i].text, v->merges[i].size);
        }
        if (json_array_append_new(out, text) != 0) status = ZT_NOMEM();
    }
    zt_free(list);
    return status;
}

/* ---- the parts of tokenizer.json ---- */
/* The object with one more member; takes both. NULL when out of memory, and so is what has a NULL. */
static json_t *with(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0) return object;
    json_decref(object);
    return NULL;
}

static zt_status vocab_of(const vocabulary *v, json_t *out)
{
    for (size_t i = 0; i < v->n; i++) {
        if (!v->names[i]) continue;
        if (json_object_get(out, v->names[i])) return bad_vocabulary(v, "a token is there twice");
        if (json_object_set_new(out, v->names[i], json_integer((json_int_t)i)) != 0)
            return ZT_NOMEM();
    }
    return ZT_OK;
}

static zt_status added_of(const vocabulary *v, json_t *out)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized"};
    for (size_t i = 0; i < v->n; i++) {
        const int64_t id = (int64_t)i;
        const bool special = v->types ? v->types[i] == CONTROL || v->types[i] == UNKNOWN
                                      : id == v->bos || id == v->eos || id == v->unk;
        if (!v->names[i] || (!special && !(v->types && v->types[i] == USER_DEFINED))) continue;
        json_t *token = with(json_object(), "id", json_integer((json_int_t)i));
        token = with(token, "content", json_string(v->names[i]));
        for (int f = 0; f < 4; f++)
            token = with(token, flags[f], json_false());
        token = with(token, "special", json_boolean(special));
        if (json_array_append_new(out, token) != 0) return ZT_NOMEM();
    }
    return ZT_OK;
}

static json_t *item(const char *kind, const char *id, int type)
{
    json_t *inner = with(json_object(), "id", json_string(id));
    return with(json_object(), kind, with(inner, "type_id", json_integer(type)));
}

static json_t *list_of(json_t *x)
{
    json_t *list = json_array();
    if (json_array_append_new(list, x) == 0) return list;
    json_decref(list);
    return NULL;
}

/* The template that puts begin and end around a text, and around each of a pair. */
static zt_status template_of(const vocabulary *v, int64_t bos, int64_t eos, json_t **out)
{
    json_t *texts[] = {json_array(), json_array()}, *specials = json_object();
    int bad = 0;
    for (int i = 0; i < 3; i++) { /* the single text; the two of a pair */
        json_t *to = texts[i > 0];
        const int type = i == 2;
        if (bos >= 0) bad |= json_array_append_new(to, item("SpecialToken", v->names[bos], type));
        bad |= json_array_append_new(to, item("Sequence", type ? "B" : "A", type));
        if (eos >= 0) bad |= json_array_append_new(to, item("SpecialToken", v->names[eos], type));
    }
    const int64_t ids[] = {bos, eos};
    for (int i = 0; i < 2; i++)
        if (ids[i] >= 0) {
            json_t *name = json_string(v->names[ids[i]]);
            json_t *j = with(json_object(), "id", json_incref(name));
            j = with(j, "ids", list_of(json_integer(ids[i])));
            j = with(j, "tokens", list_of(name));
            bad |= json_object_set_new(specials, v->names[ids[i]], j);
        }
    json_t *j = with(json_object(), "type", json_string("TemplateProcessing"));
    j = with(with(j, "single", texts[0]), "pair", texts[1]);
    j = with(j, "special_tokens", specials);
    if (bad || !j) {
        json_decref(j);
        return ZT_NOMEM();
    }
    *out = j;
    return ZT_OK;
}

static zt_status set_text(json_t *j, const char *key, const char *text)
{
    json_t *value;
    ZT_TRY(zt_json_parse(text, strlen(text), key, &value));
    return json_object_set_new(j, key, value) == 0 ? ZT_OK : ZT_NOMEM();
}

static zt_status set_frame(const vocabulary *v, const struct style *style, json_t *j)
{
    bool add_bos = v->spm || style->llama3, add_eos = false, prefix = v->spm;
    ZT_TRY(zt_gguf_get_bool(v->g, "tokenizer.ggml.add_bos_token", &add_bos));
    ZT_TRY(zt_gguf_get_bool(v->g, "tokenizer.ggml.add_eos_token", &add_eos));
    if (v->spm) ZT_TRY(zt_gguf_get_bool(v->g, "tokenizer.ggml.add_space_prefix", &prefix));
    const char *normalizer = v->spm ? "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                                      "\"content\":\"\\u2581\"}"
                                    : style->normalizer;
    if (prefix)
        normalizer =
            "{\"type\":\"Sequence\",\"normalizers\":["
            "{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"},{\"type\":\"Replace\",\"pattern\":"
            "{\"String\":\" \"},\"content\":\"\\u2581\"}]}";
    const char *decoder =
        !v->spm ? BYTES_SPLIT
        : prefix
            ? "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
              "\"\\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
              "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}"
            : "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
              "\"\\u2581\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}";
    ZT_TRY(set_text(j, "normalizer", normalizer));
    ZT_TRY(set_text(j, "pre_tokenizer", v->spm ? "null" : style->pre_tokenizer));
    ZT_TRY(set_text(j, "decoder", decoder));
    const int64_t bos = add_bos ? v->bos : -1, eos = add_eos ? v->eos : -1;
    if (bos < 0 && eos < 0) return set_text(j, "post_processor", v->spm ? "null" : BYTES_SPLIT);
    json_t *template = NULL;
    ZT_TRY(template_of(v, bos, eos, &template));
    return json_object_set_new(j, "post_processor", template) == 0 ? ZT_OK : ZT_NOMEM();
}

static zt_status tokenizer_of(const vocabulary *v, json_t **out)
{
    const struct style *style = &styles[0];
    if (!v->spm) ZT_TRY(style_of(v, &style));
    static const char *const empty =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
        "\"normalizer\":null,\"pre_tokenizer\":null,\"post_processor\":null,\"decoder\":null,"
        "\"model\":"
        "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
        "\"end_of_word_suffix\":null,\"fuse_unk\":null,\"byte_fallback\":null,\"ignore_merges\":"
        "null,"
        "\"vocab\":{},\"merges\":[]}}";
    json_t *j = NULL;
    ZT_TRY(zt_json_parse(empty, strlen(empty), "tokenizer.json", &j));
    json_t *model = json_object_get(j, "model");
    int bad = json_object_set_new(model, "fuse_unk", json_boolean(v->spm));
    bad |= json_object_set_new(model, "byte_fallback", json_boolean(v->spm));
    bad |= json_object_set_new(model, "ignore_merges", json_boolean(style->llama3 && !v->spm));
    if (v->spm && v->unk >= 0)
        bad |= json_object_set_new(model, "unk_token", json_string(v->names[v->unk]));
    zt_status status = bad ? ZT_NOMEM() : vocab_of(v, json_object_get(model, "vocab"));
    if (status == ZT_OK) status = merges_of(v, json_object_get(model, "merges"));
    if (status == ZT_OK) status = added_of(v, json_object_get(j, "added_tokens"));
    if (status == ZT_OK) status = set_frame(v, style, j);
    if (status != ZT_OK)
        json_decref(j);
    else
        *out = j;
    return status;
}

/* ---- tokenizer_config.json ---- */
static zt_status config_of(const vocabulary *v, json_t **out)
{
    const struct {
        const char *key;
        int64_t id;
    } ends[] = {
        {"bos_token", v->bos}, {"eos_token", v->eos}, {"unk_token", v->unk}, {"pad_token", v->pad}};
    const char *chat = NULL;
    ZT_TRY(zt_gguf_get_str(v->g, "tokenizer.chat_template", &chat));
    if (chat && !zt_utf8_valid(chat, strlen(chat))) chat = NULL;
    json_t *j = with(json_object(), "tokenizer_class", json_string("PreTrainedTokenizerFast"));
    j = with(j, "clean_up_tokenization_spaces", json_false());
    for (int i = 0; i < 4; i++)
        if (ends[i].id >= 0) j = with(j, ends[i].key, json_string(v->names[ends[i].id]));
    if (chat) j = with(j, "chat_template", json_string(chat));
    if (!j) return ZT_NOMEM();
    *out = j;
    return ZT_OK;
}

zt_status zt_gguf_tokenizer(const zt_gguf *g, json_t **tokenizer, json_t **config)
{
    vocabulary v = {.g = g};
    json_t *j = NULL, *c = NULL;
    zt_status status = read_vocabulary(&v);
    if (status == ZT_OK) status = tokenizer_of(&v, &j);
    if (status == ZT_OK) status = config_of(&v, &c);
    if (status == ZT_OK) {
        *tokenizer = j;
        *config = c;
    } else {
        json_decref(j);
    }
    for (size_t i = 0; v.names && i < v.n; i++)
        zt_free(v.names[i]);
    zt_free(v.names);
    zt_free(v.tokens);
    zt_free(v.merges);
    zt_free(v.types);
    zt_free(v.scores);
    return status;
}
