/* weights.c - initial weights: from the files of a model, or random. */
#include "base/base.h"
#include "io/safetensors.h"
#include "train/session.h"

#include <math.h>

/* ---- from files ---- */
struct zt_source_weights {
    zt_weights *files;
    const zt_graph *graph;
    const zt_tensor **of; /* by parameter */
};

/* What published files hold beside parameters. */
static bool is_known_extra(const char *name)
{
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq",
                                       "lm_head.weight"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = strlen(ends[i]);
        if (n >= m && strcmp(name + n - m, ends[i]) == 0) return true;
    }
    return false;
}

/* Files of a model without its head name everything without the first part: "h.0.ln_1.weight". */
static const zt_tensor *find(const zt_weights *w, const char *name)
{
    const zt_tensor *t = zt_weights_find(w, name);
    const char *dot = strchr(name, '.');
    return t || !dot ? t : zt_weights_find(w, dot + 1);
}

static zt_status check_tensor(const zt_parameter *p, const zt_tensor *t)
{
    const int64_t a = p->opt.in_out ? p->in : p->out, b = p->opt.in_out ? p->out : p->in;
    const bool fits = p->in ? t->n_dims == 2 && t->shape[0] == a && t->shape[1] == b
                            : t->n_dims == 1 && t->shape[0] == p->out;
    if (!fits)
        return ZT_FAIL(ZT_ERR_SHAPE,
                       "%s: %s has the shape [%lld%s%lld], but the config.json asks for "
                       "[%lld%s%lld]",
                       t->file, t->name, (long long)t->shape[0], t->n_dims > 1 ? ", " : " x ",
                       (long long)(t->n_dims > 1 ? t->shape[1] : 1),
                       (long long)(p->in ? a : p->out), p->in ? ", " : " x ",
                       (long long)(p->in ? b : 1));
    if (t->type != ZT_F32 && t->type != ZT_BF16 && t->type != ZT_F16)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: %s is stored as %s; weights can be F32, BF16 or F16",
                       t->file, t->name, zt_tensor_dtype_name(t->type));
    return ZT_OK;
}

static zt_status match(zt_source_weights *w, const char *folder)
{
    int used = 0;
    for (int i = 0; i < w->graph->n_params; i++) {
        const zt_tensor *t = find(w->files, w->graph->params[i].name);
        if (!t)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s has no tensor %s, which its config.json asks for",
                           folder, w->graph->params[i].name);
        ZT_TRY(check_tensor(&w->graph->params[i], t));
        w->of[i] = t;
        used++;
    }
    const int n = zt_weights_count(w->files);
    for (int k = 0; k < n && used < n; k++) {
        const zt_tensor *t = zt_weights_at(w->files, k);
        bool known = is_known_extra(t->name);
        for (int i = 0; i < w->graph->n_params && !known; i++)
            known = w->of[i] == t;
        if (!known)
            return ZT_FAIL(ZT_ERR_FORMAT,
                           "%s: the tensor %s has no place in the model that config.json "
                           "describes",
                           t->file, t->name);
    }
    return ZT_OK;
}

zt_status zt_source_weights_open(const char *folder, const zt_graph *g, zt_source_weights **out)
{
    zt_source_weights *w = zt_calloc(1, sizeof *w);
    if (!w) return ZT_NOMEM();
    w->graph = g;
    w->of = zt_calloc((size_t)g->n_params, sizeof *w->of);
    zt_status status = w->of ? zt_weights_open(folder, &w->files) : ZT_NOMEM();
    if (status == ZT_OK) status = match(w, folder);
    if (status != ZT_OK)
        zt_source_weights_close(&w);
    else
        *out = w;
    return status;
}

void zt_source_weights_close(zt_source_weights **w)
{
    if (!*w) return;
    zt_weights_close(&(*w)->files);
    zt_free((*w)->of);
    zt_free(*w);
    *w = NULL;
}

zt_status zt_source_weights_read(void *arg, int param, int64_t from, int64_t count, float *out)
{
    const zt_source_weights *w = arg;
    const zt_tensor *t = w->of[param];
    const size_t size = zt_dtype_bytes(t->type);
    const char *data = (const char *)t->data + (size_t)from * size;
    if (t->type == ZT_F32) {
        memcpy(out, data, (size_t)count * sizeof *out);
    } else { /* the map gives no alignment */
        for (int64_t i = 0; i < count; i++) {
            uint16_t h;
            memcpy(&h, data + 2 * i, 2);
            out[i] = t->type == ZT_BF16 ? zt_bf16_to_f32(h) : zt_f16_to_f32(h);
        }
    }
    float sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += out[i] * 0.0f;
    for (int64_t i = 0; i < count && sum != 0; i++)
        if (!isfinite(out[i]))
            return ZT_FAIL(ZT_ERR_NUMERIC, "%s: element %lld of %s is not a finite number", t->file,
                           (long long)(from + i), t->name);
    zt_weights_release(w->files, data, (size_t)count * size);
    return ZT_OK;
}

/* ---- from scratch: element i of a parameter is a function of seed, name and i ---- */
typedef struct {
    zt_rng rng;
    float std, fill;
    int64_t from, count;
    float *out;
} filling;

static void fill_part(void *arg, int part, int n)
{
    const filling *f = arg;
    int64_t a, b;
    zt_split(f->count, 16, part, n, &a, &b);
    zt_rng_normals(&f->rng, (uint64_t)(f->from + a), b - a, f->out + a);
    for (int64_t i = a; i < b; i++)
        f->out[i] = f->fill + f->std * f->out[i];
}

zt_status zt_scratch_read(void *arg, int param, int64_t from, int64_t count, float *out)
{
    const zt_scratch *s = arg;
    const zt_parameter *p = &s->graph->params[param];
    filling f = {.std = p->opt.std, .fill = p->opt.fill, .from = from, .count = count, .out = out};
    f.rng = zt_rng_make(s->seed, ZT_RNG_INIT, (uint32_t)zt_hash(p->name, strlen(p->name)), 0);
    if (p->opt.std == 0)
        for (int64_t i = 0; i < count; i++)
            out[i] = p->opt.fill;
    else
        zt_parallel(count < 1024 ? 1 : s->n_threads, fill_part, &f);
    return ZT_OK;
}
