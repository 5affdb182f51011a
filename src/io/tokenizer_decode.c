/* tokenizer_decode.c - ids to text: the tokens' texts go through the decoder's steps in order, each of which may change, join
 * or split them; what comes out is joined. */
#include "io/tokenizer_internal.h"

#include <stdlib.h>

typedef struct {
    zt_text *list;
    size_t n, room;
} texts;

static zt_status push(texts *t, const char *s, size_t n)
{
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        zt_text *more = zt_realloc(t->list, room * sizeof *more);
        if (!more) return ZT_NOMEM();
        t->list = more;
        t->room = room;
    }
    t->list[t->n] = (zt_text){0};
    return zt_text_add(&t->list[t->n++], s, n);
}

static void clear(texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        zt_text_free(&t->list[i]);
    zt_free(t->list);
    *t = (texts){0};
}

/* "<0x4F>" gives 0x4F; -1 for anything else. */
static int fallback_byte(const zt_text *t)
{
    if (t->size != 6 || memcmp(t->data, "<0x", 3) != 0 || t->data[5] != '>') return -1;
    char *end;
    long x = strtol((char[]){t->data[3], t->data[4], 0}, &end, 16);
    return *end ? -1 : (int)x;
}

/* Runs of <0xNN> become their text if they are UTF-8, otherwise U+FFFD for each. */
static zt_status join_bytes(const texts *from, texts *to)
{
    zt_text bytes = {0};
    zt_status status = ZT_OK;
    for (size_t i = 0; i <= from->n && status == ZT_OK; i++) {
        const int b = i < from->n ? fallback_byte(&from->list[i]) : -1;
        if (b >= 0) {
            status = zt_text_add(&bytes, (char[]){(char)b}, 1);
            continue;
        }
        if (bytes.size && zt_utf8_valid(bytes.data, bytes.size))
            status = push(to, bytes.data, bytes.size);
        else
            for (size_t k = 0; k < bytes.size && status == ZT_OK; k++)
                status = push(to, "\xEF\xBF\xBD", 3);
        bytes.size = 0;
        if (i < from->n && status == ZT_OK)
            status = push(to, from->list[i].data, from->list[i].size);
    }
    zt_text_free(&bytes);
    return status;
}

static zt_status join_all(const texts *from, const char *between, texts *to)
{
    ZT_TRY(push(to, "", 0));
    for (size_t i = 0; i < from->n; i++) {
        if (i) ZT_TRY(zt_text_add(&to->list[0], between, strlen(between)));
        ZT_TRY(zt_text_add(&to->list[0], from->list[i].data, from->list[i].size));
    }
    return ZT_OK;
}

static zt_status replace(const zt_text *t, const char *from, const char *by, texts *to)
{
    const size_t length = strlen(from);
    ZT_TRY(push(to, "", 0));
    zt_text *out = &to->list[to->n - 1];
    for (size_t i = 0; i < t->size;) {
        const bool hit = length && i + length <= t->size && memcmp(t->data + i, from, length) == 0;
        ZT_TRY(hit ? zt_text_add(out, by, strlen(by)) : zt_text_add(out, t->data + i, 1));
        i += hit ? length : 1;
    }
    return ZT_OK;
}

/* Up to start times the character from the front, up to stop times from the back. */
static zt_status strip(const zt_text *t, const zt_dec_step *s, texts *to)
{
    const size_t length = strlen(s->from);
    size_t a = 0, b = t->size;
    for (int k = 0;
         k < s->start && length && b - a >= length && memcmp(t->data + a, s->from, length) == 0;
         k++)
        a += length;
    for (int k = 0; k < s->stop && length && b - a >= length &&
                    memcmp(t->data + b - length, s->from, length) == 0;
         k++)
        b -= length;
    return push(to, b > a ? t->data + a : "", b - a);
}

static zt_status step(const zt_dec_step *s, const texts *from, texts *to)
{
    if (s->kind == ZT_DEC_FALLBACK) return join_bytes(from, to);
    if (s->kind == ZT_DEC_FUSE) return join_all(from, "", to);
    if (s->kind ==
        ZT_DEC_BYTES) { /* the texts are bytes already; characters may be spread over several */
        texts one = {0};
        zt_text clean = {0};
        zt_status status = join_all(from, "", &one);
        if (status == ZT_OK) status = zt_utf8_clean(one.list[0].data, one.list[0].size, &clean);
        if (status == ZT_OK) status = push(to, clean.data, clean.size);
        zt_text_free(&clean);
        clear(&one);
        return status;
    }
    for (size_t i = 0; i < from->n; i++) {
        const zt_text *t = &from->list[i];
        if (s->kind == ZT_DEC_STRIP)
            ZT_TRY(strip(t, s, to));
        else if (s->kind == ZT_DEC_META) /* the first token loses all of its marks */
            ZT_TRY(replace(t, "\xE2\x96\x81", i == 0 && s->prefix ? "" : " ", to));
        else
            ZT_TRY(replace(t, s->from, s->to, to));
    }
    return ZT_OK;
}

static zt_status pieces(const zt_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                        texts *out)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->n)
            return ZT_FAIL(ZT_ERR_ARG, "token id %d at place %zu is not in the vocabulary of %d",
                           ids[i], i, t->n);
        if (t->plain_bytes) {
            if (ids[i] < 256) ZT_TRY(push(out, (char[]){(char)ids[i]}, 1));
            continue;
        }
        const zt_piece *piece = &t->pieces[ids[i]];
        if (piece->text && !(skip_special && piece->special))
            ZT_TRY(push(out, piece->text, piece->size));
    }
    return ZT_OK;
}

zt_status zt_decode(const zt_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                    char **text, size_t *size)
{
    texts now = {0}, next = {0};
    zt_text clean = {0};
    zt_status status = pieces(tok, ids, n, skip_special, &now);
    for (int k = 0; k <= tok->n_decs && status == ZT_OK; k++) {
        status = k < tok->n_decs
                     ? step(&tok->decs[k], &now, &next)
                     : join_all(&now, tok->n_decs || tok->plain_bytes ? "" : " ", &next);
        clear(&now);
        now = next;
        next = (texts){0};
    }
    if (status == ZT_OK) status = zt_utf8_clean(now.list[0].data, now.list[0].size, &clean);
    if (status == ZT_OK) status = zt_text_add(&clean, "", 1);
    clear(&now);
    clear(&next);
    if (status != ZT_OK) {
        zt_text_free(&clean);
        return status;
    }
    *text = clean.data;
    *size = clean.size - 1;
    return ZT_OK;
}
