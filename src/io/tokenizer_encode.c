/* tokenizer_encode.c - text to ids: cuts out the added tokens, normalises what lies between them. */
#include "io/tokenizer_internal.h"

zt_status zt_encoder_create(const zt_tokenizer *tok, zt_encoder **out)
{
    zt_encoder *e = zt_calloc(1, sizeof *e);
    if (!e) return ZT_NOMEM();
    e->t = tok;
    e->cache = zt_calloc((size_t)1 << ZT_CACHE_BITS, sizeof *e->cache);
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
    for (int i = 0; i < ZT_MAX_STEPS; i++) {
        zt_text_free(&e->pieces[i]);
        zt_text_free(&e->seen[i]);
    }
    zt_free(e);
    *enc = NULL;
}

/* ---- normalisation ---- */
zt_status zt_tokenizer_normalize(const zt_tokenizer *t, const char *s, size_t n, zt_text *out,
                                 zt_text *scratch)
{
    out->size = 0;
    ZT_TRY(zt_text_add(out, s, n));
    for (int i = 0; i < t->n_norms && out->size; i++) { /* nothing is done to empty text */
        const zt_norm_step *step = &t->norms[i];
        const zt_text from = *out;
        *out = *scratch;
        *scratch = from;
        out->size = 0;
        switch (step->kind) {
        case ZT_NORM_NFC:
            ZT_TRY(zt_nfc(from.data, from.size, out));
            break;
        case ZT_NORM_PREPEND:
            ZT_TRY(zt_text_add(out, step->to, strlen(step->to)));
            ZT_TRY(zt_text_add(out, from.data, from.size));
            break;
        case ZT_NORM_REPLACE:
            ZT_TRY(zt_text_replace(out, from.data, from.size, step->from, step->to));
            break;
        }
    }
    return ZT_OK;
}

/* ---- added tokens ---- */
/* Is the character at s + at one of words? n bytes are there. */
static bool is_word(zt_encoder *e, const char *s, size_t n, size_t at)
{
    zt_text *seen = &e->scratch; /* of that one character */
    size_t length;
    (void)zt_utf8_next(s + at, n - at, &length, NULL);
    seen->size = 0;
    const bool other = zt_unicode_stand_in(s + at, length, seen) == ZT_OK && seen->size;
    return pcre2_match(e->t->word, (PCRE2_SPTR)(other ? seen->data : s + at), length, 0,
                       PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, e->match, e->context) > 0;
}

/* The code point that ends before s + i, i > 0, and where it begins. */
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

/* The first of the sorted tokens lo..hi-1 whose byte at `depth` is c or more. */
static int first_at(const zt_tokenizer *t, int lo, int hi, size_t depth, unsigned c)
{
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if ((unsigned char)t->added[mid].text[depth] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest added token of this kind at s + i; NULL. Those that agree with the text so far are a range of
 * the sorted table, which every byte narrows. */
static const zt_added *added_at(const zt_tokenizer *t, bool normalized, const char *s, size_t n,
                                size_t i)
{
    unsigned c = (unsigned char)s[i];
    int lo = t->added_from[normalized][c], hi = t->added_from[normalized][c + 1];
    const zt_added *longest = NULL;
    for (size_t depth = 1; lo < hi; depth++) {
        for (; lo < hi && t->added[lo].size == depth; lo++)
            longest = &t->added[lo];
        if (i + depth >= n) break;
        c = (unsigned char)s[i + depth];
        lo = first_at(t, lo, hi, depth, c);
        hi = first_at(t, lo, hi, depth, c + 1);
    }
    return longest;
}

typedef zt_status between_fn(zt_encoder *e, const char *s, size_t n, bool at_start, zt_ids *out);

/* Cuts out the added tokens of one kind; what lies between them goes to `between`. */
static zt_status cut_added(zt_encoder *e, bool normalized, const char *s, size_t n, bool at_start,
                           between_fn *between, zt_ids *out)
{
    const zt_tokenizer *t = e->t;
    const bool none = t->added_from[normalized][0] == t->added_from[normalized][256];
    size_t from = 0;
    for (size_t i = 0; i < n && !none;) {
        const zt_added *a = added_at(t, normalized, s, n, i);
        if (!a) {
            i++;
            continue;
        }
        size_t start = i, stop = i + a->size, length;
        i = stop;
        if (a->single_word && !stands_alone(e, s, n, start, stop)) continue;
        if (a->lstrip && start < from) start = from; /* in blanks that the last one took */
        for (size_t at; a->lstrip && start > from && zt_is_space(code_before(s, start, &at));)
            start = at;
        while (a->rstrip && stop < n &&
               zt_is_space(zt_utf8_next(s + stop, n - stop, &length, NULL)))
            stop += length;
        if (start > from) ZT_TRY(between(e, s + from, start - from, at_start && from == 0, out));
        if (stop > start) ZT_TRY(zt_ids_add(out, a->id));
        from = stop;
    }
    return from < n ? between(e, s + from, n - from, at_start && from == 0, out) : ZT_OK;
}

static zt_status encode_raw(zt_encoder *e, const char *s, size_t n, bool at_start, zt_ids *out)
{
    if (e->t->n_norms) {
        ZT_TRY(zt_tokenizer_normalize(e->t, s, n, &e->normal, &e->scratch));
        s = e->normal.data;
        n = e->normal.size;
    }
    return cut_added(e, true, s, n, at_start, zt_encode_split, out);
}

static zt_status encode(zt_encoder *e, const char *text, size_t size, bool add_special, zt_ids *out)
{
    const zt_tokenizer *t = e->t;
    if (t->plain_bytes) {
        for (size_t i = 0; i < size; i++)
            ZT_TRY(zt_ids_add(out, (unsigned char)text[i]));
        return ZT_OK;
    }
    if (!zt_utf8_valid(text, size)) {
        e->clean.size = 0;
        ZT_TRY(zt_utf8_clean(text, size, &e->clean));
        text = e->clean.data;
        size = e->clean.size;
    }
    for (size_t i = 0; add_special && i < t->prefix.count; i++)
        ZT_TRY(zt_ids_add(out, t->prefix.data[i]));
    ZT_TRY(cut_added(e, false, text, size, true, encode_raw, out));
    for (size_t i = 0; add_special && i < t->suffix.count; i++)
        ZT_TRY(zt_ids_add(out, t->suffix.data[i]));
    return ZT_OK;
}

zt_status zt_encode(zt_encoder *e, const char *text, size_t size, bool add_special, zt_ids *out)
{
    const size_t before = out->count;
    zt_status status = encode(e, size ? text : "", size, add_special, out);
    if (status != ZT_OK) out->count = before;
    return status;
}
