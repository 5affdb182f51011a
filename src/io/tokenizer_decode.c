/* tokenizer_decode.c - ids to text. */
#include "io/tokenizer_internal.h"

#include <stdlib.h>

/* "<0x4F>" gives 0x4F; -1 for anything else. */
static int fallback_byte(const char *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    char *end;
    long x = strtol((char[]){s[3], s[4], 0}, &end, 16);
    return *end ? -1 : (int)x;
}

/* Bytes that came as <0xNN>: a text if they are UTF-8, otherwise U+FFFD for each. */
static zt_status flush_bytes(zt_text *bytes, zt_text *out)
{
    if (zt_utf8_valid(bytes->data, bytes->size)) {
        ZT_TRY(zt_text_add(out, bytes->data, bytes->size));
    } else {
        for (size_t i = 0; i < bytes->size; i++)
            ZT_TRY(zt_text_add(out, "\xEF\xBF\xBD", 3));
    }
    bytes->size = 0;
    return ZT_OK;
}

static zt_status replace(const char *s, size_t n, const char *from, const char *to, zt_text *out)
{
    const size_t length = strlen(from);
    for (size_t i = 0; i < n;) {
        const bool hit = length && i + length <= n && memcmp(s + i, from, length) == 0;
        ZT_TRY(hit ? zt_text_add(out, to, strlen(to)) : zt_text_add(out, s + i, 1));
        i += hit ? length : 1;
    }
    return ZT_OK;
}

typedef struct {
    bool bytes, fallback, meta, meta_prefix;
    const zt_dec_step *replace, *strip;
} plan;

static plan make_plan(const zt_tokenizer *t)
{
    plan p = {0};
    for (int i = 0; i < t->n_decs; i++) {
        const zt_dec_step *s = &t->decs[i];
        p.bytes = p.bytes || s->kind == ZT_DEC_BYTES;
        p.fallback = p.fallback || s->kind == ZT_DEC_FALLBACK;
        p.meta = p.meta || s->kind == ZT_DEC_META;
        p.meta_prefix = p.meta_prefix || (s->kind == ZT_DEC_META && s->prefix);
        if (s->kind == ZT_DEC_REPLACE) p.replace = s;
        if (s->kind == ZT_DEC_STRIP) p.strip = s;
    }
    return p;
}

static zt_status decode_piece(const plan *p, const zt_piece *piece, bool first, zt_text *bytes,
                              zt_text *out)
{
    int b = p->fallback ? fallback_byte(piece->text, piece->size) : -1;
    if (b >= 0) return zt_text_add(bytes, (char[]){(char)b}, 1);
    ZT_TRY(flush_bytes(bytes, out));
    const char *s = piece->text;
    size_t n = piece->size;
    if (p->replace) return replace(s, n, p->replace->from, p->replace->to, out);
    if (p->meta) {
        if (first && p->meta_prefix && n >= 3 && memcmp(s, "\xE2\x96\x81", 3) == 0) {
            s += 3;
            n -= 3;
        }
        return replace(s, n, "\xE2\x96\x81", " ", out);
    }
    return zt_text_add(out, s, n);
}

static zt_status decode(const zt_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                        zt_text *bytes, zt_text *out)
{
    const plan p = make_plan(t);
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->n)
            return ZT_FAIL(ZT_ERR_ARG, "token id %d at place %zu is not in the vocabulary of %d",
                           ids[i], i, t->n);
        if (t->plain_bytes) {
            if (ids[i] < 256) ZT_TRY(zt_text_add(out, (char[]){(char)ids[i]}, 1));
            continue;
        }
        const zt_piece *piece = &t->pieces[ids[i]];
        if (!piece->text || (skip_special && piece->special)) continue;
        ZT_TRY(decode_piece(&p, piece, first, bytes, out));
        first = false;
    }
    ZT_TRY(flush_bytes(bytes, out));
    if (!p.strip || !out->size) return ZT_OK;
    size_t from = 0, length = strlen(p.strip->from);
    for (int k = 0; k < p.strip->start && length && out->size - from >= length &&
                    memcmp(out->data + from, p.strip->from, length) == 0;
         k++)
        from += length;
    for (int k = 0; k < p.strip->stop && length && out->size - from >= length &&
                    memcmp(out->data + out->size - length, p.strip->from, length) == 0;
         k++)
        out->size -= length;
    memmove(out->data, out->data + from, out->size - from);
    out->size -= from;
    return ZT_OK;
}

zt_status zt_decode(const zt_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                    char **text, size_t *size)
{
    zt_text bytes = {0}, raw = {0}, clean = {0};
    zt_status status = decode(tok, ids, n, skip_special, &bytes, &raw);
    if (status == ZT_OK) status = zt_utf8_clean(raw.data, raw.size, &clean);
    if (status == ZT_OK) status = zt_text_add(&clean, "", 1);
    zt_text_free(&bytes);
    zt_text_free(&raw);
    if (status != ZT_OK) {
        zt_text_free(&clean);
        return status;
    }
    *text = clean.data;
    *size = clean.size - 1;
    return ZT_OK;
}
