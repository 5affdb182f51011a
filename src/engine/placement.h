/* placement.h - where each kind of training state lives: parameters are laid into chunks, and for each
 * chunk it is settled which part of it this rank holds, of what, at which offset.
 *
 * A ZeRO stage is data here: three scopes (parameters, gradients, optimizer state), each either the
 * rank itself (everyone holds all of it) or the world (sharded evenly). Nothing else of the engine
 * asks for the stage. Pure arithmetic: no memory, no communication. */
#ifndef ZT_PLACEMENT_H
#define ZT_PLACEMENT_H
#include "graph/graph.h"
#include "optim/optim.h"
#include "store/mem.h"

typedef enum { ZT_SCOPE_RANK, ZT_SCOPE_WORLD } zt_scope;

typedef struct {
    zt_scope params, grads, optim; /* ZeRO 0..3: RRR, RRW, RWW, WWW */
    zt_dtype type;                 /* compute copy of parameters */
    zt_dtype grad_type;            /* gradients at rest */
    zt_dtype wire_type;            /* gradients as backward leaves them and as they travel */
    zt_optim_opt optim_opt;
    bool train;            /* false: parameters only */
    int64_t persist_numel; /* parameters of at most so many elements stay whole on every rank */
    int ranks, rank;
} zt_placement_opt;

/* The scopes of a ZeRO stage; a single rank has nothing to shard. */
void zt_placement_stage(zt_placement_opt *o, int stage);

typedef struct {
    int param;
    int64_t at; /* first element in the chunk */
} zt_chunk_part;

typedef struct {
    int segment, first_part, n_parts;
    bool trainable;
    bool p_sharded, g_sharded, os_sharded;
    int64_t numel, shard, padded; /* padded = ranks * shard */
    /* what rests on this rank: elements, and byte offsets in the three regions */
    int64_t p_count, g_count, os_count;
    size_t p_at, g_at, os_at; /* os: the states one after the other, os_count elements each */
} zt_chunk;

typedef struct {
    zt_placement_opt opt;
    const zt_graph *graph;
    zt_chunk *chunks;
    zt_chunk_part *parts;
    int n_chunks, n_parts;
    int *chunk_of;                     /* [n_params] */
    int64_t *at;                       /* [n_params]: first element in its chunk */
    int n_states;                      /* fp32 arrays of optimizer state: master copy and moments */
    size_t p_bytes, g_bytes, os_bytes; /* of the regions */
    size_t p_payload, g_payload, os_payload; /* without padding */
} zt_placement;

ZT_MUST_USE zt_status zt_placement_make(const zt_graph *g, const zt_placement_opt *opt,
                                        zt_placement **out);
void zt_placement_destroy(zt_placement **p);
/* Elements [from, to) of the chunk for which this rank holds optimizer state. */
void zt_placement_os_range(const zt_placement *p, const zt_chunk *c, int64_t *from, int64_t *to);
/* Elements [from, to) of the chunk that this rank reduces gradients for: its shard. */
void zt_placement_shard(const zt_placement *p, const zt_chunk *c, int64_t *from, int64_t *to);
#endif
