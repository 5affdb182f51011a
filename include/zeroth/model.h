/* model.h - the only header a model file includes.
 *
 * A model is one function that describes a forward pass. Nothing is computed or allocated while it
 * runs: each call appends an operation to a graph, from which backward, memory and traffic are
 * derived. A model file names weights and operations; it never touches a buffer, a rank or a
 * gradient. Values are matrices [batch * time, channels].
 *
 *     zt_val x = zt_nn_embed(g, ZT_TOKENS, table);
 *     zt_block_begin(g);
 *     x = zt_nn_add(g, x, zt_nn_linear(g, zt_nn_rms_norm(g, x, scale, 1e-5f), w, ZT_NO_PAR));
 *     zt_block_end(g);
 *     zt_nn_lm_head(g, x, table);
 *
 * Errors stick: after the first failure every call does nothing, and zt_graph_status reports it. */
#ifndef ZT_MODEL_H
#define ZT_MODEL_H
#include "zeroth/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct zt_graph zt_graph;
typedef struct {
    int id;
} zt_val;
typedef struct {
    int id;
} zt_par;
#define ZT_NO_PAR ((zt_par){-1})

typedef struct {
    float std;     /* from scratch: normal(0, std); 0 = all `fill` */
    float fill;    /* 1 for norm scales, 0 for biases */
    bool in_out;   /* the file holds [in, out] (GPT-2's Conv1D) instead of [out, in] */
    bool no_decay; /* a norm or a bias: may be excluded from weight decay */
} zt_par_opt;

/* A weight [out, in], or a vector [out] when in == 0. The name is the checkpoint's; zt_push scopes are
 * put before it. The same name again gives the same weight: that is how two layers tie. */
zt_par zt_param(zt_graph *g, const char *name, int64_t out, int64_t in, zt_par_opt o);
void zt_push(zt_graph *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void zt_pop(zt_graph *g);

/* A block is the unit that is gathered, prefetched and recomputed. Only what a later block uses
 * outlives it. */
void zt_block_begin(zt_graph *g);
void zt_block_end(zt_graph *g);

typedef enum { ZT_TOKENS, ZT_POSITIONS } zt_ids_kind;
zt_val zt_nn_embed(zt_graph *g, zt_ids_kind ids, zt_par table);
zt_val zt_nn_linear(zt_graph *g, zt_val x, zt_par w, zt_par bias); /* x w^T + bias */
zt_val zt_nn_layer_norm(zt_graph *g, zt_val x, zt_par scale, zt_par shift, float eps);
zt_val zt_nn_rms_norm(zt_graph *g, zt_val x, zt_par scale, float eps);
zt_val zt_nn_gelu(zt_graph *g, zt_val x, bool tanh_form);
zt_val zt_nn_silu_mul(zt_graph *g, zt_val gate, zt_val up); /* silu(gate) * up */
zt_val zt_nn_add(zt_graph *g, zt_val a, zt_val b);
zt_val zt_nn_dropout(zt_graph *g, zt_val x, float p);
zt_val zt_nn_part(zt_graph *g, zt_val x, int which, int of); /* a channel range, without a copy */

/* Rotary positions on heads of head_dim channels: pair (i, i + head_dim/2) turns by pos * inv_freq[i].
 * inv_freq [head_dim / 2] is copied; one table a graph. */
zt_val zt_nn_rope(zt_graph *g, zt_val x, int head_dim, const float *inv_freq);

typedef struct {
    int heads, kv_heads; /* kv_heads < heads: grouped queries */
    float scale;         /* 0 means 1/sqrt(head_dim) */
    float dropout;       /* of the weights, in training */
} zt_attention_opt;
zt_val zt_nn_causal_attention(zt_graph *g, zt_val q, zt_val k, zt_val v, zt_attention_opt o);

/* The last call: logits = x w^T against the batch's labels, fused with the loss in tiles. */
void zt_nn_lm_head(zt_graph *g, zt_val x, zt_par w);
#endif
