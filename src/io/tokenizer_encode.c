/* tokenizer_encode.c - text to ids: added tokens, normalisation, pieces, merges. */
#include "io/tokenizer_internal.h"

/* A symbol of a word that is being merged: a doubly linked list in an array. */
typedef struct {
    int32_t id, prev, next; /* id -1: merged away */
} symbol;
typedef struct {
    int32_t rank, at, left, right, merged;
} candidate;

enum { CACHE = 1 << 14, WORD = 32, WORD_IDS = 11 };
typedef struct {
    uint8_t size, n; /* size 0: free */
    char text[WORD];
    int32_t ids[WORD_IDS];
} cached;

struct zt_encoder {
    const zt_tokenizer *t;
    cached *cache;
    symbol *symbols;
    candidate *heap;
    size_t room, n_heap, heap_room;
    pcre2_match_data *match;
    pcre2_match_context *context;
    zt_text clean, normal, scratch, pieces[ZT_MAX_STEPS];
};

zt_status zt_encoder_create(const zt_tokenizer *tok, zt_encoder **out)
{
    zt_encoder *e = zt_calloc(1, sizeof *e);
    if (!e) return ZT_NOMEM();
    e->t = tok;
    e->cache = zt_calloc(CACHE, sizeof *e->cache);
    e->match = pcre2_match_data_create(2, NULL);
    e->context = pcre2_match_context_create(NULL);
    if (!e->cache || !e->match || !e->context) {
        zt_encoder_free(&e);
        return ZT_NOMEM();
    }
    *out = e;
    return ZT_OK;
}

void zt_encoder_free(zt_encoder **enc)
{
    zt_encoder *e = *enc;
    if (!e) return;
    zt_free(e->cache);
    zt_free(e->symbols);
    zt_free(e->heap);
    pcre2_match_data_free(e->match);
    pcre2_match_context_free(e->context);
    zt_text_free(&e->clean);
    zt_text_free(&e->normal);
    zt_text_free(&e->scratch);
    for (int i = 0; i < ZT_MAX_STEPS; i++)
        zt_text_free(&e->pieces[i]);
    zt_free(e);
    *enc = NULL;
}

static zt_status add_id(zt_ids *ids, int32_t id)
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

/* ---- merging one word ---- */
static bool before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static zt_status heap_push(zt_encoder *e, candidate c)
{
    if (e->n_heap == e->heap_room) {
        size_t room = e->heap_room ? 2 * e->heap_room : 256;
        candidate *more = zt_realloc(e->heap, room * sizeof *more);
        if (!more) return ZT_NOMEM();
        e->heap = more;
        e->heap_room = room;
    }
    size_t i = e->n_heap++;
    for (; i > 0 && before(&c, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = c;
    return ZT_OK;
}

static candidate heap_pop(zt_encoder *e)
{
    candidate top = e->heap[0], last = e->heap[--e->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= e->n_heap) break;
        if (child + 1 < e->n_heap && before(&e->heap[child + 1], &e->heap[child])) child++;
        if (!before(&e->heap[child], &last)) break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

static zt_status consider(zt_encoder *e, int32_t at)
{
    const int32_t next = at < 0 ? -1 : e->symbols[at].next;
    if (next < 0) return ZT_OK;
    const int32_t left = e->symbols[at].id, right = e->symbols[next].id;
    const zt_merge *m = zt_merge_find(e->t, left, right);
    return m ? heap_push(e, (candidate){m->rank, at, left, right, m->merged}) : ZT_OK;
}

/* Merges the n symbols, lowest rank first and leftmost among equals. */
static zt_status merge_all(zt_encoder *e, int32_t n)
{
    e->n_heap = 0;
    for (int32_t i = 0; i < n; i++)
        ZT_TRY(consider(e, i));
    while (e->n_heap) {
        candidate c = heap_pop(e);
        symbol *s = &e->symbols[c.at];
        if (s->id != c.left || s->next < 0 || e->symbols[s->next].id != c.right)
            continue; /* one of the two has been merged since */
        symbol *gone = &e->symbols[s->next];
        s->id = c.merged;
        gone->id = -1;
        s->next = gone->next;
        if (s->next >= 0) e->symbols[s->next].prev = c.at;
        ZT_TRY(consider(e, s->prev));
        ZT_TRY(consider(e, c.at));
    }
    return ZT_OK;
}

static zt_status add_symbol(zt_encoder *e, int32_t *n, int32_t id)
{
    if ((size_t)*n == e->room) {
        size_t room = e->room ? 2 * e->room : 256;
        symbol *more = zt_realloc(e->symbols, room * sizeof *more);
        if (!more) return ZT_NOMEM();
        e->symbols = more;
        e->room = room;
    }
    e->symbols[*n] = (symbol){id, *n - 1, -1};
    if (*n > 0) e->symbols[*n - 1].next = *n;
    ++*n;
    return ZT_OK;
}

/* The symbols that merging starts from: bytes, or characters with their fallback. */
static zt_status first_symbols(zt_encoder *e, const char *s, size_t n, int32_t *count)
{
    const zt_tokenizer *t = e->t;
    size_t length;
    bool after_unk = false;
    for (size_t i = 0; i < n; i += length) {
        int32_t id;
        length = 1;
        if (t->byte_level) {
            id = t->bytes[(unsigned char)s[i]];
        } else {
            (void)zt_utf8_next(s + i, n - i, &length, NULL);
            id = zt_piece_id(t, s + i, length);
        }
        if (id < 0 && t->byte_fallback && !t->byte_level) {
            bool all = true;
            for (size_t k = 0; k < length; k++)
                all = all && t->bytes[(unsigned char)s[i + k]] >= 0;
            for (size_t k = 0; all && k < length; k++)
                ZT_TRY(add_symbol(e, count, t->bytes[(unsigned char)s[i + k]]));
            if (all) {
                after_unk = false;
                continue;
            }
        }
        const bool unknown = id < 0;
        if (unknown && t->unk < 0) continue; /* without an unknown token it is left out */
        if (!unknown || !after_unk || !t->fuse_unk)
            ZT_TRY(add_symbol(e, count, unknown ? t->unk : id));
        after_unk = unknown;
    }
    return ZT_OK;
}

static zt_status encode_word(zt_encoder *e, const char *s, size_t n, zt_ids *out)
{
    const zt_tokenizer *t = e->t;
    cached *slot = NULL;
    if (n == 0) return ZT_OK;
    if (n <= WORD) {
        uint64_t h = 0;
        if (n <= 8)
            memcpy(&h, s, n);
        else
            h = zt_hash(s, n);
        h = (h ^ n) * 0x9E3779B97F4A7C15u;
        slot = &e->cache[h >> 50];
        if (slot->size == n && memcmp(slot->text, s, n) == 0) {
            for (int i = 0; i < slot->n; i++)
                ZT_TRY(add_id(out, slot->ids[i]));
            return ZT_OK;
        }
    }
    const size_t first = out->count;
    int32_t whole = t->ignore_merges ? zt_piece_id(t, s, n) : -1;
    if (whole >= 0) {
        ZT_TRY(add_id(out, whole));
    } else {
        int32_t count = 0;
        ZT_TRY(first_symbols(e, s, n, &count));
        ZT_TRY(merge_all(e, count));
        for (int32_t i = 0; i < count; i++)
            if (e->symbols[i].id >= 0) ZT_TRY(add_id(out, e->symbols[i].id));
    }
    if (slot && out->count - first <= WORD_IDS) {
        slot->size = (uint8_t)n;
        slot->n = (uint8_t)(out->count - first);
        memcpy(slot->text, s, n);
        if (out->count > first)
            memcpy(slot->ids, out->data + first, (out->count - first) * sizeof *slot->ids);
    }
    return ZT_OK;
}

/* ---- pieces ---- */
static zt_status split(zt_encoder *e, int step, const char *s, size_t n, bool at_start,
                       zt_ids *out);

static zt_status split_pattern(zt_encoder *e, int step, const char *s, size_t n, bool at_start,
                               zt_ids *out)
{
    const zt_split_step *p = &e->t->splits[step];
    size_t from = 0, look = 0;
    while (look < n) {
        int rc = pcre2_jit_match(p->pattern, (PCRE2_SPTR)s, n, look, PCRE2_NO_UTF_CHECK, e->match,
                                 e->context);
        if (rc == PCRE2_ERROR_JIT_BADOPTION || rc == PCRE2_ERROR_JIT_STACKLIMIT)
            rc = pcre2_match(p->pattern, (PCRE2_SPTR)s, n, look, PCRE2_NO_UTF_CHECK, e->match,
                             e->context);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0)
            return ZT_FAIL(ZT_ERR_FORMAT,
                           "the tokenizer's pattern fails on a text (PCRE2 error %d)", rc);
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(e->match);
        const size_t a = at[0], b = at[1];
        if (b == a) { /* an empty match: go on behind the next character */
            size_t length;
            if (a >= n) break;
            (void)zt_utf8_next(s + a, n - a, &length, NULL);
            look = a + length;
            continue;
        }
        if (a > from && !p->drop_gaps)
            ZT_TRY(split(e, step + 1, s + from, a - from, at_start && from == 0, out));
        if (!p->drop_matches) ZT_TRY(split(e, step + 1, s + a, b - a, at_start && a == 0, out));
        from = look = b;
    }
    return from < n && !p->drop_gaps
               ? split(e, step + 1, s + from, n - from, at_start && from == 0, out)
               : ZT_OK;
}

static zt_status replace_all(zt_text *to, const char *s, size_t n, const char *from, const char *by)
{
    const size_t length = strlen(from);
    size_t last = 0;
    for (size_t i = 0; length && i + length <= n;) {
        if (memcmp(s + i, from, length) != 0) {
            i++;
            continue;
        }
        ZT_TRY(zt_text_add(to, s + last, i - last));
        ZT_TRY(zt_text_add(to, by, strlen(by)));
        i += length;
        last = i;
    }
    return zt_text_add(to, s + last, n - last);
}

static zt_status split_meta(zt_encoder *e, int step, const char *s, size_t n, bool at_start,
                            zt_ids *out)
{
    static const char meta[] = "\xE2\x96\x81";
    const zt_split_step *p = &e->t->splits[step];
    zt_text *text = &e->pieces[step];
    text->size = 0;
    const bool has = (n >= 3 && memcmp(s, meta, 3) == 0) || s[0] == ' ';
    if ((p->prefix_always || (p->prefix_first && at_start)) && !has)
        ZT_TRY(zt_text_add(text, meta, 3));
    ZT_TRY(replace_all(text, s, n, " ", meta));
    size_t from = 0;
    for (size_t i = 1; p->split && i + 3 <= text->size; i++)
        if (memcmp(text->data + i, meta, 3) == 0) {
            ZT_TRY(split(e, step + 1, text->data + from, i - from, at_start && from == 0, out));
            from = i;
        }
    return split(e, step + 1, text->data + from, text->size - from, at_start && from == 0, out);
}

/* Cuts a text by the pre-tokenizer's steps from `step` on, and encodes the pieces. */
static zt_status split(zt_encoder *e, int step, const char *s, size_t n, bool at_start, zt_ids *out)
{
    if (n == 0) return ZT_OK;
    if (step == e->t->n_splits) return encode_word(e, s, n, out);
    const zt_split_step *p = &e->t->splits[step];
    if (p->kind == ZT_SPLIT_META) return split_meta(e, step, s, n, at_start, out);
    if (p->kind == ZT_SPLIT_BYTES && p->prefix_always && s[0] != ' ') {
        zt_text *text = &e->pieces[step];
        text->size = 0;
        ZT_TRY(zt_text_add(text, " ", 1));
        ZT_TRY(zt_text_add(text, s, n));
        s = text->data;
        n = text->size;
    }
    return p->pattern ? split_pattern(e, step, s, n, at_start, out)
                      : split(e, step + 1, s, n, at_start, out);
}

/* ---- normalisation ---- */
static zt_status normalize(zt_encoder *e, const char *s, size_t n)
{
    e->normal.size = 0;
    ZT_TRY(zt_text_add(&e->normal, s, n));
    for (int i = 0; i < e->t->n_norms; i++) {
        const zt_norm_step *step = &e->t->norms[i];
        if (e->normal.size == 0) break;
        zt_text from = e->normal;
        e->normal = e->scratch;
        e->scratch = from;
        e->normal.size = 0;
        switch (step->kind) {
        case ZT_NORM_NFC:
            ZT_TRY(zt_nfc(from.data, from.size, &e->normal));
            break;
        case ZT_NORM_PREPEND:
            ZT_TRY(zt_text_add(&e->normal, step->to, strlen(step->to)));
            ZT_TRY(zt_text_add(&e->normal, from.data, from.size));
            break;
        case ZT_NORM_REPLACE:
            ZT_TRY(replace_all(&e->normal, from.data, from.size, step->from, step->to));
            break;
        }
    }
    return ZT_OK;
}

/* ---- added tokens ---- */
/* Is the character at s + at one of words? n bytes are there. */
static bool is_word(zt_encoder *e, const char *s, size_t n, size_t at)
{
    return pcre2_match(e->t->word, (PCRE2_SPTR)s, n, at, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED,
                       e->match, e->context) > 0;
}

/* The code point that ends before s + i. */
static uint32_t code_before(const char *s, size_t i, size_t *at)
{
    size_t from = i - 1, length;
    while (from > 0 && ((unsigned char)s[from] & 0xC0) == 0x80)
        from--;
    *at = from;
    return zt_utf8_next(s + from, i - from, &length, NULL);
}

static bool stands_alone(zt_encoder *e, const char *s, size_t n, size_t from, size_t to)
{
    size_t at = 0;
    if (from > 0) (void)code_before(s, from, &at);
    return (from == 0 || !is_word(e, s, n, at)) && (to >= n || !is_word(e, s, n, to));
}

/* The longest added token of this kind at s + i; NULL. */
static const zt_added *added_at(zt_encoder *e, bool normalized, const char *s, size_t n, size_t i)
{
    const zt_tokenizer *t = e->t;
    if (!t->added_first[(unsigned char)s[i]]) return NULL;
    for (int k = 0; k < t->n_added; k++) {
        const zt_added *a = &t->added[k];
        if (a->normalized == normalized && a->size <= n - i &&
            memcmp(a->text, s + i, a->size) == 0 &&
            (!a->single_word || stands_alone(e, s, n, i, i + a->size)))
            return a;
    }
    return NULL;
}

typedef zt_status between_fn(zt_encoder *e, const char *s, size_t n, bool at_start, zt_ids *out);

/* Cuts out the added tokens of one kind; what lies between them goes to `between`. */
static zt_status cut_added(zt_encoder *e, bool normalized, const char *s, size_t n, bool at_start,
                           between_fn *between, zt_ids *out)
{
    size_t from = 0;
    for (size_t i = 0; i < n;) {
        const zt_added *a = added_at(e, normalized, s, n, i);
        if (!a) {
            i++;
            continue;
        }
        size_t start = i, stop = i + a->size, length;
        for (size_t at; a->lstrip && start > from && zt_is_space(code_before(s, start, &at));)
            start = at;
        while (a->rstrip && stop < n &&
               zt_is_space(zt_utf8_next(s + stop, n - stop, &length, NULL)))
            stop += length;
        if (start > from) ZT_TRY(between(e, s + from, start - from, at_start && from == 0, out));
        ZT_TRY(add_id(out, a->id));
        from = i = stop;
    }
    return from < n ? between(e, s + from, n - from, at_start && from == 0, out) : ZT_OK;
}

static zt_status encode_normal(zt_encoder *e, const char *s, size_t n, bool at_start, zt_ids *out)
{
    return split(e, 0, s, n, at_start, out);
}

static zt_status encode_raw(zt_encoder *e, const char *s, size_t n, bool at_start, zt_ids *out)
{
    if (e->t->n_norms) {
        ZT_TRY(normalize(e, s, n));
        s = e->normal.data;
        n = e->normal.size;
    }
    return cut_added(e, true, s, n, at_start, encode_normal, out);
}

zt_status zt_encode(zt_encoder *e, const char *text, size_t size, bool add_special, zt_ids *out)
{
    const zt_tokenizer *t = e->t;
    text = size ? text : "";
    if (t->plain_bytes) {
        for (size_t i = 0; i < size; i++)
            ZT_TRY(add_id(out, (unsigned char)text[i]));
        return ZT_OK;
    }
    if (!zt_utf8_valid(text, size)) {
        e->clean.size = 0;
        ZT_TRY(zt_utf8_clean(text, size, &e->clean));
        text = e->clean.data;
        size = e->clean.size;
    }
    for (size_t i = 0; add_special && i < t->prefix.count; i++)
        ZT_TRY(add_id(out, t->prefix.data[i]));
    ZT_TRY(cut_added(e, false, text, size, true, encode_raw, out));
    for (size_t i = 0; add_special && i < t->suffix.count; i++)
        ZT_TRY(add_id(out, t->suffix.data[i]));
    return ZT_OK;
}
