/* ops.h - what the program maker needs to know of each op. */
#ifndef ZT_OPS_H
#define ZT_OPS_H
#include "graph/program.h"

typedef struct {
    bool in_place;      /* forward may write over an input */
    bool needs_in;      /* backward reads the inputs */
    bool needs_out;     /* backward reads the result */
    bool has_saved;     /* forward leaves statistics for backward */
    bool back_in_place; /* an input's gradient may take the place of the result's */
    bool back_adds;     /* backward can add to the input's gradient */
} zt_op_trait;

const zt_op_trait *zt_op_traits(zt_op op);
size_t zt_op_saved_bytes(const zt_node *n, int which, int64_t B, int64_t T);
size_t zt_op_scratch(const zt_program *p, const zt_instr *i, const zt_dev *dev);
double zt_op_flops(const zt_program *p, const zt_instr *i);
size_t zt_op_cache_bytes(const zt_graph *g, const zt_program_opt *opt);

/* Descriptions that the kernels take, of a node in this program. */
zt_linear zt_op_linear(const zt_program *p, const zt_node *n, int64_t rows, int64_t x_stride,
                       int64_t y_stride);
zt_attention zt_op_attention(const zt_program *p, const zt_node *n, int64_t past);
/* Byte offset of a node's keys in the cache, and bytes of its keys (its values follow). */
size_t zt_op_cache_at(const zt_graph *g, const zt_program_opt *opt, int node, size_t *bytes);
#endif
