/* session.h - what training, evaluation, generation and planning have in common: configuration, model,
 * device, tokenizer, data, engine, put together and taken apart in one place. Collective unless said
 * otherwise. */
#ifndef ZT_SESSION_H
#define ZT_SESSION_H
#include "config/config.h"
#include "config/schedule.h"
#include "data/dataset.h"
#include "engine/engine.h"
#include "model/models.h"

typedef struct {
    zt_comm *comm;
    zt_config *config;
    zt_model_config model;
    zt_graph *graph;
    zt_dev dev;
    zt_mem *mem;
    zt_tokenizer *tokenizer; /* NULL: data are token ids */
    char *tokenizer_path;
    zt_dataset *train, *validation;
    zt_engine *engine;
    int train_pass, loss_pass;
    char *checkpoint; /* what is resumed; NULL: nothing */
} zt_session;

/* Reads and checks config.json, builds the graph with its frozen parameters, makes the device. */
ZT_MUST_USE zt_status zt_session_start(zt_comm *comm, zt_config *config, zt_session *s);
/* The tokenizer of the configuration, if one is there. */
ZT_MUST_USE zt_status zt_session_tokenizer(zt_session *s);
/* data.train and data.validation (or data.validation_split). */
ZT_MUST_USE zt_status zt_session_data(zt_session *s, bool training);
/* The engine of `ranks` ranks with its passes, planned and not allocated. Local. */
ZT_MUST_USE zt_status zt_session_plan(zt_session *s, int ranks, int rank, bool training);
/* Allocates the engine and fills its weights: from a checkpoint, a model folder, or from scratch. */
ZT_MUST_USE zt_status zt_session_weights(zt_session *s);
void zt_session_stop(zt_session *s);
/* Reads sample numbers first.. of a data set into a batch of B. Local. */
void zt_session_batch(const zt_dataset *d, int64_t first, int64_t B, int64_t T, zt_batch *b);

/* Mean loss over (at most `most`, 0 = all) validation samples. */
ZT_MUST_USE zt_status zt_session_evaluate(zt_session *s, int64_t most, double *loss,
                                          int64_t *targets);

/* ---- weights.c ---- */
/* Weights from a Hugging Face folder, with every name and shape checked. Local. */
typedef struct zt_source_weights zt_source_weights;
ZT_MUST_USE zt_status zt_source_weights_open(const char *folder, const zt_graph *g,
                                             zt_source_weights **out);
void zt_source_weights_close(zt_source_weights **w);
zt_read_fn zt_source_weights_read; /* arg: zt_source_weights */
typedef struct {
    const zt_graph *graph;
    uint64_t seed;
    int n_threads;
} zt_scratch;
zt_read_fn zt_scratch_read; /* arg: zt_scratch */

/* ---- checkpoint.c ---- */
typedef struct {
    int64_t step, samples, tokens; /* done so far */
    zt_loss_scale scale;
} zt_progress;
/* Saves OUTPUT/checkpoint-STEP, whole or not at all, and removes old ones beyond save_total_limit. */
ZT_MUST_USE zt_status zt_checkpoint_save(zt_session *s, const zt_progress *p);
/* The last whole checkpoint of a folder; *path NULL when there is none. Local. */
ZT_MUST_USE zt_status zt_checkpoint_last(const char *output_dir, char **path);
/* Restores weights, optimizer state and progress (resume.c). */
ZT_MUST_USE zt_status zt_checkpoint_load(zt_session *s, const char *path, zt_progress *p);

/* ---- train.c ---- */
ZT_MUST_USE zt_status zt_train(zt_comm *comm, zt_config *config);
#endif
