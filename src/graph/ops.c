/* ops.c - the table of ops: what backward reads, what may happen in place, scratch and work. */
#include "graph/ops.h"

static const zt_op_trait traits[ZT_OPS] = {
    [ZT_OP_EMBED] = {0},
    [ZT_OP_LINEAR] = {.needs_in = true, .back_adds = true},
    [ZT_OP_LAYER_NORM] = {.needs_in = true, .has_saved = true, .back_adds = true},
    [ZT_OP_RMS_NORM] = {.needs_in = true, .has_saved = true, .back_adds = true},
    [ZT_OP_GELU] = {.needs_in = true, .back_in_place = true},
    [ZT_OP_SILU_MUL] = {.needs_in = true, .back_in_place = true},
    [ZT_OP_ADD] = {.in_place = true},
    [ZT_OP_DROPOUT] = {.in_place = true, .back_in_place = true},
    [ZT_OP_ROPE] = {.in_place = true, .back_in_place = true},
    [ZT_OP_ATTENTION] = {.needs_in = true, .needs_out = true, .has_saved = true},
    [ZT_OP_LM_HEAD] = {.needs_in = true},
};

const zt_op_trait *zt_op_traits(zt_op op)
{
    return &traits[op];
}

size_t zt_op_saved_bytes(const zt_node *n, int which, int64_t B, int64_t T)
{
    switch (n->op) {
    case ZT_OP_LAYER_NORM:
        return (size_t)(B * T) * sizeof(float);
    case ZT_OP_RMS_NORM: /* saved[1] is rstd for both norms */
        return which == 1 ? (size_t)(B * T) * sizeof(float) : 0;
    case ZT_OP_ATTENTION:
        return which == 0 ? (size_t)(B * n->heads * T) * sizeof(float) : 0;
    default:
        return 0;
    }
}

zt_linear zt_op_linear(const zt_program *p, const zt_node *n, int64_t rows, int64_t x_stride,
                       int64_t y_stride)
{
    const zt_parameter *w = &p->graph->params[n->par[0]];
    return (zt_linear){.N = rows,
                       .I = w->in,
                       .O = w->out,
                       .type = p->opt.type,
                       .w_in_out = w->opt.in_out,
                       .x_stride = x_stride == w->in ? 0 : x_stride,
                       .y_stride = y_stride == w->out ? 0 : y_stride};
}

static int64_t stride_of(const zt_program *p, int value)
{
    const zt_value *v = &p->graph->values[value];
    return v->parent >= 0 ? p->graph->values[v->parent].cols : v->cols;
}

zt_attention zt_op_attention(const zt_program *p, const zt_node *n, int64_t past)
{
    const zt_program_opt *o = &p->opt;
    zt_attention a = {.B = o->B,
                      .T = o->T,
                      .S = past + o->T,
                      .past = past,
                      .H = n->heads,
                      .G = n->kv_heads,
                      .D = n->head_dim,
                      .q_stride = stride_of(p, n->in[0]),
                      .k_stride = stride_of(p, n->in[1]),
                      .v_stride = stride_of(p, n->in[2]),
                      .o_stride = p->graph->values[n->out].cols,
                      .scale = n->number,
                      .causal = true,
                      .type = o->type};
    a.S_max = a.S;
    if (o->cache_room) {
        a.S_max = o->cache_room;
        a.k_stride = a.v_stride = (int64_t)n->kv_heads * n->head_dim;
    }
    return a;
}

size_t zt_op_cache_at(const zt_graph *g, const zt_program_opt *opt, int node, size_t *bytes)
{
    size_t at = 0, one = 0;
    for (int j = 0; j <= node; j++) {
        const zt_node *n = &g->nodes[j];
        if (n->op != ZT_OP_ATTENTION) continue;
        at += 2 * one;
        one = (size_t)(opt->B * opt->cache_room * n->kv_heads * n->head_dim) *
              zt_dtype_bytes(opt->type);
        one = (one + 63) / 64 * 64;
    }
    *bytes = one;
    return at;
}

size_t zt_op_cache_bytes(const zt_graph *g, const zt_program_opt *opt)
{
    size_t one, at = zt_op_cache_at(g, opt, g->n_nodes - 1, &one);
    return at + 2 * one;
}

/* About 32 MiB of logits at a time, in equal pieces. */
int64_t zt_lm_head_rows(const zt_program *p)
{
    const zt_graph *g = p->graph;
    const zt_parameter *w = &g->params[g->nodes[g->n_nodes - 1].par[0]];
    int64_t all = p->opt.B * p->opt.T;
    int64_t most = (32 << 20) / (w->out * (int64_t)zt_dtype_bytes(p->opt.type));
    if (most < 64) most = 64;
    int64_t pieces = (all + most - 1) / most;
    return (all + pieces - 1) / pieces;
}

static size_t head_scratch(const zt_program *p, const zt_node *n, const zt_dev *dev)
{
    const zt_parameter *w = &p->graph->params[n->par[0]];
    int64_t tile = zt_lm_head_rows(p), all = p->opt.B * p->opt.T;
    size_t bytes = 0;
    if (p->opt.goal != ZT_GOAL_LOGITS) {
        bytes += ((size_t)(tile * w->out) * zt_dtype_bytes(p->opt.type) + 63) / 64 * 64;
        if (p->opt.goal == ZT_GOAL_TRAIN && w->trainable && p->opt.grad_type != ZT_F32 &&
            tile < all) /* several tiles: their sum in fp32 */
            bytes += (size_t)w->numel * sizeof(float);
    } else {
        bytes += (size_t)(p->opt.B * w->in) * zt_dtype_bytes(p->opt.type) + 64;
        tile = p->opt.all_logits ? all : p->opt.B;
    }
    zt_linear l = zt_op_linear(p, n, tile, w->in, w->out);
    bytes += dev->k->linear_scratch(&l);
    return bytes;
}

size_t zt_op_scratch(const zt_program *p, const zt_instr *i, const zt_dev *dev)
{
    const zt_graph *g = p->graph;
    const zt_node *n = &g->nodes[i->node];
    const int64_t N = p->opt.B * p->opt.T;
    const zt_kernels *k = dev->k;
    switch (n->op) {
    case ZT_OP_LINEAR: {
        zt_linear l = zt_op_linear(p, n, N, g->params[n->par[0]].in, g->params[n->par[0]].out);
        return k->linear_scratch(&l);
    }
    case ZT_OP_ATTENTION: {
        zt_attention a = zt_op_attention(p, n, 0);
        if (p->opt.cache_room) a.S = p->opt.cache_room;
        return k->attention_scratch(&a, dev->n_threads);
    }
    case ZT_OP_LAYER_NORM:
    case ZT_OP_RMS_NORM:
        return k->norm_scratch(N, g->values[n->out].cols);
    case ZT_OP_EMBED: {
        const zt_parameter *w = &g->params[n->par[0]];
        return p->opt.goal == ZT_GOAL_TRAIN ? k->embed_bwd_scratch(N, w->in, w->out) : 0;
    }
    case ZT_OP_LM_HEAD:
        return head_scratch(p, n, dev);
    default:
        return 0;
    }
}

double zt_op_flops(const zt_program *p, const zt_instr *i)
{
    const zt_node *n = &p->graph->nodes[i->node];
    const double N = (double)(p->opt.B * p->opt.T);
    double work = 0;
    if (n->op == ZT_OP_LINEAR || n->op == ZT_OP_LM_HEAD)
        work = 2 * N * (double)p->graph->params[n->par[0]].numel;
    else if (n->op == ZT_OP_ATTENTION) /* half of the square of scores: causal */
        work = 2 * N * (double)(p->opt.T + 1) * n->heads * n->head_dim;
    double times = 1;
    if (n->op == ZT_OP_ATTENTION && i->what == ZT_DO_BACKWARD)
        times = 2.5;
    else if (n->op == ZT_OP_LM_HEAD && p->opt.goal == ZT_GOAL_TRAIN)
        times = 1 + (i->d_in[0].buf >= 0) + i->d_par[0];
    else if (i->what == ZT_DO_BACKWARD)
        times = (i->d_in[0].buf >= 0) + i->d_par[0];
    return work * times;
}
