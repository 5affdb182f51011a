/* test_sum.c - sums of pieces against base.h's conversions one by one: every half, and floats around every edge. */
#include "comm/sum.h"
#include "harness.h"

enum { HALVES = 1 << 16 };
static const zt_dtype halves[] = {ZT_BF16, ZT_F16};

/* All values of a 16-bit type, widened by the sum of one rank; NaN stays NaN. */
static void every_half(void **state)
{
    (void)state;
    static uint16_t h[HALVES];
    static float got[HALVES];
    for (int i = 0; i < HALVES; i++)
        h[i] = (uint16_t)i;
    for (int k = 0; k < 2; k++) {
        zt_sum_pieces(&(zt_sum){.own = (char *)h,
                                .ranks = 1,
                                .count = HALVES,
                                .type = halves[k],
                                .to_type = ZT_F32,
                                .to = (char *)got});
        for (int i = 0; i < HALVES; i++) {
            const float want = zt_load_f32(h, halves[k], i);
            if (isnan(want))
                assert_true(isnan(got[i]));
            else
                SAME_BITS(&got[i], &want, sizeof want);
        }
    }
}

/* Floats whose upper bits take every value and whose lower bits lie around the rounding edges, NaN too. */
static void every_edge(void **state)
{
    (void)state;
    static const uint32_t low[] = {0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff};
    static float x[HALVES];
    static uint16_t got[HALVES];
    for (int k = 0; k < 2; k++)
        for (size_t l = 0; l < sizeof low / sizeof *low; l++) {
            for (uint32_t i = 0; i < HALVES; i++) {
                const uint32_t u = i << 16 | low[l];
                memcpy(&x[i], &u, 4);
            }
            zt_sum_pieces(&(zt_sum){.own = (char *)x,
                                    .ranks = 1,
                                    .count = HALVES,
                                    .type = ZT_F32,
                                    .to_type = halves[k],
                                    .to = (char *)got});
            for (int i = 0; i < HALVES; i++) {
                uint16_t want;
                zt_store_f32(&want, halves[k], 0, x[i]);
                assert_int_equal(got[i], want);
            }
        }
}

/* Pieces that do not stand side by side, unaligned, added to; nothing beyond the end is touched. */
static void strided(void **state)
{
    (void)state;
    enum { COUNT = 2051, STRIDE = 3000, RANKS = 4 };
    static uint16_t own[COUNT + 1], others[(RANKS - 1) * STRIDE];
    static float got[COUNT + 2];
    for (int rank = 0; rank < RANKS; rank++) {
        const zt_rng g = zt_rng_make(1, ZT_RNG_TEST, (uint32_t)rank, 0);
        for (int i = 0; i < (RANKS - 1) * STRIDE; i++)
            others[i] = zt_f32_to_f16(zt_rng_normal(&g, (uint64_t)i));
        for (int i = 0; i <= COUNT; i++) {
            own[i] = zt_f32_to_f16(zt_rng_normal(&g, (uint64_t)(i + (1 << 20))));
            got[i] = (float)i * 0.1f;
        }
        got[COUNT + 1] = 77;
        zt_sum_pieces(&(zt_sum){.own = (char *)(own + 1),
                                .others = (char *)others,
                                .stride = STRIDE,
                                .ranks = RANKS,
                                .rank = rank,
                                .count = COUNT,
                                .type = ZT_F16,
                                .to_type = ZT_F32,
                                .add = true,
                                .to = (char *)(got + 1)});
        for (int i = 0; i < COUNT; i++) {
            float sum = 0;
            for (int r = 0; r < RANKS; r++) {
                const uint16_t h =
                    r == rank ? own[i + 1] : others[(r < rank ? r : r - 1) * STRIDE + i];
                sum = r ? sum + zt_f16_to_f32(h) : zt_f16_to_f32(h);
            }
            const float want = (float)(i + 1) * 0.1f + sum;
            SAME_BITS(&got[i + 1], &want, sizeof want);
        }
        assert_true(got[0] == 0 && got[COUNT + 1] == 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half),
        cmocka_unit_test(every_edge),
        cmocka_unit_test(strided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
