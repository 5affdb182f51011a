/* test_elementwise.c - elementwise ops, optimizers and sums of every table, in every type, at awkward sizes, against
 * double precision. */
#include "suite.h"

static const int64_t sizes[] = {1, 7, 16, 17, 63, 1000, 40001};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static double gelu(double x, bool tanh_form)
{
    return tanh_form ? 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
                     : 0.5 * x * (1 + erf(x * 0.7071067811865476));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* central difference of a function of one number */
#define SLOPE(f, x) ((f((x) + 1e-5) - f((x)-1e-5)) / 2e-5)

static void activations(void **state)
{
    (void)state;
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int s = 0; s < N_SIZES; s++)
            for (int t = 0; t < 3; t++) {
                const int64_t n = sizes[s];
                const zt_dtype T = types[t];
                const double e = eps_of[T];
                buffer x = randoms(n, T, 1), u = randoms(n, T, 2), dy = randoms(n, T, 3);
                buffer y = make(n, T), dx = make(n, T), du = make(n, T);
                for (int form = 0; form < 2; form++) {
                    dev.k->gelu(&dev, n, form, T, x.data, y.data);
                    dev.k->gelu_bwd(&dev, n, form, T, x.data, dy.data, dx.data);
#define G(v) gelu(v, form)
                    for (int64_t i = 0; i < n; i++) {
                        CLOSE("gelu", get(&y, i), G(get(&x, i)), e, 1e-1);
                        CLOSE("gelu_bwd", get(&dx, i), get(&dy, i) * SLOPE(G, get(&x, i)), e, 1);
                    }
                }
                dev.k->silu_mul(&dev, n, T, x.data, u.data, y.data);
                dev.k->silu_mul_bwd(&dev, n, T, x.data, u.data, dy.data, dx.data, du.data);
                for (int64_t i = 0; i < n; i++) {
                    const double g = get(&x, i), up = get(&u, i), d = get(&dy, i);
                    CLOSE("silu_mul", get(&y, i), silu(g) * up, e, 1e-1);
                    CLOSE("silu_mul dgate", get(&dx, i), d * up * SLOPE(silu, g), e, 1);
                    CLOSE("silu_mul dup", get(&du, i), d * silu(g), e, 1e-1);
                }
                dev.k->add(&dev, n, T, x.data, u.data, y.data);
                for (int64_t i = 0; i < n; i++)
                    CLOSE("add", get(&y, i), get(&x, i) + get(&u, i), e, 1e-6);
                /* in place, as the program uses them */
                dev.k->gelu(&dev, n, true, T, x.data, y.data);
                dev.k->gelu_bwd(&dev, n, true, T, x.data, dy.data, dx.data);
                dev.k->gelu_bwd(&dev, n, true, T, x.data, dy.data, dy.data);
                SAME_BITS(dx.data, dy.data, (size_t)n * zt_dtype_bytes(T));
                DROP(x);
                DROP(u);
                DROP(dy);
                DROP(y);
                DROP(dx);
                DROP(du);
            }
        zt_dev_destroy(&dev);
    }
}

/* Far from zero nothing overflows or becomes NaN. */
static void extremes(void **state)
{
    (void)state;
    zt_dev dev;
    const float far[] = {-1e30f, -1000, -88, -20, 20, 88, 1000, 1e30f};
    for (int table = 0; next_table(&table, 1, &dev);) {
        float y[8], dx[8], du[8], one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        dev.k->silu_mul(&dev, 8, ZT_F32, far, one, y);
        dev.k->silu_mul_bwd(&dev, 8, ZT_F32, far, one, one, dx, du);
        for (int i = 0; i < 8; i++) {
            CLOSE("silu", (double)y[i], silu((double)far[i]), 1e-6, 1e-6);
            const double sig = 1 / (1 + exp(-(double)far[i]));
            CLOSE("silu slope", (double)dx[i], sig * (1 + (double)far[i] * (1 - sig)), 1e-6, 1e-6);
        }
        const float medium[] = {-1e4f, -100, -10, 10, 100, 1e4f};
        dev.k->gelu(&dev, 6, true, ZT_F32, medium, y);
        for (int i = 0; i < 6; i++)
            CLOSE("gelu", (double)y[i], medium[i] > 0 ? (double)medium[i] : 0, 1e-6, 1e-6);
        zt_dev_destroy(&dev);
    }
}

static void casts(void **state)
{
    (void)state;
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
                buffer x = randoms(20011, types[a], 4), y = make(20011, types[b]),
                       want = make(20011, types[b]);
                zt_store_f32(x.data, types[a], 3, INFINITY);
                zt_store_f32(x.data, types[a], 5, NAN);
                zt_store_f32(x.data, types[a], 7, 1e-7f);
                dev.k->cast(&dev, x.n, x.data, types[a], y.data, types[b]);
                for (int64_t i = 0; i < x.n; i++)
                    zt_store_f32(want.data, types[b], i, zt_load_f32(x.data, types[a], i));
                for (int64_t i = 0; i < x.n; i++)
                    if (i != 5 && get(&y, i) != get(&want, i))
                        fail_msg("%s to %s: element %d", zt_dtype_name(types[a]),
                                 zt_dtype_name(types[b]), (int)i);
                assert_true(isnan(get(&y, 5)));
                DROP(x);
                DROP(y);
                DROP(want);
            }
        zt_dev_destroy(&dev);
    }
}

static void dropout(void **state)
{
    (void)state;
    zt_dev dev;
    float *first = NULL;
    for (int table = 0; next_table(&table, 2, &dev);) {
        const int64_t n = 40003;
        buffer x = make(n, ZT_F32), y = make(n, ZT_F32);
        float *part = malloc((size_t)n * sizeof *part);
        for (int64_t i = 0; i < n; i++)
            zt_store_f32(x.data, ZT_F32, i, 1);
        zt_rng r = zt_rng_make(9, ZT_RNG_DROPOUT, 4, 2);
        dev.k->dropout(&dev, n, ZT_F32, x.data, y.data, 0.25f, &r, 1001);
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            assert_true(get(&y, i) == 0 || fabs(get(&y, i) - 1 / 0.75) < 1e-6);
            sum += get(&y, i);
        }
        assert_true(fabs(sum / (double)n - 1) < 0.02);
        /* keyed by the element: the same in pieces, and on every CPU */
        for (int64_t at = 0; at < n; at += 777)
            dev.k->dropout(&dev, n - at < 777 ? n - at : 777, ZT_F32, x.data, part + at, 0.25f, &r,
                           1001 + at);
        SAME_BITS(part, y.data, (size_t)n * sizeof *part);
        if (first) SAME_BITS(first, part, (size_t)n * sizeof *part);
        free(first);
        first = part;
        DROP(x);
        DROP(y);
        zt_dev_destroy(&dev);
    }
    free(first);
}

static void rope(void **state)
{
    (void)state;
    zt_dev dev;
    static const int dims[] = {2, 6, 32, 64, 80};
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int d = 0; d < 5; d++)
            for (int t = 0; t < 3; t++) {
                const int64_t D = dims[d], heads = 3, N = 11, C = heads * D;
                float cosines[20 * 40], sines[20 * 40];
                int32_t pos[11];
                for (int64_t p = 0; p < 20; p++)
                    for (int64_t i = 0; i < D / 2; i++) {
                        cosines[p * D / 2 + i] = (float)cos((double)p / (double)(i + 1));
                        sines[p * D / 2 + i] = (float)sin((double)p / (double)(i + 1));
                    }
                for (int i = 0; i < N; i++)
                    pos[i] = (7 * i) % 20;
                buffer x = randoms(N * C, types[t], 5), y = make(N * C, types[t]),
                       back = make(N * C, types[t]);
                zt_rope r = {N, heads, D, C, types[t], cosines, sines, pos};
                dev.k->rope(&dev, &r, x.data, y.data, false);
                dev.k->rope(&dev, &r, y.data, back.data, true);
                for (int64_t n = 0; n < N; n++)
                    for (int64_t h = 0; h < heads; h++)
                        for (int64_t i = 0; i < D / 2; i++) {
                            const int64_t at = n * C + h * D + i;
                            double c = (double)cosines[pos[n] * D / 2 + i],
                                   s = (double)sines[pos[n] * D / 2 + i];
                            double a = get(&x, at), b = get(&x, at + D / 2);
                            CLOSE("rope", get(&y, at), a * c - b * s, eps_of[types[t]], 1);
                            CLOSE("rope", get(&y, at + D / 2), b * c + a * s, eps_of[types[t]], 1);
                            CLOSE("rope back", get(&back, at), a, 3 * eps_of[types[t]], 1);
                        }
                dev.k->rope(&dev, &r, x.data, x.data, false);
                SAME_BITS(x.data, y.data, (size_t)(N * C) * zt_dtype_bytes(types[t]));
                DROP(x);
                DROP(y);
                DROP(back);
            }
        zt_dev_destroy(&dev);
    }
}

/* ---- optimizers: right, and the same bits for every table, split and thread count ---- */
static void adam(void **state)
{
    (void)state;
    const int64_t n = 50021;
    for (int t = 0; t < 3; t++)
        for (int l2 = 0; l2 < 2; l2++) {
            float *kept[3] = {NULL};
            uint16_t *kept_copy = NULL;
            zt_dev dev;
            for (int table = 0; next_table(&table, 1 + table % 3, &dev);) {
                buffer g = randoms(n, types[t], 6), p = randoms(n, ZT_F32, 7),
                       m = randoms(n, ZT_F32, 8), v = randoms(n, ZT_F32, 9),
                       copy = make(n, ZT_BF16), old = randoms(n, ZT_F32, 7),
                       old_m = randoms(n, ZT_F32, 8);
                for (int64_t i = 0; i < n; i++)
                    zt_store_f32(v.data, ZT_F32, i, (float)fabs(get(&v, i)));
                zt_adam a = {.lr = 0.01f,
                             .beta1 = 0.9f,
                             .beta2 = 0.99f,
                             .eps = 1e-6f,
                             .weight_decay = 0.1f,
                             .bc1 = 0.5f,
                             .bc2 = 0.25f,
                             .grad_scale = 0.3f,
                             .adam_l2 = l2};
                buffer v0 = make(n, ZT_F32);
                memcpy(v0.data, v.data, (size_t)n * 4);
                /* in pieces of which some are shorter than a vector */
                for (int64_t at = 0, step = 5; at < n; at += step, step = step * 3 % 4001 + 1) {
                    if (at + step > n) step = n - at;
                    const size_t e = zt_dtype_bytes(types[t]);
                    dev.k->adam(&dev, step, &a, (float *)(void *)p.data + at,
                                (float *)(void *)m.data + at, (float *)(void *)v.data + at,
                                g.data + e * (size_t)at, types[t],
                                (uint16_t *)(void *)copy.data + at, ZT_BF16);
                }
                for (int64_t i = 0; i < n; i++) {
                    double gi = get(&g, i) * 0.3 + (l2 ? 0.1 * get(&old, i) : 0);
                    double mi = 0.9 * get(&old_m, i) + 0.1 * gi,
                           vi = 0.99 * get(&v0, i) + 0.01 * gi * gi;
                    double pi = get(&old, i) * (l2 ? 1 : 1 - 0.01 * 0.1) -
                                0.01 / 0.5 * mi / (sqrt(vi) / 0.5 + 1e-6);
                    CLOSE("adam m", get(&m, i), mi, 1e-6, 1);
                    CLOSE("adam v", get(&v, i), vi, 1e-6, 1);
                    CLOSE("adam p", get(&p, i), pi, 1e-6, 1);
                    assert_int_equal(((uint16_t *)(void *)copy.data)[i],
                                     zt_f32_to_bf16((float)get(&p, i)));
                }
                buffer *all[] = {&p, &m, &v};
                for (int k = 0; k < 3; k++) {
                    if (kept[k])
                        SAME_BITS(kept[k], all[k]->data, (size_t)n * 4);
                    else
                        memcpy(kept[k] = malloc((size_t)n * 4), all[k]->data, (size_t)n * 4);
                }
                if (kept_copy)
                    SAME_BITS(kept_copy, copy.data, (size_t)n * 2);
                else
                    memcpy(kept_copy = malloc((size_t)n * 2), copy.data, (size_t)n * 2);
                buffer *drop[] = {&g, &p, &m, &v, &copy, &old, &old_m, &v0};
                for (int k = 0; k < 8; k++)
                    DROP(*drop[k]);
                zt_dev_destroy(&dev);
            }
            for (int k = 0; k < 3; k++)
                free(kept[k]);
            free(kept_copy);
        }
}

static void sgd(void **state)
{
    (void)state;
    const int64_t n = 10007;
    for (int variant = 0; variant < 6; variant++) {
        const bool momentum = variant > 0, nesterov = variant == 2 || variant == 3,
                   first = variant == 4;
        float *kept = NULL;
        zt_dev dev;
        for (int table = 0; next_table(&table, 2, &dev);) {
            buffer g = randoms(n, ZT_BF16, 6), p = randoms(n, ZT_F32, 7), b = randoms(n, ZT_F32, 8),
                   old = randoms(n, ZT_F32, 7), old_b = randoms(n, ZT_F32, 8);
            zt_sgd a = {.lr = 0.1f,
                        .momentum = momentum ? 0.9f : 0,
                        .dampening = variant == 5 ? 0.3f : 0,
                        .weight_decay = 0.01f,
                        .grad_scale = 2,
                        .nesterov = nesterov,
                        .first = first};
            dev.k->sgd(&dev, n, &a, (float *)(void *)p.data,
                       momentum ? (float *)(void *)b.data : NULL, g.data, ZT_BF16, NULL, ZT_F32);
            for (int64_t i = 0; i < n; i++) {
                double gi = 2 * get(&g, i) + 0.01 * get(&old, i);
                double bi = first ? gi : 0.9 * get(&old_b, i) + (variant == 5 ? 0.7 : 1) * gi;
                double step = !momentum ? gi : nesterov ? gi + 0.9 * bi : bi;
                if (momentum) CLOSE("sgd buffer", get(&b, i), bi, 1e-6, 1);
                CLOSE("sgd", get(&p, i), get(&old, i) - 0.1 * step, 1e-6, 1);
            }
            if (kept)
                SAME_BITS(kept, p.data, (size_t)n * 4);
            else
                memcpy(kept = malloc((size_t)n * 4), p.data, (size_t)n * 4);
            buffer *drop[] = {&g, &p, &b, &old, &old_b};
            for (int k = 0; k < 5; k++)
                DROP(*drop[k]);
            zt_dev_destroy(&dev);
        }
        free(kept);
    }
}

static void sums_and_searches(void **state)
{
    (void)state;
    const int64_t n = (5 << 20) + 77; /* more than the partial sums of one round */
    for (int t = 0; t < 3; t++) {
        buffer x = randoms(n, types[t], 10);
        double want = 0, kept = 0;
        for (int64_t i = 0; i < n; i++)
            want += get(&x, i) * get(&x, i);
        zt_dev dev;
        for (int table = 0; next_table(&table, 1 + table, &dev);) {
            double got = dev.k->sum_squares(&dev, n, types[t], x.data);
            CLOSE("sum_squares", got, want, 1e-12, 0);
            assert_true(kept == 0 || kept == got);
            kept = got;
            assert_int_equal(dev.k->find_nonfinite(&dev, n, types[t], x.data), -1);
            const int64_t places[] = {0, 15, 16, 65535, 65536, n - 1};
            for (int i = 5; i >= 0; i--) {
                float old = zt_load_f32(x.data, types[t], places[i]);
                zt_store_f32(x.data, types[t], places[i], i % 2 ? NAN : -INFINITY);
                assert_int_equal(dev.k->find_nonfinite(&dev, n, types[t], x.data), places[i]);
                assert_true(!isfinite(dev.k->sum_squares(&dev, n, types[t], x.data)));
                zt_store_f32(x.data, types[t], places[i], old);
            }
            zt_dev_destroy(&dev);
        }
        DROP(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations), cmocka_unit_test(extremes),
        cmocka_unit_test(casts),       cmocka_unit_test(dropout),
        cmocka_unit_test(rope),        cmocka_unit_test(adam),
        cmocka_unit_test(sgd),         cmocka_unit_test(sums_and_searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
