/* state.c - training state in and out, parameter by parameter, whatever the placement. */
#include "engine/internal.h"

enum { TILE = 1 << 14 }; /* elements converted at a time */

typedef void set_fn(zt_engine *e, const zt_chunk *c, int64_t at, int64_t n, const float *x);

/* Reads what lies in elements [from, to) of a chunk, and hands it to `set` by its place in the chunk. */
static zt_status read_range(zt_engine *e, const zt_chunk *c, int64_t from, int64_t to,
                            zt_read_fn *read, void *arg, set_fn *set)
{
    float tile[TILE];
    for (int i = 0; i < c->n_parts; i++) {
        const zt_chunk_part *part = &e->place->parts[c->first_part + i];
        int64_t a = part->at, b = a + e->graph->params[part->param].numel;
        a = a > from ? a : from;
        b = b < to ? b : to;
        for (; a < b; a += TILE) {
            int64_t n = b - a < TILE ? b - a : TILE;
            ZT_TRY(read(arg, part->param, a - part->at, n, tile));
            set(e, c, a, n, tile);
        }
    }
    return ZT_OK;
}

static void set_param(zt_engine *e, const zt_chunk *c, int64_t at, int64_t n, const float *x)
{
    int64_t from = 0, to;
    if (c->p_sharded) zt_placement_shard(e->place, c, &from, &to);
    char *p = e->params + c->p_at + (size_t)(at - from) * zt_dtype_bytes(e->opt.type);
    e->dev->k->cast(e->dev, n, x, ZT_F32, p, e->opt.type);
}

static float *state_array(const zt_engine *e, const zt_chunk *c, int which)
{
    return (float *)(void *)(e->os + c->os_at) + which * c->os_count;
}

static void set_state(zt_engine *e, const zt_chunk *c, int which, int64_t at, int64_t n,
                      const float *x)
{
    int64_t from, to;
    zt_placement_os_range(e->place, c, &from, &to);
    memcpy(state_array(e, c, which) + (at - from), x, (size_t)n * sizeof *x);
}

static void set_master(zt_engine *e, const zt_chunk *c, int64_t at, int64_t n, const float *x)
{
    set_state(e, c, 0, at, n, x);
}

static int first_moment(const zt_engine *e)
{
    return e->opt.type != ZT_F32;
}

static void set_moment_0(zt_engine *e, const zt_chunk *c, int64_t at, int64_t n, const float *x)
{
    set_state(e, c, first_moment(e), at, n, x);
}

static void set_moment_1(zt_engine *e, const zt_chunk *c, int64_t at, int64_t n, const float *x)
{
    set_state(e, c, first_moment(e) + 1, at, n, x);
}

zt_status zt_engine_fill(zt_engine *e, zt_read_fn *read, void *arg)
{
    for (int i = 0; i < e->place->n_chunks; i++) {
        const zt_chunk *c = &e->place->chunks[i];
        int64_t from = 0, to = c->padded;
        if (c->p_sharded) zt_placement_shard(e->place, c, &from, &to);
        ZT_TRY(read_range(e, c, from, to, read, arg, set_param));
        if (!c->trainable || e->opt.type == ZT_F32) continue;
        zt_placement_os_range(e->place, c, &from, &to);
        ZT_TRY(read_range(e, c, from, to, read, arg, set_master));
    }
    return ZT_OK;
}

zt_status zt_engine_fill_moment(zt_engine *e, int moment, zt_read_fn *read, void *arg)
{
    for (int i = 0; i < e->place->n_chunks; i++) {
        const zt_chunk *c = &e->place->chunks[i];
        int64_t from, to;
        if (!c->trainable) continue;
        zt_placement_os_range(e->place, c, &from, &to);
        ZT_TRY(read_range(e, c, from, to, read, arg, moment ? set_moment_1 : set_moment_0));
    }
    return ZT_OK;
}

zt_status zt_engine_slices(zt_engine *e, zt_slice_fn *fn, void *arg)
{
    const zt_placement *p = e->place;
    for (int i = 0; i < p->n_chunks; i++) {
        const zt_chunk *c = &p->chunks[i];
        int64_t from, to, os_from, os_to, p_from = 0, p_to;
        zt_placement_shard(p, c, &from, &to);
        zt_placement_os_range(p, c, &os_from, &os_to);
        if (c->p_sharded) zt_placement_shard(p, c, &p_from, &p_to);
        const float *params = (const float *)(const void *)(e->params + c->p_at);
        for (int k = 0; c->trainable && k < c->n_parts; k++) {
            const zt_chunk_part *part = &p->parts[c->first_part + k];
            int64_t a = part->at, b = a + p->graph->params[part->param].numel;
            a = a > from ? a : from;
            b = b < to ? b : to;
            if (a >= b) continue;
            zt_state_slice s = {.param = part->param, .from = a - part->at, .count = b - a};
            s.master =
                first_moment(e) ? state_array(e, c, 0) + (a - os_from) : params + (a - p_from);
            for (int m = 0; m < p->n_states - first_moment(e); m++)
                s.moments[m] = state_array(e, c, first_moment(e) + m) + (a - os_from);
            ZT_TRY(fn(arg, &s));
        }
    }
    return ZT_OK;
}

zt_status zt_engine_gather_chunk(zt_engine *e, int chunk, const void **data)
{
    const zt_chunk *c = &e->place->chunks[chunk];
    *data = e->params + c->p_at;
    if (!c->p_sharded) return ZT_OK;
    zt_request *req = NULL;
    ZT_TRY(zt_all_gather_start(e->comm, *data, e->gather, c->shard, e->opt.type, &req));
    *data = e->gather;
    return zt_wait(e->comm, &req);
}

zt_status zt_engine_gather_grad(zt_engine *e, int chunk, float *out)
{
    const zt_chunk *c = &e->place->chunks[chunk];
    int64_t from, to;
    zt_placement_shard(e->place, c, &from, &to);
    e->dev->k->cast(e->dev, c->shard, zt_engine_grad_shard(e, c), e->place->opt.grad_type,
                    out + from, ZT_F32);
    zt_request *req = NULL;
    ZT_TRY(zt_all_gather_start(e->comm, out + from, out, c->shard, ZT_F32, &req));
    return zt_wait(e->comm, &req);
}
