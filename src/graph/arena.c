/* arena.c - placing intervals in one region. */
#include "graph/arena.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const zt_interval *x = *(zt_interval *const *)a, *y = *(zt_interval *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : 1; /* the same plan on every rank */
}

/* The lowest offset at which v meets none of the placed ones (kept sorted by offset). */
static size_t lowest_gap(const zt_interval *v, zt_interval *const *placed, int n)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const zt_interval *p = placed[i];
        if (p->last < v->first || v->last < p->first) continue;
        if (at + v->bytes <= p->offset) return at;
        if (p->offset + p->bytes > at) at = p->offset + p->bytes;
    }
    return at;
}

zt_status zt_arena_plan(zt_interval *v, int n, size_t *bytes)
{
    zt_interval **order = zt_malloc((size_t)n * sizeof(void *));
    zt_interval **placed = zt_malloc((size_t)n * sizeof(void *));
    if (!order || !placed) {
        zt_free(order);
        zt_free(placed);
        return ZT_NOMEM();
    }
    int n_order = 0, n_placed = 0;
    for (int i = 0; i < n; i++) {
        v[i].bytes = (v[i].bytes + 63) / 64 * 64;
        v[i].offset = 0;
        if (v[i].bytes && v[i].first <= v[i].last) order[n_order++] = &v[i];
    }
    qsort(order, (size_t)n_order, sizeof *order, by_size);
    size_t end = 0;
    for (int i = 0; i < n_order; i++) {
        zt_interval *x = order[i];
        x->offset = lowest_gap(x, placed, n_placed);
        if (x->offset + x->bytes > end) end = x->offset + x->bytes;
        int at = n_placed++;
        for (; at > 0 && placed[at - 1]->offset > x->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = x;
    }
    zt_free(order);
    zt_free(placed);
    *bytes = end;
    return ZT_OK;
}
