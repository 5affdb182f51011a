/* program.h - a graph made into a straight list of instructions with every buffer placed: forward,
 * recomputed forward and backward in the order in which they run.
 *
 * The program knows parameters by number only; where their weights and gradients lie is told when it
 * runs (zt_run). All functions are Local. */
#ifndef ZT_PROGRAM_H
#define ZT_PROGRAM_H
#include "graph/arena.h"
#include "graph/graph.h"
#include "kernels/kernels.h"

typedef enum {
    ZT_GOAL_TRAIN,  /* loss and gradients */
    ZT_GOAL_LOSS,   /* loss only */
    ZT_GOAL_LOGITS, /* logits of the last position (or of all), with a key-value cache */
} zt_goal;

typedef struct {
    zt_goal goal;
    int64_t B, T;
    zt_dtype type;      /* activations and weights */
    zt_dtype grad_type; /* gradients of parameters as backward leaves them */
    bool recompute;     /* keep only what leaves a block, run the rest of it again in backward */
    int64_t cache_room; /* LOGITS: rows of the key-value cache; 0 = none */
    bool all_logits;
} zt_program_opt;

typedef struct {
    int buf; /* -1: none */
    int64_t col, stride;
} zt_ref;

typedef enum { ZT_DO_FORWARD, ZT_DO_RECOMPUTE, ZT_DO_BACKWARD, ZT_DO_SUM, ZT_DO_COPY } zt_do;

typedef struct {
    zt_do what;
    int node, segment;
    zt_ref in[3], out;     /* SUM: out = in[0] + in[1]; COPY: out = in[0] */
    zt_ref saved[2];       /* norms: mean, rstd; attention: lse */
    zt_ref d_out, d_in[3]; /* gradients; d_in[k].buf -1: not wanted */
    bool d_in_add[3];      /* added to what is there */
    bool d_par[2];         /* the parameter's gradient is wanted */
    bool d_par_add[2];     /* the second use of a tied parameter in this pass */
    int64_t cols;          /* SUM, COPY */
} zt_instr;

typedef struct {
    const zt_graph *graph;
    zt_program_opt opt;
    zt_instr *instrs;
    int n_instrs, room_instrs;
    zt_interval *bufs;
    int n_bufs, room_bufs;
    size_t arena_bytes, scratch_bytes, cache_bytes;
    double flops; /* of one run: 2 a multiply-add of the products and attention */
} zt_program;

/* `dev` tells scratch needs (kernels and thread count). */
ZT_MUST_USE zt_status zt_program_compile(const zt_graph *g, const zt_program_opt *opt,
                                         const zt_dev *dev, zt_program **out);
void zt_program_destroy(zt_program **p);

/* What one run works on. Weights and gradients of an instruction's parameters must be there when it is
 * executed and not earlier. */
typedef struct {
    zt_dev *dev;         /* scratch of at least scratch_bytes */
    char *arena;         /* arena_bytes, aligned to 64 */
    const void **weight; /* [n_params] */
    void **grad;         /* [n_params]; of grad_type */
    bool grad_add;       /* gradients are added to what is there (a later micro-step) */
    const float *rope_cos, *rope_sin;
    const int32_t *ids, *labels, *positions, *start; /* [B*T]; start may be NULL */
    float *row_loss;                                 /* [B*T] */
    float loss_scale;                                /* dlogits are (p - onehot) * loss_scale */
    uint64_t seed;
    uint32_t step;
    int64_t first_sample; /* number of the first example in the step's global batch: keys dropout */
    char *cache;          /* LOGITS: cache_bytes */
    int64_t past;         /* rows in the cache */
    void *logits;         /* LOGITS: [B or B*T, V] of `type` */
} zt_run;
ZT_MUST_USE zt_status zt_run_instr(const zt_program *p, const zt_instr *i, const zt_run *run);

/* Scratch that lm_head needs beside the kernels' own, and how many rows it takes at a time. */
int64_t zt_lm_head_rows(const zt_program *p);
#endif
