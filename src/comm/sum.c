/* sum.c - adding pieces in tiles that stay in the nearest cache. */
#include "comm/sum.h"

enum { TILE = 2048 };
#define INLINE static inline __attribute__((always_inline))

/* The conversions of base.h without a branch, so that they run in vectors. */
INLINE uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

INLINE float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

INLINE float from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = h & 0x7fffu, wide = a << 13;
    const uint32_t small = bits_of((float)(int32_t)a * 0x1p-24f); /* zero and subnormal */
    const uint32_t u = a < 0x400u ? small : wide + (a < 0x7c00u ? 112u << 23 : 224u << 23);
    return float_of(sign | u);
}

INLINE uint16_t to_f16(float f)
{
    const uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    const uint32_t small = bits_of(float_of(a) + 0.5f) - 0x3f000000u; /* the FPU rounds at 2^-24 */
    const uint32_t wide = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    uint32_t h = a < 0x38800000u ? small : wide;
    h = a >= 0x477ff000u ? 0x7c00u : h; /* 65520 and above round to infinity */
    h = a > 0x7f800000u ? 0x7e00u : h;
    return (uint16_t)(sign | h);
}

INLINE uint16_t to_bf16(float f)
{
    const uint32_t u = bits_of(f), nan = (u & 0x7fffffffu) > 0x7f800000u;
    return (uint16_t)(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* sum = or += n elements from `at`. */
INLINE void take(bool first, const char *from, zt_dtype t, int64_t at, int64_t n, float *sum)
{
    const float *x = (const float *)(const void *)from + at;
    const uint16_t *h = (const uint16_t *)(const void *)from + at;
#define EACH(x_i)                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                \
        sum[i] = first ? (x_i) : sum[i] + (x_i);
    if (t == ZT_F32) {
        EACH(x[i])
    } else if (t == ZT_BF16) {
        EACH(zt_bf16_to_f32(h[i]))
    } else if (t == ZT_F16) {
        EACH(from_f16(h[i]))
    } else {
        EACH(zt_load_f32(from, t, at + i))
    }
#undef EACH
}

INLINE void give(const float *x, zt_dtype t, int64_t at, int64_t n, char *to)
{
    uint16_t *h = (uint16_t *)(void *)to + at;
    if (t == ZT_F32) {
        memcpy((float *)(void *)to + at, x, (size_t)n * sizeof *x);
    } else if (t == ZT_BF16) {
        for (int64_t i = 0; i < n; i++)
            h[i] = to_bf16(x[i]);
    } else if (t == ZT_F16) {
        for (int64_t i = 0; i < n; i++)
            h[i] = to_f16(x[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            zt_store_f32(to, t, at + i, x[i]);
    }
}

INLINE void sum_body(const zt_sum *s)
{
    if (s->ranks < 1) return;
    const size_t stride = (size_t)s->stride * zt_dtype_bytes(s->type);
    float sum[TILE];
    for (int64_t at = 0; at < s->count; at += TILE) {
        const int64_t n = s->count - at < TILE ? s->count - at : TILE;
        for (int r = 0; r < s->ranks; r++) {
            const char *from =
                r == s->rank ? s->own : s->others + (size_t)(r < s->rank ? r : r - 1) * stride;
            take(r == 0, from, s->type, at, n, sum);
        }
        if (s->add) take(false, s->to, s->to_type, at, n, sum);
        give(sum, s->to_type, at, n, s->to);
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
