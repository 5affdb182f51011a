/* vec.h - sixteen floats at a time, in the compiler's vector types: the same source becomes one AVX-512
 * register, two of AVX2 or four of SSE. Loads and stores convert from and to the storage types, and take
 * the number of elements that are left, so that no loop needs a tail of its own. */
#ifndef ZT_VEC_H
#define ZT_VEC_H
#include "kernels/cpu/cpu.h"

#include <math.h>
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef uint32_t u16 __attribute__((vector_size(64)));
typedef uint16_t h16 __attribute__((vector_size(32)));
typedef double d8 __attribute__((vector_size(64)));

#define INLINE   static inline __attribute__((always_inline))
#define OPTIONAL __attribute__((unused))

INLINE OPTIONAL v16 splat(float x)
{
    return x - (v16){0};
}

INLINE OPTIONAL v16 pick(i16 mask, v16 a, v16 b) /* mask ? a : b */
{
    return (v16)(((i16)a & mask) | ((i16)b & ~mask));
}

INLINE v16 from_f16(h16 h)
{
#if defined(__AVX512F__)
    return (v16)_mm512_cvtph_ps((__m256i)h);
#elif defined(__F16C__)
    union {
        h16 h;
        __m128i half[2];
    } u = {.h = h};
    union {
        __m256 half[2];
        v16 v;
    } r = {.half = {_mm256_cvtph_ps(u.half[0]), _mm256_cvtph_ps(u.half[1])}};
    return r.v;
#else
    v16 r = {0};
    for (int i = 0; i < 16; i++)
        r[i] = zt_f16_to_f32(h[i]);
    return r;
#endif
}

INLINE h16 to_f16(v16 x)
{
#if defined(__AVX512F__)
    return (h16)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    h16 r = {0};
    for (int i = 0; i < 16; i++)
        r[i] = zt_f32_to_f16(x[i]);
    return r;
#endif
}

INLINE v16 from_bf16(h16 h)
{
    return (v16)(__builtin_convertvector(h, u16) << 16);
}

INLINE h16 to_bf16(v16 x)
{
    u16 u = (u16)x, magnitude = u & 0x7fffffffu;
    u16 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    u16 nan = (u16)(magnitude > 0x7f800000u);
    return __builtin_convertvector((rounded & ~nan) | (((u >> 16) | 0x40u) & nan), h16);
}

/* Elements i.. of p; `left` of them are there, the others come as 0. */
INLINE v16 load(const void *p, zt_dtype t, int64_t i, int64_t left)
{
    if (t == ZT_F32) {
        v16 x = {0};
        if (left >= 16)
            memcpy(&x, (const float *)p + i, 64);
        else
            memcpy(&x, (const float *)p + i, (size_t)left * 4);
        return x;
    }
    h16 h = {0};
    if (left >= 16)
        memcpy(&h, (const uint16_t *)p + i, 32);
    else
        memcpy(&h, (const uint16_t *)p + i, (size_t)left * 2);
    return t == ZT_BF16 ? from_bf16(h) : from_f16(h);
}

INLINE void store(void *p, zt_dtype t, int64_t i, int64_t left, v16 x)
{
    if (t == ZT_F32) {
        if (left >= 16)
            memcpy((float *)p + i, &x, 64);
        else
            memcpy((float *)p + i, &x, (size_t)left * 4);
        return;
    }
    h16 h = t == ZT_BF16 ? to_bf16(x) : to_f16(x);
    if (left >= 16)
        memcpy((uint16_t *)p + i, &h, 32);
    else
        memcpy((uint16_t *)p + i, &h, (size_t)left * 2);
}

INLINE OPTIONAL float sum16(v16 x)
{
    float s[16];
    memcpy(s, &x, 64);
    for (int w = 8; w; w /= 2)
        for (int i = 0; i < w; i++)
            s[i] += s[i + w];
    return s[0];
}

INLINE OPTIONAL v16 max16(v16 a, v16 b)
{
    return pick(a > b, a, b);
}

INLINE OPTIONAL float top16(v16 x)
{
    float m = x[0];
    for (int i = 1; i < 16; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

/* a * b + c, rounded once on every CPU */
INLINE OPTIONAL v16 fma16(v16 a, v16 b, v16 c)
{
#if defined(__AVX512F__)
    return (v16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    union {
        v16 v;
        __m256 half[2];
    } x = {a}, y = {b}, z = {c};
    for (int i = 0; i < 2; i++)
        z.half[i] = _mm256_fmadd_ps(x.half[i], y.half[i], z.half[i]);
    return z.v;
#else
    for (int i = 0; i < 16; i++)
        c[i] = fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

/* The same where the CPU can do it at once, otherwise rounded twice: where bits need not agree. */
INLINE OPTIONAL v16 mad16(v16 a, v16 b, v16 c)
{
#if defined(__FMA__) || defined(__AVX512F__)
    return fma16(a, b, c);
#else
    return a * b + c;
#endif
}

/* exp(x) to about 1 ulp: 2^n e^r, |r| <= ln2/2, a polynomial of degree 6 for e^r. 0 below -87, infinity above 88.7. */
INLINE OPTIONAL v16 exp16(v16 x)
{
    i16 under = x<splat(-87.33f), over = x> splat(88.72f);
    x = pick(under | over, splat(0), x);
    v16 shifted = mad16(x, splat(1.44269504088896341f), splat(12582912.0f));
    v16 n = shifted - splat(12582912.0f);
    v16 r = mad16(n, splat(-0.693359375f), x);
    r = mad16(n, splat(2.12194440e-4f), r);
    v16 p = splat(1.9875691500e-4f);
    p = mad16(p, r, splat(1.3981999507e-3f));
    p = mad16(p, r, splat(8.3334519073e-3f));
    p = mad16(p, r, splat(4.1665795894e-2f));
    p = mad16(p, r, splat(1.6666665459e-1f));
    p = mad16(p, r, splat(5.0000001201e-1f));
    p = mad16(p, r * r, r + splat(1.0f));
    i16 whole = (i16)shifted - 0x4b400000; /* n in two halves: 2^128 is no float */
    i16 half = whole >> 1;
    v16 a = (v16)((half + 127) << 23), b = (v16)((whole - half + 127) << 23);
    return pick(over, splat(INFINITY), (v16)((i16)(p * a * b) & ~under));
}

INLINE OPTIONAL v16 sigmoid16(v16 x)
{
    return splat(1.0f) / (splat(1.0f) + exp16(-x));
}

/* Compiles a body once for each storage type. */
#define BY_TYPE(t, call)                                                                           \
    do {                                                                                           \
        if ((t) == ZT_F32) {                                                                       \
            enum { T = ZT_F32 };                                                                   \
            call;                                                                                  \
        } else if ((t) == ZT_BF16) {                                                               \
            enum { T = ZT_BF16 };                                                                  \
            call;                                                                                  \
        } else {                                                                                   \
            enum { T = ZT_F16 };                                                                   \
            call;                                                                                  \
        }                                                                                          \
    } while (0)
#endif
