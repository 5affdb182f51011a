/* generate.h - text from a model, token by token, with a key-value cache. */
#ifndef ZT_GENERATE_H
#define ZT_GENERATE_H
#include "train/session.h"

typedef struct {
    const char *prompt;
    int64_t max_new_tokens; /* 0: 100, or as many as the model has positions for */
    double temperature;     /* 0: greedy */
    int64_t top_k;          /* 0: all */
    double top_p;           /* 1: all */
    uint64_t seed;
    bool echo; /* print the prompt too */
} zt_generate_opt;

/* Called with each new piece of text (NUL-terminated) as it is complete. */
typedef void zt_text_fn(void *arg, const char *text);
/* Collective: every rank computes the same tokens; `fn` is called on rank 0. */
ZT_MUST_USE zt_status zt_generate(zt_comm *comm, zt_config *config, const zt_generate_opt *o,
                                  zt_text_fn *fn, void *arg);
/* One token from logits [n]: temperature, then the top_k best, then the least set of at least top_p.
 * `draw` keys the random number. Pure. `order` [n] is scratch. */
int32_t zt_sample(const float *logits, int32_t n, const zt_generate_opt *o, uint64_t draw,
                  int32_t *order);
#endif
