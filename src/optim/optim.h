/* optim.h - elementwise optimizers over whatever piece of the state is at hand. Nothing here knows of
 * ranks or shards. All functions are Local. */
#ifndef ZT_OPTIM_H
#define ZT_OPTIM_H
#include "kernels/kernels.h"

typedef enum { ZT_OPTIM_ADAMW, ZT_OPTIM_ADAM, ZT_OPTIM_SGD } zt_optim_kind;

typedef struct {
    zt_optim_kind kind;
    float beta1, beta2, eps,
        weight_decay;          /* AdamW: decoupled; Adam and SGD: added to the gradient */
    float momentum, dampening; /* SGD */
    bool nesterov;
    bool decay_all; /* false: not on norms and biases */
} zt_optim_opt;

/* fp32 arrays that it keeps beside the parameter: 2 (Adam: exp_avg, exp_avg_sq), 1 or 0. */
int zt_optim_moments(const zt_optim_opt *o);
/* Their names in a checkpoint. */
const char *zt_optim_moment_name(const zt_optim_opt *o, int i);
const char *zt_optim_name(const zt_optim_opt *o);

typedef struct {
    int64_t step; /* 1 for the first update */
    float lr;
    float grad_scale; /* the gradient is multiplied by it (clipping, 1/loss scale) */
} zt_optim_step;

/* Updates n elements: p and moments in fp32, `copy` (may be NULL) the rounded compute copy. */
void zt_optim_apply(zt_dev *dev, const zt_optim_opt *o, const zt_optim_step *s, bool decays,
                    int64_t n, float *p, float *const moments[2], const void *grad,
                    zt_dtype grad_type, void *copy, zt_dtype copy_type);
#endif
