/* schedule.c - windows of use of each chunk along a program, and the actions around them. */
#include "engine/schedule.h"

#include <stdlib.h>

typedef struct {
    zt_schedule *s;
    const zt_placement *p;
    const zt_program *program;
    int *stretch; /* by instruction: number of the run of instructions of one segment */
    int *begin;   /* by stretch: its first instruction; one more at the end */
    int n_stretches;
    int *first, *last; /* by chunk: uses in the stretch at hand; then: gradient window */
} maker;

static zt_status grow(void **array, int count, int *room, size_t bytes)
{
    if (count < *room) return ZT_OK;
    int more = *room ? 2 * *room : 64;
    void *q = zt_realloc(*array, (size_t)more * bytes);
    if (!q) return ZT_NOMEM();
    *array = q;
    *room = more;
    return ZT_OK;
}

static zt_status act(zt_schedule *s, zt_act a)
{
    ZT_TRY(grow((void **)&s->acts, s->n_acts, &s->room_acts, sizeof *s->acts));
    s->acts[s->n_acts++] = a;
    return ZT_OK;
}

static zt_status interval(zt_interval **v, int *n, int *room, size_t bytes, int first, int last)
{
    ZT_TRY(grow((void **)v, *n, room, sizeof **v));
    (*v)[(*n)++] = (zt_interval){.bytes = bytes, .first = first, .last = last};
    return ZT_OK;
}

static void find_stretches(maker *m)
{
    const zt_program *g = m->program;
    for (int i = 0; i < g->n_instrs; i++) {
        const zt_instr *a = &g->instrs[i];
        if (i == 0 || a[-1].segment != a->segment) m->begin[m->n_stretches++] = i;
        m->stretch[i] = m->n_stretches - 1;
    }
    m->begin[m->n_stretches] = g->n_instrs;
}

/* Does the instruction read the weight, or only leave a gradient for it? */
static bool reads_weight(const zt_program *g, const zt_instr *i)
{
    return i->what != ZT_DO_BACKWARD || g->graph->nodes[i->node].op != ZT_OP_EMBED;
}

/* A gather of a chunk for the instructions first..last of stretch t. */
static zt_status gather(maker *m, int chunk, int t, int first, int last, bool ahead)
{
    zt_schedule *s = m->s;
    const zt_chunk *c = &m->p->chunks[chunk];
    int start = ahead && t > 0 ? m->begin[t - 1] : first;
    int number = s->n_gather;
    size_t bytes = (size_t)c->padded * zt_dtype_bytes(m->p->opt.type);
    ZT_TRY(interval(&s->gather_bufs, &s->n_gather, &s->room_gather, bytes, start, last));
    zt_act a = {.before = start, .kind = ZT_ACT_GATHER_START, .chunk = chunk, .gather = number};
    a.buf = number;
    ZT_TRY(act(s, a));
    a.kind = ZT_ACT_GATHER_WAIT;
    a.before = first;
    ZT_TRY(act(s, a));
    const int64_t n = m->p->opt.ranks, mine = m->p->opt.rank * c->shard;
    int64_t real = c->numel - mine < c->shard ? c->numel - mine : c->shard;
    s->gather_sent += (n - 1) * c->shard;
    s->gather_payload += (n - 1) * (real > 0 ? real : 0);
    return ZT_OK;
}

static zt_status gathers(maker *m, int64_t prefetch)
{
    const zt_program *g = m->program;
    for (int c = 0; c < m->p->n_chunks; c++)
        m->first[c] = -1;
    for (int t = 0; t < m->n_stretches; t++) {
        int64_t numel = 0;
        int low = m->p->n_chunks, high = -1; /* of the chunks that this stretch uses */
        for (int i = m->begin[t]; i < m->begin[t + 1]; i++) {
            const zt_node *n = g->instrs[i].node < 0 ? NULL : &g->graph->nodes[g->instrs[i].node];
            for (int k = 0; n && k < n->n_par; k++) {
                int c = n->par[k] < 0 ? -1 : m->p->chunk_of[n->par[k]];
                if (c < 0 || !m->p->chunks[c].p_sharded || !reads_weight(g, &g->instrs[i]))
                    continue;
                if (m->first[c] < 0) {
                    m->first[c] = i;
                    numel += m->p->chunks[c].padded;
                }
                m->last[c] = i;
                low = c < low ? c : low;
                high = c > high ? c : high;
            }
        }
        for (int c = low; c <= high; c++)
            if (m->first[c] >= 0) {
                ZT_TRY(gather(m, c, t, m->first[c], m->last[c], numel <= prefetch));
                m->first[c] = -1;
            }
    }
    return ZT_OK;
}

/* The reduction of a chunk whose gradient is written by instructions first..last. It is waited for when
 * the next stretch has been run. */
static zt_status reduce(maker *m, int chunk, int first, int last)
{
    zt_schedule *s = m->s;
    const zt_chunk *c = &m->p->chunks[chunk];
    const int64_t n = m->p->opt.ranks;
    const size_t e = zt_dtype_bytes(m->p->opt.wire_type);
    int t = m->stretch[last] + 1, end = m->program->n_instrs + 1;
    int wait = t < m->n_stretches && m->begin[t + 1] < m->program->n_instrs ? m->begin[t + 1] : end;
    zt_act a = {.before = last + 1, .kind = ZT_ACT_REDUCE_START, .chunk = chunk, .buf = -1};
    if (c->g_sharded) {
        a.buf = s->n_reduce;
        ZT_TRY(interval(&s->reduce_bufs, &s->n_reduce, &s->room_reduce, (size_t)c->padded * e,
                        first, wait - 1));
    }
    zt_act open = {.before = first, .kind = ZT_ACT_GRAD_OPEN, .chunk = chunk, .buf = a.buf};
    ZT_TRY(act(s, open));
    if (n == 1) return ZT_OK;
    a.work = s->n_reduce;
    ZT_TRY(interval(&s->reduce_bufs, &s->n_reduce, &s->room_reduce,
                    (size_t)((n - 1) * c->shard) * e, last + 1, wait - 1));
    ZT_TRY(act(s, a));
    a.kind = ZT_ACT_REDUCE_WAIT;
    a.before = wait;
    ZT_TRY(act(s, a));
    int64_t mine = m->p->opt.rank * c->shard;
    int64_t real = c->numel - mine < c->shard ? c->numel - mine : c->shard;
    s->reduce_sent += (n - 1) * c->shard;
    s->reduce_payload += c->numel - (real > 0 ? real : 0);
    return ZT_OK;
}

static zt_status reduces(maker *m)
{
    const zt_program *g = m->program;
    for (int c = 0; c < m->p->n_chunks; c++)
        m->first[c] = -1;
    for (int i = 0; i < g->n_instrs; i++) {
        const zt_node *n = g->instrs[i].node < 0 ? NULL : &g->graph->nodes[g->instrs[i].node];
        for (int k = 0; n && k < n->n_par; k++)
            if (g->instrs[i].d_par[k]) {
                int c = m->p->chunk_of[n->par[k]];
                if (m->first[c] < 0) m->first[c] = i;
                m->last[c] = i;
            }
    }
    for (int c = 0; c < m->p->n_chunks; c++)
        if (m->first[c] >= 0) ZT_TRY(reduce(m, c, m->first[c], m->last[c]));
    return ZT_OK;
}

static int by_time(const void *x, const void *y)
{
    const zt_act *a = x, *b = y;
    if (a->before != b->before) return a->before < b->before ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

static zt_status make(maker *m, int64_t prefetch)
{
    zt_schedule *s = m->s;
    const size_t n = (size_t)m->program->n_instrs + 2, chunks = (size_t)m->p->n_chunks;
    m->stretch = zt_malloc(n * sizeof(int));
    m->begin = zt_malloc(n * sizeof(int));
    m->first = zt_malloc(chunks * sizeof(int));
    m->last = zt_malloc(chunks * sizeof(int));
    if (!m->stretch || !m->begin || !m->first || !m->last) return ZT_NOMEM();
    find_stretches(m);
    ZT_TRY(gathers(m, prefetch));
    if (m->program->opt.goal == ZT_GOAL_TRAIN) ZT_TRY(reduces(m));
    if (s->n_acts > 0) qsort(s->acts, (size_t)s->n_acts, sizeof *s->acts, by_time);
    ZT_TRY(zt_arena_plan(s->gather_bufs, s->n_gather, &s->gather_bytes));
    return zt_arena_plan(s->reduce_bufs, s->n_reduce, &s->reduce_bytes);
}

zt_status zt_schedule_make(const zt_placement *p, const zt_program *program, int64_t prefetch_numel,
                           zt_schedule **out)
{
    zt_schedule *s = zt_calloc(1, sizeof *s);
    if (!s) return ZT_NOMEM();
    s->program = program;
    maker m = {.s = s, .p = p, .program = program};
    zt_status status = make(&m, prefetch_numel);
    zt_free(m.stretch);
    zt_free(m.begin);
    zt_free(m.first);
    zt_free(m.last);
    if (status != ZT_OK) {
        zt_schedule_destroy(&s);
        return ZT_PASS(status);
    }
    *out = s;
    return ZT_OK;
}

void zt_schedule_destroy(zt_schedule **s)
{
    if (!*s) return;
    zt_free((*s)->acts);
    zt_free((*s)->gather_bufs);
    zt_free((*s)->reduce_bufs);
    zt_free(*s);
    *s = NULL;
}
