/* tokenizer_vocab.c - the model of tokenizer.json: tokens, merges, and the tokens added to them. */
#include "io/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the byte-level alphabet: bytes as visible characters (GPT-2's bytes_to_unicode) ---- */
static bool visible(int b)
{
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

/* The byte of a character of that alphabet, or -1. */
static int byte_of(uint32_t c)
{
    if (c < 256) return visible((int)c) ? (int)c : -1;
    int k = 0; /* the others follow from 256, in order */
    for (int b = 0; b < 256; b++)
        if (!visible(b) && 256 + (uint32_t)k++ == c) return b;
    return -1;
}

char *zt_tokenizer_to_bytes(const char *s, size_t n, size_t *size, bool *known)
{
    char *out = zt_malloc(n + 1);
    size_t length, used = 0;
    *known = true;
    for (size_t i = 0; out && i < n; i += length) {
        const int b = byte_of(zt_utf8_next(s + i, n - i, &length, NULL));
        if (b < 0) {
            memcpy(out, s, n);
            used = n;
            *known = false;
            break;
        }
        out[used++] = (char)b;
    }
    if (out) out[used] = '\0';
    *size = used;
    return out;
}

/* A token as the model's alphabet has it. */
static zt_status to_model(const zt_tokenizer *t, const char *s, size_t n, char **out, size_t *size,
                          bool *known)
{
    *known = true;
    *size = n;
    *out = t->byte_level ? zt_tokenizer_to_bytes(s, n, size, known) : zt_strndup(s, n);
    return *out ? ZT_OK : ZT_NOMEM();
}

/* ---- tokens ---- */
static zt_status count_ids(const zt_reader *r, const json_t *vocab, const json_t *added)
{
    const char *text;
    const json_t *id, *a;
    size_t i;
    json_int_t top = -1;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        if (json_integer_value(id) > top) top = json_integer_value(id);
    }
    json_array_foreach(added, i, a)
    {
        id = json_object_get(a, "id");
        if (json_integer_value(id) > top) top = json_integer_value(id);
    }
    if (top < 0 || top > 10000000)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: the vocabulary has no ids, or absurd ones", r->origin);
    r->t->n = (int32_t)top + 1;
    return ZT_OK;
}

static void hash_piece(zt_tokenizer *t, int32_t id)
{
    uint32_t i = (uint32_t)zt_hash(t->pieces[id].text, t->pieces[id].size);
    while (t->slots[i & (t->n_slots - 1)] >= 0)
        i++;
    t->slots[i & (t->n_slots - 1)] = id;
}

static zt_status read_vocab(const zt_reader *r, const json_t *vocab)
{
    zt_tokenizer *t = r->t;
    const char *text;
    const json_t *id;
    t->pieces = zt_calloc((size_t)t->n, sizeof *t->pieces);
    for (t->n_slots = 64; t->n_slots < 2 * (uint32_t)t->n;)
        t->n_slots *= 2;
    t->slots = zt_malloc(t->n_slots * sizeof *t->slots);
    if (!t->pieces || !t->slots) return ZT_NOMEM();
    memset(t->slots, 0xFF, t->n_slots * sizeof *t->slots);
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        const json_int_t k = json_integer_value(id);
        if (!json_is_integer(id) || k < 0 || t->pieces[k].text)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: the id of \"%s\" is not usable or is there twice",
                           r->origin, text);
        bool known;
        zt_piece *p = &t->pieces[k];
        ZT_TRY(to_model(t, text, strlen(text), &p->text, &p->size, &known));
        if (known) hash_piece(t, (int32_t)k); /* others are out of reach of any text */
    }
    for (int b = 0; b < 256; b++) {
        char c = (char)b, name[8];
        (void)snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->bytes[b] = t->byte_level ? zt_piece_id(t, &c, 1) : zt_piece_id(t, name, 6);
    }
    return ZT_OK;
}

/* ---- merges ---- */
/* ASCII and U+2581 have a class of their own; the others share. */
unsigned zt_join_class(const zt_tokenizer *t, uint32_t code)
{
    if (code < 127 || (t->byte_level && code < 256)) return code;
    return code == 0x2581 ? 127 : 128 | code * 0x9E3779B1u >> 25;
}

/* Notes between which characters this merge can join, so that long words may be cut elsewhere. */
static void note_join(zt_tokenizer *t, int32_t left, int32_t right)
{
    const zt_piece *a = &t->pieces[left], *b = &t->pieces[right];
    unsigned last = (unsigned char)a->text[a->size - 1], first = (unsigned char)b->text[0];
    size_t from = a->size - 1, length;
    if (!t->byte_level) {
        while (from > 0 && ((unsigned char)a->text[from] & 0xC0) == 0x80)
            from--;
        last = zt_join_class(t, zt_utf8_next(a->text + from, a->size - from, &length, NULL));
        first = zt_join_class(t, zt_utf8_next(b->text, b->size, &length, NULL));
        for (int i = 0; i < 256; i++) /* <0xNN> does not look like what it stands for */
            if (t->bytes[i] == left || t->bytes[i] == right) t->may_cut = false;
    }
    t->joins[last][first / 8] |= (uint8_t)(1u << first % 8);
}

/* Of two merges of the same pair the last counts, as in the library. */
static void put_merge(zt_tokenizer *t, int32_t left, int32_t right, int32_t rank, int32_t merged)
{
    const uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
    uint64_t i = zt_merge_hash(key);
    while (t->merges[i & (t->n_merge_slots - 1)].key &&
           t->merges[i & (t->n_merge_slots - 1)].key != key)
        i++;
    t->merges[i & (t->n_merge_slots - 1)] = (zt_merge){key, rank, merged};
    note_join(t, left, right);
}

/* "a b" or ["a", "b"] */
static zt_status read_merge(const zt_reader *r, const json_t *j, int32_t rank)
{
    zt_tokenizer *t = r->t;
    const bool pair = json_array_size(j) == 2;
    const char *left = json_string_value(pair ? json_array_get(j, 0) : j);
    const char *right = pair ? json_string_value(json_array_get(j, 1)) : NULL;
    size_t n_left = left ? strlen(left) : 0, n_right = 0;
    if (left && !pair && (right = strchr(left, ' '))) n_left = (size_t)(right++ - left);
    if (right) n_right = strlen(right);
    if (n_left == 0 || n_right == 0)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: merge %d is not a pair of tokens", r->origin, rank);
    char *a = NULL, *b = NULL, *both = NULL;
    bool known_a, known_b;
    zt_status status;
    ZT_TRY_OUT(status, to_model(t, left, n_left, &a, &n_left, &known_a));
    ZT_TRY_OUT(status, to_model(t, right, n_right, &b, &n_right, &known_b));
    both = zt_malloc(n_left + n_right);
    ZT_TRY_OUT(status, both ? ZT_OK : ZT_NOMEM());
    memcpy(both, a, n_left);
    memcpy(both + n_left, b, n_right);
    const int32_t x = known_a ? zt_piece_id(t, a, n_left) : -1;
    const int32_t y = known_b ? zt_piece_id(t, b, n_right) : -1;
    const int32_t whole = zt_piece_id(t, both, n_left + n_right);
    if (x < 0 || y < 0 || whole < 0)
        status = ZT_FAIL(ZT_ERR_FORMAT, "%s: merge %d is of tokens that are not in the vocabulary",
                         r->origin, rank);
    else
        put_merge(t, x, y, rank, whole);
out:
    zt_free(a);
    zt_free(b);
    zt_free(both);
    return status;
}

static zt_status read_merges(const zt_reader *r, const json_t *merges)
{
    zt_tokenizer *t = r->t;
    const size_t n = json_array_size(merges);
    if (n > 10000000) return ZT_FAIL(ZT_ERR_FORMAT, "%s: too many merges", r->origin);
    for (t->n_merge_slots = 64; t->n_merge_slots < 2 * n;)
        t->n_merge_slots *= 2;
    t->merges = zt_calloc(t->n_merge_slots, sizeof *t->merges);
    if (!t->merges) return ZT_NOMEM();
    /* A cut must not part unknown characters, which may fuse or vanish. */
    t->may_cut = !t->ignore_merges && (t->byte_level || t->byte_fallback);
    for (int b = 0; b < 256; b++)
        t->may_cut = t->may_cut && t->bytes[b] >= 0;
    for (size_t i = 0; i < n; i++)
        ZT_TRY(read_merge(r, json_array_get(merges, i), (int32_t)i));
    return ZT_OK;
}

zt_status zt_tokenizer_read_model(const zt_reader *r, const json_t *m, const json_t *added)
{
    zt_tokenizer *t = r->t;
    const json_t *vocab = json_object_get(m, "vocab");
    const char *type = json_string_value(json_object_get(m, "type"));
    if (type ? strcmp(type, "BPE") != 0 : !json_object_get(m, "merges"))
        return zt_tokenizer_refuse(r, "the model", type);
    ZT_TRY(zt_tokenizer_members(r, "the model", m));
    if (!vocab || !json_object_get(m, "merges"))
        return zt_tokenizer_refuse(r, "a model without", vocab ? "merges" : "vocab");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *x = json_string_value(json_object_get(m, affixes[i]));
        if (x && *x) return zt_tokenizer_refuse(r, affixes[i], x);
    }
    if (json_number_value(json_object_get(m, "dropout")) != 0)
        return zt_tokenizer_refuse(r, "the model's", "dropout");
    t->byte_fallback = json_is_true(json_object_get(m, "byte_fallback"));
    t->ignore_merges = json_is_true(json_object_get(m, "ignore_merges"));
    t->fuse_unk = json_is_true(json_object_get(m, "fuse_unk"));
    if (t->byte_level && t->byte_fallback)
        return zt_tokenizer_refuse(r, "together with ByteLevel,", "byte_fallback");
    ZT_TRY(count_ids(r, vocab, added));
    ZT_TRY(read_vocab(r, vocab));
    ZT_TRY(read_merges(r, json_object_get(m, "merges")));
    const json_t *unk = json_object_get(m, "unk_token");
    if (json_is_string(unk)) {
        t->unk = zt_tokenizer_find(t, json_string_value(unk));
        if (t->unk < 0)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: unk_token \"%s\" is not in the vocabulary",
                           r->origin, json_string_value(unk));
    }
    return ZT_OK;
}

/* ---- added tokens ---- */
static int by_text(const void *a, const void *b)
{
    const zt_added *x = a, *y = b;
    if (x->normalized != y->normalized) return x->normalized ? 1 : -1;
    const int order = memcmp(x->text, y->text, x->size < y->size ? x->size : y->size);
    if (order) return order;
    return x->size != y->size ? (x->size < y->size ? -1 : 1) : y->id - x->id;
}

/* What is looked for: the content, normalised where the text is. */
static zt_status find_as(const zt_tokenizer *t, zt_added *a)
{
    a->text = a->content;
    a->size = strlen(a->content);
    if (!a->normalized || !t->n_norms) return ZT_OK;
    zt_text text = {0}, scratch = {0};
    zt_status status = zt_tokenizer_normalize(t, a->content, a->size, &text, &scratch);
    zt_text_free(&scratch);
    if (status == ZT_OK && text.size) {
        a->text = text.data;
        a->size = text.size;
    } else {
        a->size = 0; /* what is normalised away is never found */
        zt_text_free(&text);
    }
    return status;
}

static zt_status read_one(const zt_reader *r, const json_t *j, size_t i)
{
    static const char word[] = "[" ZT_WORDS "\\x{200c}\\x{200d}]"; /* Rust's \w */
    zt_tokenizer *t = r->t;
    ZT_TRY(zt_tokenizer_members(r, "an added token", j));
    const char *content = json_string_value(json_object_get(j, "content"));
    const json_int_t id = json_integer_value(json_object_get(j, "id"));
    if (!content || !*content || !json_is_integer(json_object_get(j, "id")) || id < 0 || id >= t->n)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: added token %zu has no usable id and content", r->origin,
                       i);
    const int32_t known = zt_tokenizer_find(t, content);
    if (known >= 0 && known != id)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: added token %zu, \"%s\", has id %d, elsewhere %d",
                       r->origin, i, content, (int)id, known);
    zt_added *a = &t->added[t->n_added];
    *a = (zt_added){.id = (int32_t)id,
                    .lstrip = json_is_true(json_object_get(j, "lstrip")),
                    .rstrip = json_is_true(json_object_get(j, "rstrip")),
                    .single_word = json_is_true(json_object_get(j, "single_word")),
                    .normalized = json_is_true(json_object_get(j, "normalized"))};
    a->content = zt_strdup(content);
    if (!a->content) return ZT_NOMEM();
    t->n_added++;
    ZT_TRY(find_as(t, a));
    if (a->single_word && !t->word)
        ZT_TRY(zt_tokenizer_pattern(r, word, sizeof word - 1, false, &t->word));
    zt_piece *p = &t->pieces[id];
    bool unused;
    zt_free(p->decoded);
    p->decoded = NULL;
    ZT_TRY(to_model(t, a->text, a->size, &p->decoded, &p->decoded_size, &unused));
    p->special = json_is_true(json_object_get(j, "special")) && a->size == strlen(content) &&
                 memcmp(a->text, content, a->size) == 0; /* as there: known by what it decodes to */
    return ZT_OK;
}

zt_status zt_tokenizer_read_added(const zt_reader *r, const json_t *list)
{
    zt_tokenizer *t = r->t;
    size_t i;
    const json_t *j;
    t->added = zt_calloc(json_array_size(list) + 1, sizeof *t->added);
    if (!t->added) return ZT_NOMEM();
    json_array_foreach(list, i, j) ZT_TRY(read_one(r, j, i));
    qsort(t->added, (size_t)t->n_added, sizeof *t->added, by_text);
    for (int kind = 0, k = 0; kind < 2; kind++) {
        for (int c = 0; c <= 256; c++) {
            while (k < t->n_added && t->added[k].normalized == kind &&
                   (t->added[k].size ? (unsigned char)t->added[k].text[0] : -1) < c)
                k++;
            t->added_from[kind][c] = k;
        }
    }
    return ZT_OK;
}
