/* sum.c - adding pieces in tiles that stay in the nearest cache. */
#include "comm/sum.h"

enum { TILE = 2048 };
#define INLINE static inline __attribute__((always_inline))

INLINE void widen(const char *from, zt_dtype t, int64_t at, int64_t n, float *x)
{
    if (t == ZT_F32) {
        memcpy(x, (const float *)(const void *)from + at, (size_t)n * sizeof *x);
    } else if (t == ZT_BF16) {
        const uint16_t *h = (const uint16_t *)(const void *)from + at;
        for (int64_t i = 0; i < n; i++)
            x[i] = zt_bf16_to_f32(h[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            x[i] = zt_load_f32(from, t, at + i);
    }
}

INLINE void narrow(const float *x, zt_dtype t, int64_t at, int64_t n, char *to)
{
    if (t == ZT_F32) {
        memcpy((float *)(void *)to + at, x, (size_t)n * sizeof *x);
    } else if (t == ZT_BF16) {
        uint16_t *h = (uint16_t *)(void *)to + at;
        for (int64_t i = 0; i < n; i++) { /* without a branch, so that it runs in vectors */
            uint32_t u, nan;
            memcpy(&u, &x[i], 4);
            nan = (u & 0x7fffffffu) > 0x7f800000u;
            h[i] = (uint16_t)(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            zt_store_f32(to, t, at + i, x[i]);
    }
}

INLINE void sum_body(const zt_sum *s)
{
    if (s->ranks < 1) return;
    const size_t piece = (size_t)s->count * zt_dtype_bytes(s->type);
    float sum[TILE], x[TILE];
    for (int64_t at = 0; at < s->count; at += TILE) {
        const int64_t n = s->count - at < TILE ? s->count - at : TILE;
        for (int r = 0; r < s->ranks; r++) {
            const char *from =
                r == s->rank ? s->own : s->others + (size_t)(r < s->rank ? r : r - 1) * piece;
            widen(from, s->type, at, n, r ? x : sum);
            for (int64_t i = 0; r && i < n; i++)
                sum[i] += x[i];
        }
        if (s->add) {
            widen(s->to, s->to_type, at, n, x);
            for (int64_t i = 0; i < n; i++)
                sum[i] = x[i] + sum[i];
        }
        narrow(sum, s->to_type, at, n, s->to);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void sum_avx2(const zt_sum *s)
{
    sum_body(s);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))) static void
sum_avx512(const zt_sum *s)
{
    sum_body(s);
}
#endif

void zt_sum_pieces(const zt_sum *s)
{
#if defined(__x86_64__)
    if (zt_cpu_features()->avx512)
        sum_avx512(s);
    else if (zt_cpu_features()->avx2)
        sum_avx2(s);
    else
#endif
        sum_body(s);
}
