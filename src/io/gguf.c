/* gguf.c - the container: metadata and the table of tensors, checked against the file's size.
 *
 * Layout: magic, version, two counts; metadata (key, type, value); tensors (name, dimensions,
 * format, offset); padding; data. Strings are a 64-bit length and bytes. All is little-endian. */
#include "io/gguf.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>

/* The value types, by number in the file. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_KINDS };
static const struct {
    const char *name;
    uint8_t bytes; /* 0: not of a fixed size */
} kinds[N_KINDS] = {{"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},    {"u32", 4},
                    {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 0}, {"array", 0},
                    {"u64", 8}, {"i64", 8}, {"f64", 8}};

typedef struct {
    char *key;
    uint32_t kind; /* of the value, or of an array's elements */
    bool is_array;
    uint64_t count;      /* of an array's elements; 1 otherwise */
    const uint8_t *data; /* first element; a string is one with its length */
    char *text;          /* a string that is no array's element, NUL-terminated */
} entry;

struct zt_gguf {
    char *origin;
    zt_map map;
    entry *entries;
    size_t n_entries;
    zt_gguf_tensor *tensors;
    char **names; /* of the tensors */
    zt_gguf_tensor **sorted;
    size_t n_tensors;
};

/* ---- a cursor that never passes the end ---- */
typedef struct {
    const char *origin;
    const uint8_t *data;
    size_t size, at;
} cursor;

static zt_status truncated(const cursor *c, const char *in)
{
    return ZT_FAIL(ZT_ERR_FORMAT,
                   "%s is damaged or truncated: %s at byte %zu passes its end at %zu", c->origin,
                   in, c->at, c->size);
}

static uint64_t little(const uint8_t *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static zt_status take(cursor *c, size_t bytes, const char *in, uint64_t *out)
{
    if (c->size - c->at < bytes) return truncated(c, in);
    *out = little(c->data + c->at, bytes);
    c->at += bytes;
    return ZT_OK;
}

static zt_status take_u32(cursor *c, const char *in, uint32_t *out)
{
    uint64_t v = 0;
    ZT_TRY(take(c, 4, in, &v));
    *out = (uint32_t)v;
    return ZT_OK;
}

static zt_status take_span(cursor *c, const char *in, zt_span *out)
{
    uint64_t n = 0;
    ZT_TRY(take(c, 8, in, &n));
    if (n > c->size - c->at) return truncated(c, in);
    *out = (zt_span){(const char *)c->data + c->at, (size_t)n};
    c->at += (size_t)n;
    return ZT_OK;
}

/* A short string as a C string; one with a NUL inside is refused. */
static zt_status take_name(cursor *c, const char *in, size_t most, char **out)
{
    zt_span s = {0};
    ZT_TRY(take_span(c, in, &s));
    if (s.size > most || memchr(s.text, '\0', s.size))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s is damaged: %s before byte %zu is no text", c->origin, in,
                       c->at);
    *out = zt_strndup(s.text, s.size);
    return *out ? ZT_OK : ZT_NOMEM();
}

/* ---- metadata ---- */
static zt_status skip_values(cursor *c, const entry *e)
{
    const size_t bytes = kinds[e->kind].bytes;
    if (bytes) {
        if (e->count > (c->size - c->at) / bytes) return truncated(c, e->key);
        c->at += (size_t)e->count * bytes;
        return ZT_OK;
    }
    zt_span s;
    for (uint64_t i = 0; i < e->count; i++)
        ZT_TRY(take_span(c, e->key, &s));
    return ZT_OK;
}

static zt_status read_entry(cursor *c, entry *e)
{
    ZT_TRY(take_name(c, "a metadata key", 65535, &e->key));
    ZT_TRY(take_u32(c, e->key, &e->kind));
    e->count = 1;
    if (e->kind == ARRAY) {
        e->is_array = true;
        ZT_TRY(take_u32(c, e->key, &e->kind));
        ZT_TRY(take(c, 8, e->key, &e->count));
    }
    if (e->kind >= N_KINDS || e->kind == ARRAY)
        return ZT_FAIL(ZT_ERR_FORMAT,
                       "%s: the metadata %s has the type %u, which is not known here", c->origin,
                       e->key, e->kind);
    e->data = c->data + c->at;
    if (e->kind == STRING && !e->is_array) return take_name(c, e->key, SIZE_MAX, &e->text);
    return skip_values(c, e);
}

/* ---- tensors ---- */
static zt_status read_shape(cursor *c, zt_gguf_tensor *t)
{
    uint32_t n = 0;
    ZT_TRY(take_u32(c, t->name, &n));
    if (n > ZT_GGUF_MAX_DIMS)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: tensor %s has %u dimensions", c->origin, t->name, n);
    t->n_dims = (int)n;
    t->numel = 1;
    for (int d = t->n_dims - 1; d >= 0; d--) { /* the file has the fastest first */
        uint64_t size = 0;
        ZT_TRY(take(c, 8, t->name, &size));
        if (size > INT64_MAX || (size > 0 && t->numel > INT64_MAX / 8 / (int64_t)size))
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: tensor %s has an impossible shape", c->origin,
                           t->name);
        t->shape[d] = (int64_t)size;
        t->numel *= t->shape[d];
    }
    return ZT_OK;
}

/* The offset is left in `bytes` until the place of the data is known. */
static zt_status read_tensor(cursor *c, zt_gguf_tensor *t, uint64_t *offset)
{
    uint32_t id = 0;
    ZT_TRY(read_shape(c, t));
    ZT_TRY(take_u32(c, t->name, &id));
    ZT_TRY(take(c, 8, t->name, offset));
    t->format = zt_gguf_format_find(id);
    if (!t->format)
        return ZT_FAIL(
            ZT_ERR_FORMAT,
            "%s: tensor %s is stored as %s (%u), which is not supported; F32, F16, BF16, Q8_0, "
            "Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K are",
            c->origin, t->name, zt_gguf_format_name(id), id);
    const int64_t row = t->n_dims ? t->shape[t->n_dims - 1] : 1;
    if (row % t->format->values)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: rows of tensor %s have %lld elements, no multiple of %d",
                       c->origin, t->name, (long long)row, t->format->values);
    t->bytes = (size_t)(t->numel / t->format->values) * (size_t)t->format->bytes;
    return ZT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(zt_gguf_tensor *const *)a)->name, (*(zt_gguf_tensor *const *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const zt_gguf_tensor *x = *(zt_gguf_tensor *const *)a, *y = *(zt_gguf_tensor *const *)b;
    return x->data != y->data ? (x->data < y->data ? -1 : 1)
                              : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static zt_status check_tensors(zt_gguf *g)
{
    g->sorted = zt_calloc(g->n_tensors, sizeof(void *));
    if (!g->sorted) return ZT_NOMEM();
    for (size_t i = 0; i < g->n_tensors; i++)
        g->sorted[i] = &g->tensors[i];
    qsort(g->sorted, g->n_tensors, sizeof *g->sorted, by_place);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (g->sorted[i - 1]->data + g->sorted[i - 1]->bytes > g->sorted[i]->data)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: the tensors %s and %s overlap", g->origin,
                           g->sorted[i - 1]->name, g->sorted[i]->name);
    qsort(g->sorted, g->n_tensors, sizeof *g->sorted, by_name);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (by_name(&g->sorted[i - 1], &g->sorted[i]) == 0)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: the tensor %s is there twice", g->origin,
                           g->sorted[i]->name);
    return ZT_OK;
}

static zt_status read_tensors(zt_gguf *g, cursor *c)
{
    uint64_t *offsets = zt_calloc(g->n_tensors, sizeof *offsets);
    zt_status status = offsets ? ZT_OK : ZT_NOMEM();
    for (size_t i = 0; i < g->n_tensors && status == ZT_OK; i++) {
        ZT_TRY_OUT(status, take_name(c, "a tensor's name", 65535, &g->names[i]));
        g->tensors[i].name = g->names[i];
        ZT_TRY_OUT(status, read_tensor(c, &g->tensors[i], &offsets[i]));
    }
    int64_t align = 32;
    if (status == ZT_OK) ZT_TRY_OUT(status, zt_gguf_get_i64(g, "general.alignment", &align));
    if (status == ZT_OK && (align < 1 || align > 1 << 20 || (align & (align - 1))))
        status =
            ZT_FAIL(ZT_ERR_FORMAT, "%s: general.alignment is %lld", c->origin, (long long)align);
    const uint64_t mask = (uint64_t)align - 1;
    const uint64_t base = (c->at + mask) & ~mask, room = base < c->size ? c->size - base : 0;
    for (size_t i = 0; i < g->n_tensors && status == ZT_OK; i++) {
        zt_gguf_tensor *t = &g->tensors[i];
        if (offsets[i] & mask)
            status = ZT_FAIL(ZT_ERR_FORMAT, "%s: tensor %s begins at %llu, no multiple of %lld",
                             c->origin, t->name, (unsigned long long)offsets[i], (long long)align);
        else if (offsets[i] > room || t->bytes > room - offsets[i])
            status = ZT_FAIL(
                ZT_ERR_FORMAT,
                "%s is truncated: tensor %s takes %zu bytes at %llu, the data has %llu", c->origin,
                t->name, t->bytes, (unsigned long long)offsets[i], (unsigned long long)room);
        else
            t->data = room ? c->data + base + offsets[i] : c->data;
    }
out:
    zt_free(offsets);
    return status;
}

/* ---- the file ---- */
static int by_key(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->key, ((const entry *)b)->key);
}

static zt_status read_counts(zt_gguf *g, cursor *c)
{
    uint32_t magic = 0, version = 0;
    uint64_t n_tensors = 0, n_entries = 0;
    if (c->size < 4 || memcmp(c->data, "GGUF", 4) != 0)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s is no GGUF file", c->origin);
    ZT_TRY(take_u32(c, "the magic", &magic));
    ZT_TRY(take_u32(c, "the version", &version));
    if (version != 2 && version != 3)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s is GGUF version %u%s; 2 and 3 are supported", c->origin,
                       version,
                       version && !(version & 0xffff) ? " (written by a big-endian machine)" : "");
    ZT_TRY(take(c, 8, "the number of tensors", &n_tensors));
    ZT_TRY(take(c, 8, "the number of metadata entries", &n_entries));
    /* the least that an entry and a tensor take; so the tables cannot exceed the file by much */
    if (n_entries > c->size / 13 || n_tensors > c->size / 24)
        return ZT_FAIL(
            ZT_ERR_FORMAT, "%s is damaged: %llu tensors and %llu metadata entries in %zu bytes",
            c->origin, (unsigned long long)n_tensors, (unsigned long long)n_entries, c->size);
    g->n_tensors = (size_t)n_tensors;
    g->n_entries = (size_t)n_entries;
    return ZT_OK;
}

static zt_status parse(zt_gguf *g, const uint8_t *data, size_t size)
{
    cursor c = {.origin = g->origin, .data = data, .size = size};
    ZT_TRY(read_counts(g, &c));
    g->entries = zt_calloc(g->n_entries, sizeof *g->entries);
    g->tensors = zt_calloc(g->n_tensors, sizeof *g->tensors);
    g->names = zt_calloc(g->n_tensors, sizeof *g->names);
    if (!g->entries || !g->tensors || !g->names) return ZT_NOMEM();
    for (size_t i = 0; i < g->n_entries; i++)
        ZT_TRY(read_entry(&c, &g->entries[i]));
    qsort(g->entries, g->n_entries, sizeof *g->entries, by_key);
    for (size_t i = 1; i < g->n_entries; i++)
        if (by_key(&g->entries[i - 1], &g->entries[i]) == 0)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: the metadata %s is there twice", c.origin,
                           g->entries[i].key);
    ZT_TRY(read_tensors(g, &c));
    return check_tensors(g);
}

/* Takes the map, also on failure. */
static zt_status create(const uint8_t *data, size_t size, zt_map map, const char *origin,
                        zt_gguf **out)
{
    zt_gguf *g = zt_calloc(1, sizeof *g);
    if (!g) {
        zt_map_close(&map);
        return ZT_NOMEM();
    }
    g->map = map;
    g->origin = zt_strdup(origin);
    zt_status status = g->origin ? parse(g, data, size) : ZT_NOMEM();
    if (status != ZT_OK)
        zt_gguf_close(&g);
    else
        *out = g;
    return status;
}

zt_status zt_gguf_parse(const uint8_t *data, size_t size, const char *origin, zt_gguf **out)
{
    return create(data, size, (zt_map){0}, origin, out);
}

zt_status zt_gguf_open(const char *path, zt_gguf **out)
{
    zt_map map;
    ZT_TRY(zt_map_open(path, &map));
    return create(map.data, map.size, map, path, out);
}

void zt_gguf_close(zt_gguf **gguf)
{
    zt_gguf *g = *gguf;
    if (!g) return;
    for (size_t i = 0; g->entries && i < g->n_entries; i++) {
        zt_free(g->entries[i].key);
        zt_free(g->entries[i].text);
    }
    for (size_t i = 0; g->names && i < g->n_tensors; i++)
        zt_free(g->names[i]);
    zt_map_close(&g->map);
    zt_free(g->entries);
    zt_free(g->tensors);
    zt_free(g->names);
    zt_free(g->sorted);
    zt_free(g->origin);
    zt_free(g);
    *gguf = NULL;
}

const char *zt_gguf_origin(const zt_gguf *g)
{
    return g->origin;
}

int zt_gguf_count(const zt_gguf *g)
{
    return (int)g->n_tensors;
}

const zt_gguf_tensor *zt_gguf_at(const zt_gguf *g, int i)
{
    return &g->tensors[i];
}

const zt_gguf_tensor *zt_gguf_find(const zt_gguf *g, const char *name)
{
    const zt_gguf_tensor key = {.name = name}, *p = &key;
    zt_gguf_tensor **found = bsearch(&p, g->sorted, g->n_tensors, sizeof *g->sorted, by_name);
    return found ? *found : NULL;
}

zt_status zt_gguf_read_f32(const zt_gguf *g, const zt_gguf_tensor *t, int64_t from, int64_t count,
                           float *out)
{
    if (from < 0 || count < 0 || from > t->numel || count > t->numel - from)
        return ZT_FAIL(ZT_ERR_ARG, "%s: %lld elements from %lld on of tensor %s, which has %lld",
                       g->origin, (long long)count, (long long)from, t->name, (long long)t->numel);
    const zt_gguf_format *f = t->format;
    float block[ZT_GGUF_MAX_BLOCK];
    while (count > 0) {
        const uint8_t *p = t->data + from / f->values * f->bytes;
        const int64_t skip = from % f->values, here = f->values - skip;
        const int64_t n = count < here ? count : here;
        if (n == f->values) {
            f->decode(p, out);
        } else {
            f->decode(p, block);
            memcpy(out, block + skip, (size_t)n * sizeof *out);
        }
        from += n;
        count -= n;
        out += n;
    }
    return ZT_OK;
}

/* ---- metadata by key ---- */
static const entry *find(const zt_gguf *g, const char *key)
{
    const entry k = {.key = (char *)(uintptr_t)key};
    return bsearch(&k, g->entries, g->n_entries, sizeof k, by_key);
}

bool zt_gguf_has(const zt_gguf *g, const char *key)
{
    return find(g, key) != NULL;
}

static zt_status wrong(const zt_gguf *g, const entry *e, const char *want)
{
    return ZT_FAIL(ZT_ERR_FORMAT, "%s: the metadata %s is %s%s and should be %s", g->origin, e->key,
                   e->is_array ? "an array of " : "", kinds[e->kind].name, want);
}

/* Number i of the entry; false where it is of another kind. */
static bool whole(const entry *e, size_t i, int64_t *out)
{
    const size_t bytes = kinds[e->kind].bytes;
    if (e->kind == F32 || e->kind == F64 || e->kind == STRING || bytes == 0) return false;
    const uint64_t v = little(e->data + i * bytes, bytes);
    const bool is_signed = e->kind == I8 || e->kind == I16 || e->kind == I32 || e->kind == I64;
    const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    *out = is_signed ? (int64_t)((v ^ sign) - sign) : (int64_t)v;
    return is_signed || *out >= 0;
}

static bool real(const entry *e, size_t i, double *out)
{
    int64_t n;
    float f;
    if (e->kind == F32) {
        memcpy(&f, e->data + 4 * i, 4);
        *out = (double)f;
    } else if (e->kind == F64) {
        memcpy(out, e->data + 8 * i, 8);
    } else {
        if (!whole(e, i, &n)) return false;
        *out = (double)n;
    }
    return true;
}

zt_status zt_gguf_get_i64(const zt_gguf *g, const char *key, int64_t *out)
{
    const entry *e = find(g, key);
    if (e && (e->is_array || e->kind == BOOL || !whole(e, 0, out)))
        return wrong(g, e, "a whole number");
    return ZT_OK;
}

zt_status zt_gguf_get_f64(const zt_gguf *g, const char *key, double *out)
{
    const entry *e = find(g, key);
    if (e && (e->is_array || e->kind == BOOL || !real(e, 0, out))) return wrong(g, e, "a number");
    return ZT_OK;
}

zt_status zt_gguf_get_bool(const zt_gguf *g, const char *key, bool *out)
{
    const entry *e = find(g, key);
    if (e && (e->is_array || e->kind != BOOL)) return wrong(g, e, "true or false");
    if (e) *out = *e->data != 0;
    return ZT_OK;
}

zt_status zt_gguf_get_str(const zt_gguf *g, const char *key, const char **out)
{
    const entry *e = find(g, key);
    if (e && (e->is_array || e->kind != STRING)) return wrong(g, e, "a string");
    if (e) *out = e->text;
    return ZT_OK;
}

/* Room for an array's elements of `bytes` each, or NULL and 0 for a missing key. */
static zt_status array(const zt_gguf *g, const entry *e, size_t bytes, void **out, size_t *n)
{
    *out = NULL;
    *n = 0;
    if (!e) return ZT_OK;
    if (!e->is_array) return wrong(g, e, "an array");
    *out = zt_calloc((size_t)e->count, bytes); /* count <= size of the file */
    if (!*out) return ZT_NOMEM();
    *n = (size_t)e->count;
    return ZT_OK;
}

zt_status zt_gguf_get_strings(const zt_gguf *g, const char *key, zt_span **out, size_t *n)
{
    const entry *e = find(g, key);
    void *room;
    if (e && e->kind != STRING) return wrong(g, e, "an array of strings");
    ZT_TRY(array(g, e, sizeof **out, &room, n));
    *out = room;
    const uint8_t *p = e ? e->data : NULL;
    for (size_t i = 0; i < *n; i++) { /* checked when the file was read */
        (*out)[i] = (zt_span){(const char *)p + 8, (size_t)little(p, 8)};
        p += 8 + (*out)[i].size;
    }
    return ZT_OK;
}

zt_status zt_gguf_get_i64s(const zt_gguf *g, const char *key, int64_t **out, size_t *n)
{
    const entry *e = find(g, key);
    void *room;
    ZT_TRY(array(g, e, sizeof **out, &room, n));
    *out = room;
    for (size_t i = 0; i < *n; i++)
        if (!whole(e, i, &(*out)[i])) {
            zt_free(room);
            *out = NULL;
            return wrong(g, e, "an array of whole numbers");
        }
    return ZT_OK;
}

zt_status zt_gguf_get_f32s(const zt_gguf *g, const char *key, float **out, size_t *n)
{
    const entry *e = find(g, key);
    void *room;
    double x;
    ZT_TRY(array(g, e, sizeof **out, &room, n));
    *out = room;
    for (size_t i = 0; i < *n; i++) {
        if (!real(e, i, &x)) {
            zt_free(room);
            *out = NULL;
            return wrong(g, e, "an array of numbers");
        }
        (*out)[i] = (float)x;
    }
    return ZT_OK;
}
