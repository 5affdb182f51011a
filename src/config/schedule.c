/* schedule.c - learning rate and loss scale. */
#include "config/schedule.h"

#include <math.h>

/* 0 to 1 over the warm-up. */
static double warmup(const zt_config *c, int64_t index, int64_t steps)
{
    if (index >= steps) return 1;
    if (strcmp(c->warmup_type, "linear") == 0) return (double)index / (double)steps;
    return steps < 2 ? 1 : log((double)index + 1) / log((double)steps);
}

double zt_lr_at(const zt_config *c, int64_t step, int64_t steps)
{
    const bool constant = strcmp(c->scheduler, "constant") == 0;
    const int64_t index = step - 1;
    const int64_t warm = c->warmup_num_steps >= 0 ? c->warmup_num_steps : constant ? 0 : 1000;
    const int64_t total = c->total_num_steps >= 0 ? c->total_num_steps : steps;
    if (constant) return c->lr * warmup(c, index, warm);
    if (strcmp(c->scheduler, "WarmupCosineLR") == 0) {
        if (index < warm)
            return c->lr *
                   (c->warmup_min_ratio + (1 - c->warmup_min_ratio) * warmup(c, index, warm));
        const double span = (double)(total > warm ? total - warm : 1);
        double part = (double)(index - warm + 1) / span;
        part = part < 1 ? part : 1;
        return c->lr * (c->cos_min_ratio + (1 - c->cos_min_ratio) * (1 + cos(M_PI * part)) / 2);
    }
    const double low = c->warmup_min_lr, high = c->warmup_max_lr >= 0 ? c->warmup_max_lr : c->lr;
    double gamma = warmup(c, index, warm);
    if (index >= warm && strcmp(c->scheduler, "WarmupDecayLR") == 0) {
        gamma = (double)(total - index) / (double)(total > warm ? total - warm : 1);
        gamma = gamma > 0 ? gamma < 1 ? gamma : 1 : 0;
    }
    return low + (high - low) * gamma;
}

zt_loss_scale zt_loss_scale_start(const zt_config *c)
{
    zt_loss_scale s = {.scale = 1, .last_overflow = -1, .hysteresis = c->hysteresis};
    if (c->fp16)
        s.scale = c->loss_scale > 0 ? c->loss_scale : ldexp(1, (int)c->initial_scale_power);
    return s;
}

void zt_loss_scale_update(const zt_config *c, zt_loss_scale *s, bool overflow)
{
    if (!c->fp16 || c->loss_scale > 0) return;
    if (overflow) {
        if (s->hysteresis == 1)
            s->scale = s->scale / 2 > c->min_loss_scale ? s->scale / 2 : c->min_loss_scale;
        else
            s->hysteresis--;
        s->last_overflow = s->steps;
    } else {
        const bool due = (s->steps - s->last_overflow) % c->loss_scale_window == 0;
        if (c->consecutive_hysteresis || due) s->hysteresis = c->hysteresis;
        if (due) s->scale *= 2;
    }
    s->steps++;
}
