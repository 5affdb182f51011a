/* blame.c - after a number that is not finite: which step, block, operation and parameter. */
#include "engine/internal.h"

#include <math.h>

typedef struct {
    int instr_node; /* -1: none found */
    int param;      /* whose weight is not finite itself; -1 */
    int64_t row;
} finding;

/* Looks at the result of a forward instruction, and at its weights when the result is bad. */
static void look(void *arg, const zt_engine *e, const zt_instr *i, const zt_run *run)
{
    finding *f = arg;
    if (f->instr_node >= 0 || i->what != ZT_DO_FORWARD) return;
    const zt_node *n = &e->graph->nodes[i->node];
    int64_t row = -1;
    if (i->out.buf >= 0) {
        const int64_t cols = e->graph->values[n->out].cols;
        const zt_program *p = e->pass[0].program;
        for (int k = 0; k < e->n_passes; k++) /* the pass whose instruction it is */
            if (i >= e->pass[k].program->instrs &&
                i < e->pass[k].program->instrs + e->pass[k].program->n_instrs)
                p = e->pass[k].program;
        row = e->dev->k->find_nonfinite(e->dev, p->opt.B * p->opt.T * cols, e->opt.type,
                                        run->arena + p->bufs[i->out.buf].offset);
        row = row < 0 ? -1 : row / cols;
    } else {
        for (int64_t r = 0; r < e->rows && row < 0; r++)
            row = isfinite(run->row_loss[r]) ? -1 : r;
    }
    if (row < 0) return;
    f->instr_node = i->node;
    f->row = row;
    for (int k = 0; k < n->n_par && f->param < 0; k++)
        if (n->par[k] >= 0 && e->dev->k->find_nonfinite(e->dev, e->graph->params[n->par[k]].numel,
                                                        e->opt.type, run->weight[n->par[k]]) >= 0)
            f->param = n->par[k];
}

zt_status zt_engine_loss_not_finite(zt_engine *e, int pass, const zt_step_opt *o, int micro)
{
    finding f = {.instr_node = -1, .param = -1};
    const zt_batch *b = &e->batches[micro < 0 ? 0 : micro];
    zt_run run = zt_engine_run(e, pass, b);
    run.step = (uint32_t)o->step;
    zt_walk w = {.pass = pass, .last_micro = true, .look = look, .look_arg = &f};
    ZT_TRY(zt_engine_walk(e, &w, &run));
    zt_status status = ZT_OK;
    if (micro >= 0 && f.instr_node >= 0) {
        const zt_node *n = &e->graph->nodes[f.instr_node];
        const int64_t T = e->pass[pass].program->opt.T;
        char where[64];
        zt_segment_name(e->graph, n->segment, where, sizeof where);
        int p = f.param >= 0 ? f.param : n->n_par ? n->par[0] : -1;
        status =
            ZT_FAIL(ZT_ERR_NUMERIC,
                    "step %lld: the loss is not finite: %s in %s (%s%s) first gave such a number, "
                    "for sample %lld of the batch; nothing was updated. A smaller learning rate, "
                    "gradient_clipping or fp32 may help",
                    (long long)o->step, zt_op_name(n->op), where,
                    f.param >= 0 ? "a weight that is not finite itself: " : "with ",
                    p >= 0 ? e->graph->params[p].name : "no weight",
                    (long long)(b->first_sample + f.row / T));
    } else if (micro >= 0) {
        status = ZT_FAIL(ZT_ERR_NUMERIC,
                         "step %lld: the loss is not finite, though every result before it is",
                         (long long)o->step);
    }
    ZT_TRY(zt_comm_agree(e->comm, status));
    return ZT_FAIL(ZT_ERR_NUMERIC, "step %lld: the sum of the losses is not finite",
                   (long long)o->step);
}

/* The first bad element of this rank's gradient shards; false when there is none. */
static bool find_bad_gradient(const zt_engine *e, int *param, int64_t *at)
{
    for (int i = 0; i < e->place->n_chunks; i++) {
        const zt_chunk *c = &e->place->chunks[i];
        if (!c->trainable) continue;
        int64_t j = e->dev->k->find_nonfinite(e->dev, c->shard, e->place->opt.grad_type,
                                              zt_engine_grad_shard(e, c));
        if (j < 0) continue;
        int64_t from, to;
        zt_placement_shard(e->place, c, &from, &to);
        for (int k = 0; k < c->n_parts; k++) {
            const zt_chunk_part *part = &e->place->parts[c->first_part + k];
            if (part->at <= from + j) {
                *param = part->param;
                *at = from + j - part->at;
            }
        }
        return true;
    }
    return false;
}

zt_status zt_engine_gradient_not_finite(zt_engine *e, const zt_step_opt *o)
{
    zt_status status = ZT_OK;
    int param = 0;
    int64_t at = 0;
    if (find_bad_gradient(e, &param, &at)) {
        char where[64];
        zt_segment_name(e->graph, e->graph->params[param].segment, where, sizeof where);
        status =
            ZT_FAIL(ZT_ERR_NUMERIC,
                    "step %lld: the gradient of %s (%s) is not finite at element %lld; nothing was "
                    "updated. A smaller learning rate, gradient_clipping or fp32 may help",
                    (long long)o->step, e->graph->params[param].name, where, (long long)at);
    }
    ZT_TRY(zt_comm_agree(e->comm, status));
    return ZT_FAIL(
        ZT_ERR_NUMERIC,
        "step %lld: the gradient's norm is too large for a number, though every element is "
        "finite; nothing was updated",
        (long long)o->step);
}
