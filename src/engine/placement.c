/* placement.c - laying parameters into chunks and chunks into regions. */
#include "engine/placement.h"

/* Shards are multiples of this, so that every shard of every type starts on a 32-byte border. */
enum { SHARD_GRAIN = 16 };

void zt_placement_stage(zt_placement_opt *o, int stage)
{
    const bool many = o->ranks > 1;
    o->params = many && stage >= 3 ? ZT_SCOPE_WORLD : ZT_SCOPE_RANK;
    o->grads = many && stage >= 2 ? ZT_SCOPE_WORLD : ZT_SCOPE_RANK;
    o->optim = many && stage >= 1 ? ZT_SCOPE_WORLD : ZT_SCOPE_RANK;
}

/* Parameters that travel together: of one segment, trained or not, small or not; a tied one alone. */
static bool same_chunk(const zt_placement *p, int a, int b)
{
    const zt_parameter *x = &p->graph->params[a], *y = &p->graph->params[b];
    const int64_t small = p->opt.persist_numel;
    return x->segment == y->segment && x->trainable == y->trainable && x->n_segments == 1 &&
           y->n_segments == 1 && (x->numel <= small) == (y->numel <= small);
}

static void lay_parameters(zt_placement *p)
{
    const int n = p->graph->n_params;
    for (int i = 0; i < n; i++)
        p->chunk_of[i] = -1;
    for (int i = 0; i < n; i++) {
        if (p->chunk_of[i] >= 0) continue;
        zt_chunk c = {.segment = p->graph->params[i].segment,
                      .first_part = p->n_parts,
                      .trainable = p->opt.train && p->graph->params[i].trainable};
        for (int j = i; j < n && p->graph->params[j].segment == c.segment; j++)
            if (j == i || (p->chunk_of[j] < 0 && same_chunk(p, i, j))) {
                p->chunk_of[j] = p->n_chunks;
                p->at[j] = c.numel;
                p->parts[p->n_parts++] = (zt_chunk_part){j, c.numel};
                c.n_parts++;
                c.numel += p->graph->params[j].numel;
            }
        const bool small = p->graph->params[i].numel <= p->opt.persist_numel;
        c.p_sharded = p->opt.params == ZT_SCOPE_WORLD && !small;
        c.g_sharded = p->opt.grads == ZT_SCOPE_WORLD;
        c.os_sharded = p->opt.optim == ZT_SCOPE_WORLD;
        p->chunks[p->n_chunks++] = c;
    }
}

static size_t up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Real (not padding) elements among [from, from + count) of the chunk. */
static size_t real(const zt_chunk *c, int64_t from, int64_t count)
{
    int64_t end = from + count < c->numel ? from + count : c->numel;
    return end > from ? (size_t)(end - from) : 0;
}

static void lay_chunk(zt_placement *p, zt_chunk *c)
{
    const int64_t n = p->opt.ranks;
    c->shard = (c->numel + n - 1) / n;
    c->shard = (c->shard + SHARD_GRAIN - 1) / SHARD_GRAIN * SHARD_GRAIN;
    c->padded = n * c->shard;
    const int64_t mine = p->opt.rank * c->shard;
    const size_t pe = zt_dtype_bytes(p->opt.type), ge = zt_dtype_bytes(p->opt.grad_type);
    c->p_count = c->p_sharded ? c->shard : c->padded;
    c->p_at = p->p_bytes;
    p->p_bytes += up((size_t)c->p_count * pe);
    p->p_payload += pe * real(c, c->p_sharded ? mine : 0, c->p_count);
    if (!c->trainable) return;
    c->g_count = c->g_sharded ? c->shard : c->padded;
    c->g_at = p->g_bytes;
    p->g_bytes += up((size_t)c->g_count * ge);
    p->g_payload += ge * real(c, c->g_sharded ? mine : 0, c->g_count);
    c->os_count = c->os_sharded ? c->shard : c->padded;
    c->os_at = p->os_bytes;
    p->os_bytes += up((size_t)p->n_states * (size_t)c->os_count * 4);
    p->os_payload += (size_t)p->n_states * 4 * real(c, c->os_sharded ? mine : 0, c->os_count);
}

zt_status zt_placement_make(const zt_graph *g, const zt_placement_opt *opt, zt_placement **out)
{
    zt_placement *p = zt_calloc(1, sizeof *p);
    if (!p) return ZT_NOMEM();
    const size_t n = (size_t)g->n_params;
    p->opt = *opt;
    p->graph = g;
    p->chunks = zt_calloc(n, sizeof *p->chunks);
    p->parts = zt_calloc(n, sizeof *p->parts);
    p->chunk_of = zt_calloc(n, sizeof *p->chunk_of);
    p->at = zt_calloc(n, sizeof *p->at);
    if (!p->chunks || !p->parts || !p->chunk_of || !p->at) {
        zt_placement_destroy(&p);
        return ZT_NOMEM();
    }
    /* in fp32 the parameters are their own master copy */
    p->n_states = zt_optim_moments(&opt->optim_opt) + (opt->type != ZT_F32);
    lay_parameters(p);
    for (int i = 0; i < p->n_chunks; i++)
        lay_chunk(p, &p->chunks[i]);
    *out = p;
    return ZT_OK;
}

void zt_placement_destroy(zt_placement **p)
{
    if (!*p) return;
    zt_free((*p)->chunks);
    zt_free((*p)->parts);
    zt_free((*p)->chunk_of);
    zt_free((*p)->at);
    zt_free(*p);
    *p = NULL;
}

void zt_placement_shard(const zt_placement *p, const zt_chunk *c, int64_t *from, int64_t *to)
{
    *from = p->opt.rank * c->shard;
    *to = *from + c->shard;
}

void zt_placement_os_range(const zt_placement *p, const zt_chunk *c, int64_t *from, int64_t *to)
{
    *from = 0;
    *to = c->padded;
    if (c->os_sharded) zt_placement_shard(p, c, from, to);
}
