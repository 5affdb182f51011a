/* tokenizer_bpe.c - one word to ids: byte-pair merges, lowest rank first, in n log n. */
#include "io/tokenizer_internal.h"

static bool before(const zt_candidate *a, const zt_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static zt_status heap_push(zt_encoder *e, zt_candidate c)
{
    if (e->n_heap == e->heap_room) {
        size_t room = e->heap_room ? 2 * e->heap_room : 256;
        zt_candidate *more = zt_realloc(e->heap, room * sizeof *more);
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

static zt_candidate heap_pop(zt_encoder *e)
{
    zt_candidate top = e->heap[0], last = e->heap[--e->n_heap];
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
    return m ? heap_push(e, (zt_candidate){m->rank, at, left, right, m->merged}) : ZT_OK;
}

/* Merges the n symbols, lowest rank first and leftmost among equals. */
static zt_status merge_all(zt_encoder *e, int32_t n)
{
    e->n_heap = 0;
    for (int32_t i = 0; i < n; i++)
        ZT_TRY(consider(e, i));
    while (e->n_heap) {
        zt_candidate c = heap_pop(e);
        zt_symbol *s = &e->symbols[c.at];
        if (s->id != c.left || s->next < 0 || e->symbols[s->next].id != c.right)
            continue; /* one of the two has been merged since */
        zt_symbol *gone = &e->symbols[s->next];
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
        zt_symbol *more = zt_realloc(e->symbols, room * sizeof *more);
        if (!more) return ZT_NOMEM();
        e->symbols = more;
        e->room = room;
    }
    e->symbols[*n] = (zt_symbol){id, *n - 1, -1};
    if (*n > 0) e->symbols[*n - 1].next = *n;
    ++*n;
    return ZT_OK;
}

/* Are all n bytes tokens (<0xNN>)? */
static bool all_bytes(const zt_tokenizer *t, const char *s, size_t n)
{
    bool all = t->byte_fallback && !t->byte_level;
    for (size_t i = 0; all && i < n; i++)
        all = t->bytes[(unsigned char)s[i]] >= 0;
    return all;
}

/* The symbols that merging starts from: bytes, or characters with their fallback. As in the library, an
 * unknown token waits for the next known character, even behind bytes that fell back. */
static zt_status first_symbols(zt_encoder *e, const char *s, size_t n, int32_t *count)
{
    const zt_tokenizer *t = e->t;
    size_t length = 1;
    bool waiting = false;
    for (size_t i = 0; i < n; i += length) {
        int32_t id;
        if (t->byte_level) {
            id = t->bytes[(unsigned char)s[i]];
        } else {
            (void)zt_utf8_next(s + i, n - i, &length, NULL);
            id = zt_piece_id(t, s + i, length);
        }
        if (id >= 0) {
            if (waiting) ZT_TRY(add_symbol(e, count, t->unk));
            waiting = false;
            ZT_TRY(add_symbol(e, count, id));
        } else if (all_bytes(t, s + i, length)) {
            for (size_t k = 0; k < length; k++)
                ZT_TRY(add_symbol(e, count, t->bytes[(unsigned char)s[i + k]]));
        } else if (t->unk >= 0) { /* without an unknown token it is left out */
            if (waiting && !t->fuse_unk) ZT_TRY(add_symbol(e, count, t->unk));
            waiting = true;
        }
    }
    return waiting ? add_symbol(e, count, t->unk) : ZT_OK;
}

static zt_cached *slot_of(zt_encoder *e, const char *s, size_t n)
{
    uint64_t h = 0;
    if (n <= 8)
        memcpy(&h, s, n);
    else
        h = zt_hash(s, n);
    h = (h ^ n) * 0x9E3779B97F4A7C15u;
    return &e->cache[h >> (64 - ZT_CACHE_BITS)];
}

static zt_status encode_part(zt_encoder *e, const char *s, size_t n, zt_ids *out)
{
    const zt_tokenizer *t = e->t;
    zt_cached *slot = n <= ZT_WORD ? slot_of(e, s, n) : NULL;
    if (slot && slot->size == n && memcmp(slot->text, s, n) == 0) {
        for (int i = 0; i < slot->n; i++)
            ZT_TRY(zt_ids_add(out, slot->ids[i]));
        return ZT_OK;
    }
    const size_t first = out->count;
    const int32_t whole = t->ignore_merges ? zt_piece_id(t, s, n) : -1;
    if (whole >= 0) {
        ZT_TRY(zt_ids_add(out, whole));
    } else {
        int32_t count = 0;
        ZT_TRY(first_symbols(e, s, n, &count));
        ZT_TRY(merge_all(e, count));
        for (int32_t i = 0; i < count; i++)
            if (e->symbols[i].id >= 0) ZT_TRY(zt_ids_add(out, e->symbols[i].id));
    }
    const size_t n_ids = out->count - first;
    if (slot && n_ids <= ZT_WORD_IDS) {
        slot->size = (uint8_t)n;
        slot->n = (uint8_t)n_ids;
        memcpy(slot->text, s, n);
        if (n_ids) memcpy(slot->ids, out->data + first, n_ids * sizeof *slot->ids);
    }
    return ZT_OK;
}

zt_status zt_encode_word(zt_encoder *e, const char *s, size_t n, zt_ids *out)
{
    const zt_tokenizer *t = e->t;
    if (n == 0) return ZT_OK;
    if (n > INT32_MAX) return ZT_FAIL(ZT_ERR_ARG, "a word of %zu bytes is too long to merge", n);
    size_t from = 0, length = 1;
    unsigned left = 0;
    for (size_t i = 0; n > ZT_WORD && t->may_cut && i < n; i += length) {
        const uint32_t code =
            t->byte_level ? (unsigned char)s[i] : zt_utf8_next(s + i, n - i, &length, NULL);
        const unsigned right = zt_join_class(t, code);
        if (i > 0 && !(t->joins[left][right / 8] >> right % 8 & 1)) { /* no merge crosses here */
            ZT_TRY(encode_part(e, s + from, i - from, out));
            from = i;
        }
        left = right;
    }
    return encode_part(e, s + from, n - from, out);
}
