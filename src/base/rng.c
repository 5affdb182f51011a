/* rng.c - Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3,
 * SC 2011): a block of four words is a pure function of key and counter. */
#include "base/base.h"

#include <math.h>

zt_rng zt_rng_make(uint64_t seed, zt_rng_purpose purpose, uint32_t sub, uint32_t step)
{
    /* the purpose is folded into the key's high word: seeds are small numbers in practice */
    return (zt_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ (uint32_t)purpose << 24},
                    .hi = step,
                    .sub = sub};
}

void zt_rng_block(const zt_rng *r, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = r->hi, c3 = r->sub;
    uint32_t k0 = r->key[0], k1 = r->key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

uint32_t zt_rng_u32(const zt_rng *r, uint64_t i)
{
    uint32_t w[4];
    zt_rng_block(r, i / 4, w);
    return w[i % 4];
}

float zt_rng_uniform(const zt_rng *r, uint64_t i)
{
    return (float)(zt_rng_u32(r, i) >> 8) * 0x1p-24f;
}

/* Box-Muller on a pair of words; the first is moved into (0, 1]. */
static float normal(uint32_t a, uint32_t b)
{
    float u = ((float)(a >> 8) + 1.0f) * 0x1p-24f, v = (float)(int32_t)(b >> 8) * 0x1p-24f;
    return sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
}

float zt_rng_normal(const zt_rng *r, uint64_t i)
{
    uint32_t w[4];
    zt_rng_block(r, i / 2, w);
    return normal(w[2 * (i % 2)], w[2 * (i % 2) + 1]);
}

void zt_rng_normals(const zt_rng *r, uint64_t first, int64_t n, float *out)
{
    uint32_t w[4];
    for (int64_t k = 0; k < n; k++) {
        const uint64_t i = first + (uint64_t)k;
        if (k == 0 || i % 2 == 0) zt_rng_block(r, i / 2, w);
        out[k] = normal(w[2 * (i % 2)], w[2 * (i % 2) + 1]);
    }
}
