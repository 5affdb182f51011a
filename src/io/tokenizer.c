/* tokenizer.c - loading, and looking things up. */
#include "base/file.h"
#include "io/tokenizer_internal.h"

void zt_ids_free(zt_ids *ids)
{
    zt_free(ids->data);
    *ids = (zt_ids){0};
}

zt_status zt_ids_add(zt_ids *ids, int32_t id)
{
    if (ids->count == ids->room) {
        size_t room = ids->room ? 2 * ids->room : 256;
        int32_t *more = zt_realloc(ids->data, room * sizeof *more);
        if (!more) return ZT_NOMEM();
        ids->data = more;
        ids->room = room;
    }
    ids->data[ids->count++] = id;
    return ZT_OK;
}

static zt_status plain_bytes(zt_tokenizer **out)
{
    zt_tokenizer *t = zt_calloc(1, sizeof *t);
    if (!t) return ZT_NOMEM();
    t->plain_bytes = true;
    t->n = 257;
    t->bos = t->unk = -1;
    t->eos = 256;
    t->hash = zt_hash("bytes", 5);
    t->describe = zt_strdup("plain bytes, 257 tokens");
    *out = t;
    return ZT_OK;
}

zt_status zt_tokenizer_parse(const char *text, size_t size, const char *origin, zt_tokenizer **out)
{
    json_t *j;
    ZT_TRY(zt_json_parse(text, size, origin, &j));
    zt_tokenizer *t = zt_calloc(1, sizeof *t);
    zt_status status = ZT_OK;
    if (!t)
        status = ZT_NOMEM();
    else {
        t->bos = t->eos = t->unk = -1;
        t->hash = zt_hash(text, size);
        status = zt_tokenizer_read(t, j, origin);
    }
    json_decref(j);
    if (status != ZT_OK)
        zt_tokenizer_free(&t);
    else
        *out = t;
    return status;
}

/* The id of a token that tokenizer_config.json names: "eos_token": "x" or {"content": "x"}. */
static zt_status named(const zt_tokenizer *t, const json_t *config, const char *path,
                       const char *key, int32_t *id)
{
    const json_t *v = json_object_get(config, key);
    if (json_is_object(v)) v = json_object_get(v, "content");
    if (v && !json_is_null(v) && !json_is_string(v))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: %s should be a string, an object with content, or null",
                       path, key);
    *id = json_is_string(v) ? zt_tokenizer_find(t, json_string_value(v)) : -1;
    return ZT_OK;
}

/* What begins and ends a text: by tokenizer_config.json, else by the names that models commonly use. */
static zt_status find_ends(zt_tokenizer *t, const char *folder)
{
    static const char *const begins[] = {"<s>", "<|begin_of_text|>", "<bos>"};
    static const char *const ends[] = {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>",
                                       "<|im_end|>"};
    char *path = zt_path_join(folder, "tokenizer_config.json");
    if (!path) return ZT_NOMEM();
    zt_status status = ZT_OK;
    if (zt_path_exists(path)) {
        json_t *j;
        status = zt_json_load(path, &j);
        if (status == ZT_OK) {
            status = named(t, j, path, "bos_token", &t->bos);
            if (status == ZT_OK) status = named(t, j, path, "eos_token", &t->eos);
            json_decref(j);
        }
    } else {
        for (size_t i = 0; i < sizeof begins / sizeof *begins && t->bos < 0; i++)
            t->bos = zt_tokenizer_find(t, begins[i]);
        for (size_t i = 0; i < sizeof ends / sizeof *ends && t->eos < 0; i++)
            t->eos = zt_tokenizer_find(t, ends[i]);
    }
    zt_free(path);
    return status;
}

zt_status zt_tokenizer_load(const char *path, zt_tokenizer **out)
{
    if (strcmp(path, "bytes") == 0) return plain_bytes(out);
    char *file = zt_path_is_folder(path) ? zt_path_join(path, "tokenizer.json") : zt_strdup(path);
    char *text = NULL, *folder = file ? zt_strdup(file) : NULL;
    size_t size;
    zt_status status = folder ? zt_file_read_all(file, &text, &size) : ZT_NOMEM();
    if (status == ZT_OK) status = zt_tokenizer_parse(text, size, file, out);
    if (status == ZT_OK) {
        char *slash = strrchr(folder, '/');
        if (slash) *slash = '\0';
        status = find_ends(*out, slash ? folder : ".");
        if (status != ZT_OK) zt_tokenizer_free(out);
    }
    zt_free(text);
    zt_free(folder);
    zt_free(file);
    return status;
}

static void free_added(zt_added *a)
{
    if (a->text != a->content) zt_free(a->text);
    zt_free(a->content);
}

void zt_tokenizer_free(zt_tokenizer **tok)
{
    zt_tokenizer *t = *tok;
    if (!t) return;
    for (int32_t i = 0; t->pieces && i < t->n; i++) {
        zt_free(t->pieces[i].text);
        zt_free(t->pieces[i].decoded);
    }
    for (int i = 0; i < t->n_added; i++)
        free_added(&t->added[i]);
    for (int i = 0; i < t->n_norms; i++) {
        zt_free(t->norms[i].from);
        zt_free(t->norms[i].to);
    }
    for (int i = 0; i < t->n_splits; i++)
        pcre2_code_free(t->splits[i].pattern);
    for (int i = 0; i < t->n_decs; i++) {
        zt_free(t->decs[i].from);
        zt_free(t->decs[i].to);
    }
    pcre2_code_free(t->word);
    zt_ids_free(&t->prefix);
    zt_ids_free(&t->suffix);
    zt_free(t->pieces);
    zt_free(t->slots);
    zt_free(t->merges);
    zt_free(t->added);
    zt_free(t->describe);
    zt_free(t);
    *tok = NULL;
}

int32_t zt_tokenizer_vocab(const zt_tokenizer *t)
{
    return t->n;
}

int32_t zt_tokenizer_bos(const zt_tokenizer *t)
{
    return t->bos;
}

int32_t zt_tokenizer_eos(const zt_tokenizer *t)
{
    return t->eos;
}

const char *zt_tokenizer_describe(const zt_tokenizer *t)
{
    return t->describe ? t->describe : "";
}

uint64_t zt_tokenizer_hash(const zt_tokenizer *t)
{
    return t->hash;
}

int32_t zt_piece_id(const zt_tokenizer *t, const char *s, size_t n)
{
    for (uint32_t i = (uint32_t)zt_hash(s, n);; i++) {
        int32_t id = t->slots[i & (t->n_slots - 1)];
        if (id < 0) return -1;
        const zt_piece *p = &t->pieces[id];
        if (p->size == n && memcmp(p->text, s, n) == 0) return id;
    }
}

int32_t zt_tokenizer_find(const zt_tokenizer *t, const char *token)
{
    const size_t n = strlen(token);
    if (t->plain_bytes) return n == 1 ? (unsigned char)*token : -1;
    for (int i = 0; i < t->n_added; i++)
        if (strcmp(t->added[i].content, token) == 0) return t->added[i].id;
    if (!t->byte_level) return zt_piece_id(t, token, n);
    size_t size;
    bool known;
    char *bytes = zt_tokenizer_to_bytes(token, n, &size, &known);
    const int32_t id = bytes && known ? zt_piece_id(t, bytes, size) : -1;
    zt_free(bytes);
    return id;
}

const char *zt_tokenizer_piece(const zt_tokenizer *t, int32_t id)
{
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].id == id) return t->added[i].content;
    return t->pieces && id >= 0 && id < t->n ? t->pieces[id].text : NULL;
}

uint64_t zt_merge_hash(uint64_t key)
{
    uint64_t x = key ^ key >> 32;
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

const zt_merge *zt_merge_find(const zt_tokenizer *t, int32_t left, int32_t right)
{
    if (!t->n_merge_slots) return NULL;
    const uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
    for (uint64_t i = zt_merge_hash(key);; i++) {
        const zt_merge *m = &t->merges[i & (t->n_merge_slots - 1)];
        if (m->key == key) return m;
        if (m->key == 0) return NULL;
    }
}
