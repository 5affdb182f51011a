/* arena.c - placing intervals in one region. */
#include "graph/arena.h"

#include <stdlib.h>

/* Above this many, placing the largest first takes too long. */
enum { MANY = 8192 };

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

static size_t largest_first(zt_interval **order, zt_interval **placed, int n)
{
    size_t end = 0;
    qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n; i++) {
        zt_interval *x = order[i];
        x->offset = lowest_gap(x, placed, i);
        if (x->offset + x->bytes > end) end = x->offset + x->bytes;
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > x->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = x;
    }
    return end;
}

/* ---- many: as they come and go, each at the lowest gap of the moment ---- */
static int by_first(const void *a, const void *b)
{
    const zt_interval *x = *(zt_interval *const *)a, *y = *(zt_interval *const *)b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : by_size(a, b);
}

static int by_last(const void *a, const void *b)
{
    const zt_interval *x = *(zt_interval *const *)a, *y = *(zt_interval *const *)b;
    return x->last != y->last ? (x->last < y->last ? -1 : 1) : by_size(a, b);
}

typedef struct {
    size_t from, to;
} gap;

static void drop(gap *gaps, int at, int *n)
{
    memmove(gaps + at, gaps + at + 1, (size_t)(--*n - at) * sizeof *gaps);
}

/* Gives x's place back to the gaps, which are sorted. */
static void give_back(const zt_interval *x, gap *gaps, int *n)
{
    int at = (*n)++;
    for (; at > 0 && gaps[at - 1].from > x->offset; at--)
        gaps[at] = gaps[at - 1];
    gaps[at] = (gap){x->offset, x->offset + x->bytes};
    for (int k = at + 1; k >= at && k > 0;
         k--) /* joined with the next one, and to the one before */
        if (k < *n && gaps[k - 1].to == gaps[k].from) {
            gaps[k - 1].to = gaps[k].to;
            drop(gaps, k, n);
        }
}

static size_t in_order(zt_interval **order, zt_interval **leaving, gap *gaps, int n)
{
    size_t end = 0;
    int n_gaps = 1, left = 0;
    memcpy(leaving, order, (size_t)n * sizeof *order);
    qsort(order, (size_t)n, sizeof *order, by_first);
    qsort(leaving, (size_t)n, sizeof *leaving, by_last);
    gaps[0] = (gap){0, SIZE_MAX};
    for (int i = 0; i < n; i++) {
        zt_interval *x = order[i];
        while (leaving[left]->last < x->first)
            give_back(leaving[left++], gaps, &n_gaps);
        int g = 0;
        while (gaps[g].to - gaps[g].from < x->bytes)
            g++;
        x->offset = gaps[g].from;
        gaps[g].from += x->bytes;
        if (gaps[g].from == gaps[g].to) drop(gaps, g, &n_gaps);
        if (x->offset + x->bytes > end) end = x->offset + x->bytes;
    }
    return end;
}

zt_status zt_arena_plan(zt_interval *v, int n, size_t *bytes)
{
    zt_interval **order = zt_malloc((size_t)n * sizeof *order);
    zt_interval **other = zt_malloc((size_t)n * sizeof *other);
    gap *gaps = zt_malloc(((size_t)n + 2) * sizeof *gaps);
    const bool room = order && other && gaps;
    int used = 0;
    for (int i = 0; i < n && room; i++) {
        v[i].bytes = (v[i].bytes + 63) / 64 * 64;
        v[i].offset = 0;
        if (v[i].bytes && v[i].first <= v[i].last) order[used++] = &v[i];
    }
    if (room)
        *bytes =
            used > MANY ? in_order(order, other, gaps, used) : largest_first(order, other, used);
    zt_free(order);
    zt_free(other);
    zt_free(gaps);
    return room ? ZT_OK : ZT_NOMEM();
}
