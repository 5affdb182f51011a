/* tokenizer_decode.c - ids to text: a list of strings, one a token, goes through the decoder's steps. */
#include "io/tokenizer_internal.h"

typedef struct {
    zt_text text; /* all strings, one behind the other */
    size_t *ends; /* where each ends */
    size_t n, room;
} strings;

static void strings_free(strings *l)
{
    zt_text_free(&l->text);
    zt_free(l->ends);
}

/* Ends a string. */
static zt_status end(strings *l)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        size_t *more = zt_realloc(l->ends, room * sizeof *more);
        if (!more) return ZT_NOMEM();
        l->ends = more;
        l->room = room;
    }
    l->ends[l->n++] = l->text.size;
    return ZT_OK;
}

static zt_status add(strings *l, const char *s, size_t n)
{
    ZT_TRY(zt_text_add(&l->text, s, n));
    return end(l);
}

static int hex(char c)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) - (at - digits > 15 ? 6 : 0) : -1;
}

/* "<0x4F>" gives 0x4F; -1 for anything else. */
static int fallback_byte(const char *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    const int high = hex(s[3]), low = hex(s[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* Bytes that came as <0xNN>: a text if they are UTF-8, otherwise U+FFFD for each. */
static zt_status flush_bytes(zt_text *bytes, strings *out)
{
    if (bytes->size == 0) return ZT_OK;
    if (zt_utf8_valid(bytes->data, bytes->size)) {
        ZT_TRY(zt_text_add(&out->text, bytes->data, bytes->size));
    } else {
        for (size_t i = 0; i < bytes->size; i++)
            ZT_TRY(zt_text_add(&out->text, "\xEF\xBF\xBD", 3));
    }
    bytes->size = 0;
    return end(out);
}

static zt_status strip(const zt_dec_step *p, const char *s, size_t n, strings *out)
{
    const size_t length = strlen(p->from);
    for (int64_t k = 0; k < p->start && n >= length && memcmp(s, p->from, length) == 0; k++) {
        s += length;
        n -= length;
    }
    for (int64_t k = 0; k < p->stop && n >= length && memcmp(s + n - length, p->from, length) == 0;
         k++)
        n -= length;
    return add(out, s, n);
}

static zt_status each_string(const zt_dec_step *p, size_t i, const char *s, size_t n,
                             zt_text *bytes, strings *out)
{
    int b;
    switch (p->kind) {
    case ZT_DEC_REPLACE:
        ZT_TRY(zt_text_replace(&out->text, s, n, p->from, p->to));
        return end(out);
    case ZT_DEC_META:
        ZT_TRY(zt_text_replace(&out->text, s, n, ZT_META, i == 0 && p->prefix ? "" : " "));
        return end(out);
    case ZT_DEC_STRIP:
        return strip(p, s, n, out);
    case ZT_DEC_FALLBACK:
        b = fallback_byte(s, n);
        if (b >= 0) return zt_text_add(bytes, (char[]){(char)b}, 1);
        ZT_TRY(flush_bytes(bytes, out));
        return add(out, s, n);
    default:
        ZT_BUG("a decoder's step that takes strings one by one");
    }
}

/* One step, from `in` to the empty list `out`. */
static zt_status step(const zt_dec_step *p, const strings *in, strings *out)
{
    const char *text = in->text.data ? in->text.data : "";
    zt_text bytes = {0};
    zt_status status = ZT_OK;
    if (p->kind == ZT_DEC_FUSE) return add(out, text, in->text.size);
    if (p->kind == ZT_DEC_BYTES) {
        ZT_TRY(zt_utf8_clean(text, in->text.size, &out->text));
        return end(out);
    }
    for (size_t i = 0, from = 0; i < in->n && status == ZT_OK; from = in->ends[i++])
        status = each_string(p, i, text + from, in->ends[i] - from, &bytes, out);
    if (status == ZT_OK) status = flush_bytes(&bytes, out);
    zt_text_free(&bytes);
    return status;
}

static zt_status pieces_of(const zt_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                           strings *out)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->n)
            return ZT_FAIL(ZT_ERR_ARG, "token id %d at place %zu is not in the vocabulary of %d",
                           ids[i], i, t->n);
        if (t->plain_bytes) {
            if (ids[i] < 256) ZT_TRY(zt_text_add(&out->text, (char[]){(char)ids[i]}, 1));
            continue;
        }
        const zt_piece *piece = &t->pieces[ids[i]];
        const char *s = piece->decoded ? piece->decoded : piece->text;
        if (!s || (skip_special && piece->special)) continue;
        if (!t->has_decoder && out->n) ZT_TRY(zt_text_add(&out->text, " ", 1));
        ZT_TRY(add(out, s, piece->decoded ? piece->decoded_size : piece->size));
    }
    return ZT_OK;
}

zt_status zt_decode(const zt_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                    char **text, size_t *size)
{
    static const zt_dec_step clean = {.kind = ZT_DEC_BYTES};
    strings a = {0}, b = {0};
    zt_status status = pieces_of(tok, ids, n, skip_special, &a);
    for (int i = 0; i < tok->n_decs + tok->plain_bytes && status == ZT_OK; i++) {
        const strings from = a;
        a = b;
        b = from;
        a.n = a.text.size = 0;
        status = step(tok->plain_bytes ? &clean : &tok->decs[i], &b, &a);
    }
    const size_t length = a.text.size;
    if (status == ZT_OK) status = zt_text_add(&a.text, "", 1);
    if (status == ZT_OK) {
        *text = a.text.data;
        *size = length;
        a.text = (zt_text){0};
    }
    strings_free(&a);
    strings_free(&b);
    return status;
}
