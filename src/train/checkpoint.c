/* checkpoint.c - a checkpoint is a Hugging Face folder, plus the optimizer's state by parameter and slice
 * (so that any number of ranks can read it) and trainer_state.json. It is written beside its place and
 * renamed there when all ranks are done: what bears the name is whole. */
#include "base/file.h"
#include "io/safetensors.h"
#include "train/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- whole weights, chunk by chunk; rank 0 writes ---- */
typedef struct {
    zt_session *s;
    const char *folder;
    zt_tensor *tensors; /* in the order of chunks and their parts */
    int n;
    zt_shard_plan plan;
    zt_weights_out *out;
    int shard; /* open now; -1 */
} writer;

static void describe(writer *w)
{
    const zt_placement *p = w->s->engine->place;
    for (int i = 0; i < p->n_parts; i++) {
        const zt_parameter *q = &p->graph->params[p->parts[i].param];
        zt_tensor *t = &w->tensors[w->n++];
        *t = (zt_tensor){.name = q->name, .type = p->opt.type, .numel = q->numel};
        t->bytes = (size_t)q->numel * zt_dtype_bytes(t->type);
        t->n_dims = q->in ? 2 : 1;
        t->shape[0] = q->in && q->opt.in_out ? q->in : q->out;
        t->shape[1] = q->in && q->opt.in_out ? q->out : q->in;
    }
}

static zt_status next_shard(writer *w)
{
    if (w->out) ZT_TRY(zt_weights_commit(&w->out));
    w->shard++;
    int first = 0, count = 0;
    for (int i = 0; i < w->n; i++) {
        first += w->plan.shard_of[i] < w->shard;
        count += w->plan.shard_of[i] == w->shard;
    }
    char *path = zt_path_join(w->folder, w->plan.file[w->shard]);
    zt_status status =
        path ? zt_weights_create(path, w->tensors + first, count, NULL, &w->out) : ZT_NOMEM();
    zt_free(path);
    return status;
}

static zt_status write_chunk(writer *w, const zt_chunk *c, const char *data)
{
    const zt_placement *p = w->s->engine->place;
    for (int i = 0; i < c->n_parts; i++) {
        const int k = c->first_part + i;
        const char *from = data + (size_t)p->parts[k].at * zt_dtype_bytes(p->opt.type);
        if (w->s->dev.k->find_nonfinite(&w->s->dev, w->tensors[k].numel, p->opt.type, from) >= 0)
            return ZT_FAIL(ZT_ERR_NUMERIC,
                           "%s has become a number that is not finite: it is not saved",
                           w->tensors[k].name);
        if (w->plan.shard_of[k] != w->shard) ZT_TRY(next_shard(w));
        ZT_TRY(zt_weights_write(w->out, from, w->tensors[k].bytes));
    }
    return ZT_OK;
}

static zt_status start_writer(writer *w)
{
    w->tensors = zt_calloc((size_t)w->s->engine->place->n_parts, sizeof *w->tensors);
    if (!w->tensors) return ZT_NOMEM();
    describe(w);
    return zt_shard_plan_make(w->tensors, w->n, (size_t)w->s->config->max_shard_bytes, &w->plan);
}

/* Collective: a rank that fails goes on taking part in the gathers. */
static zt_status save_weights(zt_session *s, const char *folder)
{
    writer w = {.s = s, .folder = folder, .shard = -1};
    const bool writes = zt_comm_rank(s->comm) == 0;
    zt_status status = writes ? start_writer(&w) : ZT_OK;
    for (int i = 0; i < s->engine->place->n_chunks; i++) {
        const void *data;
        zt_status gathered = zt_engine_gather_chunk(s->engine, i, &data);
        if (gathered != ZT_OK) {
            status = gathered;
            break;
        }
        if (writes && status == ZT_OK) status = write_chunk(&w, &s->engine->place->chunks[i], data);
    }
    if (status == ZT_OK && w.out) status = zt_weights_commit(&w.out);
    if (status == ZT_OK && writes) status = zt_shard_index_write(folder, w.tensors, w.n, &w.plan);
    zt_weights_discard(&w.out);
    zt_shard_plan_free(&w.plan);
    zt_free(w.tensors);
    return status;
}

/* ---- optimizer state: tensors "exp_avg/PARAMETER@FIRST ELEMENT" ---- */
enum { KINDS = 3 };
typedef struct {
    zt_session *s;
    zt_tensor *tensors;
    const float **data;
    int n, room;
} slices;

static zt_status add_slice(slices *l, const char *kind, const zt_state_slice *x, const float *data)
{
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 64;
        zt_tensor *t = zt_realloc(l->tensors, (size_t)room * sizeof *t);
        if (t) l->tensors = t;
        const float **d = t ? zt_realloc(l->data, (size_t)room * sizeof *d) : NULL;
        if (!d) return ZT_NOMEM();
        l->data = d;
        l->room = room;
    }
    char *name =
        zt_format("%s/%s@%lld", kind, l->s->graph->params[x->param].name, (long long)x->from);
    if (!name) return ZT_NOMEM();
    l->tensors[l->n] = (zt_tensor){.name = name, .type = ZT_F32, .n_dims = 1, .numel = x->count};
    l->tensors[l->n].shape[0] = x->count;
    l->tensors[l->n].bytes = (size_t)x->count * sizeof(float);
    l->data[l->n++] = data;
    return ZT_OK;
}

static zt_status take_slice(void *arg, const zt_state_slice *x)
{
    slices *l = arg;
    const zt_optim_opt *o = &l->s->engine->opt.optim;
    if (l->s->engine->opt.type != ZT_F32) ZT_TRY(add_slice(l, "master", x, x->master));
    for (int m = 0; m < zt_optim_moments(o); m++)
        ZT_TRY(add_slice(l, zt_optim_moment_name(o, m), x, x->moments[m]));
    return ZT_OK;
}

static zt_status save_optimizer(zt_session *s, const char *folder)
{
    slices l = {.s = s};
    zt_weights_out *out = NULL;
    char *path = zt_format("%s/optimizer-%05d-of-%05d.safetensors", folder,
                           zt_comm_rank(s->comm) + 1, zt_comm_size(s->comm));
    zt_status status = path ? zt_engine_slices(s->engine, take_slice, &l) : ZT_NOMEM();
    if (status == ZT_OK) status = zt_weights_create(path, l.tensors, l.n, NULL, &out);
    for (int i = 0; i < l.n && status == ZT_OK; i++)
        status = zt_weights_write(out, l.data[i], l.tensors[i].bytes);
    if (status == ZT_OK) status = zt_weights_commit(&out);
    zt_weights_discard(&out);
    for (int i = 0; i < l.n; i++)
        zt_free((char *)(uintptr_t)l.tensors[i].name);
    zt_free(l.tensors);
    zt_free(l.data);
    zt_free(path);
    return status;
}

/* ---- small files; rank 0 ---- */
static zt_status copy_beside(const char *from_folder, const char *name, const char *to_folder)
{
    char *from = zt_path_join(from_folder, name), *to = zt_path_join(to_folder, name);
    zt_status status = !from || !to           ? ZT_NOMEM()
                       : zt_path_exists(from) ? zt_file_copy(from, to)
                                              : ZT_OK;
    zt_free(from);
    zt_free(to);
    return status;
}

/* The tokenizer and what else belongs to the model's folder. */
static zt_status save_companions(const zt_session *s, const char *folder)
{
    static const char *const names[] = {
        "tokenizer.json",          "tokenizer_config.json",  "vocab.json",         "merges.txt",
        "special_tokens_map.json", "generation_config.json", "chat_template.jinja"};
    const char *source = s->tokenizer_path ? s->tokenizer_path : s->config->model;
    if (strcmp(source, "bytes") == 0) return ZT_OK;
    char *from = zt_path_is_folder(source) ? zt_strdup(source) : NULL;
    const char *slash = strrchr(source, '/');
    if (!from) from = slash ? zt_strndup(source, (size_t)(slash - source)) : zt_strdup(".");
    zt_status status = from ? ZT_OK : ZT_NOMEM();
    for (size_t i = 0; i < sizeof names / sizeof *names && status == ZT_OK; i++)
        status = copy_beside(from, names[i], folder);
    zt_free(from);
    return status;
}

static zt_status save_small(zt_session *s, const char *folder, const zt_progress *p)
{
    char *config = zt_path_join(folder, "config.json");
    zt_status status =
        config ? zt_model_config_save(&s->model, config, s->engine->opt.type) : ZT_NOMEM();
    zt_free(config);
    ZT_TRY(status);
    ZT_TRY(save_companions(s, folder));
    char *text = zt_config_canonical(s->config, false);
    json_t *j = !text
                    ? NULL
                    : json_pack("{s:i, s:I, s:I, s:I, s:i, s:s, s:s, s:{s:f, s:I, s:I, s:I}, s:s}",
                                "format", 1, "global_step", (json_int_t)p->step, "samples_seen",
                                (json_int_t)p->samples, "num_input_tokens_seen",
                                (json_int_t)p->tokens, "ranks", zt_comm_size(s->comm), "optimizer",
                                zt_optim_name(&s->engine->opt.optim), "dtype",
                                zt_dtype_name(s->engine->opt.type), "loss_scale", "scale",
                                p->scale.scale, "steps", (json_int_t)p->scale.steps,
                                "last_overflow", (json_int_t)p->scale.last_overflow, "hysteresis",
                                (json_int_t)p->scale.hysteresis, "options", text);
    free(text);
    char *path = zt_path_join(folder, "trainer_state.json");
    status = j && path ? zt_json_save(path, j) : ZT_NOMEM();
    json_decref(j);
    zt_free(path);
    return status;
}

/* ---- the folder ---- */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "checkpoint-", 11) != 0 || name[11] < '0' || name[11] > '9') return -1;
    errno = 0;
    long long step = strtoll(name + 11, &end, 10);
    return *end || errno != 0 ? -1 : step;
}

static bool is_unfinished(const char *name) /* checkpoint-STEP.tmp */
{
    const size_t n = strlen(name);
    return strncmp(name, "checkpoint-", 11) == 0 && n > 15 &&
           strspn(name + 11, "0123456789") == n - 15 && strcmp(name + n - 4, ".tmp") == 0;
}

/* Is the folder a checkpoint of ours? The state file is written last. */
static zt_status is_whole(const char *folder, bool *whole)
{
    char *state = zt_path_join(folder, "trainer_state.json");
    if (!state) return ZT_NOMEM();
    *whole = zt_path_exists(state);
    zt_free(state);
    return ZT_OK;
}

/* Was a written after b, now that `step` has been saved? Later steps are an earlier run's. */
static bool is_newer(int64_t a, int64_t b, int64_t step)
{
    return (a <= step) != (b <= step) ? a <= step : a > b;
}

/* Removes the oldest checkpoints beyond the limit, and what earlier runs left unfinished. */
static zt_status prune(const zt_session *s, int64_t step)
{
    char **names;
    const char *dir = s->config->output_dir;
    ZT_TRY(zt_folder_list(dir, &names));
    zt_status status = ZT_OK;
    for (char **p = names; *p && status == ZT_OK; p++) {
        char *path = zt_path_join(dir, *p);
        bool whole = false;
        status = path ? is_whole(path, &whole) : ZT_NOMEM();
        bool old = status == ZT_OK && is_unfinished(*p) && zt_path_is_folder(path);
        if (whole && step_of(*p) >= 0 && s->config->save_total_limit > 0) {
            int64_t newer = 0;
            for (char **q = names; *q; q++)
                newer += step_of(*q) >= 0 && is_newer(step_of(*q), step_of(*p), step);
            old = newer >= s->config->save_total_limit;
        }
        if (old) status = zt_folder_remove(path);
        zt_free(path);
    }
    zt_names_free(names);
    return status;
}

zt_status zt_checkpoint_last(const char *output_dir, char **path)
{
    *path = NULL;
    if (!zt_path_is_folder(output_dir)) return ZT_OK;
    char **names;
    ZT_TRY(zt_folder_list(output_dir, &names));
    const char *best = NULL;
    zt_status status = ZT_OK;
    for (char **p = names; *p && status == ZT_OK; p++) {
        if (step_of(*p) < 0 || (best && step_of(*p) <= step_of(best))) continue;
        bool whole = false;
        char *folder = zt_path_join(output_dir, *p);
        status = folder ? is_whole(folder, &whole) : ZT_NOMEM();
        zt_free(folder);
        if (status == ZT_OK && whole)
            best = *p;
        else if (status == ZT_OK)
            zt_log(ZT_LOG_WARN, "%s is no whole checkpoint: it has no trainer_state.json", *p);
    }
    if (status == ZT_OK && best && !(*path = zt_path_join(output_dir, best))) status = ZT_NOMEM();
    zt_names_free(names);
    return status;
}

static zt_status save_into(zt_session *s, const char *folder, const zt_progress *p)
{
    const bool first = zt_comm_rank(s->comm) == 0;
    zt_status status = ZT_OK;
    if (first) {
        status = zt_folder_remove(folder);
        if (status == ZT_OK) status = zt_folder_make(folder);
    }
    ZT_TRY(zt_comm_agree(s->comm, status));
    status = save_weights(s, folder);
    ZT_TRY(zt_comm_agree(s->comm, status));
    status = save_optimizer(s, folder);
    if (status == ZT_OK && first) status = save_small(s, folder, p);
    return zt_comm_agree(s->comm, status);
}

/* Gives what is whole its name. A folder that has it and is no checkpoint is somebody's. */
static zt_status publish(const char *temporary, const char *path)
{
    bool whole = true;
    if (zt_path_is_folder(path)) ZT_TRY(is_whole(path, &whole));
    if (!whole)
        return ZT_FAIL(ZT_ERR_IO, "%s is there already and is no checkpoint: move it away", path);
    return zt_folder_replace(temporary, path);
}

zt_status zt_checkpoint_save(zt_session *s, const zt_progress *p)
{
    char *path = zt_format("%s/checkpoint-%lld", s->config->output_dir, (long long)p->step);
    char *temporary = zt_format("%s.tmp", path ? path : "");
    zt_status status = path && temporary ? ZT_OK : ZT_NOMEM();
    status = zt_comm_agree(s->comm, status);
    if (status == ZT_OK) status = save_into(s, temporary, p);
    if (zt_comm_rank(s->comm) == 0) {
        if (status == ZT_OK) status = publish(temporary, path);
        if (status == ZT_OK)
            status = prune(s, p->step);
        else if (temporary && zt_path_exists(temporary)) {
            char *message = zt_strdup(zt_error_message());
            if (zt_folder_remove(temporary) != ZT_OK) zt_log(ZT_LOG_WARN, "%s", zt_error_message());
            status = ZT_FAIL(status, "%s", message ? message : "saving failed");
            zt_free(message);
        }
    }
    status = zt_comm_agree(s->comm, status);
    if (status == ZT_OK) zt_log(ZT_LOG_INFO, "saved %s", path);
    zt_free(path);
    zt_free(temporary);
    return status;
}
