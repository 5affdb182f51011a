/* schedule.h - when, along a program, each chunk is gathered and each gradient reduced, and at which
 * fixed offsets their buffers lie. Made once, before the run, from the program and the placement; the
 * executor only walks it. Pure arithmetic. */
#ifndef ZT_SCHEDULE_H
#define ZT_SCHEDULE_H
#include "engine/placement.h"
#include "graph/program.h"

typedef enum { /* in the order in which they happen before one instruction */
               ZT_ACT_REDUCE_WAIT,
               ZT_ACT_REDUCE_START,
               ZT_ACT_GATHER_START,
               ZT_ACT_GATHER_WAIT,
               ZT_ACT_GRAD_OPEN, /* the chunk's gradient buffer is about to be written */
} zt_act_kind;

typedef struct {
    int before; /* instruction; n_instrs = after the last, n_instrs + 1 = at the very end */
    zt_act_kind kind;
    int chunk;
    int gather;    /* number of the gather, to match start and wait */
    int buf, work; /* intervals of the gather or the reduce arena */
} zt_act;

typedef struct {
    const zt_program *program;
    zt_act *acts;
    int n_acts, room_acts;
    zt_interval *gather_bufs, *reduce_bufs;
    int n_gather, n_reduce, room_gather, room_reduce;
    size_t gather_bytes, reduce_bytes;
    /* elements that one run of the program makes this rank send: with padding and without */
    int64_t gather_sent, gather_payload, reduce_sent, reduce_payload;
} zt_schedule;

/* prefetch_numel: gather the next segment's chunks while a segment runs, as long as they are not larger
 * than this in all; 0 = gather only when needed. */
ZT_MUST_USE zt_status zt_schedule_make(const zt_placement *p, const zt_program *program,
                                       int64_t prefetch_numel, zt_schedule **out);
void zt_schedule_destroy(zt_schedule **s);
#endif
