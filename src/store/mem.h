/* mem.h - the ledger: every region of training state and every buffer, booked by tier, kind, owner.
 *
 * Regions are planned, reserved once before the first step (huge pages where the system gives them,
 * touched at once), and reused; zt_mem_freeze makes an allocation inside a step an error. One
 * zt_mem belongs to one rank and is used from one thread. All functions are Local. */
#ifndef ZT_MEM_H
#define ZT_MEM_H
#include "base/base.h"

typedef enum { ZT_TIER_DEVICE, ZT_TIER_HOST, ZT_TIER_NVME, ZT_TIERS } zt_tier;
/* X(id, word): training state first, then what passes through */
#define ZT_MEM_KINDS(X)                                                                            \
    X(PARAMS, "parameters")                                                                        \
    X(GRADS, "gradients")                                                                          \
    X(OPTIM, "optimizer state")                                                                    \
    X(ACTIVATIONS, "activations")                                                                  \
    X(GATHER, "gather buffers")                                                                    \
    X(REDUCE, "reduce buffers")                                                                    \
    X(SCRATCH, "kernel scratch")                                                                   \
    X(CACHE, "key-value cache")                                                                    \
    X(DATA, "batches")
typedef enum {
#define ZT_X(id, word) ZT_MEM_##id,
    ZT_MEM_KINDS(ZT_X)
#undef ZT_X
        ZT_MEM_KIND_COUNT
} zt_mem_kind;

typedef struct zt_mem zt_mem;

ZT_MUST_USE zt_status zt_mem_create(zt_mem **out);
void zt_mem_destroy(zt_mem **mem); /* a leak of a region is reported as a bug */

/* A zero-filled region aligned to 64 bytes or better. `payload` <= bytes is what counts as state;
 * the rest is padding, booked apart. bytes 0 gives NULL. */
ZT_MUST_USE zt_status zt_mem_alloc(zt_mem *mem, zt_tier tier, zt_mem_kind kind, const char *owner,
                                   size_t bytes, size_t payload, void **out);
void zt_mem_free(zt_mem *mem, void *p); /* NULL is fine */
void zt_mem_freeze(zt_mem *mem, bool frozen);

/* Adds to the ledger without allocating: how `plan` fills the same table. */
void zt_mem_book(zt_mem *mem, zt_tier tier, zt_mem_kind kind, size_t bytes, size_t payload);

size_t zt_mem_held(const zt_mem *mem, zt_tier tier, zt_mem_kind kind);    /* now, with padding */
size_t zt_mem_peak(const zt_mem *mem, zt_tier tier, zt_mem_kind kind);    /* high-water mark */
size_t zt_mem_payload(const zt_mem *mem, zt_tier tier, zt_mem_kind kind); /* now, without */
size_t zt_mem_peak_total(const zt_mem *mem, zt_tier tier);
const char *zt_mem_kind_name(zt_mem_kind kind);
size_t zt_process_rss(void);      /* resident bytes of this process now */
size_t zt_process_rss_peak(void); /* since its start */
/* What this host has and what of it is free; 0 when it does not say. A control group's limit counts. */
void zt_host_memory(size_t *all, size_t *available);
#endif
