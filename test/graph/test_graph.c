/* test_graph.c - descriptions that do not fit, the placing of buffers, and what a program keeps. */
#include "graph/program.h"
#include "harness.h"

#include <stdlib.h>

static zt_par matrix(zt_graph *g, const char *name, int64_t out, int64_t in)
{
    return zt_param(g, name, out, in, (zt_par_opt){.std = 0.02f});
}

/* No two buffers that are alive together may overlap, whatever their number and sizes. */
static void check_buffers(int round, int n, double most)
{
    zt_interval *v = zt_calloc((size_t)n, sizeof *v);
    size_t bytes, live = 0;
    zt_rng r = zt_rng_make((uint64_t)round, ZT_RNG_TEST, 0, 0);
    for (int i = 0; i < n; i++) {
        const uint32_t a = zt_rng_u32(&r, (uint64_t)(3 * i)) % 100,
                       b = zt_rng_u32(&r, (uint64_t)(3 * i + 1)) % 20;
        v[i] =
            (zt_interval){.bytes = zt_rng_u32(&r, (uint64_t)(3 * i + 2)) % 5000, .first = (int)a};
        v[i].last = (int)(a + b) - (i % 11 == 0 ? 30 : 0); /* some are never alive */
    }
    OK(zt_arena_plan(v, n, &bytes));
    for (int i = 0; i < n; i++) {
        if (v[i].first > v[i].last || !v[i].bytes) continue;
        assert_int_equal(v[i].offset % 64, 0);
        assert_true(v[i].offset + v[i].bytes <= bytes);
        for (int j = 0; j < i; j++)
            if (v[j].first <= v[j].last && v[j].last >= v[i].first && v[i].last >= v[j].first &&
                v[i].offset < v[j].offset + v[j].bytes && v[j].offset < v[i].offset + v[i].bytes &&
                v[j].bytes)
                fail_msg("buffers %d and %d overlap", i, j);
    }
    for (int t = 0; t < 120; t++) { /* near the least that is possible */
        size_t sum = 0;
        for (int i = 0; i < n; i++)
            sum += v[i].first <= t && t <= v[i].last ? v[i].bytes : 0;
        live = sum > live ? sum : live;
    }
    assert_true((double)bytes <= most * (double)live);
    zt_free(v);
}

static void buffers_do_not_overlap(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++)
        check_buffers(round, 200, 1.25);
    check_buffers(30, 10000, 1.25); /* so many are placed in another way */
}

typedef void build_fn(zt_graph *g);

static void no_head(zt_graph *g)
{
    (void)zt_nn_embed(g, ZT_TOKENS, matrix(g, "e", 10, 4));
}

static void wrong_width(zt_graph *g)
{
    zt_val x = zt_nn_embed(g, ZT_TOKENS, matrix(g, "e", 10, 4));
    zt_nn_lm_head(g, zt_nn_linear(g, x, matrix(g, "w", 8, 5), ZT_NO_PAR), matrix(g, "e", 10, 4));
}

static void two_shapes(zt_graph *g)
{
    zt_val x = zt_nn_embed(g, ZT_TOKENS, matrix(g, "e", 10, 4));
    zt_nn_lm_head(g, x, matrix(g, "e", 11, 4));
}

static void nested(zt_graph *g)
{
    zt_block_begin(g);
    zt_block_begin(g);
}

static void odd_heads(zt_graph *g)
{
    zt_val x = zt_nn_embed(g, ZT_TOKENS, matrix(g, "e", 10, 6));
    zt_nn_lm_head(g,
                  zt_nn_causal_attention(g, x, x, x, (zt_attention_opt){.heads = 4, .kv_heads = 4}),
                  matrix(g, "e", 10, 6));
}

static void part_unused(zt_graph *g)
{
    zt_val x = zt_nn_embed(g, ZT_TOKENS, matrix(g, "e", 10, 6));
    zt_val q = zt_nn_part(g, x, 0, 3);
    zt_nn_lm_head(g,
                  zt_nn_causal_attention(g, q, q, q, (zt_attention_opt){.heads = 1, .kv_heads = 1}),
                  matrix(g, "h", 10, 2));
}

static void part_in_linear(zt_graph *g)
{
    zt_val x = zt_nn_embed(g, ZT_TOKENS, matrix(g, "e", 10, 6));
    zt_nn_lm_head(g, zt_nn_part(g, x, 0, 2), matrix(g, "h", 10, 3));
}

static void misfits_are_refused(void **state)
{
    (void)state;
    static const struct {
        build_fn *fn;
        const char *says;
    } bad[] = {{no_head, "no lm_head"}, {wrong_width, "5 channels"}, {two_shapes, "[11, 4]"},
               {nested, "inside"},      {odd_heads, "attention"},    {part_unused, "parts"},
               {part_in_linear, "part"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zt_graph *g;
        OK(zt_graph_create(&g));
        bad[i].fn(g);
        FAILS(zt_graph_status(g), ZT_ERR_SHAPE, bad[i].says);
        zt_graph_destroy(&g);
    }
}

static zt_graph *mlps(int layers, int64_t C)
{
    zt_graph *g;
    OK(zt_graph_create(&g));
    zt_par e = matrix(g, "e", 50, C);
    zt_val x = zt_nn_embed(g, ZT_TOKENS, e);
    for (int l = 0; l < layers; l++) {
        zt_push(g, "%d.", l);
        zt_block_begin(g);
        zt_val h = zt_nn_gelu(g, zt_nn_linear(g, x, matrix(g, "up", 4 * C, C), ZT_NO_PAR), true);
        x = zt_nn_add(g, x, zt_nn_linear(g, h, matrix(g, "down", C, 4 * C), ZT_NO_PAR));
        zt_block_end(g);
        zt_pop(g);
    }
    zt_nn_lm_head(g, x, e);
    OK(zt_graph_status(g));
    return g;
}

/* The deepest model that a config.json may ask for: what is quadratic in its depth takes minutes. */
static void deep_models_are_planned_fast(void **state)
{
    (void)state;
    const zt_kernels *k;
    zt_dev dev;
    OK(zt_kernels_cpu(NULL, &k));
    OK(zt_dev_create(k, 1, &dev));
    const double began = zt_now();
    zt_graph *g = mlps(1 << 16, 8);
    assert_int_equal(zt_graph_find(g, "65535.down"), g->n_params - 1);
    assert_int_equal(zt_graph_find(g, "65536.down"), -1);
    for (int recompute = 0; recompute < 2; recompute++) {
        zt_program_opt o = {.goal = ZT_GOAL_TRAIN, .B = 1, .T = 8, .recompute = recompute};
        zt_program *p;
        OK(zt_program_compile(g, &o, &dev, &p));
        assert_true(p->n_instrs > 6 << 16);
        zt_program_destroy(&p);
    }
    zt_graph_destroy(&g);
    zt_dev_destroy(&dev);
    assert_true(zt_now() - began < 20);
}

/* Recomputed, a block keeps what leaves it; evaluated, nothing is kept. */
static void memory_by_goal(void **state)
{
    (void)state;
    const zt_kernels *k;
    zt_dev dev;
    size_t bytes[3][2];
    OK(zt_kernels_cpu(NULL, &k));
    OK(zt_dev_create(k, 1, &dev));
    for (int deep = 0; deep < 2; deep++) {
        zt_graph *g = mlps(deep ? 16 : 8, 64);
        for (int goal = 0; goal < 3; goal++) {
            zt_program_opt o = {.goal = goal == 2 ? ZT_GOAL_LOSS : ZT_GOAL_TRAIN, .B = 1, .T = 128};
            o.recompute = goal == 1;
            zt_program *p;
            OK(zt_program_compile(g, &o, &dev, &p));
            bytes[goal][deep] = p->arena_bytes;
            zt_program_destroy(&p);
        }
        zt_graph_destroy(&g);
    }
    const size_t row = 128 * 64 * 4;
    assert_int_equal(bytes[0][1] - bytes[0][0],
                     8 * 9 * row); /* the residual, up's result, gelu's */
    assert_int_equal(bytes[1][1] - bytes[1][0], 8 * row);
    assert_int_equal(bytes[2][1], bytes[2][0]);
    zt_dev_destroy(&dev);
}

static void failing_allocations(void **state)
{
    (void)state;
    const zt_kernels *k;
    zt_dev dev;
    OK(zt_kernels_cpu(NULL, &k));
    OK(zt_dev_create(k, 1, &dev));
    zt_graph *g = mlps(20, 16);
    for (int nth = 1;; nth++) {
        zt_program_opt o = {.goal = ZT_GOAL_TRAIN, .B = 1, .T = 8, .recompute = true};
        zt_program *p = NULL;
        zt_fault_alloc(nth);
        zt_status s = zt_program_compile(g, &o, &dev, &p);
        zt_fault_alloc(-1);
        if (s == ZT_OK) {
            assert_true(nth > 10);
            zt_program_destroy(&p);
            break;
        }
        assert_int_equal(s, ZT_ERR_NOMEM);
        assert_null(p);
    }
    zt_graph_destroy(&g);
    zt_dev_destroy(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_do_not_overlap), cmocka_unit_test(misfits_are_refused),
        cmocka_unit_test(memory_by_goal),         cmocka_unit_test(deep_models_are_planned_fast),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
