/* test_base.c - number formats against the definition, Philox against its published vectors. */
#include "harness.h"

static void bf16_rounds_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = zt_bf16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(zt_bf16_to_f32(zt_f32_to_bf16(f))));
        else
            assert_int_equal(zt_f32_to_bf16(f), h);
    }
    assert_int_equal(zt_f32_to_bf16(1.00390625f), 0x3f80);                /* a tie: to even */
    assert_int_equal(zt_f32_to_bf16(1.01171875f), 0x3f82);                /* a tie: up to even */
    assert_int_equal(zt_f32_to_bf16(nextafterf(1.00390625f, 2)), 0x3f81); /* above the tie */
    assert_int_equal(zt_f32_to_bf16(3.4e38f), 0x7f80);                    /* rounds to infinity */
}

static void fp16_every_value(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = zt_f16_to_f32((uint16_t)h);
        int e = (int)(h >> 10 & 31);
        double m = h & 1023, want = e ? ldexp(1 + m / 1024, e - 15) : ldexp(m, -24);
        if (e == 31) {
            assert_true(m > 0 ? isnan(f) : isinf(f));
            if (m > 0) continue;
        } else {
            assert_true((double)f == (h & 0x8000 ? -want : want));
        }
        assert_int_equal(zt_f32_to_f16(f), h);
        if (e == 31 || h == 0x7bff || h == 0xfbff)
            continue; /* the middle to the next value away from zero goes to the even one */
        float next = zt_f16_to_f32((uint16_t)(h + 1)), mid = 0.5f * (f + next);
        assert_int_equal(zt_f32_to_f16(mid), h % 2 ? h + 1 : h);
        assert_int_equal(zt_f32_to_f16(nextafterf(mid, next)), h + 1);
        assert_int_equal(zt_f32_to_f16(nextafterf(mid, f)), h);
    }
    assert_int_equal(zt_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(zt_f32_to_f16(65520.f), 0x7c00);
}

static void philox_published_vectors(void **state)
{
    (void)state;
    uint32_t out[4]; /* from the authors' known-answer file: counter and key all ones, and of pi */
    zt_rng ones = {{~0u, ~0u}, ~0u, ~0u};
    zt_rng_block(&ones, ~0ull, out);
    const uint32_t want_ones[] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(out, want_ones, 16);
    zt_rng pi = {{0xa4093822, 0x299f31d0}, 0x13198a2e, 0x03707344};
    zt_rng_block(&pi, 0x85a308d3243f6a88ull, out);
    const uint32_t want_pi[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(out, want_pi, 16);
}

static void random_moments(void **state)
{
    (void)state;
    zt_rng r = zt_rng_make(7, ZT_RNG_TEST, 0, 0), other = zt_rng_make(7, ZT_RNG_INIT, 0, 0);
    double u1 = 0, n1 = 0, n2 = 0, n4 = 0, same = 0;
    const int n = 200000;
    for (int i = 0; i < n; i++) {
        double u = (double)zt_rng_uniform(&r, (uint64_t)i),
               z = (double)zt_rng_normal(&r, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        u1 += u, n1 += z, n2 += z * z, n4 += z * z * z * z;
        same += zt_rng_u32(&r, (uint64_t)i) == zt_rng_u32(&other, (uint64_t)i);
    }
    assert_true(fabs(u1 / n - 0.5) < 4 / sqrt(12.0 * n));
    assert_true(fabs(n1 / n) < 4 / sqrt(n) && fabs(n2 / n - 1) < 4 * sqrt(2.0 / n));
    assert_true(fabs(n4 / n - 3) < 4 * sqrt(96.0 / n));
    assert_true(same < 5);
}

static void add_part(void *arg, int part, int n)
{
    int64_t from, to;
    zt_split(1001, 16, part, n, &from, &to);
    for (int64_t i = from; i < to; i++)
        ((int *)arg)[i]++;
}

static void parallel_covers_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        int hits[1001] = {0};
        zt_parallel(threads, add_part, hits);
        for (int i = 0; i < 1001; i++)
            assert_int_equal(hits[i], 1);
    }
}

static void errors_keep_message_and_frames(void **state)
{
    (void)state;
    assert_int_equal(ZT_FAIL(ZT_ERR_IO, "no %s", "file"), ZT_ERR_IO);
    assert_string_equal(zt_error_message(), "no file");
    assert_int_equal(ZT_FAIL(ZT_ERR_IO, "again: %s", zt_error_message()), ZT_ERR_IO);
    assert_string_equal(zt_error_message(), "again: no file");
    assert_non_null(strstr(zt_error_trace(), __func__));
    (void)ZT_FAIL(ZT_ERR_IO, "tensor %s",
                  "a\nerror: b\x1b[31m\x7f \xC3\xA9"); /* names are not trusted */
    (void)ZT_FAIL(ZT_ERR_IO, "%s", zt_error_message());
    assert_string_equal(zt_error_message(), "tensor a\\x0aerror: b\\x1b[31m\\x7f \xC3\xA9");
    char many[3000];
    memset(many, '\n', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    (void)ZT_FAIL(ZT_ERR_IO, "%s", many);
    assert_true(strlen(zt_error_message()) > 2000 && !strchr(zt_error_message(), '\n'));
    zt_error_clear();
    assert_string_equal(zt_error_message(), "");
}

static void faults_hit_the_nth(void **state)
{
    (void)state;
    zt_fault_alloc(2);
    void *a = zt_malloc(1), *b = zt_malloc(1), *c = zt_malloc(1);
    assert_true(a && !b && c);
    zt_free(a);
    zt_free(c);
    zt_fault_alloc(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_rounds_to_even),
        cmocka_unit_test(fp16_every_value),
        cmocka_unit_test(philox_published_vectors),
        cmocka_unit_test(random_moments),
        cmocka_unit_test(parallel_covers_once),
        cmocka_unit_test(errors_keep_message_and_frames),
        cmocka_unit_test(faults_hit_the_nth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
