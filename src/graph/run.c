/* run.c - executing one instruction: finds the buffers and calls the kernel table. */
#include "graph/ops.h"

typedef struct {
    const zt_program *p;
    const zt_instr *i;
    const zt_node *n;
    const zt_run *r;
    zt_dev *dev;
    const zt_kernels *k;
    int64_t N; /* rows */
    zt_dtype type;
} call;

static void *at(const call *c, zt_ref ref)
{
    if (ref.buf < 0) return NULL;
    return c->r->arena + c->p->bufs[ref.buf].offset + (size_t)ref.col * zt_dtype_bytes(c->type);
}

static const void *weight(const call *c, int which)
{
    return c->n->par[which] < 0 ? NULL : c->r->weight[c->n->par[which]];
}

static void *gradient(const call *c, int which)
{
    return c->i->d_par[which] ? c->r->grad[c->n->par[which]] : NULL;
}

static bool adds(const call *c, int which)
{
    return c->r->grad_add || c->i->d_par_add[which];
}

static int64_t channels(const call *c)
{
    return c->p->graph->values[c->n->out].cols;
}

static zt_status linear_forward(const call *c)
{
    zt_linear l = zt_op_linear(c->p, c->n, c->N, c->i->in[0].stride, c->i->out.stride);
    return c->k->linear(c->dev, &l, at(c, c->i->in[0]), weight(c, 0), weight(c, 1),
                        at(c, c->i->out));
}

static zt_status linear_backward(const call *c)
{
    zt_linear l = zt_op_linear(c->p, c->n, c->N, c->i->in[0].stride, c->i->d_out.stride);
    const void *dy = at(c, c->i->d_out);
    void *dw = gradient(c, 0), *db = gradient(c, 1);
    ZT_ASSERT(!dw || !db || adds(c, 0) == adds(c, 1));
    if (dw || db)
        ZT_TRY(c->k->linear_dw(c->dev, &l, at(c, c->i->in[0]), dy, dw, db, c->p->opt.grad_type,
                               adds(c, dw ? 0 : 1)));
    if (c->i->d_in[0].buf >= 0)
        ZT_TRY(
            c->k->linear_dx(c->dev, &l, dy, weight(c, 0), at(c, c->i->d_in[0]), c->i->d_in_add[0]));
    return ZT_OK;
}

static void norm_forward(const call *c)
{
    float *mean = at(c, c->i->saved[0]), *rstd = at(c, c->i->saved[1]);
    if (c->n->op == ZT_OP_LAYER_NORM)
        c->k->layer_norm(c->dev, c->N, channels(c), c->n->number, c->type, at(c, c->i->in[0]),
                         weight(c, 0), weight(c, 1), at(c, c->i->out), mean, rstd);
    else
        c->k->rms_norm(c->dev, c->N, channels(c), c->n->number, c->type, at(c, c->i->in[0]),
                       weight(c, 0), at(c, c->i->out), rstd);
}

static void norm_backward(const call *c)
{
    const zt_instr *i = c->i;
    if (c->n->op == ZT_OP_LAYER_NORM)
        c->k->layer_norm_bwd(c->dev, c->N, channels(c), c->type, at(c, i->in[0]), weight(c, 0),
                             at(c, i->saved[0]), at(c, i->saved[1]), at(c, i->d_out),
                             at(c, i->d_in[0]), i->d_in_add[0], gradient(c, 0), gradient(c, 1),
                             c->p->opt.grad_type, adds(c, 0));
    else
        c->k->rms_norm_bwd(c->dev, c->N, channels(c), c->type, at(c, i->in[0]), weight(c, 0),
                           at(c, i->saved[1]), at(c, i->d_out), at(c, i->d_in[0]), i->d_in_add[0],
                           gradient(c, 0), c->p->opt.grad_type, adds(c, 0));
}

/* Copies the new keys (or values) behind those in the cache; returns the cache. */
static char *to_cache(const call *c, char *cache, zt_ref from)
{
    const int64_t B = c->p->opt.B, T = c->p->opt.T, room = c->p->opt.cache_room;
    const size_t e = zt_dtype_bytes(c->type);
    const size_t row = (size_t)(c->n->kv_heads * c->n->head_dim) * e;
    const char *new_rows = at(c, from);
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < T; t++)
            memcpy(cache + (size_t)(b * room + c->r->past + t) * row,
                   new_rows + (size_t)((b * T + t) * from.stride) * e, row);
    return cache;
}

static zt_rng dropout_rng(const call *c)
{
    return zt_rng_make(c->r->seed, ZT_RNG_DROPOUT, (uint32_t)c->i->node, c->r->step);
}

/* rng: room for what the result points to */
static zt_attention attention_of(const call *c, int64_t past, zt_rng *rng)
{
    zt_attention a = zt_op_attention(c->p, c->n, past);
    a.start = c->r->start;
    if (c->p->opt.goal == ZT_GOAL_TRAIN) {
        *rng = dropout_rng(c);
        a.dropout = c->n->weight_dropout;
        a.rng = rng;
        a.first = c->r->first_sample;
    }
    return a;
}

static void attention_forward(const call *c)
{
    const zt_instr *i = c->i;
    zt_rng rng;
    zt_attention a = attention_of(c, c->r->past, &rng);
    const void *k = at(c, i->in[1]), *v = at(c, i->in[2]);
    if (c->p->opt.cache_room) {
        size_t bytes, from = zt_op_cache_at(c->p->graph, &c->p->opt, i->node, &bytes);
        k = to_cache(c, c->r->cache + from, i->in[1]);
        v = to_cache(c, c->r->cache + from + bytes, i->in[2]);
    }
    c->k->attention(c->dev, &a, at(c, i->in[0]), k, v, at(c, i->out), at(c, i->saved[0]));
}

static void attention_backward(const call *c)
{
    const zt_instr *i = c->i;
    zt_rng rng;
    zt_attention a = attention_of(c, 0, &rng);
    /* the gradient of one input may be unwanted, but not of all: then this is not run */
    c->k->attention_bwd(c->dev, &a, at(c, i->in[0]), at(c, i->in[1]), at(c, i->in[2]),
                        at(c, i->out), at(c, i->saved[0]), at(c, i->d_out), at(c, i->d_in[0]),
                        at(c, i->d_in[1]), at(c, i->d_in[2]));
}

static zt_rope rope_of(const call *c)
{
    return (zt_rope){.N = c->N,
                     .heads = c->n->heads,
                     .D = c->n->head_dim,
                     .x_stride = channels(c),
                     .type = c->type,
                     .cos = c->r->rope_cos,
                     .sin = c->r->rope_sin,
                     .pos = c->r->positions};
}

static void dropout(const call *c, zt_ref from, zt_ref to)
{
    const int64_t C = channels(c);
    zt_rng rng = dropout_rng(c);
    c->k->dropout(c->dev, c->N * C, c->type, at(c, from), at(c, to), c->n->number, &rng,
                  c->r->first_sample * c->p->opt.T * C);
}

static const int32_t *ids_of(const call *c)
{
    return c->n->flag ? c->r->positions : c->r->ids;
}

static zt_status head_logits(const call *c)
{
    const zt_parameter *w = &c->p->graph->params[c->n->par[0]];
    const int64_t B = c->p->opt.B, T = c->p->opt.T;
    const size_t row = (size_t)w->in * zt_dtype_bytes(c->type);
    const char *x = at(c, c->i->in[0]);
    zt_linear l = zt_op_linear(c->p, c->n, c->p->opt.all_logits ? c->N : B, w->in, w->out);
    zt_dev dev = *c->dev;
    if (!c->p->opt.all_logits) {
        size_t used = ((size_t)B * row + 63) / 64 * 64;
        for (int64_t b = 0; b < B; b++)
            memcpy((char *)dev.scratch + (size_t)b * row, x + (size_t)(b * T + T - 1) * row, row);
        x = dev.scratch;
        dev.scratch = (char *)dev.scratch + used;
        dev.scratch_bytes -= used;
    }
    return c->k->linear(&dev, &l, x, weight(c, 0), NULL, c->r->logits);
}

/* Forward, loss and backward of the head, a tile of rows at a time. */
static zt_status head(const call *c)
{
    const zt_program_opt *o = &c->p->opt;
    if (o->goal == ZT_GOAL_LOGITS) return head_logits(c);
    const zt_parameter *w = &c->p->graph->params[c->n->par[0]];
    const size_t row = (size_t)w->in * zt_dtype_bytes(c->type);
    const int64_t tile = zt_lm_head_rows(c->p);
    const bool train = o->goal == ZT_GOAL_TRAIN;
    zt_dev dev = *c->dev;
    char *logits = dev.scratch, *rest = logits;
    rest += ((size_t)(tile * w->out) * zt_dtype_bytes(c->type) + 63) / 64 * 64;
    void *dw = gradient(c, 0), *sum = dw;
    bool add = adds(c, 0);
    if (dw && o->grad_type != ZT_F32 && tile < c->N) {
        ZT_ASSERT(!add); /* 16-bit gradients have one micro-step, and the head comes first */
        sum = rest;
        rest += (size_t)w->numel * sizeof(float);
    }
    dev.scratch = rest;
    dev.scratch_bytes -= (size_t)(rest - logits);
    for (int64_t from = 0; from < c->N; from += tile) {
        int64_t rows = from + tile < c->N ? tile : c->N - from;
        zt_linear l = zt_op_linear(c->p, c->n, rows, w->in, w->out);
        const char *x = (const char *)at(c, c->i->in[0]) + (size_t)from * row;
        ZT_TRY(c->k->linear(&dev, &l, x, weight(c, 0), NULL, logits));
        c->k->cross_entropy(&dev, rows, w->out, w->out, c->type, logits, c->r->labels + from,
                            c->r->row_loss + from, train ? logits : NULL, c->r->loss_scale);
        if (dw)
            ZT_TRY(c->k->linear_dw(&dev, &l, x, logits, sum, NULL,
                                   sum == dw ? o->grad_type : ZT_F32, add || from > 0));
        if (c->i->d_in[0].buf >= 0)
            ZT_TRY(c->k->linear_dx(&dev, &l, logits, weight(c, 0),
                                   (char *)at(c, c->i->d_in[0]) + (size_t)from * row, false));
    }
    if (dw && sum != dw) c->k->cast(&dev, w->numel, sum, ZT_F32, dw, o->grad_type);
    return ZT_OK;
}

static zt_status forward(const call *c)
{
    ZT_ASSERT(c->n != NULL);
    const zt_instr *i = c->i;
    const zt_kernels *k = c->k;
    const void *x = at(c, i->in[0]);
    void *y = at(c, i->out);
    switch (c->n->op) {
    case ZT_OP_EMBED:
        k->embed(c->dev, c->N, channels(c), c->type, ids_of(c), weight(c, 0), y, false);
        return ZT_OK;
    case ZT_OP_LINEAR:
        return linear_forward(c);
    case ZT_OP_LAYER_NORM:
    case ZT_OP_RMS_NORM:
        norm_forward(c);
        return ZT_OK;
    case ZT_OP_GELU:
        k->gelu(c->dev, c->N * channels(c), c->n->flag, c->type, x, y);
        return ZT_OK;
    case ZT_OP_SILU_MUL:
        k->silu_mul(c->dev, c->N * channels(c), c->type, x, at(c, i->in[1]), y);
        return ZT_OK;
    case ZT_OP_ADD:
        k->add(c->dev, c->N * channels(c), c->type, x, at(c, i->in[1]), y);
        return ZT_OK;
    case ZT_OP_DROPOUT:
        if (c->p->opt.goal == ZT_GOAL_TRAIN)
            dropout(c, i->in[0], i->out);
        else if (x != y)
            k->cast(c->dev, c->N * channels(c), x, c->type, y, c->type);
        return ZT_OK;
    case ZT_OP_ROPE: {
        zt_rope r = rope_of(c);
        k->rope(c->dev, &r, x, y, false);
        return ZT_OK;
    }
    case ZT_OP_ATTENTION:
        attention_forward(c);
        return ZT_OK;
    case ZT_OP_LM_HEAD:
        return head(c);
    case ZT_OPS:
        break;
    }
    ZT_BUG("no such op");
    return ZT_OK;
}

static zt_status backward(const call *c)
{
    ZT_ASSERT(c->n != NULL);
    const zt_instr *i = c->i;
    const zt_kernels *k = c->k;
    const void *dy = at(c, i->d_out);
    void *dx = at(c, i->d_in[0]);
    switch (c->n->op) {
    case ZT_OP_EMBED: {
        const zt_parameter *w = &c->p->graph->params[c->n->par[0]];
        k->embed_bwd(c->dev, c->N, w->in, w->out, c->type, ids_of(c), dy, gradient(c, 0),
                     c->p->opt.grad_type, adds(c, 0));
        return ZT_OK;
    }
    case ZT_OP_LINEAR:
        return linear_backward(c);
    case ZT_OP_LAYER_NORM:
    case ZT_OP_RMS_NORM:
        norm_backward(c);
        return ZT_OK;
    case ZT_OP_GELU:
        k->gelu_bwd(c->dev, c->N * channels(c), c->n->flag, c->type, at(c, i->in[0]), dy, dx);
        return ZT_OK;
    case ZT_OP_SILU_MUL:
        k->silu_mul_bwd(c->dev, c->N * channels(c), c->type, at(c, i->in[0]), at(c, i->in[1]), dy,
                        dx, at(c, i->d_in[1]));
        return ZT_OK;
    case ZT_OP_DROPOUT:
        dropout(c, i->d_out, i->d_in[0]);
        return ZT_OK;
    case ZT_OP_ROPE: {
        zt_rope r = rope_of(c);
        k->rope(c->dev, &r, dy, dx, true);
        return ZT_OK;
    }
    case ZT_OP_ATTENTION:
        attention_backward(c);
        return ZT_OK;
    case ZT_OP_ADD:
    case ZT_OP_LM_HEAD:
    case ZT_OPS:
        break;
    }
    ZT_BUG("no such op");
    return ZT_OK;
}

zt_status zt_run_instr(const zt_program *p, const zt_instr *i, const zt_run *run)
{
    call c = {.p = p,
              .i = i,
              .n = i->node < 0 ? NULL : &p->graph->nodes[i->node],
              .r = run,
              .dev = run->dev,
              .k = run->dev->k,
              .N = p->opt.B * p->opt.T,
              .type = p->opt.type};
    switch (i->what) {
    case ZT_DO_FORWARD:
    case ZT_DO_RECOMPUTE:
        return forward(&c);
    case ZT_DO_BACKWARD:
        return backward(&c);
    case ZT_DO_SUM:
        c.k->add(c.dev, c.N * i->cols, c.type, at(&c, i->in[0]), at(&c, i->in[1]), at(&c, i->out));
        return ZT_OK;
    case ZT_DO_COPY:
        c.k->cast(c.dev, c.N * i->cols, at(&c, i->in[0]), c.type, at(&c, i->out), c.type);
        return ZT_OK;
    }
    return ZT_OK;
}
