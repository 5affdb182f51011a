/* config.h - the configuration of a run: one JSON file with DeepSpeed's key names where DeepSpeed has
 * one and Hugging Face Trainer's otherwise, plus key=value overrides. Everything follows from the table in
 * options.c: reading, defaults, ranges, printing, documentation. All functions are Local. */
#ifndef ZT_CONFIG_H
#define ZT_CONFIG_H
#include "base/base.h"
#include "base/json.h"

#include <stdio.h>

typedef struct { /* a list of strings; n may be 0 */
    char **items;
    int n;
} zt_strings;

/* Was an option in the file or on the command line, and with a value of its own? */
typedef enum { ZT_NOT_GIVEN, ZT_GIVEN, ZT_AUTO } zt_given;

typedef struct {
    /* model */
    char *model, *tokenizer;
    bool from_scratch, recompute;
    double dropout; /* -1: as config.json says */
    zt_strings freeze;
    /* data */
    zt_strings train, validation;
    char *format, *text_field, *separator, *cache_dir;
    int64_t sequence_length;
    bool packing, isolate_documents, shuffle;
    double validation_split;
    int64_t data_seed; /* -1: seed */
    /* run */
    char *output_dir, *resume, *kernels;
    int64_t seed, max_steps, eval_steps, eval_max_samples, save_steps, save_total_limit,
        logging_steps, threads;
    double epochs, timeout;
    bool save_at_end;
    int64_t max_shard_bytes;
    /* batch: 0 = not given; zt_config_batch fills them */
    int64_t train_batch_size, micro_batch, accumulation;
    /* optimizer and schedule */
    char *optimizer, *scheduler, *warmup_type;
    bool adam_w_mode, nesterov, decay_all;
    double lr, beta1, beta2, eps, weight_decay, momentum, dampening;
    zt_strings betas;
    double warmup_min_lr, warmup_max_lr, cos_min_ratio, warmup_min_ratio;
    int64_t warmup_num_steps, total_num_steps;
    double gradient_clipping;
    /* numbers */
    bool bf16, fp16;
    double loss_scale; /* 0: dynamic */
    int64_t initial_scale_power, loss_scale_window, hysteresis;
    double min_loss_scale;
    bool consecutive_hysteresis;
    char *grad_accum_dtype;
    /* ZeRO */
    int64_t stage, prefetch, persistence;
    bool overlap_comm;

    bool reading_file;
    unsigned char *given; /* by option: zt_given */
    char *path;
    zt_strings notes; /* what was accepted and has no effect here, and why */
} zt_config;

/* path NULL: defaults and overrides alone. overrides: "key=value". */
ZT_MUST_USE zt_status zt_config_load(const char *path, int n_overrides, char *const *overrides,
                                     zt_config **out);
void zt_config_free(zt_config **c);
bool zt_config_given(const zt_config *c, const char *key);
/* Derives the missing one of train_batch_size = micro x accumulation x ranks, or explains the conflict. */
ZT_MUST_USE zt_status zt_config_batch(zt_config *c, int ranks);
/* Every effective option, one "key = value" a line; zt_free it. NULL when out of memory. */
char *zt_config_canonical(const zt_config *c, bool given_only);
zt_dtype zt_config_type(const zt_config *c); /* bf16, fp16 or fp32 */
/* The table for people: docs/config.md, and the list of `zeroth info`. */
void zt_config_write_docs(FILE *f, bool markdown);
#endif
