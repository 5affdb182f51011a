/* engine.c - planning an engine, its regions, and walking a program with its schedule. */
#include "engine/engine.h"
#include "engine/internal.h"

#include <math.h>

/* ---- planning ---- */
zt_status zt_engine_create(const zt_graph *g, const zt_engine_opt *opt, int ranks, int rank,
                           zt_dev *dev, zt_engine **out)
{
    zt_engine *e = zt_calloc(1, sizeof *e);
    if (!e) return ZT_NOMEM();
    e->opt = *opt;
    e->graph = g;
    e->dev = dev;
    zt_placement_opt p = {.type = opt->type,
                          .optim_opt = opt->optim,
                          .train = opt->train,
                          .persist_numel = opt->persist_numel,
                          .ranks = ranks,
                          .rank = rank};
    zt_placement_stage(&p, opt->stage);
    const bool fp32 = opt->type == ZT_F32 || opt->grad_fp32 || opt->n_micro > 1;
    p.grad_type = fp32 ? ZT_F32 : opt->type;
    /* several reductions a step travel in the compute type and are summed in fp32 */
    p.wire_type = p.grads == ZT_SCOPE_WORLD && opt->n_micro > 1 ? opt->type : p.grad_type;
    zt_status status = zt_placement_make(g, &p, &e->place);
    e->weight = zt_calloc((size_t)g->n_params, sizeof *e->weight);
    e->grad = zt_calloc((size_t)g->n_params, sizeof *e->grad);
    e->batches = zt_calloc((size_t)opt->n_micro, sizeof *e->batches);
    if (status == ZT_OK && (!e->weight || !e->grad || !e->batches)) status = ZT_NOMEM();
    if (status == ZT_OK) {
        e->reduce_req = zt_calloc((size_t)e->place->n_chunks, sizeof(void *));
        if (!e->reduce_req) status = ZT_NOMEM();
    }
    if (status != ZT_OK)
        zt_engine_destroy(&e);
    else
        *out = e;
    return status;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The buffer in which gather_chunk makes a chunk whole. */
static size_t largest_chunk(const zt_engine *e)
{
    size_t bytes = 0;
    for (int i = 0; i < e->place->n_chunks; i++)
        if (e->place->chunks[i].p_sharded)
            bytes = most(bytes, (size_t)e->place->chunks[i].padded * zt_dtype_bytes(e->opt.type));
    return bytes;
}

zt_status zt_engine_add_pass(zt_engine *e, const zt_program_opt *opt, int *pass)
{
    ZT_ASSERT(e->n_passes < ZT_MAX_PASSES);
    zt_program_opt o = *opt;
    o.type = e->opt.type;
    o.grad_type = e->place->opt.wire_type;
    int i = e->n_passes++;
    ZT_TRY(zt_program_compile(e->graph, &o, e->dev, &e->pass[i].program));
    ZT_TRY(zt_schedule_make(e->place, e->pass[i].program, e->opt.prefetch_numel,
                            &e->pass[i].schedule));
    const zt_program *p = e->pass[i].program;
    const zt_schedule *s = e->pass[i].schedule;
    e->arena_bytes = most(e->arena_bytes, p->arena_bytes);
    e->scratch_bytes = most(e->scratch_bytes, p->scratch_bytes);
    e->cache_bytes = most(e->cache_bytes, p->cache_bytes);
    e->gather_bytes = most(most(e->gather_bytes, s->gather_bytes), largest_chunk(e));
    e->reduce_bytes = most(e->reduce_bytes, s->reduce_bytes);
    if (o.B * o.T > e->rows) e->rows = o.B * o.T;
    e->rope_bytes =
        e->graph->inv_freq ? (size_t)(e->opt.positions * e->graph->rope_dim) * sizeof(float) : 0;
    /* ids, labels (and starts) a micro-step; positions and losses once */
    e->batch_bytes = (size_t)e->rows * 4 * (size_t)(e->opt.n_micro * (e->isolate ? 3 : 2) + 2);
    *pass = i;
    return ZT_OK;
}

typedef struct {
    zt_mem_kind kind;
    const char *name;
    size_t bytes, payload;
    void **where;
} region;
enum { N_REGIONS = 10 };

static void list_regions(const zt_engine *e, zt_engine *to, region r[N_REGIONS])
{
    const zt_placement *p = e->place;
    region all[N_REGIONS] = {
        {ZT_MEM_PARAMS, "parameters", p->p_bytes, p->p_payload, to ? (void **)&to->params : NULL},
        {ZT_MEM_GRADS, "gradients", p->g_bytes, p->g_payload, to ? (void **)&to->grads : NULL},
        {ZT_MEM_OPTIM, "optimizer state", p->os_bytes, p->os_payload, to ? (void **)&to->os : NULL},
        {ZT_MEM_ACTIVATIONS, "activations", e->arena_bytes, 0, to ? (void **)&to->arena : NULL},
        {ZT_MEM_GATHER, "gathered parameters", e->gather_bytes, 0,
         to ? (void **)&to->gather : NULL},
        {ZT_MEM_REDUCE, "gradients in flight", e->reduce_bytes, 0,
         to ? (void **)&to->reduce : NULL},
        {ZT_MEM_SCRATCH, "kernel scratch", e->scratch_bytes, 0, to ? (void **)&to->scratch : NULL},
        {ZT_MEM_SCRATCH, "rotary table", e->rope_bytes, 0, to ? (void **)&to->rope : NULL},
        {ZT_MEM_CACHE, "key-value cache", e->cache_bytes, 0, to ? (void **)&to->cache : NULL},
        {ZT_MEM_DATA, "batches", e->batch_bytes, 0, to ? (void **)&to->batch_region : NULL},
    };
    memcpy(r, all, sizeof all);
}

void zt_engine_book(const zt_engine *e, zt_mem *mem)
{
    region r[N_REGIONS];
    list_regions(e, NULL, r);
    for (int i = 0; i < N_REGIONS; i++)
        zt_mem_book(mem, ZT_TIER_DEVICE, r[i].kind, r[i].bytes, r[i].payload);
}

void zt_engine_destroy(zt_engine **engine)
{
    zt_engine *e = *engine;
    if (!e) return;
    if (e->comm)
        zt_comm_call_off(e->comm); /* after a failure: nothing may come into freed buffers */
    for (int i = 0; i < e->n_passes; i++) {
        zt_program_destroy(&e->pass[i].program);
        zt_schedule_destroy(&e->pass[i].schedule);
    }
    if (e->mem && e->place) {
        region r[N_REGIONS];
        list_regions(e, e, r);
        for (int i = 0; i < N_REGIONS; i++)
            zt_mem_free(e->mem, *r[i].where);
        e->dev->scratch = NULL;
        e->dev->scratch_bytes = 0;
    }
    zt_placement_destroy(&e->place);
    zt_free(e->weight);
    zt_free(e->grad);
    zt_free(e->batches);
    zt_free(e->gather_req);
    zt_free(e->reduce_req);
    zt_free(e);
    *engine = NULL;
}

void zt_engine_traffic(const zt_engine *e, int pass, zt_traffic *t)
{
    const zt_placement *p = e->place;
    const zt_schedule *s = e->pass[pass].schedule;
    const int64_t n = p->opt.ranks, micro = e->opt.n_micro;
    const bool per_micro = p->opt.grads == ZT_SCOPE_WORLD;
    *t = (zt_traffic){.gather = micro * s->gather_sent,
                      .gather_payload = micro * s->gather_payload,
                      .reduce = (per_micro ? micro : 1) * s->reduce_sent,
                      .reduce_payload = (per_micro ? micro : 1) * s->reduce_payload};
    const int64_t pe = (int64_t)zt_dtype_bytes(p->opt.type);
    const int64_t we = (int64_t)zt_dtype_bytes(p->opt.wire_type);
    t->bytes = t->gather * pe + t->reduce * we;
    for (int i = 0; i < p->n_chunks && n > 1; i++) {
        const zt_chunk *c = &p->chunks[i];
        int64_t from, to;
        zt_placement_shard(p, c, &from, &to);
        to = to < c->numel ? to : c->numel;
        const int64_t real = to > from ? to - from : 0;
        const bool after = c->trainable && (!c->os_sharded || !c->p_sharded);
        if (after) { /* parameters (stage 0: gradients) are spread once the update can be made */
            t->gather += (n - 1) * c->shard;
            t->gather_payload += (n - 1) * real;
            t->bytes += (n - 1) * c->shard * (c->os_sharded ? pe : we);
        }
        t->formula += (double)((n - 1) * real) * (double)((c->p_sharded ? 2 * micro : 0) + after);
        if (c->trainable) t->formula += (double)(c->numel - real) * (double)(per_micro ? micro : 1);
    }
    t->saved = t->formula - (double)(t->gather_payload + t->reduce_payload);
}

/* ---- regions ---- */
static void fill_rope(zt_engine *e)
{
    const int half = e->graph->rope_dim / 2;
    float *cosines = e->rope, *sines = e->rope + e->opt.positions * half;
    for (int64_t t = 0; t < e->opt.positions; t++)
        for (int i = 0; i < half; i++) { /* the angle in fp32, as transformers computes it */
            float angle = (float)t * e->graph->inv_freq[i];
            cosines[t * half + i] = cosf(angle);
            sines[t * half + i] = sinf(angle);
        }
}

static void cut_batches(zt_engine *e)
{
    int32_t *next = (int32_t *)(void *)e->batch_region;
    for (int m = 0; m < e->opt.n_micro; m++) {
        e->batches[m].ids = next;
        e->batches[m].labels = next + e->rows;
        e->batches[m].start = e->isolate ? next + 2 * e->rows : NULL;
        next += (e->isolate ? 3 : 2) * e->rows;
    }
    e->positions = next;
    e->row_loss = (float *)(void *)(next + e->rows);
}

zt_status zt_engine_allocate(zt_engine *e, zt_mem *mem, zt_comm *comm)
{
    region r[N_REGIONS];
    e->mem = mem;
    e->comm = comm;
    ZT_ASSERT(zt_comm_size(comm) == e->place->opt.ranks &&
              zt_comm_rank(comm) == e->place->opt.rank);
    list_regions(e, e, r);
    zt_status status = ZT_OK;
    for (int i = 0; i < N_REGIONS && status == ZT_OK; i++)
        status = zt_mem_alloc(mem, ZT_TIER_DEVICE, r[i].kind, r[i].name, r[i].bytes, r[i].payload,
                              r[i].where);
    int gathers = 1;
    for (int i = 0; i < e->n_passes; i++)
        if (e->pass[i].schedule->n_gather > gathers) gathers = e->pass[i].schedule->n_gather;
    e->gather_req = zt_calloc((size_t)gathers, sizeof(void *));
    if (status == ZT_OK && !e->gather_req) status = ZT_NOMEM();
    ZT_TRY(zt_comm_agree(comm, status));
    e->dev->scratch = e->scratch;
    e->dev->scratch_bytes = e->scratch_bytes;
    if (e->rope) fill_rope(e);
    cut_batches(e);
    for (int i = 0; i < e->place->n_chunks; i++) {
        const zt_chunk *c = &e->place->chunks[i];
        if (!c->p_sharded) zt_engine_point_weights(e, c, e->params + c->p_at);
        if (c->trainable && !c->g_sharded) zt_engine_point_grads(e, c, e->grads + c->g_at);
    }
    return ZT_OK;
}

zt_batch *zt_engine_batch(zt_engine *e, int micro)
{
    return &e->batches[micro];
}

void zt_engine_point_weights(zt_engine *e, const zt_chunk *c, const char *base)
{
    for (int i = 0; i < c->n_parts; i++) {
        const zt_chunk_part *part = &e->place->parts[c->first_part + i];
        e->weight[part->param] = base + (size_t)part->at * zt_dtype_bytes(e->opt.type);
    }
}

void zt_engine_point_grads(zt_engine *e, const zt_chunk *c, char *base)
{
    for (int i = 0; i < c->n_parts; i++) {
        const zt_chunk_part *part = &e->place->parts[c->first_part + i];
        e->grad[part->param] = base + (size_t)part->at * zt_dtype_bytes(e->place->opt.wire_type);
    }
}

/* ---- the executor ---- */

static zt_status reduce_start(zt_engine *e, const zt_act *a, const zt_walk *w)
{
    const zt_chunk *c = &e->place->chunks[a->chunk];
    const zt_schedule *s = e->pass[w->pass].schedule;
    const zt_dtype wire = e->place->opt.wire_type, rest = e->place->opt.grad_type;
    void *work = e->reduce + s->reduce_bufs[a->work].offset;
    char *own = e->grads + c->g_at;
    if (c->g_sharded)
        return zt_reduce_scatter_start(e->comm, e->reduce + s->reduce_bufs[a->buf].offset, own,
                                       c->shard, wire, rest, w->micro > 0, work,
                                       &e->reduce_req[a->chunk]);
    if (!w->last_micro) return ZT_OK;
    char *mine = own + (size_t)(e->place->opt.rank * c->shard) * zt_dtype_bytes(rest);
    return zt_reduce_scatter_start(e->comm, own, mine, c->shard, rest, rest, false, work,
                                   &e->reduce_req[a->chunk]);
}

static zt_status act(zt_engine *e, const zt_act *a, const zt_walk *w)
{
    const zt_schedule *s = e->pass[w->pass].schedule;
    const zt_chunk *c = &e->place->chunks[a->chunk];
    switch (a->kind) {
    case ZT_ACT_REDUCE_WAIT:
        return zt_wait(e->comm, &e->reduce_req[a->chunk]);
    case ZT_ACT_REDUCE_START:
        return reduce_start(e, a, w);
    case ZT_ACT_GATHER_START:
        return zt_all_gather_start(e->comm, e->params + c->p_at,
                                   e->gather + s->gather_bufs[a->buf].offset, c->shard, e->opt.type,
                                   &e->gather_req[a->gather]);
    case ZT_ACT_GATHER_WAIT:
        zt_engine_point_weights(e, c, e->gather + s->gather_bufs[a->gather].offset);
        return zt_wait(e->comm, &e->gather_req[a->gather]);
    case ZT_ACT_GRAD_OPEN:
        if (a->buf >= 0) { /* what the last user left in the padding must not be summed */
            char *base = e->reduce + s->reduce_bufs[a->buf].offset;
            const size_t size = zt_dtype_bytes(e->place->opt.wire_type);
            memset(base + (size_t)c->numel * size, 0, (size_t)(c->padded - c->numel) * size);
            zt_engine_point_grads(e, c, base);
        }
        return ZT_OK;
    }
    return ZT_OK;
}

zt_status zt_engine_walk(zt_engine *e, const zt_walk *w, const zt_run *run)
{
    const zt_program *p = e->pass[w->pass].program;
    const zt_schedule *s = e->pass[w->pass].schedule;
    const bool many = e->place->opt.ranks > 1;
    int next = 0;
    for (int i = 0; i <= p->n_instrs + 1; i++) {
        for (; next < s->n_acts && s->acts[next].before == i; next++)
            ZT_TRY(act(e, &s->acts[next], w));
        if (i >= p->n_instrs) continue;
        ZT_TRY(zt_run_instr(p, &p->instrs[i], run));
        if (w->look) w->look(w->look_arg, e, &p->instrs[i], run);
        if (many) ZT_TRY(zt_comm_progress(e->comm));
    }
    return ZT_OK;
}

zt_run zt_engine_run(zt_engine *e, int pass, const zt_batch *b)
{
    const zt_program *p = e->pass[pass].program;
    for (int64_t i = 0; i < p->opt.B * p->opt.T; i++)
        e->positions[i] = (int32_t)(i % p->opt.T);
    return (zt_run){.dev = e->dev,
                    .arena = e->arena,
                    .weight = e->weight,
                    .grad = e->grad,
                    .rope_cos = e->rope,
                    .rope_sin =
                        e->rope ? e->rope + e->opt.positions * e->graph->rope_dim / 2 : NULL,
                    .ids = b->ids,
                    .labels = b->labels,
                    .positions = e->positions,
                    .start = b->start,
                    .row_loss = e->row_loss,
                    .seed = e->opt.seed,
                    .first_sample = b->first_sample,
                    .cache = e->cache};
}

static int64_t count_targets(const int32_t *labels, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += labels[i] >= 0;
    return count;
}

static double sum_losses(const float *loss, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)loss[i];
    return sum;
}

zt_status zt_engine_loss(zt_engine *e, int pass, double *sum, int64_t *targets)
{
    const zt_program_opt *o = &e->pass[pass].program->opt;
    zt_run run = zt_engine_run(e, pass, &e->batches[0]);
    ZT_TRY(zt_engine_walk(e, &(zt_walk){.pass = pass}, &run));
    *sum = sum_losses(e->row_loss, o->B * o->T);
    *targets = count_targets(e->batches[0].labels, o->B * o->T);
    return ZT_OK;
}

zt_status zt_engine_logits(zt_engine *e, int pass, const int32_t *ids, int64_t past, void *logits)
{
    zt_batch b = {0};
    zt_run run = zt_engine_run(e, pass, &b);
    const int64_t N = e->pass[pass].program->opt.B * e->pass[pass].program->opt.T;
    for (int64_t i = 0; i < N; i++)
        e->positions[i] += (int32_t)past;
    run.ids = ids;
    run.past = past;
    run.logits = logits;
    return zt_engine_walk(e, &(zt_walk){.pass = pass}, &run);
}

/* ---- a training step ---- */
/* Forward and backward of all micro-steps; the gradients end reduced in each rank's shard. */
static zt_status accumulate(zt_engine *e, int pass, const zt_step_opt *o, zt_step_result *r)
{
    const zt_program_opt *po = &e->pass[pass].program->opt;
    const int64_t N = po->B * po->T;
    int64_t targets = 0;
    for (int m = 0; m < e->opt.n_micro; m++)
        targets += count_targets(e->batches[m].labels, N);
    ZT_TRY(zt_all_reduce_sum_i64(e->comm, &targets, 1));
    r->targets = targets;
    if (targets == 0)
        return ZT_FAIL(ZT_ERR_NUMERIC,
                       "step %lld has no target token: every label of its batch is masked",
                       (long long)o->step);
    double loss = 0;
    int bad = -1;
    for (int m = 0; m < e->opt.n_micro; m++) {
        zt_run run = zt_engine_run(e, pass, &e->batches[m]);
        run.loss_scale = (float)(o->loss_scale / (double)targets);
        run.step = (uint32_t)o->step;
        run.grad_add = m > 0 && e->place->opt.grads == ZT_SCOPE_RANK;
        zt_walk w = {.pass = pass, .micro = m, .last_micro = m == e->opt.n_micro - 1};
        ZT_TRY(zt_engine_walk(e, &w, &run));
        double sum = sum_losses(e->row_loss, N);
        if (!isfinite(sum) && bad < 0) bad = m;
        loss += sum;
    }
    ZT_TRY(zt_all_reduce_sum_f64(e->comm, &loss, 1));
    r->loss = loss / (double)targets;
    return isfinite(loss) ? ZT_OK : zt_engine_loss_not_finite(e, pass, o, bad);
}

static double norm_of_shards(zt_engine *e)
{
    double sum = 0;
    for (int i = 0; i < e->place->n_chunks; i++) {
        const zt_chunk *c = &e->place->chunks[i];
        if (c->trainable)
            sum += e->dev->k->sum_squares(e->dev, c->shard, e->place->opt.grad_type,
                                          zt_engine_grad_shard(e, c));
    }
    return sum;
}

const void *zt_engine_grad_shard(const zt_engine *e, const zt_chunk *c)
{
    const int64_t from = c->g_sharded ? 0 : e->place->opt.rank * c->shard;
    return e->grads + c->g_at + (size_t)from * zt_dtype_bytes(e->place->opt.grad_type);
}

/* Updates the elements [from, to) of the chunk for which optimizer state is held here. */
static void update_chunk(zt_engine *e, const zt_chunk *c, const zt_optim_step *step)
{
    const zt_placement *p = e->place;
    int64_t from, to, p_from = 0, shard_from, shard_to;
    zt_placement_os_range(p, c, &from, &to);
    zt_placement_shard(p, c, &shard_from, &shard_to);
    if (c->p_sharded) p_from = shard_from;
    const int64_t g_from = c->g_sharded ? shard_from : 0;
    const size_t pe = zt_dtype_bytes(p->opt.type), ge = zt_dtype_bytes(p->opt.grad_type);
    const bool own_master = p->opt.type != ZT_F32;
    for (int i = 0; i < c->n_parts;) {
        const zt_chunk_part *part = &p->parts[c->first_part + i];
        const bool decays = !p->graph->params[part->param].opt.no_decay;
        int64_t a = part->at, b = a;
        for (; i < c->n_parts; i++) { /* neighbours that are treated alike go in one call */
            const zt_parameter *q = &p->graph->params[p->parts[c->first_part + i].param];
            if (!e->opt.optim.decay_all && !q->opt.no_decay != decays) break;
            b += q->numel;
        }
        a = a > from ? a : from;
        b = b < to ? b : to;
        if (a >= b) continue;
        float *state = (float *)(void *)(e->os + c->os_at), *moments[2] = {NULL, NULL};
        char *copy = e->params + c->p_at + (size_t)(a - p_from) * pe;
        float *master = own_master ? state + (a - from) : (float *)(void *)copy;
        for (int k = 0; k < p->n_states - own_master; k++)
            moments[k] = state + (k + own_master) * c->os_count + (a - from);
        zt_optim_apply(e->dev, &e->opt.optim, step, decays, b - a, master, moments,
                       e->grads + c->g_at + (size_t)(a - g_from) * ge, p->opt.grad_type,
                       own_master ? copy : NULL, p->opt.type);
    }
}

/* Gathers in place what rests whole on every rank from the shards that the ranks have. */
static zt_status spread(zt_engine *e, int chunk, char *base, zt_dtype type)
{
    const zt_chunk *c = &e->place->chunks[chunk];
    const char *mine = base + (size_t)(e->place->opt.rank * c->shard) * zt_dtype_bytes(type);
    return zt_all_gather_start(e->comm, mine, base, c->shard, type, &e->reduce_req[chunk]);
}

static zt_status update(zt_engine *e, const zt_step_opt *o, double grad_scale)
{
    const zt_placement *p = e->place;
    const zt_optim_step step = {
        .step = o->step, .lr = (float)o->lr, .grad_scale = (float)grad_scale};
    const bool many = p->opt.ranks > 1;
    for (int i = 0; i < p->n_chunks && many; i++) /* everyone updates all: needs all gradients */
        if (p->chunks[i].trainable && !p->chunks[i].os_sharded)
            ZT_TRY(spread(e, i, e->grads + p->chunks[i].g_at, p->opt.grad_type));
    for (int i = 0; i < p->n_chunks; i++) {
        const zt_chunk *c = &p->chunks[i];
        if (!c->trainable) continue;
        ZT_TRY(zt_wait(e->comm, &e->reduce_req[i]));
        update_chunk(e, c, &step);
        if (many && c->os_sharded && !c->p_sharded)
            ZT_TRY(spread(e, i, e->params + c->p_at, p->opt.type));
        if (many) ZT_TRY(zt_comm_progress(e->comm));
    }
    for (int i = 0; i < p->n_chunks; i++)
        ZT_TRY(zt_wait(e->comm, &e->reduce_req[i]));
    return ZT_OK;
}

zt_status zt_engine_gradients(zt_engine *e, int pass, const zt_step_opt *o, zt_step_result *r)
{
    *r = (zt_step_result){0};
    double start = zt_now();
    ZT_TRY(accumulate(e, pass, o, r));
    double sum = norm_of_shards(e);
    ZT_TRY(zt_all_reduce_sum_f64(e->comm, &sum, 1));
    r->grad_norm = sqrt(sum) / o->loss_scale;
    r->seconds_compute = zt_now() - start;
    r->skipped = !isfinite(sum);
    return ZT_OK;
}

zt_status zt_engine_step(zt_engine *e, int pass, const zt_step_opt *o, zt_step_result *r)
{
    zt_mem_freeze(e->mem, true);
    zt_status status = zt_engine_gradients(e, pass, o, r);
    if (status == ZT_OK && r->skipped && !o->skip_overflow)
        status = zt_engine_gradient_not_finite(e, o);
    if (status == ZT_OK && !r->skipped) {
        double start = zt_now(), scale = 1 / o->loss_scale;
        if (o->clip > 0 && r->grad_norm > o->clip) scale *= o->clip / (r->grad_norm + 1e-6);
        status = update(e, o, scale);
        r->seconds_update = zt_now() - start;
    }
    zt_mem_freeze(e->mem, false);
    if (status != ZT_OK) return ZT_PASS(status);
    return ZT_OK;
}
