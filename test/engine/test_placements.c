/* test_placements.c - what must come out the same whatever the placement: bits over ZeRO stages, recompute
 * and prefetch; the update over any split of a global batch; bytes held and elements sent as the papers'
 * formulas say. Ranks are threads. */
#include "tiny.h"

enum { STEPS = 20, T = 11 };
#ifdef __SANITIZE_THREAD__
enum { SLOW = 1 }; /* fewer cases */
#else
enum { SLOW = 0 };
#endif

typedef struct {
    tiny_opt o;
    int steps;
    double clip;
    float *weights; /* rank 0: all parameters in order, fp32 */
    double losses[STEPS], norms[STEPS];
} training;

static zt_status keep_weights(tiny *t, float *out)
{
    for (int c = 0; c < t->engine->place->n_chunks; c++) {
        const zt_chunk *k = &t->engine->place->chunks[c];
        const void *data;
        ZT_TRY(zt_engine_gather_chunk(t->engine, c, &data));
        for (int i = 0; i < k->n_parts && zt_comm_rank(t->comm) == 0; i++) {
            const zt_chunk_part *part = &t->engine->place->parts[k->first_part + i];
            int64_t at = 0;
            for (int p = 0; p < part->param; p++)
                at += t->graph->params[p].numel;
            for (int64_t j = 0; j < t->graph->params[part->param].numel; j++)
                out[at + j] = zt_load_f32(data, t->engine->opt.type, part->at + j);
        }
    }
    return ZT_OK;
}

/* What is sent in a step, measured, against the schedule and against the formula. */
static zt_status check_traffic(tiny *t, const training *x)
{
    zt_traffic want;
    zt_engine_traffic(t->engine, t->train, &want);
    const zt_comm_count *c = zt_comm_counts(t->comm);
    ZT_ASSERT(c[ZT_COUNT_GATHER].elements == x->steps * want.gather);
    ZT_ASSERT(c[ZT_COUNT_REDUCE].elements == x->steps * want.reduce);
    ZT_ASSERT(c[ZT_COUNT_GATHER].bytes + c[ZT_COUNT_REDUCE].bytes == x->steps * want.bytes);
    return ZT_OK;
}

static zt_status train(zt_comm *comm, void *arg)
{
    training *x = arg;
    tiny t;
    ZT_TRY(tiny_start(&x->o, comm, &t));
    zt_comm_counts_reset(comm);
    for (int s = 0; s < x->steps; s++) {
        zt_step_opt so = {.step = s + 1, .lr = 0.01, .clip = x->clip, .loss_scale = 1};
        zt_step_result r;
        tiny_batches(&t, s, x->o.B, x->o.T);
        ZT_TRY(zt_engine_step(t.engine, t.train, &so, &r));
        if (zt_comm_rank(comm) == 0) {
            x->losses[s] = r.loss;
            x->norms[s] = r.grad_norm;
        }
    }
    ZT_TRY(check_traffic(&t, x));
    ZT_TRY(keep_weights(&t, x->weights));
    tiny_stop(&t);
    return ZT_OK;
}

static const zt_optim_opt adamw = {
    .kind = ZT_OPTIM_ADAMW, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f};
/* an eps above the rounding of the tiniest gradients, whose sign decides a step of plain AdamW */
static const zt_optim_opt calm = {
    .kind = ZT_OPTIM_ADAMW, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-4f, .weight_decay = 0.1f};
static const zt_optim_opt momentum = {
    .kind = ZT_OPTIM_SGD, .momentum = 0.9f, .weight_decay = 0.01f, .decay_all = true};

static int64_t numel_of(const char *model)
{
    zt_model_config c;
    zt_graph *g;
    json_t *j;
    OK(zt_json_parse(model, strlen(model), "tiny", &j));
    OK(zt_model_config_parse(j, "tiny", &c));
    OK(zt_model_build(&c, &g));
    int64_t n = zt_graph_numel(g, false);
    zt_graph_destroy(&g);
    zt_model_config_deinit(&c);
    json_decref(j);
    return n;
}

static void run(training *x, int ranks, int64_t numel)
{
    x->weights = calloc((size_t)numel, sizeof(float));
    if (x->steps == 0) x->steps = STEPS;
    OK(zt_comm_run_threads(ranks, train, x));
}

static void same_bits(const char *model, zt_dtype type, int ranks, const char *freeze)
{
    const int64_t n = numel_of(model);
    training base = {.o = {.model = model, .opt = {.type = type, .optim = adamw}, .B = 1, .T = T},
                     .clip = 1};
    base.o.freeze = freeze;
    training first = base;
    run(&first, ranks, n);
    for (int v = 1; v < 12; v++) {
        training x = base;
        x.o.opt.stage = v % 4;
        x.o.recompute = v / 4 == 1;
        x.o.opt.prefetch_numel = v % 3 ? 1 << 30 : 0;
        x.o.opt.persist_numel = v / 4 == 2 ? 40 : 0; /* biases and norms stay whole */
        run(&x, ranks, n);
        SAME_BITS(x.weights, first.weights, (size_t)n * sizeof(float));
        SAME_BITS(x.losses, first.losses, sizeof x.losses);
        if (!x.o.opt.persist_numel) { /* other chunks: the norm is summed in another order */
            SAME_BITS(x.norms, first.norms, sizeof x.norms);
        }
        free(x.weights);
    }
    free(first.weights);
}

static void stages_give_the_same_bits(void **state)
{
    (void)state;
    const char *models[] = {tiny_gpt2, tiny_llama, tiny_dropout, tiny_qwen2};
    for (int m = 0; m < (SLOW ? 2 : 4); m++)
        for (int ranks = SLOW ? 3 : 1; ranks <= 4; ranks++)
            for (int type = 0; type < (m < 2 ? 2 : 1); type++)
                same_bits(models[m], type ? ZT_F32 : ZT_BF16, ranks, NULL);
}

static void frozen_stages_give_the_same_bits(void **state)
{
    (void)state;
    same_bits(tiny_gpt2, ZT_BF16, 3, "wte");
    same_bits(tiny_llama, ZT_F32, 2, "mlp");
    same_bits(tiny_gpt2, ZT_BF16, 7, NULL); /* most shards of norms are padding alone */
}

/* The same eight samples as ranks x micro-steps x batch; ragged targets. */
static void any_split_gives_the_same_update(void **state)
{
    (void)state;
    static const struct {
        int ranks, micro, batch;
    } splits[] = {{1, 1, 8}, {1, 8, 1}, {1, 2, 4}, {2, 1, 4}, {2, 4, 1}, {4, 2, 1}, {4, 1, 2}};
    const char *models[] = {tiny_gpt2, tiny_llama};
    for (int m = 0; m < 2; m++)
        for (int opt = 0; opt < 2; opt++) {
            const int64_t n = numel_of(models[m]);
            training first = {.steps = 5, .clip = 1};
            for (int s = 0; s < (SLOW ? 4 : 7); s++)
                for (int stage = 0; stage < 4; stage += SLOW ? 3 : 1) {
                    training x = {.steps = 5, .clip = 1};
                    x.o = (tiny_opt){.model = models[m], .B = splits[s].batch, .T = T};
                    x.o.opt = (zt_engine_opt){
                        .stage = stage, .type = ZT_F32, .optim = opt ? calm : momentum};
                    x.o.opt.n_micro = splits[s].micro;
                    run(&x, splits[s].ranks, n);
                    if (s == 0 && stage == 0) {
                        first = x;
                        continue;
                    }
                    for (int i = 0; i < x.steps; i++) {
                        assert_true(fabs(x.losses[i] - first.losses[i]) < 2e-6 * first.losses[i]);
                        assert_true(fabs(x.norms[i] - first.norms[i]) < 2e-5 * first.norms[i]);
                    }
                    NEAR(x.weights, first.weights, n, opt ? 1e-3 : 2e-5, 0.1);
                    free(x.weights);
                }
            free(first.weights);
        }
}

/* ---- bytes ---- */
typedef struct {
    int stage;
    zt_dtype type;
    double bytes; /* summed over ranks: a parameter's cost a rank */
} state_bytes;

static zt_status measure(zt_comm *comm, void *arg)
{
    state_bytes *x = arg;
    tiny t;
    tiny_opt o = {.model = tiny_llama,
                  .opt = {.type = x->type, .stage = x->stage, .optim = adamw},
                  .B = 1,
                  .T = T};
    ZT_TRY(tiny_start(&o, comm, &t));
    zt_mem *planned;
    ZT_TRY(zt_mem_create(&planned));
    zt_engine_book(t.engine, planned);
    int64_t bytes = 0;
    for (int k = 0; k < ZT_MEM_KIND_COUNT; k++) {
        if (k <= ZT_MEM_OPTIM)
            bytes += (int64_t)zt_mem_payload(t.mem, ZT_TIER_DEVICE, (zt_mem_kind)k);
        ZT_ASSERT(zt_mem_peak(planned, ZT_TIER_DEVICE, (zt_mem_kind)k) ==
                  zt_mem_peak(t.mem, ZT_TIER_DEVICE, (zt_mem_kind)k));
    }
    ZT_TRY(zt_all_reduce_sum_i64(comm, &bytes, 1));
    if (zt_comm_rank(comm) == 0)
        x->bytes =
            (double)bytes / (double)zt_comm_size(comm) / (double)zt_graph_numel(t.graph, false);
    zt_mem_destroy(&planned);
    tiny_stop(&t);
    return ZT_OK;
}

static void bytes_follow_the_formula(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int stage = 0; stage < 4; stage++) {
            const double n = sizes[i];
            state_bytes x = {.stage = stage, .type = ZT_BF16};
            OK(zt_comm_run_threads(sizes[i], measure, &x));
            const double want =
                (stage >= 3 ? 2 / n : 2) + (stage >= 2 ? 2 / n : 2) + (stage >= 1 ? 12 / n : 12);
            assert_true(fabs(x.bytes - want) < 1e-9);
            x = (state_bytes){.stage = stage, .type = ZT_F32}; /* its own master: 4 + 4 + 8 */
            OK(zt_comm_run_threads(sizes[i], measure, &x));
            assert_true(fabs(x.bytes - ((stage >= 3 ? 4 / n : 4) + (stage >= 2 ? 4 / n : 4) +
                                        (stage >= 1 ? 8 / n : 8))) < 1e-9);
        }
}

/* ---- elements sent: 2, 2, 2, 3 times (n-1)/n a parameter; at stage 3 less what backward does not ask
 * for again: the embedding's and the head's second gather, where they are not tied ---- */
static zt_status formula(zt_comm *comm, void *arg)
{
    const int stage = *(int *)arg;
    const char *models[] = {tiny_gpt2, tiny_llama};
    for (int m = 0; m < 2; m++) {
        tiny t;
        tiny_opt o = {.model = models[m],
                      .opt = {.type = ZT_BF16, .stage = stage, .optim = adamw},
                      .B = 1,
                      .T = T};
        ZT_TRY(tiny_start(&o, comm, &t));
        zt_traffic x;
        zt_engine_traffic(t.engine, t.train, &x);
        int64_t once = 0; /* gathered once a step */
        for (int p = 0; p < t.graph->n_params; p++)
            if (!strstr(t.graph->params[p].name, ".h.") &&
                !strstr(t.graph->params[p].name, "layers") &&
                !strstr(t.graph->params[p].name, "wte"))
                once += t.graph->params[p].numel;
        int64_t sent = x.gather_payload + x.reduce_payload;
        ZT_TRY(zt_all_reduce_sum_i64(comm, &sent, 1));
        const int64_t P = zt_graph_numel(t.graph, false), n = zt_comm_size(comm);
        ZT_ASSERT(sent == (n - 1) * (stage == 3 ? 3 * P - once : 2 * P));
        double rest = x.formula - x.saved - (double)(x.gather_payload + x.reduce_payload);
        ZT_ASSERT(fabs(rest) < 1e-6);
        tiny_stop(&t);
    }
    return ZT_OK;
}

static void traffic_follows_the_formula(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++)
        for (int stage = 0; stage < 4; stage++)
            OK(zt_comm_run_threads(n, formula, &stage));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_give_the_same_bits),
        cmocka_unit_test(frozen_stages_give_the_same_bits),
        cmocka_unit_test(any_split_gives_the_same_update),
        cmocka_unit_test(bytes_follow_the_formula),
        cmocka_unit_test(traffic_follows_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
