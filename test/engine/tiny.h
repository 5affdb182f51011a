/* tiny.h - tiny models and batches for tests of the engine and of what stands above it. */
#ifndef ZT_TEST_TINY_H
#define ZT_TEST_TINY_H
#include "engine/engine.h"
#include "harness.h"
#include "model/models.h"

/* GPT-2, tied; no size is a multiple of the ranks or of a vector. */
static const char tiny_gpt2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 97, \"n_embd\": 20, \"n_layer\": 2, \"n_head\": 4,"
    "\"n_positions\": 32, \"embd_pdrop\": 0, \"resid_pdrop\": 0, \"attn_pdrop\": 0}";
/* the same with dropout */
static const char tiny_dropout[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 97, \"n_embd\": 20, \"n_layer\": 2, \"n_head\": 4,"
    "\"n_positions\": 32, \"embd_pdrop\": 0.1, \"resid_pdrop\": 0.2, \"attn_pdrop\": 0.15}";
/* Llama: grouped queries, untied */
static const char tiny_llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 101, \"hidden_size\": 24, \"num_hidden_layers\": "
    "2,"
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 50,"
    "\"max_position_embeddings\": 64}";
/* Qwen2: biases on q, k, v; tied */
static const char tiny_qwen2[] =
    "{\"model_type\": \"qwen2\", \"vocab_size\": 50, \"hidden_size\": 16, \"num_hidden_layers\": 3,"
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"intermediate_size\": 33,"
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true}";

typedef struct {
    zt_comm *comm;
    zt_model_config config;
    zt_graph *graph;
    zt_dev dev;
    zt_mem *mem;
    zt_engine *engine;
    int train, loss; /* passes */
} tiny;

/* From scratch: element i of a parameter is keyed by its name. Norm scales and biases are moved a little,
 * so that their gradients matter. */
static zt_status tiny_init(void *arg, int param, int64_t from, int64_t count, float *out)
{
    const tiny *t = arg;
    const zt_parameter *p = &t->graph->params[param];
    zt_rng r = zt_rng_make(5, ZT_RNG_INIT, (uint32_t)zt_hash(p->name, strlen(p->name)), 0);
    for (int64_t i = 0; i < count; i++)
        out[i] = p->opt.fill + 0.15f * zt_rng_normal(&r, (uint64_t)(from + i));
    return ZT_OK;
}

typedef struct {
    const char *model;
    zt_engine_opt opt;
    int64_t B, T;
    bool recompute;
    int threads;
    const char *kernels, *freeze;
} tiny_opt;

static inline zt_status tiny_start(const tiny_opt *o, zt_comm *comm, tiny *t)
{
    memset(t, 0, sizeof *t);
    t->comm = comm;
    json_t *j;
    ZT_TRY(zt_json_parse(o->model, strlen(o->model), "tiny", &j));
    ZT_TRY(zt_model_config_parse(j, "tiny", &t->config));
    json_decref(j);
    ZT_TRY(zt_model_build(&t->config, &t->graph));
    for (int i = 0; i < t->graph->n_params; i++)
        t->graph->params[i].trainable = !o->freeze || !strstr(t->graph->params[i].name, o->freeze);
    const zt_kernels *k;
    ZT_TRY(zt_kernels_cpu(o->kernels, &k));
    ZT_TRY(zt_dev_create(k, o->threads ? o->threads : 1, &t->dev));
    ZT_TRY(zt_mem_create(&t->mem));
    zt_engine_opt eo = o->opt;
    eo.positions = o->T;
    eo.n_micro = eo.n_micro ? eo.n_micro : 1;
    eo.train = true;
    ZT_TRY(zt_engine_create(t->graph, &eo, zt_comm_size(comm), zt_comm_rank(comm), &t->dev,
                            &t->engine));
    zt_program_opt po = {.goal = ZT_GOAL_TRAIN, .B = o->B, .T = o->T, .recompute = o->recompute};
    ZT_TRY(zt_engine_add_pass(t->engine, &po, &t->train));
    po.goal = ZT_GOAL_LOSS;
    ZT_TRY(zt_engine_add_pass(t->engine, &po, &t->loss));
    ZT_TRY(zt_engine_allocate(t->engine, t->mem, comm));
    return zt_engine_fill(t->engine, tiny_init, t);
}

static inline void tiny_stop(tiny *t)
{
    zt_engine_destroy(&t->engine);
    zt_mem_destroy(&t->mem);
    zt_dev_destroy(&t->dev);
    zt_graph_destroy(&t->graph);
    zt_model_config_deinit(&t->config);
}

/* Sample s of step `step`: the same whatever ranks and micro-batches there are. Sample s has its last s
 * labels masked, so that micro-batches differ in their number of targets. */
static inline void tiny_sample(const tiny *t, int64_t step, int64_t s, int64_t T, int32_t *ids,
                               int32_t *labels)
{
    zt_rng r = zt_rng_make(11, ZT_RNG_TEST, (uint32_t)step, (uint32_t)s);
    for (int64_t i = 0; i <= T; i++) {
        int32_t id = (int32_t)(zt_rng_u32(&r, (uint64_t)i) % (uint32_t)t->config.vocab);
        if (i < T) ids[i] = id;
        if (i > 0) labels[i - 1] = i > T - s % 5 ? -100 : id;
    }
}

/* Fills the batches of a step: samples are dealt to micro-steps, ranks and rows in this order. */
static inline void tiny_batches(tiny *t, int64_t step, int64_t B, int64_t T)
{
    const int ranks = zt_comm_size(t->comm), rank = zt_comm_rank(t->comm);
    for (int m = 0; m < t->engine->opt.n_micro; m++) {
        zt_batch *b = zt_engine_batch(t->engine, m);
        b->first_sample = ((int64_t)m * ranks + rank) * B;
        for (int64_t i = 0; i < B; i++)
            tiny_sample(t, step, b->first_sample + i, T, b->ids + i * T, b->labels + i * T);
    }
}
#endif
