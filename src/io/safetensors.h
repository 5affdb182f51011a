/* safetensors.h - reading and writing Hugging Face's tensor files, and folders of them.
 *
 * A file is mapped and its header checked wholly before a tensor is handed out: sizes, overlaps,
 * offsets, dtypes. Every complaint names the file and the tensor. All functions are Local. */
#ifndef ZT_SAFETENSORS_H
#define ZT_SAFETENSORS_H
#include "base/base.h"

enum { ZT_MAX_DIMS = 8 };

typedef struct {
    const char *name;
    zt_dtype type; /* F64, F32, F16, BF16, I64, I32, I8, U8; other dtypes are refused by name */
    int n_dims;
    int64_t shape[ZT_MAX_DIMS];
    int64_t numel;
    const void *data; /* into the map; NULL in a description for writing */
    size_t bytes;
    const char *file; /* path it lies in */
} zt_tensor;

const char *zt_tensor_dtype_name(zt_dtype t); /* "F32": the file format's word */

/* ---- reading: one file, or a folder's model.safetensors or model.safetensors.index.json ---- */
typedef struct zt_weights zt_weights;
ZT_MUST_USE zt_status zt_weights_open(const char *path, zt_weights **out);
void zt_weights_close(zt_weights **w);
int zt_weights_count(const zt_weights *w);
const zt_tensor *zt_weights_at(const zt_weights *w, int i);              /* sorted by name */
const zt_tensor *zt_weights_find(const zt_weights *w, const char *name); /* NULL if absent */
/* Says that these bytes of a tensor have been read: they need not stay in memory (they can be read again). */
void zt_weights_release(const zt_weights *w, const void *data, size_t bytes);
const char *zt_weights_metadata(const zt_weights *w, const char *key); /* first file; or NULL */
/* Parses a file image in memory; `origin` names it. For the above and for fuzzing. */
ZT_MUST_USE zt_status zt_weights_parse(const uint8_t *data, size_t size, const char *origin,
                                       zt_weights **out);

/* ---- writing one file: describe all tensors, then give the data in that order ---- */
typedef struct zt_weights_out zt_weights_out;
/* metadata: key, value, ..., NULL; or NULL. {"format": "pt"} is always written. The data of every
 * tensor is aligned to 8 bytes or better by padding the header. */
ZT_MUST_USE zt_status zt_weights_create(const char *path, const zt_tensor *tensors, int n,
                                        const char *const *metadata, zt_weights_out **out);
/* The next `bytes` of data, in file order; may split tensors anywhere. */
ZT_MUST_USE zt_status zt_weights_write(zt_weights_out *out, const void *data, size_t bytes);
/* Checks that all data came, syncs, renames into place. Takes *out, also on failure. */
ZT_MUST_USE zt_status zt_weights_commit(zt_weights_out **out);
void zt_weights_discard(zt_weights_out **out);

/* ---- a folder of shards: which tensors go to which file (model-00001-of-00003.safetensors), and the
 * index. One shard gives model.safetensors and no index. ---- */
typedef struct {
    int n_shards;
    int *shard_of; /* [n] */
    char **file;   /* [n_shards] names inside the folder */
} zt_shard_plan;
ZT_MUST_USE zt_status zt_shard_plan_make(const zt_tensor *tensors, int n, size_t max_shard_bytes,
                                         zt_shard_plan *plan);
void zt_shard_plan_free(zt_shard_plan *plan);
ZT_MUST_USE zt_status zt_shard_index_write(const char *folder, const zt_tensor *tensors, int n,
                                           const zt_shard_plan *plan);
#endif
