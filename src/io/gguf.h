/* gguf.h - reading llama.cpp's model files (GGUF 2 and 3), and turning them into Hugging Face folders.
 *
 * A file is mapped and its metadata, tensor table, offsets and sizes are checked wholly before
 * anything is handed out. Every complaint names the file and the key or tensor. All functions are
 * Local.
 *
 *     zt_gguf *g;
 *     ZT_TRY(zt_gguf_open("model.gguf", &g));
 *     const zt_gguf_tensor *t = zt_gguf_find(g, "token_embd.weight");
 *     ZT_TRY(zt_gguf_read_f32(g, t, 0, t->numel, out));
 *     zt_gguf_close(&g); */
#ifndef ZT_GGUF_H
#define ZT_GGUF_H
#include "base/json.h"

/* ---- block formats: `bytes` hold `values` numbers ---- */
typedef struct {
    uint32_t id; /* in the file */
    const char *name;
    int values, bytes;
    void (*decode)(const uint8_t *block, float *out);
} zt_gguf_format;
const zt_gguf_format *zt_gguf_format_find(uint32_t id); /* NULL: not supported */
const char *zt_gguf_format_name(uint32_t id);           /* also of formats that are not supported */
enum { ZT_GGUF_MAX_BLOCK = 256, ZT_GGUF_MAX_DIMS = 4 };

typedef struct {
    const char *name;
    const zt_gguf_format *format;
    int n_dims;
    int64_t shape[ZT_GGUF_MAX_DIMS]; /* slowest dimension first, as in Hugging Face's files */
    int64_t numel;
    const uint8_t *data; /* into the map */
    size_t bytes;
} zt_gguf_tensor;

/* ---- the file ---- */
typedef struct zt_gguf zt_gguf;
ZT_MUST_USE zt_status zt_gguf_open(const char *path, zt_gguf **out);
void zt_gguf_close(zt_gguf **g);
/* Parses a file image that outlives *out; `origin` names it. */
ZT_MUST_USE zt_status zt_gguf_parse(const uint8_t *data, size_t size, const char *origin,
                                    zt_gguf **out);
const char *zt_gguf_origin(const zt_gguf *g);

int zt_gguf_count(const zt_gguf *g);
const zt_gguf_tensor *zt_gguf_at(const zt_gguf *g, int i);              /* in the file's order */
const zt_gguf_tensor *zt_gguf_find(const zt_gguf *g, const char *name); /* NULL if absent */
/* Elements from .. from + count of the tensor, dequantised. */
ZT_MUST_USE zt_status zt_gguf_read_f32(const zt_gguf *g, const zt_gguf_tensor *t, int64_t from,
                                       int64_t count, float *out);

/* ---- metadata: a missing key leaves *out as it was; a value of another kind is an error ---- */
bool zt_gguf_has(const zt_gguf *g, const char *key);
ZT_MUST_USE zt_status zt_gguf_get_i64(const zt_gguf *g, const char *key, int64_t *out);
ZT_MUST_USE zt_status zt_gguf_get_f64(const zt_gguf *g, const char *key, double *out);
ZT_MUST_USE zt_status zt_gguf_get_bool(const zt_gguf *g, const char *key, bool *out);
ZT_MUST_USE zt_status zt_gguf_get_str(const zt_gguf *g, const char *key, const char **out);

/* Arrays: *out is zt_malloc'ed. A missing key gives NULL and 0. */
typedef struct {
    const char *text; /* not NUL-terminated */
    size_t size;
} zt_span;
ZT_MUST_USE zt_status zt_gguf_get_strings(const zt_gguf *g, const char *key, zt_span **out,
                                          size_t *n);
ZT_MUST_USE zt_status zt_gguf_get_i64s(const zt_gguf *g, const char *key, int64_t **out, size_t *n);
ZT_MUST_USE zt_status zt_gguf_get_f32s(const zt_gguf *g, const char *key, float **out, size_t *n);

/* ---- conversion: architectures llama, qwen2 and gpt2 ----
 * Writes config.json, model.safetensors (shards of 5 GB) with weights of `type` (F32, BF16, F16), and,
 * where the file has a vocabulary, tokenizer.json, tokenizer_config.json, generation_config.json.
 * The folder appears whole or not at all; one that exists and is not empty is refused. */
ZT_MUST_USE zt_status zt_gguf_convert(const char *gguf_path, const char *folder, zt_dtype type);
/* The tokenizer.json and tokenizer_config.json of the file's vocabulary; new references. */
ZT_MUST_USE zt_status zt_gguf_tokenizer(const zt_gguf *g, json_t **tokenizer, json_t **config);
#endif
