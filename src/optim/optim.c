/* optim.c - from an optimizer's options and the step number to one kernel call. */
#include "optim/optim.h"

#include <math.h>

static const struct {
    const char *name;
    const char *moments[2];
} kinds[] = {
    [ZT_OPTIM_ADAMW] = {"AdamW", {"exp_avg", "exp_avg_sq"}},
    [ZT_OPTIM_ADAM] = {"Adam", {"exp_avg", "exp_avg_sq"}},
    [ZT_OPTIM_SGD] = {"SGD", {"momentum_buffer", NULL}},
};

int zt_optim_moments(const zt_optim_opt *o)
{
    return o->kind == ZT_OPTIM_SGD ? o->momentum != 0.0f : 2;
}

const char *zt_optim_moment_name(const zt_optim_opt *o, int i)
{
    return kinds[o->kind].moments[i];
}

const char *zt_optim_name(const zt_optim_opt *o)
{
    return kinds[o->kind].name;
}

void zt_optim_apply(zt_dev *dev, const zt_optim_opt *o, const zt_optim_step *s, bool decays,
                    int64_t n, float *p, float *const moments[2], const void *grad,
                    zt_dtype grad_type, void *copy, zt_dtype copy_type)
{
    const float wd = decays || o->decay_all ? o->weight_decay : 0.0f;
    if (o->kind == ZT_OPTIM_SGD) {
        zt_sgd a = {.lr = s->lr,
                    .momentum = o->momentum,
                    .dampening = o->dampening,
                    .weight_decay = wd,
                    .grad_scale = s->grad_scale,
                    .nesterov = o->nesterov,
                    .first = s->step == 1};
        dev->k->sgd(dev, n, &a, p, moments[0], grad, grad_type, copy, copy_type);
        return;
    }
    zt_adam a = {.lr = s->lr,
                 .beta1 = o->beta1,
                 .beta2 = o->beta2,
                 .eps = o->eps,
                 .weight_decay = wd,
                 .bc1 = (float)(1 - pow((double)o->beta1, (double)s->step)),
                 .bc2 = (float)(1 - pow((double)o->beta2, (double)s->step)),
                 .grad_scale = s->grad_scale,
                 .adam_l2 = o->kind == ZT_OPTIM_ADAM};
    dev->k->adam(dev, n, &a, p, moments[0], moments[1], grad, grad_type, copy, copy_type);
}
