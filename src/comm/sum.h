/* sum.h - the arithmetic of a reduction: one piece of every rank, added in the order of ranks in fp32,
 * rounded once. */
#ifndef ZT_SUM_H
#define ZT_SUM_H
#include "base/base.h"

typedef struct {
    const char *own;    /* this rank's piece */
    const char *others; /* those of the other ranks, in their order */
    int64_t stride;     /* elements from one of them to the next */
    int ranks, rank;
    int64_t count;
    zt_dtype type, to_type;
    bool add; /* to += sum */
    char *to; /* may be `own` when the types are the same */
} zt_sum;
void zt_sum_pieces(const zt_sum *s);
#endif
