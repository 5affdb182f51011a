/* safetensors.c - reading: every claim of a header is checked before a tensor is handed out. */
#include "io/safetensors.h"
#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct copied {
    struct copied *next;
    _Alignas(16) uint8_t data[];
} copied;

struct zt_weights {
    zt_tensor *tensors; /* sorted by name */
    int n, room;
    zt_map *maps;
    json_t **headers; /* own the tensors' names */
    char **paths;
    int n_files;
    copied *copies; /* of misaligned tensors */
};

static const struct {
    const char *name;
    zt_dtype type;
} dtypes[] = {
    {"F32", ZT_F32}, {"BF16", ZT_BF16}, {"F16", ZT_F16}, {"I32", ZT_I32}, {"I64", ZT_I64},
    {"U8", ZT_U8},   {"I8", ZT_I8},     {"F64", ZT_F64}, {"BOOL", ZT_U8}}; /* the last is only read */
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

const char *zt_tensor_dtype_name(zt_dtype t)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (dtypes[i].type == t) return dtypes[i].name;
    return "?";
}

/* ---- one tensor's entry of a header ---- */
static zt_status read_shape(const json_t *shape, zt_tensor *t)
{
    if (!json_is_array(shape) || json_array_size(shape) > ZT_MAX_DIMS)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: tensor %s has no shape of at most %d dimensions",
                       t->file, t->name, ZT_MAX_DIMS);
    t->n_dims = (int)json_array_size(shape);
    t->numel = 1;
    for (int d = 0; d < t->n_dims; d++) {
        const json_t *n = json_array_get(shape, (size_t)d);
        t->shape[d] = json_integer_value(n);
        if (!json_is_integer(n) || t->shape[d] < 0 ||
            (t->shape[d] > 0 && t->numel > INT64_MAX / 8 / t->shape[d]))
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: tensor %s has an impossible shape", t->file,
                           t->name);
        t->numel *= t->shape[d];
    }
    return ZT_OK;
}

static zt_status read_entry(const json_t *e, const uint8_t *data, size_t size, zt_tensor *t)
{
    const char *name = json_string_value(json_object_get(e, "dtype"));
    int found = -1;
    for (int i = 0; name && i < N_DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0) found = i;
    if (found < 0)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: tensor %s has the dtype %s, which is not supported",
                       t->file, t->name, name ? name : "(none)");
    t->type = dtypes[found].type;
    ZT_TRY(read_shape(json_object_get(e, "shape"), t));
    const json_t *at = json_object_get(e, "data_offsets");
    const json_t *from = json_array_get(at, 0), *to = json_array_get(at, 1);
    if (json_array_size(at) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: tensor %s has no data_offsets", t->file, t->name);
    const int64_t a = json_integer_value(from), b = json_integer_value(to);
    t->bytes = (size_t)t->numel * zt_dtype_bytes(t->type);
    if (a < 0 || b < a || (size_t)(b - a) != t->bytes)
        return ZT_FAIL(ZT_ERR_FORMAT,
                       "%s: tensor %s takes %zu bytes, but its offsets are %lld..%lld", t->file,
                       t->name, t->bytes, (long long)a, (long long)b);
    if ((uint64_t)b > size)
        return ZT_FAIL(ZT_ERR_FORMAT,
                       "%s is truncated: tensor %s ends at byte %lld of the data, which has %zu",
                       t->file, t->name, (long long)b, size);
    t->data = data + a;
    return ZT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const zt_tensor *)a)->name, ((const zt_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const zt_tensor *x = *(zt_tensor *const *)a, *y = *(zt_tensor *const *)b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors of a file fill its data without overlap or hole, as Hugging Face's reader demands. */
static zt_status check_places(zt_tensor *t, int n, const char *origin, const char *data,
                              size_t size)
{
    zt_tensor **order = zt_calloc((size_t)n, sizeof *order);
    if (!order) return ZT_NOMEM();
    for (int i = 0; i < n; i++)
        order[i] = &t[i];
    qsort(order, (size_t)n, sizeof *order, by_place);
    zt_status status = ZT_OK;
    size_t at = 0;
    for (int i = 0; i < n && status == ZT_OK; i++) {
        const size_t from = (size_t)((const char *)order[i]->data - data);
        if (from < at)
            status = ZT_FAIL(ZT_ERR_FORMAT, "%s: the tensors %s and %s overlap", origin,
                             order[i - 1]->name, order[i]->name);
        else if (from > at)
            status = ZT_FAIL(ZT_ERR_FORMAT, "%s: %zu bytes before tensor %s belong to none", origin,
                             from - at, order[i]->name);
        at = from + order[i]->bytes;
    }
    if (status == ZT_OK && at != size)
        status = ZT_FAIL(ZT_ERR_FORMAT, "%s: %zu bytes after the last tensor belong to none",
                         origin, size - at);
    zt_free(order);
    return status;
}

/* A tensor that does not lie at a multiple of its element's size (the format allows it) is copied, so
 * that its numbers may be read in place. */
static zt_status align(zt_weights *w, zt_tensor *t)
{
    if ((uintptr_t)t->data % zt_dtype_bytes(t->type) == 0) return ZT_OK;
    copied *c = zt_malloc_aligned(sizeof *c + t->bytes);
    if (!c) return ZT_NOMEM();
    c->next = w->copies;
    w->copies = c;
    memcpy(c->data, t->data, t->bytes);
    t->data = c->data;
    return ZT_OK;
}

static zt_status room_for(zt_weights *w, size_t more)
{
    if ((size_t)w->n + more > INT32_MAX / 2) return ZT_FAIL(ZT_ERR_FORMAT, "too many tensors");
    const int need = w->n + (int)more;
    if (need <= w->room) return ZT_OK;
    zt_tensor *p = zt_realloc(w->tensors, (size_t)need * sizeof *p);
    if (!p) return ZT_NOMEM();
    w->tensors = p;
    w->room = need;
    return ZT_OK;
}

/* Appends the tensors of one file image; the header is kept in *keep. */
static zt_status parse(zt_weights *w, const uint8_t *data, size_t size, const char *origin,
                       json_t **keep)
{
    uint64_t length = 0;
    for (int i = 0; i < 8 && size >= 8; i++)
        length |= (uint64_t)data[i] << 8 * i;
    if (size < 8 || length > size - 8 || length > 100000000u)
        return ZT_FAIL(ZT_ERR_FORMAT,
                       "%s is no safetensors file, or it is truncated: %zu bytes, a header of %llu",
                       origin, size, (unsigned long long)length);
    ZT_TRY(zt_json_parse((const char *)data + 8, (size_t)length, origin, keep));
    if (!json_is_object(*keep))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: the header is not an object", origin);
    ZT_TRY(room_for(w, json_object_size(*keep)));
    const int first = w->n;
    const char *name;
    json_t *entry;
    json_object_foreach(*keep, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        zt_tensor t = {.name = name, .file = origin};
        ZT_TRY(read_entry(entry, data + 8 + length, size - 8 - (size_t)length, &t));
        w->tensors[w->n++] = t;
    }
    ZT_TRY(check_places(w->tensors + first, w->n - first, origin, (const char *)data + 8 + length,
                        size - 8 - (size_t)length));
    for (int i = first; i < w->n; i++)
        ZT_TRY(align(w, &w->tensors[i]));
    return ZT_OK;
}

static zt_status add_arrays(zt_weights *w, int n_files)
{
    w->maps = zt_calloc((size_t)n_files, sizeof *w->maps);
    w->headers = zt_calloc((size_t)n_files, sizeof *w->headers);
    w->paths = zt_calloc((size_t)n_files, sizeof *w->paths);
    return w->maps && w->headers && w->paths ? ZT_OK : ZT_NOMEM();
}

/* Sorts by name; the same name twice is an error. */
static zt_status finish(zt_weights *w)
{
    if (w->n > 0) qsort(w->tensors, (size_t)w->n, sizeof *w->tensors, by_name);
    for (int i = 1; i < w->n; i++)
        if (strcmp(w->tensors[i - 1].name, w->tensors[i].name) == 0)
            return ZT_FAIL(ZT_ERR_FORMAT, "the tensor %s is in %s and in %s", w->tensors[i].name,
                           w->tensors[i - 1].file, w->tensors[i].file);
    return ZT_OK;
}

zt_status zt_weights_parse(const uint8_t *data, size_t size, const char *origin, zt_weights **out)
{
    zt_weights *w = zt_calloc(1, sizeof *w);
    if (!w) return ZT_NOMEM();
    zt_status status = add_arrays(w, 1);
    if (status == ZT_OK) {
        w->n_files = 1;
        w->paths[0] = zt_strdup(origin);
        status = w->paths[0] ? parse(w, data, size, w->paths[0], &w->headers[0]) : ZT_NOMEM();
    }
    if (status == ZT_OK) status = finish(w);
    if (status != ZT_OK)
        zt_weights_close(&w);
    else
        *out = w;
    return status;
}

static zt_status open_file(zt_weights *w, const char *path)
{
    const int i = w->n_files++;
    w->paths[i] = zt_strdup(path);
    if (!w->paths[i]) return ZT_NOMEM();
    ZT_TRY(zt_map_open(path, &w->maps[i]));
    return parse(w, w->maps[i].data, w->maps[i].size, w->paths[i], &w->headers[i]);
}

/* ---- a folder with an index: {"weight_map": {tensor: file}} ----
 * As in transformers the map says which files there are, and all that is in them is loaded: a tensor that
 * the map leaves out is not missed. One that the map places where it is not is an error. */
static zt_status open_indexed(zt_weights *w, const char *folder, const char *index_path,
                              const json_t *index)
{
    const json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s has no weight_map", index_path);
    const char *name;
    json_t *file;
    json_t *files = json_object();
    if (!files) return ZT_NOMEM();
    zt_status status = ZT_OK;
    json_object_foreach((json_t *)(uintptr_t)map, name, file)
    {
        const char *f = json_string_value(file);
        if (!f || !*f || strchr(f, '/')) {
            status = ZT_FAIL(ZT_ERR_FORMAT, "%s: the entry of %s is not the name of a file",
                             index_path, name);
            break;
        }
        if (json_object_set_new(files, f, json_true()) != 0) status = ZT_NOMEM();
    }
    if (status == ZT_OK) status = add_arrays(w, (int)json_object_size(files));
    json_object_foreach(files, name, file)
    {
        char *path = status == ZT_OK ? zt_path_join(folder, name) : NULL;
        if (status == ZT_OK) status = path ? open_file(w, path) : ZT_NOMEM();
        zt_free(path);
    }
    json_decref(files);
    ZT_TRY(status);
    ZT_TRY(finish(w));
    json_object_foreach((json_t *)(uintptr_t)map, name, file)
    {
        const zt_tensor *t = zt_weights_find(w, name);
        const char *in = t ? strrchr(t->file, '/') : NULL;
        if (!t || !in || strcmp(in + 1, json_string_value(file)) != 0)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s says that %s is in %s, but it is %s%s", index_path,
                           name, json_string_value(file), t ? "in " : "nowhere", t ? t->file : "");
    }
    return ZT_OK;
}

static zt_status open_single(zt_weights *w, const char *path)
{
    ZT_TRY(add_arrays(w, 1));
    ZT_TRY(open_file(w, path));
    return finish(w);
}

static zt_status open_folder(zt_weights *w, const char *folder)
{
    char *one = zt_path_join(folder, "model.safetensors");
    char *index_path = zt_path_join(folder, "model.safetensors.index.json");
    zt_status status = ZT_OK;
    json_t *index = NULL;
    if (!one || !index_path) {
        status = ZT_NOMEM();
    } else if (zt_path_exists(one)) {
        status = open_single(w, one);
    } else if (zt_path_exists(index_path)) {
        status = zt_json_load(index_path, &index);
        if (status == ZT_OK) status = open_indexed(w, folder, index_path, index);
    } else {
        status = ZT_FAIL(
            ZT_ERR_IO,
            "%s has no model.safetensors and no model.safetensors.index.json; a model saved "
            "as pytorch_model.bin must be saved again with safe_serialization",
            folder);
    }
    json_decref(index);
    zt_free(one);
    zt_free(index_path);
    return status;
}

zt_status zt_weights_open(const char *path, zt_weights **out)
{
    zt_weights *w = zt_calloc(1, sizeof *w);
    if (!w) return ZT_NOMEM();
    zt_status status = zt_path_is_folder(path) ? open_folder(w, path) : open_single(w, path);
    if (status != ZT_OK)
        zt_weights_close(&w);
    else
        *out = w;
    return status;
}

void zt_weights_close(zt_weights **weights)
{
    zt_weights *w = *weights;
    if (!w) return;
    for (copied *c = w->copies, *next; c; c = next) {
        next = c->next;
        zt_free(c);
    }
    for (int i = 0; i < w->n_files; i++) {
        zt_map_close(&w->maps[i]);
        json_decref(w->headers[i]);
        zt_free(w->paths[i]);
    }
    zt_free(w->maps);
    zt_free(w->headers);
    zt_free(w->paths);
    zt_free(w->tensors);
    zt_free(w);
    *weights = NULL;
}

void zt_weights_release(const zt_weights *w, const void *data, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t a = (uintptr_t)data / page * page, b = ((uintptr_t)data + bytes) / page * page;
    for (int i = 0; i < w->n_files;
         i++) { /* only of maps: copies of misaligned tensors would be lost */
        const uintptr_t map = (uintptr_t)w->maps[i].data;
        if (b > a && a >= map && b <= map + w->maps[i].size)
            (void)madvise((void *)a, b - a, MADV_DONTNEED);
    }
}

int zt_weights_count(const zt_weights *w)
{
    return w->n;
}

const zt_tensor *zt_weights_at(const zt_weights *w, int i)
{
    return &w->tensors[i];
}

const zt_tensor *zt_weights_find(const zt_weights *w, const char *name)
{
    const zt_tensor key = {.name = name};
    return w->n ? bsearch(&key, w->tensors, (size_t)w->n, sizeof key, by_name) : NULL;
}

const char *zt_weights_metadata(const zt_weights *w, const char *key)
{
    const json_t *m = w->n_files ? json_object_get(w->headers[0], "__metadata__") : NULL;
    return json_string_value(json_object_get(m, key));
}
