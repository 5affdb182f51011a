/* test_golden.c - whole models against transformers: logits, loss, the gradient of every parameter, ten steps
 * of AdamW and of SGD, bf16, and greedy continuation through the key-value cache. The golden files are made by
 * tools/make_reference.py. */
#include "harness.h"
#include "io/safetensors.h"
#include "train/session.h"

#include <stdio.h>

static const char *const names[] = {"gpt2", "gpt2-erf", "llama", "llama3", "qwen2", "mistral"};
enum { N_NAMES = sizeof names / sizeof *names };

typedef struct {
    char folder[512];
    zt_weights *golden;
    zt_model_config config;
    zt_graph *graph;
    zt_dev dev;
    zt_mem *mem;
    zt_comm *comm;
    zt_engine *engine;
    int train, logits, single;
    int64_t B, T, V;
} model;

static const zt_tensor *want(const model *m, const char *name)
{
    const zt_tensor *t = zt_weights_find(m->golden, name);
    if (!t) fail_msg("%s: no golden %s", m->folder, name);
    return t;
}

static const float *floats(const model *m, const char *name)
{
    return want(m, name)->data;
}

static void start(model *m, const char *name, zt_dtype type, const zt_optim_opt *optim,
                  const char *kernels)
{
    memset(m, 0, sizeof *m);
    (void)snprintf(m->folder, sizeof m->folder, "%s/test/golden/models/%s", ZT_SOURCE_DIR, name);
    char path[600];
    (void)snprintf(path, sizeof path, "%s/golden.safetensors", m->folder);
    OK(zt_weights_open(path, &m->golden));
    OK(zt_model_config_load(m->folder, &m->config));
    OK(zt_model_build(&m->config, &m->graph));
    const zt_kernels *k;
    OK(zt_kernels_cpu(kernels, &k));
    OK(zt_dev_create(k, 2, &m->dev));
    OK(zt_mem_create(&m->mem));
    OK(zt_comm_self(&m->comm));
    const zt_tensor *ids = want(m, "input_ids");
    m->B = ids->shape[0];
    m->T = ids->shape[1];
    m->V = m->config.vocab;
    zt_engine_opt o = {.type = type, .n_micro = 1, .train = true, .positions = 40, .optim = *optim};
    OK(zt_engine_create(m->graph, &o, 1, 0, &m->dev, &m->engine));
    zt_program_opt p = {.goal = ZT_GOAL_TRAIN, .B = m->B, .T = m->T};
    OK(zt_engine_add_pass(m->engine, &p, &m->train));
    p.goal = ZT_GOAL_LOGITS;
    p.all_logits = true;
    OK(zt_engine_add_pass(m->engine, &p, &m->logits));
    p = (zt_program_opt){.goal = ZT_GOAL_LOGITS, .B = 1, .T = 1, .cache_room = 32};
    OK(zt_engine_add_pass(m->engine, &p, &m->single));
    OK(zt_engine_allocate(m->engine, m->mem, m->comm));
    zt_source_weights *w;
    OK(zt_source_weights_open(m->folder, m->graph, &w));
    OK(zt_engine_fill(m->engine, zt_source_weights_read, w));
    zt_source_weights_close(&w);
    zt_batch *b = zt_engine_batch(m->engine, 0);
    memcpy(b->ids, ids->data, ids->bytes);
    memcpy(b->labels, want(m, "labels")->data, ids->bytes);
}

static void stop(model *m)
{
    zt_engine_destroy(&m->engine);
    zt_comm_destroy(&m->comm);
    zt_mem_destroy(&m->mem);
    zt_dev_destroy(&m->dev);
    zt_graph_destroy(&m->graph);
    zt_model_config_deinit(&m->config);
    zt_weights_close(&m->golden);
}

static const zt_optim_opt adamw = {.kind = ZT_OPTIM_ADAMW,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.999f,
                                   .eps = 1e-8f,
                                   .weight_decay = 0.1f,
                                   .decay_all = true};
static const zt_optim_opt sgd = {.kind = ZT_OPTIM_SGD, .momentum = 0.9f, .decay_all = true};

/* |a - b| / |b| of whole vectors */
static double distance(const float *a, const float *b, int64_t n)
{
    double d = 0, s = 0;
    for (int64_t i = 0; i < n; i++) {
        d += pow((double)a[i] - (double)b[i], 2);
        s += pow((double)b[i], 2);
    }
    return sqrt(d / (s + 1e-30));
}

static void check_logits(model *m, const char *golden, double bound)
{
    const int64_t n = m->B * m->T * m->V;
    void *raw = malloc((size_t)n * 4);
    float *got = malloc((size_t)n * 4);
    OK(zt_engine_logits(m->engine, m->logits, zt_engine_batch(m->engine, 0)->ids, 0, raw));
    for (int64_t i = 0; i < n; i++)
        got[i] = zt_load_f32(raw, m->engine->opt.type, i);
    double d = distance(got, floats(m, golden), n);
    if (!(d < bound)) fail_msg("%s: logits are off by %.3g", m->folder, d);
    free(raw);
    free(got);
}

static void check_gradients(model *m)
{
    zt_step_opt o = {.step = 1, .loss_scale = 1};
    zt_step_result r;
    OK(zt_engine_gradients(m->engine, m->train, &o, &r));
    assert_true(fabs(r.loss - (double)*floats(m, "loss")) < 1e-5 * r.loss);
    assert_true(fabs(r.grad_norm - (double)*floats(m, "grad_norm")) < 1e-4 * r.grad_norm);
    const zt_placement *p = m->engine->place;
    for (int c = 0; c < p->n_chunks; c++) {
        float *grad = malloc((size_t)p->chunks[c].padded * sizeof *grad);
        OK(zt_engine_gather_grad(m->engine, c, grad));
        for (int i = 0; i < p->chunks[c].n_parts; i++) {
            const zt_chunk_part *part = &p->parts[p->chunks[c].first_part + i];
            const zt_parameter *q = &m->graph->params[part->param];
            char name[300];
            (void)snprintf(name, sizeof name, "grad.%s", q->name);
            /* a bias of the keys shifts all scores of a row alike: its gradient is rounding alone */
            const bool none = strstr(q->name, "k_proj.bias") != NULL;
            double d = distance(grad + part->at, floats(m, name), q->numel);
            if (!none && !(d < 1e-4))
                fail_msg("%s: the gradient of %s is off by %.3g", m->folder, q->name, d);
        }
        free(grad);
    }
}

static void check_steps(model *m, const char *golden, double lr)
{
    const float *losses = floats(m, golden);
    for (int s = 0; s < 10; s++) {
        zt_step_opt o = {.step = s + 1, .lr = lr, .loss_scale = 1};
        zt_step_result r;
        OK(zt_engine_step(m->engine, m->train, &o, &r));
        if (!(fabs(r.loss - (double)losses[s]) < 1e-4 * r.loss))
            fail_msg("%s: %s: step %d has the loss %.7g, wanted %.7g", m->folder, golden, s + 1,
                     r.loss, (double)losses[s]);
    }
}

/* Weights after the steps, of those parameters that the golden file has. */
static void check_weights(const model *m)
{
    for (int i = 0; i < m->graph->n_params; i++) {
        const zt_parameter *q = &m->graph->params[i];
        char name[300];
        (void)snprintf(name, sizeof name, "adamw.%s", q->name);
        const zt_tensor *t = zt_weights_find(m->golden, name);
        if (t && !strstr(q->name, "k_proj.bias") && !strstr(q->name, "c_attn.bias"))
            NEAR(m->engine->weight[i], (const float *)t->data, q->numel, 2e-4, 0.1);
    }
}

static void fp32_is_that_of_transformers(void **state)
{
    (void)state;
    const char *kernels[] = {NULL, "plain"};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N_NAMES; i++) {
            model m;
            start(&m, names[i], ZT_F32, &adamw, kernels[k]);
            check_logits(&m, "logits", 1e-5);
            check_gradients(&m);
            check_steps(&m, "adamw_losses", 1e-3);
            check_weights(&m);
            stop(&m);
            start(&m, names[i], ZT_F32, &sgd, kernels[k]);
            check_steps(&m, "sgd_losses", 0.05);
            stop(&m);
        }
}

/* bf16 has 8 bits: against fp32 both implementations are off alike, and they agree to within that. */
static void bf16_is_within_its_rounding(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        model m;
        start(&m, names[i], ZT_BF16, &adamw, NULL);
        check_logits(&m, "bf16_logits", 2e-2);
        check_logits(&m, "logits", 2e-2);
        const float *losses = floats(&m, "adamw_losses");
        for (int s = 0; s < 10; s++) {
            zt_step_opt o = {.step = s + 1, .lr = 1e-3, .loss_scale = 1};
            zt_step_result r;
            OK(zt_engine_step(m.engine, m.train, &o, &r));
            assert_true(fabs(r.loss - (double)losses[s]) < 1e-2 * r.loss);
        }
        stop(&m);
    }
}

static void fp16_is_within_its_rounding(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        model m;
        start(&m, names[i], ZT_F16, &adamw, NULL);
        check_logits(&m, "logits", 3e-3);
        const float *losses = floats(&m, "adamw_losses");
        for (int s = 0; s < 10; s++) {
            zt_step_opt o = {.step = s + 1, .lr = 1e-3, .loss_scale = 1024};
            zt_step_result r;
            OK(zt_engine_step(m.engine, m.train, &o, &r));
            assert_true(fabs(r.loss - (double)losses[s]) < 2e-3 * r.loss);
        }
        stop(&m);
    }
}

static void greedy_through_the_cache(void **state)
{
    (void)state;
    for (int i = 0; i < N_NAMES; i++) {
        model m;
        start(&m, names[i], ZT_F32, &adamw, NULL);
        const int32_t *ids = want(&m, "input_ids")->data, *greedy = want(&m, "greedy")->data;
        float *logits = malloc((size_t)m.V * sizeof *logits);
        for (int t = 0; t < 20; t++) {
            int32_t id = t < 5 ? ids[t] : greedy[t - 5];
            OK(zt_engine_logits(m.engine, m.single, &id, t, logits));
            int best = 0;
            for (int v = 1; v < m.V; v++)
                best = logits[v] > logits[best] ? v : best;
            if (t >= 4) assert_int_equal(best, greedy[t - 4]);
        }
        free(logits);
        stop(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_is_that_of_transformers),
        cmocka_unit_test(bf16_is_within_its_rounding),
        cmocka_unit_test(fp16_is_within_its_rounding),
        cmocka_unit_test(greedy_through_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
