/* engine.h - training state in its places, and the executor that walks a program over it.
 *
 * An engine is first planned (create, add passes: pure arithmetic, what `zeroth plan` does), then
 * allocated once, and then runs without allocating. There is one path for every placement; stages, ranks
 * and types are data. Unless said otherwise functions are Collective over the engine's communicator. */
#ifndef ZT_ENGINE_H
#define ZT_ENGINE_H
#include "comm/comm.h"
#include "engine/placement.h"
#include "engine/schedule.h"
#include "store/mem.h"

enum { ZT_MAX_PASSES = 4 };

typedef struct {
    int stage;      /* ZeRO 0..3 */
    zt_dtype type;  /* parameters and activations */
    int n_micro;    /* micro-steps a step */
    bool grad_fp32; /* gradients rest in fp32; always so with more than one micro-step */
    bool train;     /* false: no gradients, no optimizer state */
    zt_optim_opt optim;
    int64_t persist_numel, prefetch_numel;
    uint64_t seed;     /* of dropout */
    int64_t positions; /* rows of the rotary table: the longest sequence */
} zt_engine_opt;

/* One micro-batch of a pass: T ids and labels (-100: masked) for each of B examples. */
typedef struct {
    int32_t *ids, *labels;
    int32_t *start; /* first position that each may see; NULL when documents are not isolated */
    int64_t first_sample; /* number of the first example in the step's global batch */
} zt_batch;

typedef struct zt_engine {
    zt_engine_opt opt;
    const zt_graph *graph;
    zt_dev *dev;
    zt_mem *mem;
    zt_comm *comm;
    zt_placement *place;
    struct {
        zt_program *program;
        zt_schedule *schedule;
    } pass[ZT_MAX_PASSES];
    int n_passes;
    bool isolate;
    /* regions */
    char *params, *grads, *os, *arena, *gather, *reduce, *scratch, *cache;
    size_t arena_bytes, gather_bytes, reduce_bytes, scratch_bytes, cache_bytes, rope_bytes,
        batch_bytes;
    float *rope;
    int64_t rows; /* of the largest pass */
    char *batch_region;
    zt_batch *batches; /* [n_micro] */
    int32_t *positions;
    float *row_loss;
    /* tables of the executor */
    const void **weight;
    void **grad;
    zt_request **gather_req, **reduce_req; /* by gather number; by chunk */
} zt_engine;

/* ---- planning. Local ---- */
ZT_MUST_USE zt_status zt_engine_create(const zt_graph *g, const zt_engine_opt *opt, int ranks,
                                       int rank, zt_dev *dev, zt_engine **out);
/* A program to be run on this engine; *pass is its number. Its types are the engine's. */
ZT_MUST_USE zt_status zt_engine_add_pass(zt_engine *e, const zt_program_opt *opt, int *pass);
/* Books what allocate would, without allocating. */
void zt_engine_book(const zt_engine *e, zt_mem *mem);
void zt_engine_destroy(zt_engine **e);

typedef struct {
    int64_t gather, reduce;                 /* elements this rank sends in one step, with padding */
    int64_t gather_payload, reduce_payload; /* without */
    int64_t bytes;                          /* of all */
    double formula;                         /* elements by the papers' formula: 2 or 3 (n-1)/n P */
    double saved;                           /* what is sent less than that, payload */
} zt_traffic;
void zt_engine_traffic(const zt_engine *e, int pass, zt_traffic *t);

/* ---- running ---- */
ZT_MUST_USE zt_status zt_engine_allocate(zt_engine *e, zt_mem *mem, zt_comm *comm);
zt_batch *zt_engine_batch(zt_engine *e, int micro); /* to be filled before a step. Local */

typedef struct {
    int64_t step;    /* 1 for the first update */
    double lr, clip; /* clip 0: none */
    double loss_scale;
    bool
        skip_overflow; /* fp16: a gradient that is not finite skips the update instead of failing */
} zt_step_opt;
typedef struct {
    double loss; /* mean per target token of the global batch */
    int64_t targets;
    double grad_norm; /* of the mean loss, before clipping */
    bool skipped;
    double seconds_compute, seconds_update;
} zt_step_result;
/* Forward, backward and update from the n_micro batches. On failure the state is as it was. */
ZT_MUST_USE zt_status zt_engine_step(zt_engine *e, int pass, const zt_step_opt *o,
                                     zt_step_result *r);
/* Forward and backward alone: leaves reduced gradients; for tests. */
ZT_MUST_USE zt_status zt_engine_gradients(zt_engine *e, int pass, const zt_step_opt *o,
                                          zt_step_result *r);
/* Sum of the losses over this rank's targets in batch 0 (the pass's goal: LOSS). */
ZT_MUST_USE zt_status zt_engine_loss(zt_engine *e, int pass, double *sum, int64_t *targets);
/* Logits (goal: LOGITS) of `ids` [B, T] behind `past` cached positions, to `logits` of the type. */
ZT_MUST_USE zt_status zt_engine_logits(zt_engine *e, int pass, const int32_t *ids, int64_t past,
                                       void *logits);
/* ---- state in and out: state.c ---- */
/* Values of elements [from, from + count) of a parameter, as fp32. */
typedef zt_status zt_read_fn(void *arg, int param, int64_t from, int64_t count, float *out);
/* Sets parameters (and master copies) from `read`, each rank what it holds. Local. */
ZT_MUST_USE zt_status zt_engine_fill(zt_engine *e, zt_read_fn *read, void *arg);
/* The same for moment 0 or 1. Local. */
ZT_MUST_USE zt_status zt_engine_fill_moment(zt_engine *e, int moment, zt_read_fn *read, void *arg);

/* What this rank is to save of the optimizer: its shard of every trained parameter. Local. */
typedef struct {
    int param;
    int64_t from, count;
    const float *master; /* fp32 values of the parameter */
    const float *moments[2];
} zt_state_slice;
typedef zt_status zt_slice_fn(void *arg, const zt_state_slice *slice);
ZT_MUST_USE zt_status zt_engine_slices(zt_engine *e, zt_slice_fn *fn, void *arg);

/* A chunk's parameters whole, of the engine's type, on every rank; valid until the next call of any
 * engine function. A chunk holds parts chunks[i].first_part and following of place->parts. */
ZT_MUST_USE zt_status zt_engine_gather_chunk(zt_engine *e, int chunk, const void **data);
/* The reduced gradient of a chunk whole, as fp32, into `out` [padded]. For tests. */
ZT_MUST_USE zt_status zt_engine_gather_grad(zt_engine *e, int chunk, float *out);
#endif
