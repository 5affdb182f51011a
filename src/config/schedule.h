/* schedule.h - learning rate and loss scale as pure functions and small state. All functions are Local. */
#ifndef ZT_LR_SCHEDULE_H
#define ZT_LR_SCHEDULE_H
#include "config/config.h"

/* The rate of update number `step` (1 = the first) in a run of `steps`. DeepSpeed's formulas
 * (lr_schedules.py) with index step - 1. */
double zt_lr_at(const zt_config *c, int64_t step, int64_t steps);

/* fp16's loss scale, as DeepSpeed's DynamicLossScaler has it. */
typedef struct {
    double scale;
    int64_t steps, last_overflow, hysteresis;
} zt_loss_scale;
zt_loss_scale zt_loss_scale_start(const zt_config *c); /* scale 1 without fp16 */
void zt_loss_scale_update(const zt_config *c, zt_loss_scale *s, bool overflow);
#endif
