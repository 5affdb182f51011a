/* session.c - putting a run together. */
#include "train/session.h"
#include "base/file.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- start ---- */
static bool matches(const char *pattern, const char *name)
{
    char any[512];
    (void)snprintf(any, sizeof any, "*%s*", pattern);
    return fnmatch(any, name, 0) == 0;
}

static zt_status freeze(zt_session *s)
{
    const zt_strings *f = &s->config->freeze;
    for (int k = 0; k < f->n; k++) {
        int hits = 0;
        for (int i = 0; i < s->graph->n_params; i++)
            if (matches(f->items[k], s->graph->params[i].name)) {
                s->graph->params[i].trainable = false;
                hits++;
            }
        if (hits == 0)
            return ZT_FAIL(ZT_ERR_CONFIG,
                           "freeze: no parameter's name holds \"%s\"; zeroth inspect MODEL "
                           "lists them",
                           f->items[k]);
    }
    if (zt_graph_numel(s->graph, true) == 0)
        return ZT_FAIL(ZT_ERR_CONFIG, "freeze leaves no parameter to train");
    return ZT_OK;
}

static zt_status check_sequence(const zt_session *s)
{
    const int64_t T = s->config->sequence_length;
    if (s->model.family == ZT_FAMILY_GPT2 && T > s->model.max_positions)
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "data.sequence_length = %lld is more than the model's %lld positions",
                       (long long)T, (long long)s->model.max_positions);
    if (T > s->model.max_positions)
        zt_log(ZT_LOG_WARN,
               "data.sequence_length = %lld is more than the model's "
               "max_position_embeddings = %lld",
               (long long)T, (long long)s->model.max_positions);
    return ZT_OK;
}

static zt_status start_local(zt_session *s)
{
    zt_config *c = s->config;
    if (!*c->model)
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "no model is given: set \"model\" to a Hugging Face folder, or to a "
                       "config.json with \"from_scratch\": true");
    if (!zt_path_exists(c->model))
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "model: there is no %s here; models are read from disk, not downloaded",
                       c->model);
    if (!c->from_scratch && !zt_path_is_folder(c->model))
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "model: %s is a file; weights are read from a folder with config.json and "
                       "model.safetensors, or set from_scratch=true",
                       c->model);
    ZT_TRY(zt_model_config_load(c->model, &s->model));
    if (c->dropout >= 0) zt_model_config_dropout(&s->model, c->dropout);
    ZT_TRY(check_sequence(s));
    ZT_TRY(zt_model_build(&s->model, &s->graph));
    ZT_TRY(freeze(s));
    const zt_kernels *k;
    ZT_TRY(zt_kernels_cpu(c->kernels, &k));
    int threads = (int)c->threads;
    if (threads == 0) threads = zt_cpu_count() / zt_comm_local_size(s->comm);
    ZT_TRY(zt_dev_create(k, threads > 1 ? threads : 1, &s->dev));
    return zt_mem_create(&s->mem);
}

zt_status zt_session_start(zt_comm *comm, zt_config *config, zt_session *s)
{
    *s = (zt_session){.comm = comm, .config = config};
    char *options = zt_config_canonical(config, false);
    zt_status same = options
                         ? zt_comm_check_same(comm, "the configuration", options, strlen(options))
                         : ZT_NOMEM();
    free(options);
    ZT_TRY(same);
    zt_comm_set_timeout(comm, config->timeout);
    return zt_comm_agree(comm, start_local(s));
}

/* ---- tokenizer and data ---- */
static zt_status tokenizer_local(zt_session *s)
{
    const zt_config *c = s->config;
    if (*c->tokenizer) {
        s->tokenizer_path = zt_strdup(c->tokenizer);
    } else {
        const char *slash = strrchr(c->model, '/');
        char *folder = zt_path_is_folder(c->model) ? zt_strdup(c->model)
                       : slash ? zt_strndup(c->model, (size_t)(slash - c->model))
                               : zt_strdup(".");
        s->tokenizer_path = folder ? zt_path_join(folder, "tokenizer.json") : NULL;
        zt_free(folder);
        if (s->tokenizer_path && !zt_path_exists(s->tokenizer_path)) {
            zt_free(s->tokenizer_path);
            s->tokenizer_path = NULL;
            /* a model trained on plain bytes says so by its vocabulary alone */
            s->tokenizer_path = s->model.vocab == 257 ? zt_strdup("bytes") : NULL;
            if (!s->tokenizer_path) return ZT_OK;
        }
    }
    if (!s->tokenizer_path) return ZT_NOMEM();
    return zt_tokenizer_load(s->tokenizer_path, &s->tokenizer);
}

zt_status zt_session_tokenizer(zt_session *s)
{
    ZT_TRY(zt_comm_agree(s->comm, tokenizer_local(s)));
    if (s->tokenizer && zt_tokenizer_vocab(s->tokenizer) > s->model.vocab)
        zt_log(ZT_LOG_WARN,
               "the tokenizer has %d tokens and the model's vocabulary %lld: ids beyond it will "
               "be refused",
               zt_tokenizer_vocab(s->tokenizer), (long long)s->model.vocab);
    return ZT_OK;
}

static zt_data_opt data_opt(const zt_session *s, const zt_strings *files)
{
    const zt_config *c = s->config;
    return (zt_data_opt){.patterns = (const char *const *)files->items,
                         .n_patterns = files->n,
                         .format = c->format,
                         .field = c->text_field,
                         .separator = c->separator,
                         .cache_dir = c->cache_dir,
                         .sequence_length = c->sequence_length,
                         .vocab_size = (int32_t)s->model.vocab,
                         .packing = c->packing,
                         .isolate = c->isolate_documents,
                         .shuffle = c->shuffle,
                         .seed = (uint64_t)(c->data_seed >= 0 ? c->data_seed : c->seed),
                         .take_to = 1};
}

zt_status zt_session_data(zt_session *s, bool training)
{
    const zt_config *c = s->config;
    ZT_TRY(zt_session_tokenizer(s));
    zt_data_opt o = data_opt(s, &c->train);
    if (training) {
        if (c->validation.n == 0) o.take_to = 1 - c->validation_split;
        ZT_TRY(zt_dataset_open(&o, s->tokenizer, s->comm, &s->train));
        zt_log(ZT_LOG_INFO, "training data: %s", zt_dataset_describe(s->train));
    }
    if (c->validation.n > 0) {
        o = data_opt(s, &c->validation);
    } else if (training && c->validation_split > 0) {
        o.take_from = o.take_to;
        o.take_to = 1;
    } else {
        return ZT_OK;
    }
    o.shuffle = false;
    ZT_TRY(zt_dataset_open(&o, s->tokenizer, s->comm, &s->validation));
    zt_log(ZT_LOG_INFO, "validation data: %s", zt_dataset_describe(s->validation));
    return ZT_OK;
}

void zt_session_batch(const zt_dataset *d, int64_t first, int64_t B, int64_t T, zt_batch *b)
{
    for (int64_t i = 0; i < B; i++)
        zt_dataset_sample(d, first + i, b->ids + i * T, b->labels + i * T,
                          b->start ? b->start + i * T : NULL);
}

/* ---- engine ---- */
static zt_optim_opt optim_of(const zt_config *c)
{
    zt_optim_opt o = {.kind = ZT_OPTIM_ADAMW,
                      .beta1 = (float)c->beta1,
                      .beta2 = (float)c->beta2,
                      .eps = (float)c->eps,
                      .weight_decay = (float)c->weight_decay,
                      .momentum = (float)c->momentum,
                      .dampening = (float)c->dampening,
                      .nesterov = c->nesterov,
                      .decay_all = c->decay_all};
    if (strcmp(c->optimizer, "SGD") == 0)
        o.kind = ZT_OPTIM_SGD;
    else if (strcmp(c->optimizer, "Adam") == 0 && !c->adam_w_mode)
        o.kind = ZT_OPTIM_ADAM;
    return o;
}

static zt_status grad_type(const zt_config *c, bool *fp32)
{
    const char *t = c->grad_accum_dtype;
    *fp32 = strcmp(t, "fp32") == 0;
    if (*fp32 || strcmp(t, "auto") == 0 || strcmp(t, zt_dtype_name(zt_config_type(c))) == 0) {
        if (!*fp32 && strcmp(t, "auto") != 0 && c->accumulation > 1)
            return ZT_FAIL(
                ZT_ERR_CONFIG,
                "data_types.grad_accum_dtype = %s with %lld accumulation steps would round every "
                "partial sum to 16 bit; use fp32",
                t, (long long)c->accumulation);
        return ZT_OK;
    }
    return ZT_FAIL(ZT_ERR_CONFIG,
                   "data_types.grad_accum_dtype = %s: should be fp32 or the compute type %s", t,
                   zt_dtype_name(zt_config_type(c)));
}

zt_status zt_session_plan(zt_session *s, int ranks, int rank, bool training)
{
    const zt_config *c = s->config;
    zt_engine_opt o = {.stage = (int)c->stage,
                       .type = zt_config_type(c),
                       .n_micro = training ? (int)c->accumulation : 1,
                       .train = training,
                       .optim = optim_of(c),
                       .persist_numel = c->persistence,
                       .prefetch_numel = c->prefetch,
                       .seed = (uint64_t)c->seed,
                       .positions = c->sequence_length};
    ZT_TRY(grad_type(c, &o.grad_fp32));
    ZT_TRY(zt_engine_create(s->graph, &o, ranks, rank, &s->dev, &s->engine));
    s->engine->isolate = c->isolate_documents;
    zt_program_opt p = {.goal = ZT_GOAL_TRAIN, .B = c->micro_batch, .T = c->sequence_length};
    p.recompute = c->recompute;
    if (training) ZT_TRY(zt_engine_add_pass(s->engine, &p, &s->train_pass));
    p.goal = ZT_GOAL_LOSS;
    if (!training || s->validation || c->validation.n || c->validation_split > 0)
        ZT_TRY(zt_engine_add_pass(s->engine, &p, &s->loss_pass));
    return ZT_OK;
}

static zt_status fill(zt_session *s)
{
    if (s->config->from_scratch) {
        zt_scratch x = {s->graph, (uint64_t)s->config->seed, s->dev.n_threads};
        return zt_engine_fill(s->engine, zt_scratch_read, &x);
    }
    zt_source_weights *w;
    ZT_TRY(zt_source_weights_open(s->config->model, s->graph, &w));
    zt_status status = zt_engine_fill(s->engine, zt_source_weights_read, w);
    zt_source_weights_close(&w);
    return status;
}

zt_status zt_session_weights(zt_session *s)
{
    ZT_TRY(zt_engine_allocate(s->engine, s->mem, s->comm));
    return zt_comm_agree(s->comm, fill(s));
}

void zt_session_stop(zt_session *s)
{
    zt_engine_destroy(&s->engine);
    zt_dataset_close(&s->train);
    zt_dataset_close(&s->validation);
    zt_tokenizer_free(&s->tokenizer);
    zt_free(s->tokenizer_path);
    zt_free(s->checkpoint);
    zt_mem_destroy(&s->mem);
    if (s->dev.k) zt_dev_destroy(&s->dev);
    zt_graph_destroy(&s->graph);
    zt_model_config_deinit(&s->model);
    *s = (zt_session){0};
}

zt_status zt_session_evaluate(zt_session *s, int64_t most, double *loss, int64_t *targets)
{
    const int64_t B = s->config->micro_batch, T = s->config->sequence_length;
    const int ranks = zt_comm_size(s->comm), rank = zt_comm_rank(s->comm);
    int64_t n = zt_dataset_samples(s->validation);
    n = most > 0 && most < n ? most : n;
    double sum = 0;
    int64_t count = 0;
    zt_batch *b = zt_engine_batch(s->engine, 0);
    for (int64_t at = 0; at < n; at += B * ranks) {
        double part;
        int64_t part_targets, stop = zt_stop_requested;
        ZT_TRY(zt_all_reduce_max_i64(s->comm, &stop, 1)); /* all leave at the same batch */
        if (stop)
            return zt_comm_agree(
                s->comm, ZT_FAIL(ZT_ERR_STOPPED,
                                 "evaluation was stopped by a signal after %lld of %lld samples",
                                 (long long)at, (long long)n));
        zt_session_batch(s->validation, at + rank * B, B, T, b);
        for (int64_t i = 0; i < B;
             i++) /* beyond the end: taken from the start again, not counted */
            for (int64_t t = 0; at + rank * B + i >= n && t < T; t++)
                b->labels[i * T + t] = -100;
        ZT_TRY(zt_engine_loss(s->engine, s->loss_pass, &part, &part_targets));
        sum += part;
        count += part_targets;
    }
    ZT_TRY(zt_all_reduce_sum_f64(s->comm, &sum, 1));
    ZT_TRY(zt_all_reduce_sum_i64(s->comm, &count, 1));
    *targets = count;
    *loss = count ? sum / (double)count : 0;
    if (count && !isfinite(*loss))
        return ZT_FAIL(ZT_ERR_NUMERIC, "the validation loss is not finite");
    return ZT_OK;
}
