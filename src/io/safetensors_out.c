/* safetensors_out.c - writing a file of tensors, and cutting a model into files. */
#include "base/file.h"
#include "base/json.h"
#include "io/safetensors.h"

struct zt_weights_out {
    zt_out *out;
    uint64_t end; /* offset at which the file is complete */
};

static json_t *list(const int64_t *x, int n)
{
    json_t *j = json_array();
    for (int i = 0; i < n && j; i++)
        if (json_array_append_new(j, json_integer(x[i])) != 0) {
            json_decref(j);
            j = NULL;
        }
    return j;
}

/* NULL when out of memory; so is whatever is made of a NULL. */
static json_t *entry_json(const zt_tensor *t, uint64_t at)
{
    json_t *e = json_object();
    const int64_t offsets[] = {(int64_t)at, (int64_t)(at + t->bytes)};
    int bad = json_object_set_new(e, "dtype", json_string(zt_tensor_dtype_name(t->type)));
    bad |= json_object_set_new(e, "shape", list(t->shape, t->n_dims));
    bad |= json_object_set_new(e, "data_offsets", list(offsets, 2));
    if (!bad) return e;
    json_decref(e);
    return NULL;
}

static zt_status header_json(const zt_tensor *t, int n, const char *const *metadata, json_t **out)
{
    json_t *h = json_object(), *meta = json_object();
    uint64_t at = 0;
    int bad = !h || !meta;
    bad = bad || json_object_set_new(meta, "format", json_string("pt"));
    for (int i = 0; !bad && metadata && metadata[i]; i += 2)
        bad = json_object_set_new(meta, metadata[i], json_string(metadata[i + 1]));
    bad = bad || json_object_set(h, "__metadata__", meta);
    json_decref(meta);
    for (int i = 0; !bad && i < n; i++) {
        if (json_object_get(h, t[i].name)) {
            json_decref(h);
            return ZT_FAIL(ZT_ERR_ARG, "the tensor %s would be written twice", t[i].name);
        }
        bad = json_object_set_new(h, t[i].name, entry_json(&t[i], at));
        at += t[i].bytes;
    }
    if (bad) {
        json_decref(h);
        return ZT_NOMEM();
    }
    *out = h;
    return ZT_OK;
}

/* The header padded with blanks, so that the data starts at a multiple of 64. */
static zt_status write_header(zt_out *out, const json_t *h)
{
    char *text;
    size_t length;
    ZT_TRY(zt_json_dump(h, JSON_COMPACT, &text, &length));
    const size_t padded = (length + 8 + 63) / 64 * 64 - 8;
    uint8_t size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    zt_status status = zt_out_write(out, size, 8);
    if (status == ZT_OK) status = zt_out_write(out, text, length);
    for (; status == ZT_OK && length < padded; length++)
        status = zt_out_write(out, " ", 1);
    zt_free(text);
    return status;
}

zt_status zt_weights_create(const char *path, const zt_tensor *tensors, int n,
                            const char *const *metadata, zt_weights_out **out)
{
    json_t *h = NULL;
    ZT_TRY(header_json(tensors, n, metadata, &h));
    zt_weights_out *w = zt_calloc(1, sizeof *w);
    zt_status status = w ? zt_out_open(path, &w->out) : ZT_NOMEM();
    if (status == ZT_OK) status = write_header(w->out, h);
    json_decref(h);
    if (status != ZT_OK) {
        zt_weights_discard(&w);
        return status;
    }
    w->end = zt_out_offset(w->out);
    for (int i = 0; i < n; i++)
        w->end += tensors[i].bytes;
    *out = w;
    return ZT_OK;
}

zt_status zt_weights_write(zt_weights_out *w, const void *data, size_t bytes)
{
    if (zt_out_offset(w->out) + bytes > w->end)
        return ZT_FAIL(ZT_ERR_ARG, "more data than the tensors described take");
    return zt_out_write(w->out, data, bytes);
}

zt_status zt_weights_commit(zt_weights_out **out)
{
    zt_weights_out *w = *out;
    zt_status status;
    if (zt_out_offset(w->out) != w->end) {
        status = ZT_FAIL(ZT_ERR_ARG, "%llu bytes of tensors were not given",
                         (unsigned long long)(w->end - zt_out_offset(w->out)));
        zt_out_discard(&w->out);
    } else {
        status = zt_out_commit(&w->out);
    }
    zt_free(w);
    *out = NULL;
    return status;
}

void zt_weights_discard(zt_weights_out **out)
{
    if (!*out) return;
    zt_out_discard(&(*out)->out);
    zt_free(*out);
    *out = NULL;
}

/* ---- shards ---- */
zt_status zt_shard_plan_make(const zt_tensor *tensors, int n, size_t max_shard_bytes,
                             zt_shard_plan *plan)
{
    zt_shard_plan p = {.shard_of = zt_calloc((size_t)n, sizeof(int))};
    if (!p.shard_of) return ZT_NOMEM();
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        if (i == 0 || (used > 0 && used + tensors[i].bytes > max_shard_bytes)) {
            p.n_shards++;
            used = 0;
        }
        used += tensors[i].bytes;
        p.shard_of[i] = p.n_shards - 1;
    }
    if (p.n_shards == 0) p.n_shards = 1;
    p.file = zt_calloc((size_t)p.n_shards, sizeof *p.file);
    bool bad = !p.file;
    for (int s = 0; !bad && s < p.n_shards; s++) {
        p.file[s] = p.n_shards == 1
                        ? zt_strdup("model.safetensors")
                        : zt_format("model-%05d-of-%05d.safetensors", s + 1, p.n_shards);
        bad = !p.file[s];
    }
    if (bad) {
        zt_shard_plan_free(&p);
        return ZT_NOMEM();
    }
    *plan = p;
    return ZT_OK;
}

void zt_shard_plan_free(zt_shard_plan *plan)
{
    for (int s = 0; plan->file && s < plan->n_shards; s++)
        zt_free(plan->file[s]);
    zt_free(plan->file);
    zt_free(plan->shard_of);
    *plan = (zt_shard_plan){0};
}

zt_status zt_shard_index_write(const char *folder, const zt_tensor *tensors, int n,
                               const zt_shard_plan *plan)
{
    if (plan->n_shards == 1) return ZT_OK;
    json_t *index = json_object(), *metadata = json_object(), *map = json_object();
    json_int_t total = 0;
    int bad = !index || !metadata || !map;
    for (int i = 0; !bad && i < n; i++) {
        total += (json_int_t)tensors[i].bytes;
        bad = json_object_set_new(map, tensors[i].name, json_string(plan->file[plan->shard_of[i]]));
    }
    bad = bad || json_object_set_new(metadata, "total_size", json_integer(total)) ||
          json_object_set(index, "metadata", metadata) || json_object_set(index, "weight_map", map);
    json_decref(metadata);
    json_decref(map);
    char *path = zt_path_join(folder, "model.safetensors.index.json");
    zt_status status = !bad && path ? zt_json_save(path, index) : ZT_NOMEM();
    json_decref(index);
    zt_free(path);
    return status;
}
