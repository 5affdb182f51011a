/* gguf_build.h - makes GGUF images for tests: metadata and tensors one by one, then the whole. */
#ifndef ZT_TEST_GGUF_BUILD_H
#define ZT_TEST_GGUF_BUILD_H
#include "harness.h"

typedef struct {
    uint8_t *data;
    size_t size;
} bytes;

static inline void put(bytes *b, const void *p, size_t n)
{
    b->data = realloc(b->data, b->size + n + 1);
    assert_non_null(b->data);
    if (n) memcpy(b->data + b->size, p, n);
    b->size += n;
}
static inline void put_int(bytes *b, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(b, &(uint8_t){(uint8_t)(v >> 8 * i)}, 1);
}
static inline void put_text(bytes *b, const char *s)
{
    put_int(b, strlen(s), 8);
    put(b, s, strlen(s));
}

typedef struct {
    bytes entries, tensors, data;
    uint64_t n_entries, n_tensors, align;
    uint32_t version;
} gguf_image;

enum { KIND_U32 = 4, KIND_I32 = 5, KIND_F32 = 6, KIND_BOOL = 7, KIND_STRING = 8, KIND_ARRAY = 9 };

static inline void key(gguf_image *g, const char *name, uint32_t kind)
{
    put_text(&g->entries, name);
    put_int(&g->entries, kind, 4);
    g->n_entries++;
}
static inline void key_int(gguf_image *g, const char *name, uint32_t kind, uint64_t v, size_t n)
{
    key(g, name, kind);
    put_int(&g->entries, v, n);
}
static inline void key_u32(gguf_image *g, const char *name, uint32_t v)
{
    key_int(g, name, KIND_U32, v, 4);
}
static inline void key_f32(gguf_image *g, const char *name, float v)
{
    key(g, name, KIND_F32);
    put(&g->entries, &v, 4);
}
static inline void key_text(gguf_image *g, const char *name, const char *v)
{
    key(g, name, KIND_STRING);
    put_text(&g->entries, v);
}
static inline void key_array(gguf_image *g, const char *name, uint32_t kind, uint64_t n)
{
    key(g, name, KIND_ARRAY);
    put_int(&g->entries, kind, 4);
    put_int(&g->entries, n, 8);
}
static inline void key_texts(gguf_image *g, const char *name, const char *const *v, size_t n)
{
    key_array(g, name, KIND_STRING, n);
    for (size_t i = 0; i < n; i++)
        put_text(&g->entries, v[i]);
}

/* Shape slowest first; the data follow that of the tensor before, aligned. */
static inline void tensor(gguf_image *g, const char *name, uint32_t format, int n_dims,
                          const int64_t *shape, const void *data, size_t n)
{
    while (g->data.size % g->align)
        put_int(&g->data, 0, 1);
    put_text(&g->tensors, name);
    put_int(&g->tensors, (uint64_t)n_dims, 4);
    for (int d = n_dims - 1; d >= 0; d--)
        put_int(&g->tensors, (uint64_t)shape[d], 8);
    put_int(&g->tensors, format, 4);
    put_int(&g->tensors, g->data.size, 8);
    put(&g->data, data, n);
    g->n_tensors++;
}

static inline gguf_image image_begin(void)
{
    return (gguf_image){.align = 32, .version = 3};
}

/* The file; frees the parts. */
static inline bytes image_end(gguf_image *g)
{
    bytes b = {0};
    put(&b, "GGUF", 4);
    put_int(&b, g->version, 4);
    put_int(&b, g->n_tensors, 8);
    put_int(&b, g->n_entries, 8);
    put(&b, g->entries.data, g->entries.size);
    put(&b, g->tensors.data, g->tensors.size);
    while (b.size % g->align)
        put_int(&b, 0, 1);
    put(&b, g->data.data, g->data.size);
    free(g->entries.data);
    free(g->tensors.data);
    free(g->data.data);
    return b;
}
#endif
