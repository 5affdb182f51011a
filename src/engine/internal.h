/* internal.h - what the files of the engine share among themselves. */
#ifndef ZT_ENGINE_INTERNAL_H
#define ZT_ENGINE_INTERNAL_H
#include "engine/engine.h"

#include <stdio.h>

/* One walk of a pass over a batch. */
typedef struct {
    int pass, micro;
    bool last_micro;
    /* called after every instruction when not NULL */
    void (*look)(void *arg, const zt_engine *e, const zt_instr *i, const zt_run *run);
    void *look_arg;
} zt_walk;
ZT_MUST_USE zt_status zt_engine_walk(zt_engine *e, const zt_walk *w, const zt_run *run);
zt_run zt_engine_run(zt_engine *e, int pass, const zt_batch *b);

void zt_engine_point_weights(zt_engine *e, const zt_chunk *c, const char *base);
void zt_engine_point_grads(zt_engine *e, const zt_chunk *c, char *base);
const void *zt_engine_grad_shard(const zt_engine *e, const zt_chunk *c);

/* blame.c: the messages of numbers that are not finite. Collective; they never return ZT_OK. */
/* micro: this rank's micro-batch whose loss is not finite, or -1. */
zt_status zt_engine_loss_not_finite(zt_engine *e, int pass, const zt_step_opt *o, int micro);
zt_status zt_engine_gradient_not_finite(zt_engine *e, const zt_step_opt *o);
#endif
