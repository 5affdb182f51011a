/* graph.h - the static graph that a model function leaves behind. */
#ifndef ZT_GRAPH_H
#define ZT_GRAPH_H
#include "base/base.h"
#include "zeroth/model.h"

typedef enum {
    ZT_OP_EMBED,
    ZT_OP_LINEAR,
    ZT_OP_LAYER_NORM,
    ZT_OP_RMS_NORM,
    ZT_OP_GELU,
    ZT_OP_SILU_MUL,
    ZT_OP_ADD,
    ZT_OP_DROPOUT,
    ZT_OP_ROPE,
    ZT_OP_ATTENTION,
    ZT_OP_LM_HEAD,
    ZT_OPS
} zt_op;

typedef struct {
    zt_op op;
    int n_in, n_par;
    int in[3];  /* values */
    int par[2]; /* parameters; -1 = none (a linear without bias) */
    int out;    /* value; -1 for lm_head */
    int segment;
    float number; /* eps, dropout's p, attention's scale */
    float weight_dropout;
    bool flag; /* gelu: tanh form; embed: positions */
    int heads, kv_heads, head_dim;
} zt_node;

typedef struct {
    int64_t cols;
    int node;    /* its producer; -1 for a view */
    int parent;  /* a view: the value it is a channel range of; otherwise -1 */
    int64_t col; /* first channel in the parent */
    int uses;
    int n_parts;     /* views of it; counted at the end of the description */
    int64_t covered; /* channels of those used once */
} zt_value;

typedef struct {
    char *name;
    int64_t out, in, numel; /* in 0: a vector */
    zt_par_opt opt;
    int segment;    /* of its first use */
    int n_segments; /* in how many it is used: above 1 it is tied */
    int last_segment;
    bool trainable;
} zt_parameter;

/* A segment is a block or the stretch of nodes between two blocks. */
typedef struct {
    int first, last; /* nodes [first, last) */
    bool is_block;
} zt_segment;

struct zt_graph {
    zt_status status;
    zt_node *nodes;
    zt_value *values;
    zt_parameter *params;
    zt_segment *segments;
    int n_nodes, n_values, n_params, n_segments;
    int room_nodes, room_values, room_params, room_segments;
    int *slots, n_slots; /* hash of parameters' names to numbers; -1 free */
    char prefix[256];
    int prefix_at[8], depth;
    bool in_block;
    float *inv_freq;
    int rope_dim;
};

ZT_MUST_USE zt_status zt_graph_create(zt_graph **out);
void zt_graph_destroy(zt_graph **g);
/* The first failure of the description, or ZT_OK; checks that it is complete. */
ZT_MUST_USE zt_status zt_graph_status(zt_graph *g);
int64_t zt_graph_numel(const zt_graph *g, bool trainable_only);
int zt_graph_find(const zt_graph *g, const char *name); /* -1 */
const char *zt_op_name(zt_op op);
/* "block 3" or "before block 0": for messages */
void zt_segment_name(const zt_graph *g, int segment, char *text, size_t size);
#endif
