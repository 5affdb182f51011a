/* train.c - the loop: batches in, steps, evaluation, log, checkpoints, and an account at the end. */
#include "base/file.h"
#include "train/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

typedef struct {
    zt_session s;
    zt_progress p;
    int64_t steps;            /* the run's last */
    double started, training; /* seconds: at the start; spent in steps */
    int64_t first_step, first_tokens, rss;
    zt_comm_count sent[2]; /* of steps alone */
    FILE *metrics;
} run;

/* ---- the start ---- */
static void say_start(const run *r)
{
    const zt_session *s = &r->s;
    const zt_config *c = s->config;
    zt_log(ZT_LOG_INFO, "ranks %d on %d host%s (%s), %d thread%s each, kernels %s, products %s",
           zt_comm_size(s->comm), zt_comm_nodes(s->comm), zt_comm_nodes(s->comm) > 1 ? "s" : "",
           zt_comm_transport(s->comm), s->dev.n_threads, s->dev.n_threads > 1 ? "s" : "",
           s->dev.k->name, zt_kernels_products());
    zt_log(ZT_LOG_INFO, "model %s: %s, %lld parameters, %lld trained, %s", c->model,
           s->model.model_type, (long long)zt_graph_numel(s->graph, false),
           (long long)zt_graph_numel(s->graph, true), zt_dtype_name(s->engine->opt.type));
    zt_log(ZT_LOG_INFO,
           "batch: %lld samples a step = %lld a micro-step x %lld micro-steps x %d ranks, of %lld "
           "tokens",
           (long long)c->train_batch_size, (long long)c->micro_batch, (long long)c->accumulation,
           zt_comm_size(s->comm), (long long)c->sequence_length);
    if (s->tokenizer)
        zt_log(ZT_LOG_INFO, "tokenizer %s: %s", s->tokenizer_path,
               zt_tokenizer_describe(s->tokenizer));
    char *options = zt_config_canonical(c, false);
    char *rest = NULL;
    for (char *line = options ? strtok_r(options, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        zt_log(ZT_LOG_INFO, "  %s", line);
    free(options);
    for (int i = 0; i < c->notes.n; i++)
        zt_log(ZT_LOG_INFO, "note: %s", c->notes.items[i]);
}

/* Found out before the data are read. */
static zt_status usable_output(const zt_config *c)
{
    ZT_TRY(zt_folder_make(c->output_dir));
    if (access(c->output_dir, W_OK | X_OK) == 0) return ZT_OK;
    return ZT_FAIL(ZT_ERR_IO, "output_dir: %s is not writable: %s", c->output_dir, strerror(errno));
}

static zt_status open_output(run *r)
{
    const char *dir = r->s.config->output_dir;
    char *path = zt_path_join(dir, "metrics.jsonl");
    if (!path) return ZT_NOMEM();
    /* O_NONBLOCK: a FIFO that nobody reads is refused */
    const int fd = open(
        path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (r->p.step > 0 ? O_APPEND : O_TRUNC),
        0666);
    r->metrics = fd >= 0 ? fdopen(fd, "w") : NULL;
    zt_status status =
        r->metrics ? ZT_OK : ZT_FAIL(ZT_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    /* where the file system has no locks, nothing is known */
    if (status == ZT_OK && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        status = ZT_FAIL(ZT_ERR_IO, "another run is writing to %s: choose another output_dir", dir);
    if (status == ZT_OK && r->p.step == 0 && ftruncate(fd, 0) != 0)
        status = ZT_FAIL(ZT_ERR_IO, "cannot truncate %s: %s", path, strerror(errno));
    if (!r->metrics && fd >= 0) (void)close(fd);
    zt_free(path);
    return status;
}

/* The checkpoint to go on from, if one is asked for and there. */
static zt_status find_checkpoint(zt_session *s)
{
    const zt_config *c = s->config;
    if (strcmp(c->resume, "false") == 0) {
        char *old = NULL;
        if (zt_comm_rank(s->comm) == 0) ZT_TRY(zt_checkpoint_last(c->output_dir, &old));
        if (old)
            zt_log(ZT_LOG_WARN,
                   "%s is there from an earlier run: resume_from_checkpoint=true would go on from "
                   "the highest step, its own or this run's%s; another output_dir keeps them apart",
                   old,
                   c->save_total_limit > 0 ? ", and save_total_limit counts it among the oldest"
                                           : "");
        zt_free(old);
        return ZT_OK;
    }
    if (strcmp(c->resume, "true") == 0) {
        ZT_TRY(zt_checkpoint_last(c->output_dir, &s->checkpoint));
        if (!s->checkpoint)
            zt_log(ZT_LOG_INFO, "there is no checkpoint in %s yet: starting anew", c->output_dir);
        return ZT_OK;
    }
    if (!zt_path_is_folder(c->resume))
        return ZT_FAIL(ZT_ERR_CONFIG, "resume_from_checkpoint: there is no folder %s", c->resume);
    s->checkpoint = zt_strdup(c->resume);
    return s->checkpoint ? ZT_OK : ZT_NOMEM();
}

static zt_status start(run *r, zt_comm *comm, zt_config *config)
{
    zt_session *s = &r->s;
    ZT_TRY(zt_session_start(comm, config, s));
    ZT_TRY(zt_comm_agree(comm, zt_config_batch(config, zt_comm_size(comm))));
    ZT_TRY(zt_comm_agree(comm, zt_comm_rank(comm) == 0 ? usable_output(config) : ZT_OK));
    ZT_TRY(zt_comm_agree(comm, find_checkpoint(s)));
    ZT_TRY(zt_session_data(s, true));
    ZT_TRY(zt_comm_agree(comm, zt_session_plan(s, zt_comm_size(comm), zt_comm_rank(comm), true)));
    const double epoch = (double)zt_dataset_samples(s->train) / (double)config->train_batch_size;
    r->steps = config->max_steps >= 0 ? config->max_steps : (int64_t)ceil(config->epochs * epoch);
    say_start(r);
    r->p.scale = zt_loss_scale_start(config);
    if (s->checkpoint) {
        ZT_TRY(zt_engine_allocate(s->engine, s->mem, comm));
        ZT_TRY(zt_checkpoint_load(s, s->checkpoint, &r->p));
        zt_log(ZT_LOG_INFO, "resumed %s at step %lld; options are those given now", s->checkpoint,
               (long long)r->p.step);
    } else {
        ZT_TRY(zt_session_weights(s));
    }
    return zt_comm_agree(comm, zt_comm_rank(comm) == 0 ? open_output(r) : ZT_OK);
}

/* ---- the log ---- */
static void clock_text(double seconds, char *text, size_t size)
{
    long long t = (long long)(seconds + 0.5);
    if (t >= 3600)
        (void)snprintf(text, size, "%lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
    else
        (void)snprintf(text, size, "%lld:%02lld", t / 60, t % 60);
}

static double epoch_of(const run *r)
{
    return (double)r->p.samples / (double)zt_dataset_samples(r->s.train);
}

/* A log that cannot be written is no reason to lose the training. */
static void flush_metrics(run *r)
{
    if (fflush(r->metrics) == 0) return;
    zt_log(ZT_LOG_WARN, "metrics.jsonl is not written any more: %s", strerror(errno));
    (void)fclose(r->metrics);
    r->metrics = NULL;
}

static void log_step(run *r, const zt_step_result *x, double lr)
{
    const int64_t done = r->p.step - r->first_step;
    const double rate = (double)(r->p.tokens - r->first_tokens) / r->training;
    if (r->p.step % r->s.config->logging_steps != 0 && r->p.step != r->steps) return;
    char left[32];
    clock_text((zt_now() - r->started) / (double)done * (double)(r->steps - r->p.step), left,
               sizeof left);
    zt_log(ZT_LOG_INFO,
           "step %lld/%lld  loss %.4f  lr %.3e  grad norm %.3f  %.0f tokens/s  left %s%s",
           (long long)r->p.step, (long long)r->steps, x->loss, lr, x->grad_norm, rate, left,
           x->skipped ? "  (skipped: overflow)" : "");
    if (!r->metrics) return;
    (void)fprintf(r->metrics,
                  "{\"step\": %lld, \"epoch\": %.6f, \"loss\": %.9g, \"learning_rate\": %.9g, "
                  "\"num_input_tokens_seen\": %lld, \"tokens_per_second\": %.1f",
                  (long long)r->p.step, epoch_of(r), x->loss, lr, (long long)r->p.tokens, rate);
    if (isfinite(x->grad_norm)) (void)fprintf(r->metrics, ", \"grad_norm\": %.9g", x->grad_norm);
    if (r->s.config->fp16) (void)fprintf(r->metrics, ", \"loss_scale\": %.9g", r->p.scale.scale);
    (void)fprintf(r->metrics, "}\n");
    flush_metrics(r);
}

static zt_status evaluate(run *r)
{
    double loss;
    int64_t targets;
    if (!r->s.validation) return ZT_OK;
    zt_status status = zt_session_evaluate(&r->s, r->s.config->eval_max_samples, &loss, &targets);
    if (status == ZT_ERR_STOPPED) return ZT_OK; /* the loop sees it too, and saves */
    ZT_TRY(status);
    zt_log(ZT_LOG_INFO, "step %lld/%lld  validation loss %.4f  perplexity %.2f  (%lld tokens)",
           (long long)r->p.step, (long long)r->steps, loss, exp(loss), (long long)targets);
    if (r->metrics) {
        (void)fprintf(r->metrics, "{\"step\": %lld, \"epoch\": %.6f, \"eval_loss\": %.9g}\n",
                      (long long)r->p.step, epoch_of(r), loss);
        flush_metrics(r);
    }
    return ZT_OK;
}

/* ---- a step ---- */
static void load_batches(run *r)
{
    zt_session *s = &r->s;
    const zt_config *c = s->config;
    const int ranks = zt_comm_size(s->comm), rank = zt_comm_rank(s->comm);
    for (int64_t m = 0; m < c->accumulation; m++) {
        zt_batch *b = zt_engine_batch(s->engine, (int)m);
        b->first_sample = (m * ranks + rank) * c->micro_batch;
        zt_session_batch(s->train, r->p.samples + b->first_sample, c->micro_batch,
                         c->sequence_length, b);
    }
}

static zt_status step(run *r)
{
    zt_session *s = &r->s;
    const zt_config *c = s->config;
    const double start_time = zt_now();
    char label[64];
    (void)snprintf(label, sizeof label, "step %lld", (long long)r->p.step + 1);
    zt_comm_set_label(s->comm, label);
    load_batches(r);
    zt_step_opt o = {.step = r->p.step + 1,
                     .lr = zt_lr_at(c, r->p.step + 1, r->steps),
                     .clip = c->gradient_clipping,
                     .loss_scale = r->p.scale.scale,
                     .skip_overflow = c->fp16};
    zt_step_result x;
    zt_comm_counts_reset(s->comm);
    ZT_TRY(zt_engine_step(s->engine, s->train_pass, &o, &x));
    for (int k = 0; k < 2; k++) {
        const zt_comm_count *n = &zt_comm_counts(s->comm)[k];
        r->sent[k].elements += n->elements;
        r->sent[k].bytes += n->bytes;
        r->sent[k].messages += n->messages;
        r->sent[k].inter_bytes += n->inter_bytes;
        r->sent[k].wait_seconds += n->wait_seconds;
    }
    zt_loss_scale_update(c, &r->p.scale, x.skipped);
    r->p.step++;
    r->p.samples += c->train_batch_size;
    r->p.tokens += c->train_batch_size * c->sequence_length;
    r->training += zt_now() - start_time;
    log_step(r, &x, o.lr);
    return ZT_OK;
}

/* ---- the account ---- */
static double mib(double bytes)
{
    return bytes / 0x1p20;
}

/* Memory of every rank: what the plan said, what the ledger saw, what the system says. */
static zt_status say_memory(run *r)
{
    zt_session *s = &r->s;
    zt_mem *planned;
    ZT_TRY(zt_mem_create(&planned));
    zt_engine_book(s->engine, planned);
    enum { FIELDS = 2 * ZT_MEM_KIND_COUNT + 3 };
    double mine[FIELDS];
    for (int k = 0; k < ZT_MEM_KIND_COUNT; k++) {
        mine[2 * k] = (double)zt_mem_peak(planned, ZT_TIER_DEVICE, (zt_mem_kind)k);
        mine[2 * k + 1] = (double)zt_mem_peak(s->mem, ZT_TIER_DEVICE, (zt_mem_kind)k);
    }
    mine[FIELDS - 3] = (double)zt_mem_peak_total(planned, ZT_TIER_DEVICE);
    mine[FIELDS - 2] = (double)zt_mem_peak_total(s->mem, ZT_TIER_DEVICE);
    mine[FIELDS - 1] = (double)r->rss;
    zt_mem_destroy(&planned);
    const int n = zt_comm_size(s->comm);
    double *all = zt_malloc((size_t)n * sizeof mine);
    if (!all) return ZT_NOMEM();
    zt_status status = zt_all_gather_bytes(s->comm, mine, all, sizeof mine);
    zt_log(ZT_LOG_INFO, "memory a rank, MiB: predicted / measured");
    for (int rank = 0; rank < n && status == ZT_OK; rank++) {
        const double *x = all + rank * FIELDS;
        char line[512];
        int used = snprintf(line, sizeof line, "  rank %d:", rank);
        for (int k = 0; k < ZT_MEM_KIND_COUNT; k++)
            if (x[2 * k] > 0 || x[2 * k + 1] > 0)
                used +=
                    snprintf(line + used, sizeof line - (size_t)used, " %s %.1f / %.1f,",
                             zt_mem_kind_name((zt_mem_kind)k), mib(x[2 * k]), mib(x[2 * k + 1]));
        zt_log(ZT_LOG_INFO, "%s in all %.1f / %.1f; resident %.1f", line, mib(x[FIELDS - 3]),
               mib(x[FIELDS - 2]), mib(x[FIELDS - 1]));
    }
    zt_free(all);
    return status;
}

static void say_traffic(const run *r)
{
    const zt_session *s = &r->s;
    const int64_t done = r->p.step - r->first_step;
    zt_traffic t;
    zt_engine_traffic(s->engine, s->train_pass, &t);
    if (zt_comm_size(s->comm) == 1 || done == 0) return;
    const double P = (double)zt_graph_numel(s->graph, false);
    const double sent = (double)(r->sent[0].elements + r->sent[1].elements) / (double)done;
    zt_log(ZT_LOG_INFO,
           "sent by rank 0 a step: %.0f elements, as planned %.0f (payload %.0f, padding %.0f), "
           "%.1f MiB; a "
           "parameter %.4f",
           sent, (double)(t.gather + t.reduce), (double)(t.gather_payload + t.reduce_payload),
           (double)(t.gather + t.reduce - t.gather_payload - t.reduce_payload),
           mib((double)(r->sent[0].bytes + r->sent[1].bytes) / (double)done),
           (double)(t.gather_payload + t.reduce_payload) / P);
    zt_log(ZT_LOG_INFO,
           "  the ZeRO formula says %.0f; %.0f less for weights that are not asked for twice",
           t.formula, t.saved);
    zt_log(ZT_LOG_INFO, "  waited for parameters %.1f s, for gradients %.1f s of %.1f s in steps",
           r->sent[0].wait_seconds, r->sent[1].wait_seconds, r->training);
}

static zt_status finish(run *r)
{
    const int64_t done = r->p.step - r->first_step;
    const double flops = r->s.engine->pass[r->s.train_pass].program->flops *
                         (double)r->s.config->accumulation * (double)done;
    if (done > 0)
        zt_log(ZT_LOG_INFO, "%lld steps in %.1f s: %.0f tokens/s, %.1f GFLOP/s a rank",
               (long long)done, r->training, (double)(r->p.tokens - r->first_tokens) / r->training,
               flops / r->training / 1e9);
    ZT_TRY(say_memory(r));
    say_traffic(r);
    return ZT_OK;
}

/* Has any rank been asked? All hear the same answer. */
static zt_status asked_to_stop(const run *r, int64_t *stop)
{
    *stop = zt_stop_requested;
    return zt_all_reduce_max_i64(r->s.comm, stop, 1);
}

static zt_status loop(run *r)
{
    const zt_config *c = r->s.config;
    r->started = zt_now();
    r->first_step = r->p.step;
    r->first_tokens = r->p.tokens;
    int64_t saved = r->s.checkpoint ? r->p.step : -1, evaluated = -1, stop = 0;
    if (r->p.step == 0 && c->eval_steps > 0) ZT_TRY(evaluate(r));
    if (r->s.checkpoint && r->p.step >= r->steps)
        zt_log(ZT_LOG_WARN,
               "all %lld steps are done already: a larger max_steps (or num_train_epochs) goes on",
               (long long)r->steps);
    ZT_TRY(asked_to_stop(r, &stop));
    while (r->p.step < r->steps && !stop) {
        ZT_TRY(step(r));
        int64_t rss = (int64_t)zt_process_rss();
        r->rss = rss > r->rss ? rss : r->rss;
        if (c->eval_steps > 0 && r->p.step % c->eval_steps == 0) {
            ZT_TRY(evaluate(r));
            evaluated = r->p.step;
        }
        ZT_TRY(asked_to_stop(r, &stop));
        if ((c->save_steps > 0 && r->p.step % c->save_steps == 0) || stop) {
            ZT_TRY(zt_checkpoint_save(&r->s, &r->p));
            saved = r->p.step;
        }
    }
    if (stop && r->p.step == r->first_step) {
        zt_log(ZT_LOG_INFO, "stopped by a signal before the first step: there is nothing to save");
        return ZT_OK;
    }
    if (stop) {
        zt_log(ZT_LOG_INFO,
               "stopped by a signal at step %lld; resume_from_checkpoint=true goes on from there",
               (long long)r->p.step);
        return ZT_OK;
    }
    if (evaluated != r->p.step) ZT_TRY(evaluate(r));
    if (c->save_at_end && saved != r->p.step) ZT_TRY(zt_checkpoint_save(&r->s, &r->p));
    return finish(r);
}

zt_status zt_train(zt_comm *comm, zt_config *config)
{
    run r = {0};
    zt_status status = start(&r, comm, config);
    if (status == ZT_OK) status = loop(&r);
    if (r.metrics) (void)fclose(r.metrics);
    zt_session_stop(&r.s);
    return status;
}
