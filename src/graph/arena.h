/* arena.h - fixed offsets for buffers whose lifetimes are known before the run. */
#ifndef ZT_ARENA_H
#define ZT_ARENA_H
#include "base/base.h"

typedef struct {
    size_t bytes;
    int first,
        last; /* lives from instruction `first` to `last`, both included; first > last: unused */
    size_t offset; /* the result */
} zt_interval;

/* Places every interval so that no two that are alive together overlap; *bytes is the arena's size.
 * Offsets are multiples of 64. Largest first, each at the lowest gap that fits: near the largest sum of
 * what is alive at once. Thousands (of very deep models) are placed in the order of time instead, within a
 * percent of that. */
ZT_MUST_USE zt_status zt_arena_plan(zt_interval *v, int n, size_t *bytes);
#endif
