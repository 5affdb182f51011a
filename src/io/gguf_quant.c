/* gguf_quant.c - the block formats of GGUF files, each as a function from one block to numbers.
 *
 * "Simple" blocks hold 32 values of b bits with a scale d (x = d (q - 2^(b-1))) or a scale and a
 * least value m (x = d q + m). "K" blocks hold 256 values in groups that have scales of their own. */
#include "io/gguf.h"

static float half(const uint8_t *p)
{
    return zt_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

static void decode_f32(const uint8_t *p, float *out)
{
    memcpy(out, p, 4);
}

static void decode_f16(const uint8_t *p, float *out)
{
    *out = half(p);
}

static void decode_bf16(const uint8_t *p, float *out)
{
    *out = zt_bf16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* 32 values: low nibbles are the first 16, high nibbles the last; bit j of `high` is the fifth bit
 * of value j. */
static void nibbles(const uint8_t *q, uint32_t high, int minus, float d, float m, float *out)
{
    for (int j = 0; j < 16; j++) {
        int low = (q[j] & 15) | (int)(high >> j & 1) << 4;
        int up = q[j] >> 4 | (int)(high >> (j + 16) & 1) << 4;
        out[j] = (float)(low - minus) * d + m;
        out[j + 16] = (float)(up - minus) * d + m;
    }
}

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void decode_q4_0(const uint8_t *p, float *out)
{
    nibbles(p + 2, 0, 8, half(p), 0, out);
}

static void decode_q4_1(const uint8_t *p, float *out)
{
    nibbles(p + 4, 0, 0, half(p), half(p + 2), out);
}

static void decode_q5_0(const uint8_t *p, float *out)
{
    nibbles(p + 6, word(p + 2), 16, half(p), 0, out);
}

static void decode_q5_1(const uint8_t *p, float *out)
{
    nibbles(p + 8, word(p + 4), 0, half(p), half(p + 2), out);
}

static void decode_q8_0(const uint8_t *p, float *out)
{
    for (int j = 0; j < 32; j++)
        out[j] = half(p) * (float)(int8_t)p[2 + j];
}

/* Scale and least value of group j (0..7), 6 bits each: twelve bytes hold the low 4 or 6 bits of
 * two things and the high 2 bits of a third. */
static void scale_and_min(const uint8_t *s, int j, int *scale, int *min)
{
    *scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
    *min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
}

/* 8 groups of 32; a pair of groups shares 32 bytes, low nibbles first. `high`: bit j of byte l is the
 * fifth bit of value l of group j, or NULL. */
static void k_groups(const uint8_t *p, const uint8_t *high, const uint8_t *q, float *out)
{
    const float d = half(p), dmin = half(p + 2);
    for (int j = 0; j < 8; j++) {
        int scale, min;
        scale_and_min(p + 4, j, &scale, &min);
        const float a = d * (float)scale, b = dmin * (float)min;
        for (int l = 0; l < 32; l++) {
            int v = q[32 * (j / 2) + l] >> 4 * (j % 2) & 15;
            if (high) v |= (high[l] >> j & 1) << 4;
            out[32 * j + l] = a * (float)v - b;
        }
    }
}

static void decode_q4_k(const uint8_t *p, float *out)
{
    k_groups(p, NULL, p + 16, out);
}

static void decode_q5_k(const uint8_t *p, float *out)
{
    k_groups(p, p + 16, p + 48, out);
}

/* 16 groups of 16 with signed 8-bit scales. Each half (128 values) has 64 bytes of low nibbles and
 * 32 bytes of high bit pairs: value 32 k + l takes nibble k / 2 of low[32 (k % 2) + l] and pair k
 * of high[l]. */
static void decode_q6_k(const uint8_t *p, float *out)
{
    const float d = half(p + 208);
    for (int i = 0; i < 256; i++) {
        const int h = i / 128, k = i % 128 / 32, l = i % 32;
        const int low = p[64 * h + 32 * (k % 2) + l] >> 4 * (k / 2) & 15;
        const int high = p[128 + 32 * h + l] >> 2 * k & 3;
        out[i] = d * (float)(int8_t)p[192 + i / 16] * (float)((low | high << 4) - 32);
    }
}

static const zt_gguf_format formats[] = {
    {0, "F32", 1, 4, decode_f32},        {1, "F16", 1, 2, decode_f16},
    {2, "Q4_0", 32, 18, decode_q4_0},    {3, "Q4_1", 32, 20, decode_q4_1},
    {6, "Q5_0", 32, 22, decode_q5_0},    {7, "Q5_1", 32, 24, decode_q5_1},
    {8, "Q8_0", 32, 34, decode_q8_0},    {12, "Q4_K", 256, 144, decode_q4_k},
    {13, "Q5_K", 256, 176, decode_q5_k}, {14, "Q6_K", 256, 210, decode_q6_k},
    {30, "BF16", 1, 2, decode_bf16},
};

const zt_gguf_format *zt_gguf_format_find(uint32_t id)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].id == id) return &formats[i];
    return NULL;
}

const char *zt_gguf_format_name(uint32_t id)
{
    static const char *const others[] = {
        [9] = "Q8_1",    [10] = "Q2_K",    [11] = "Q3_K",  [15] = "Q8_K",   [16] = "IQ2_XXS",
        [17] = "IQ2_XS", [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S",
        [22] = "IQ2_S",  [23] = "IQ4_XS",  [24] = "I8",    [25] = "I16",    [26] = "I32",
        [27] = "I64",    [28] = "F64",     [29] = "IQ1_M", [34] = "TQ1_0",  [35] = "TQ2_0",
        [39] = "MXFP4",
    };
    const zt_gguf_format *f = zt_gguf_format_find(id);
    const char *name = f ? f->name : id < sizeof others / sizeof *others ? others[id] : NULL;
    return name ? name : "an unknown format";
}
