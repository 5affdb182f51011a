/* unicode.c - UTF-8, characters newer than PCRE2, and NFC after Unicode Standard Annex 15. */
#include "io/unicode.h"
#include "io/unicode_recent.h"
#include "io/unicode_tables.h"

#include <stdlib.h>

void zt_text_free(zt_text *t)
{
    zt_free(t->data);
    *t = (zt_text){0};
}

zt_status zt_text_add(zt_text *t, const char *s, size_t n)
{
    if (t->size + n > t->room) {
        size_t room = 2 * t->room > t->size + n ? 2 * t->room : t->size + n + 64;
        char *more = zt_realloc(t->data, room);
        if (!more) return ZT_NOMEM();
        t->data = more;
        t->room = room;
    }
    if (n) memcpy(t->data + t->size, s, n);
    t->size += n;
    return ZT_OK;
}

zt_status zt_text_add_code(zt_text *t, uint32_t c)
{
    char s[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6)
        s[i] = (char)(0x80 | (c & 0x3F));
    s[0] = (char)(lead[n] | c);
    return zt_text_add(t, s, n);
}

zt_status zt_text_replace(zt_text *t, const char *s, size_t n, const char *from, const char *by)
{
    const size_t length = strlen(from);
    size_t last = 0;
    for (size_t i = 0; length && i + length <= n;) {
        if (s[i] != *from || memcmp(s + i, from, length) != 0) {
            i++;
            continue;
        }
        ZT_TRY(zt_text_add(t, s + last, i - last));
        ZT_TRY(zt_text_add(t, by, strlen(by)));
        i += length;
        last = i;
    }
    return zt_text_add(t, s + last, n - last);
}

uint32_t zt_utf8_next(const char *s, size_t n, size_t *length, bool *valid)
{
    const unsigned char *u = (const unsigned char *)s;
    bool unused;
    valid = valid ? valid : &unused;
    *valid = true;
    *length = 1;
    if (u[0] < 0x80) return u[0];
    size_t want = u[0] >= 0xC2 && u[0] < 0xE0   ? 2
                  : u[0] >= 0xE0 && u[0] < 0xF0 ? 3
                  : u[0] >= 0xF0 && u[0] < 0xF5 ? 4
                                                : 0;
    uint32_t c = want ? u[0] & (0x7Fu >> want) : 0;
    for (size_t i = 1; i < want; i++) {
        unsigned low = 0x80, high = 0xBF; /* of the second byte: no overlong forms, no surrogates */
        if (i == 1) {
            low = u[0] == 0xE0 ? 0xA0 : u[0] == 0xF0 ? 0x90 : 0x80;
            high = u[0] == 0xED ? 0x9F : u[0] == 0xF4 ? 0x8F : 0xBF;
        }
        if (i >= n || u[i] < low || u[i] > high) {
            *length = i;
            want = 0;
            break;
        }
        c = c << 6 | (u[i] & 0x3F);
    }
    if (!want) {
        *valid = false;
        return 0xFFFD;
    }
    *length = want;
    return c;
}

zt_status zt_utf8_clean(const char *s, size_t n, zt_text *out)
{
    if (n == 0) return ZT_OK;
    size_t from = 0, length;
    bool valid;
    for (size_t i = 0; i < n; i += length) {
        (void)zt_utf8_next(s + i, n - i, &length, &valid);
        if (valid) continue;
        ZT_TRY(zt_text_add(out, s + from, i - from));
        ZT_TRY(zt_text_add(out, "\xEF\xBF\xBD", 3));
        from = i + length;
    }
    return zt_text_add(out, s + from, n - from);
}

/* Eight bytes of ASCII at s + i. */
static bool plain(const char *s, size_t n, size_t i)
{
    uint64_t x;
    if (i + sizeof x > n) return false;
    memcpy(&x, s + i, sizeof x);
    return !(x & 0x8080808080808080u);
}

bool zt_utf8_valid(const char *s, size_t n)
{
    size_t length;
    bool valid = true;
    for (size_t i = 0; i < n && valid; i += length) {
        length = sizeof(uint64_t);
        if (!plain(s, n, i)) (void)zt_utf8_next(s + i, n - i, &length, &valid);
    }
    return valid;
}

bool zt_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static int in_range(const void *key, const void *row)
{
    uint32_t c = *(const uint32_t *)key;
    const uint32_t *r = row;
    return c < r[0] ? -1 : c > r[1];
}

zt_status zt_unicode_stand_in(const char *s, size_t n, zt_text *out)
{
    size_t length, from = 0;
    for (size_t i = 0; i < n; i += length) {
        length = sizeof(uint64_t);
        if (plain(s, n, i)) continue;
        const uint32_t c = zt_utf8_next(s + i, n - i, &length, NULL);
        if (c < recent[0][0]) continue;
        const uint32_t *r =
            bsearch(&c, recent, sizeof recent / sizeof *recent, sizeof *recent, in_range);
        if (!r) continue;
        ZT_TRY(zt_text_add(out, s + from, i - from));
        ZT_TRY(zt_text_add_code(out, r[2]));
        from = i + length;
    }
    return from ? zt_text_add(out, s + from, n - from) : ZT_OK;
}

/* ---- NFC ---- */
enum { S = 0xAC00, L = 0x1100, V = 0x1161, T = 0x11A7, VS = 21, TS = 28, SS = 11172 }; /* Hangul */

typedef struct {
    uint32_t *c;
    size_t n, room;
} codes;

static zt_status put(codes *q, uint32_t c)
{
    if (q->n == q->room) {
        size_t room = q->room ? 2 * q->room : 256;
        uint32_t *more = zt_realloc(q->c, room * sizeof *more);
        if (!more) return ZT_NOMEM();
        q->c = more;
        q->room = room;
    }
    q->c[q->n++] = c;
    return ZT_OK;
}

static int by_first(const void *key, const void *row)
{
    uint32_t a = *(const uint32_t *)key, b = *(const uint32_t *)row;
    return a < b ? -1 : a > b;
}

static zt_status decompose(codes *q, uint32_t c)
{
    if (c >= S && c < S + SS) {
        uint32_t i = c - S;
        ZT_TRY(put(q, L + i / (VS * TS)));
        ZT_TRY(put(q, V + i % (VS * TS) / TS));
        return i % TS ? put(q, T + i % TS) : ZT_OK;
    }
    const uint32_t *d =
        c < 0xC0 ? NULL
                 : bsearch(&c, decompositions, sizeof decompositions / sizeof *decompositions,
                           sizeof *decompositions, by_first);
    if (!d) return put(q, c);
    ZT_TRY(decompose(q, d[1]));
    return d[2] ? decompose(q, d[2]) : ZT_OK;
}

static uint32_t class_of(uint32_t c)
{
    if (c < 0x300) return 0;
    const uint32_t *r =
        bsearch(&c, combining, sizeof combining / sizeof *combining, sizeof *combining, in_range);
    return r ? r[2] : 0;
}

static int by_pair(const void *key, const void *row)
{
    const uint32_t *a = key, *b = row;
    return a[0] != b[0] ? (a[0] < b[0] ? -1 : 1) : a[1] < b[1] ? -1 : a[1] > b[1];
}

/* The composition of two code points, or 0. */
static uint32_t composed(uint32_t a, uint32_t b)
{
    if (a >= L && a < L + 19 && b >= V && b < V + VS) return S + ((a - L) * VS + (b - V)) * TS;
    if (a >= S && a < S + SS && (a - S) % TS == 0 && b > T && b < T + TS) return a + (b - T);
    const uint32_t key[2] = {a, b};
    const uint32_t *r = bsearch(key, compositions, sizeof compositions / sizeof *compositions,
                                sizeof *compositions, by_pair);
    return r ? r[2] : 0;
}

static int by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Marks between two starters in the order of their classes, keeping that of equals. */
static zt_status reorder(codes *q)
{
    uint64_t few[32], *keys; /* class, place, code */
    for (size_t i = 0, end; i < q->n; i = end) {
        bool sorted = true;
        uint32_t last = 0, k;
        for (end = i; end < q->n && (k = class_of(q->c[end])) != 0; end++) {
            sorted = sorted && k >= last;
            last = k;
        }
        const size_t n = end - i;
        end += n == 0;
        if (sorted) continue;
        keys = n > sizeof few / sizeof *few ? zt_malloc(n * sizeof *keys) : few;
        if (!keys) return ZT_NOMEM();
        for (size_t j = 0; j < n; j++)
            keys[j] = (uint64_t)class_of(q->c[i + j]) << 56 | (uint64_t)j << 21 | q->c[i + j];
        qsort(keys, n, sizeof *keys, by_key);
        for (size_t j = 0; j < n; j++)
            q->c[i + j] = (uint32_t)(keys[j] & 0x1FFFFF);
        if (keys != few) zt_free(keys);
    }
    return ZT_OK;
}

static void compose(codes *q)
{
    size_t to = 0, starter = SIZE_MAX;
    uint32_t last = 0; /* class of what stands before, since the starter */
    for (size_t i = 0; i < q->n; i++) {
        uint32_t c = q->c[i], k = class_of(c);
        const bool blocked = starter == SIZE_MAX || (to > starter + 1 && (last >= k || last == 0));
        uint32_t whole = blocked ? 0 : composed(q->c[starter], c);
        if (whole) {
            q->c[starter] = whole;
            continue;
        }
        if (k == 0) starter = to;
        last = k;
        q->c[to++] = c;
    }
    q->n = to;
}

/* Appends the NFC form of a part that nothing before or behind it composes with. */
static zt_status nfc_part(codes *q, const char *s, size_t n, zt_text *out)
{
    size_t length;
    q->n = 0;
    for (size_t i = 0; i < n; i += length)
        ZT_TRY(decompose(q, zt_utf8_next(s + i, n - i, &length, NULL)));
    ZT_TRY(reorder(q));
    compose(q);
    for (size_t i = 0; i < q->n; i++)
        ZT_TRY(zt_text_add_code(out, q->c[i]));
    return ZT_OK;
}

/* Characters below U+0300 are in NFC, and only the last before a higher one can compose: that one and the
 * higher ones behind it are a part; all else is copied. */
zt_status zt_nfc(const char *s, size_t n, zt_text *out)
{
    codes q = {0};
    size_t copied = 0, low = 0; /* where the last low character begins */
    zt_status status = ZT_OK;
    for (size_t i = 0; i < n && status == ZT_OK;) {
        const unsigned char lead = (unsigned char)s[i];
        if (lead < 0xCC) {
            low = lead < 0x80 || lead >= 0xC0 ? i : low;
            i++;
            continue;
        }
        while (i < n && ((unsigned char)s[i] >= 0xCC || ((unsigned char)s[i] & 0xC0) == 0x80))
            i++;
        if (low < copied) low = copied;
        status = zt_text_add(out, s + copied, low - copied);
        if (status == ZT_OK) status = nfc_part(&q, s + low, i - low, out);
        copied = low = i;
    }
    if (status == ZT_OK && copied < n) status = zt_text_add(out, s + copied, n - copied);
    zt_free(q.c);
    return status;
}
