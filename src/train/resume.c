/* resume.c - restoring a run from a checkpoint: weights, optimizer state by parameter and slice, progress. */
#include "base/file.h"
#include "io/safetensors.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- state ---- */
typedef struct {
    const zt_graph *graph;
    zt_weights **files;
    int n_files;
    const char *kind; /* wanted now */
    zt_source_weights *model;
    const char *folder;
} loader;

/* Elements of a parameter's state from whichever slices hold them. */
static zt_status read_state(void *arg, int param, int64_t from, int64_t count, float *out)
{
    const loader *l = arg;
    const char *name = l->graph->params[param].name;
    const bool square = strcmp(l->kind, "exp_avg_sq") == 0;
    if (!l->graph->params[param].trainable)
        return zt_source_weights_read(l->model, param, from, count, out);
    int64_t found = 0;
    char key[600];
    int n = snprintf(key, sizeof key, "%s/%s@", l->kind, name);
    for (int f = 0; f < l->n_files; f++) {
        /* names are sorted: those of the key lie together */
        int a = 0, b = zt_weights_count(l->files[f]);
        while (a < b) {
            int mid = (a + b) / 2;
            if (strcmp(zt_weights_at(l->files[f], mid)->name, key) < 0)
                a = mid + 1;
            else
                b = mid;
        }
        for (; a < zt_weights_count(l->files[f]); a++) {
            const zt_tensor *t = zt_weights_at(l->files[f], a);
            if (strncmp(t->name, key, (size_t)n) != 0) break;
            int64_t first = strtoll(t->name + n, NULL, 10);
            if (first < 0 || first > l->graph->params[param].numel - t->numel) continue;
            int64_t last = first + t->numel;
            int64_t x = from > first ? from : first, y = from + count < last ? from + count : last;
            if (x < y && t->type == ZT_F32) {
                memcpy(out + (x - from),
                       (const char *)t->data + (size_t)(x - first) * sizeof(float),
                       (size_t)(y - x) * sizeof(float));
                found += y - x;
            }
        }
    }
    if (found != count)
        return ZT_FAIL(ZT_ERR_FORMAT,
                       "%s: the optimizer's %s of %s is not whole (elements %lld to %lld); was "
                       "it saved with another optimizer, or frozen?",
                       l->folder, l->kind, name, (long long)from, (long long)(from + count));
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(out[i]) || (square && out[i] < 0))
            return ZT_FAIL(
                ZT_ERR_FORMAT,
                "%s: the optimizer's %s of %s, element %lld, is %g: the file is damaged; "
                "give the folder as \"model\" to start anew from its weights",
                l->folder, l->kind, name, (long long)(from + i), (double)out[i]);
    return ZT_OK;
}

/* Of how many optimizer files is this one? 0: it is none. */
static int part_of(const char *name)
{
    int i, total;
    char again[64];
    if (sscanf(name, "optimizer-%d-of-%d", &i, &total) != 2) return 0;
    (void)snprintf(again, sizeof again, "optimizer-%05d-of-%05d.safetensors", i, total);
    return strcmp(name, again) == 0 ? total : 0;
}

static zt_status open_optimizer(loader *l)
{
    char **names;
    ZT_TRY(zt_folder_list(l->folder, &names));
    int n = 1, of = 0;
    for (char **p = names; *p; p++)
        n += part_of(*p) > 0;
    l->files = zt_calloc((size_t)n, sizeof *l->files);
    zt_status status = l->files ? ZT_OK : ZT_NOMEM();
    for (char **p = names; *p && status == ZT_OK; p++) {
        const int total = part_of(*p);
        if (total == 0) continue;
        of = total;
        char *path = zt_path_join(l->folder, *p);
        status = path ? zt_weights_open(path, &l->files[l->n_files]) : ZT_NOMEM();
        l->n_files += status == ZT_OK;
        zt_free(path);
    }
    zt_names_free(names);
    if (status == ZT_OK && of == 0)
        status = ZT_FAIL(ZT_ERR_FORMAT,
                         "%s has no optimizer files: it cannot be resumed, but it can be given as "
                         "\"model\"",
                         l->folder);
    if (status == ZT_OK && of != l->n_files)
        status = ZT_FAIL(ZT_ERR_FORMAT,
                         "%s has %d optimizer files that say they are of %d: it cannot be resumed, "
                         "but it can be given as \"model\"",
                         l->folder, l->n_files, of);
    return status;
}

/* ---- progress, and what is not as it was ---- */
/* The value of "key = value" in a text of such lines; NULL: not there. *n: its length. */
static const char *value_of(const char *options, const char *key, size_t n_key, size_t *n)
{
    for (const char *line = options; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, key, n_key) == 0 && strncmp(line + n_key, " = ", 3) == 0) {
            *n = strcspn(line + n_key + 3, "\n");
            return line + n_key + 3;
        }
    return NULL;
}

/* What is not as it was when the checkpoint was saved. Only a different cut of the data into samples cannot go on:
 * its place in them would mean something else. */
static zt_status say_changes(const zt_config *c, const char *saved)
{
    static const char *const cut[] = {"data.sequence_length", "data.packing"};
    char *options = zt_config_canonical(c, false);
    zt_status status = options ? ZT_OK : ZT_NOMEM();
    for (const char *line = options; status == ZT_OK && *line;
         line += strcspn(line, "\n"), line += *line == '\n') {
        const size_t n_key = strcspn(line, " ");
        size_t n = 0, n_now = 0;
        const char *was = value_of(saved, line, n_key, &n), *now = line + n_key + 3;
        n_now = strcspn(now, "\n");
        if (!was || (n == n_now && strncmp(was, now, n) == 0) ||
            strncmp(line, "resume_from_checkpoint ", 23) == 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (strlen(cut[i]) == n_key && strncmp(cut[i], line, n_key) == 0)
                status = ZT_FAIL(ZT_ERR_CONFIG,
                                 "%s = %.*s, but the checkpoint was saved with %.*s: its place in "
                                 "the data would be lost; keep it, or give the checkpoint as "
                                 "\"model\" of a new run",
                                 cut[i], (int)n_now, now, (int)n, was);
        zt_log(ZT_LOG_INFO, "changed since the checkpoint: %.*s = %.*s, was %.*s", (int)n_key, line,
               (int)n_now, now, (int)n, was);
    }
    free(options);
    return status;
}

static zt_status read_progress(const zt_session *s, const char *folder, zt_progress *p, bool *fp32)
{
    static const int64_t least[] = {0,         0, 0, 0,
                                    INT64_MIN, 0}; /* last_overflow may be before the first step */
    const int64_t MOST = INT64_C(1) << 53;
    const char *dtype = "";
    char *path = zt_path_join(folder, "trainer_state.json");
    json_t *j = NULL;
    if (!path) return ZT_NOMEM();
    zt_status status = zt_json_load(path, &j);
    const json_t *scale = json_object_get(j, "loss_scale");
    const char *optimizer = "", *mine = zt_optim_name(&s->engine->opt.optim);
    int64_t format = 0;
    if (status == ZT_OK) status = zt_json_get_i64(j, path, "format", &format);
    if (status == ZT_OK && format != 1)
        status = ZT_FAIL(ZT_ERR_FORMAT, "%s is of format %lld; this program reads 1", path,
                         (long long)format);
    if (status == ZT_OK) status = zt_json_get_str(j, path, "optimizer", &optimizer);
    if (status == ZT_OK && !*optimizer)
        status = ZT_FAIL(ZT_ERR_FORMAT, "%s: optimizer is missing: the file is damaged", path);
    if (status == ZT_OK && strcmp(optimizer, mine) != 0)
        status = ZT_FAIL(ZT_ERR_CONFIG,
                         "%s was trained with %s, and optimizer.type is %s: its state does not "
                         "fit; give the folder as \"model\" to start anew from its weights",
                         folder, optimizer, mine);
    struct {
        const json_t *from;
        const char *key;
        int64_t *to;
    } fields[] = {{j, "global_step", &p->step},
                  {j, "samples_seen", &p->samples},
                  {j, "num_input_tokens_seen", &p->tokens},
                  {scale, "steps", &p->scale.steps},
                  {scale, "last_overflow", &p->scale.last_overflow},
                  {scale, "hysteresis", &p->scale.hysteresis}};
    for (int i = 0; i < 6 && status == ZT_OK; i++) {
        const json_t *there = json_object_get(fields[i].from, fields[i].key);
        status = zt_json_get_i64(fields[i].from, path, fields[i].key, fields[i].to);
        if (status == ZT_OK && (!there || *fields[i].to < least[i] || *fields[i].to > MOST))
            status = ZT_FAIL(
                ZT_ERR_FORMAT,
                "%s: %s %s: the file is damaged; give the folder as \"model\" to start anew "
                "from its weights",
                path, fields[i].key, there ? "is out of range" : "is missing");
    }
    const char *options = "";
    if (status == ZT_OK) status = zt_json_get_str(j, path, "options", &options);
    if (status == ZT_OK) status = say_changes(s->config, options);
    if (status == ZT_OK) status = zt_json_get_str(j, path, "dtype", &dtype);
    *fp32 = strcmp(dtype, zt_dtype_name(ZT_F32)) == 0;
    if (status == ZT_OK && s->config->fp16 && s->config->loss_scale == 0)
        status = zt_json_get_f64(scale, path, "scale", &p->scale.scale);
    json_decref(j);
    zt_free(path);
    return status;
}

/* ---- all of it ---- */
static zt_status load_local(zt_session *s, const char *folder, zt_progress *p)
{
    loader l = {.graph = s->graph, .folder = folder};
    bool fp32 = false; /* then the weights are the master weights */
    zt_status status = read_progress(s, folder, p, &fp32);
    if (status == ZT_OK) status = zt_source_weights_open(folder, s->graph, &l.model);
    if (status == ZT_OK) status = open_optimizer(&l);
    l.kind = "master";
    if (status == ZT_OK)
        status = fp32 ? zt_engine_fill(s->engine, zt_source_weights_read, l.model)
                      : zt_engine_fill(s->engine, read_state, &l);
    for (int m = 0; m < zt_optim_moments(&s->engine->opt.optim) && status == ZT_OK; m++) {
        l.kind = zt_optim_moment_name(&s->engine->opt.optim, m);
        status = zt_engine_fill_moment(s->engine, m, read_state, &l);
    }
    for (int i = 0; i < l.n_files; i++)
        zt_weights_close(&l.files[i]);
    zt_free(l.files);
    zt_source_weights_close(&l.model);
    return status;
}

zt_status zt_checkpoint_load(zt_session *s, const char *path, zt_progress *p)
{
    return zt_comm_agree(s->comm, load_local(s, path, p));
}
