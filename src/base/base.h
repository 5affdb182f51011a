/* base.h - the ground: number formats, small allocations, clock, log, threads, random numbers.
 *
 * Everything here is Local (no communication) and may be used by every part. */
#ifndef ZT_BASE_H
#define ZT_BASE_H
#include "zeroth/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- number formats ------------------------------------------------------------------------ */
typedef enum { ZT_F32, ZT_BF16, ZT_F16, ZT_I32, ZT_I64, ZT_U8, ZT_I8, ZT_F64, ZT_DTYPES } zt_dtype;

size_t zt_dtype_bytes(zt_dtype t);
const char *zt_dtype_name(zt_dtype t); /* "fp32", "bf16", "fp16", ...: the words of the config */

static inline float zt_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t zt_f32_to_bf16(float f) /* to nearest even; NaN stays a NaN */
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float zt_f16_to_f32(uint16_t h);
uint16_t zt_f32_to_f16(float f); /* to nearest even; overflow gives infinity */
float zt_load_f32(const void *p, zt_dtype t, int64_t i); /* element i as fp32; slow, for edges */
void zt_store_f32(void *p, zt_dtype t, int64_t i, float x);

/* ---- small host allocations (strings, tables); big regions come from store/mem.h ------------- */
void *zt_malloc(size_t bytes);         /* NULL when out of memory, or when a test asked for it */
void *zt_malloc_aligned(size_t bytes); /* at 64 bytes */
void *zt_calloc(size_t n, size_t bytes);
void *zt_realloc(void *p, size_t bytes);
char *zt_strdup(const char *s);
char *zt_strndup(const char *s, size_t n);
char *zt_format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* caller zt_free()s */
void zt_free(void *p);
#define ZT_NOMEM() ZT_FAIL(ZT_ERR_NOMEM, "out of host memory")

/* Fault injection for tests: the n-th call from now fails (1 = the next), -1 = never. Calls are
 * counted per thread. I/O means every read, write, open, sync and rename of base/file.h. */
void zt_fault_alloc(int64_t nth);
void zt_fault_io(int64_t nth);
bool zt_fault_io_hit(void); /* used by base/file.c before each operation */

/* ---- clock, log ----------------------------------------------------------------------------- */
double zt_now(void); /* seconds, monotonic */
/* Signals that ask the run to end (SIGTERM, SIGINT, SIGUSR1): long work looks at the flag and saves or fails with
 * ZT_ERR_STOPPED. A thread of their own takes them: no handler may interrupt a thread that computes, whose product
 * library keeps data below the stack pointer. To be called before any other thread is started. */
extern volatile int zt_stop_requested;
ZT_MUST_USE zt_status zt_signals_take(void);

typedef enum { ZT_LOG_ERROR, ZT_LOG_WARN, ZT_LOG_INFO, ZT_LOG_DEBUG } zt_log_level;
void zt_log_setup(zt_log_level most, int rank); /* INFO and DEBUG are printed by rank 0 alone */
void zt_log(zt_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A broken invariant is a bug in this program, never the user's fault. */
#define ZT_ASSERT(x)                                                                               \
    ((x) ? (void)0 : zt_assert_failed(#x " does not hold", __FILE__, __LINE__, __func__))
#define ZT_BUG(text) zt_assert_failed(text, __FILE__, __LINE__, __func__)
_Noreturn void zt_assert_failed(const char *what, const char *file, int line, const char *func);

/* ---- threads: one pool per calling thread, shared with the product library (OpenMP's) --------- */
/* Calls fn(arg, i, n) for i in 0..n-1, n = min(n_threads, n_parts), at once; returns when all are
 * done. n_threads 1 is a plain call. fn must not fail and must not allocate. */
typedef void zt_parallel_fn(void *arg, int part, int n_parts);
void zt_parallel(int n_threads, zt_parallel_fn *fn, void *arg);
/* The half-open range that part i of n gets of `count` things, in multiples of `grain`. */
static inline void zt_split(int64_t count, int64_t grain, int part, int n_parts, int64_t *from,
                            int64_t *to)
{
    int64_t units = (count + grain - 1) / grain;
    int64_t a = units * part / n_parts * grain, b = units * (part + 1) / n_parts * grain;
    *from = a < count ? a : count;
    *to = b < count ? b : count;
}
int zt_cpu_count(void); /* cores this process may use */

/* ---- CPU features, read once ------------------------------------------------------------------ */
typedef struct {
    bool avx2, fma, f16c, avx512, avx512_bf16, avx512_fp16, amx_bf16; /* avx512: F+BW+DQ+VL */
    char brand[64];
} zt_cpu;
const zt_cpu *zt_cpu_features(void);

/* ---- counter-based random numbers: Philox4x32-10 ----------------------------------------------- */
/* A stream is keyed by seed and purpose; element i of it is the same on any rank and thread. */
typedef enum {
    ZT_RNG_INIT = 1,    /* initial weights; sub = hash of the parameter's name */
    ZT_RNG_DROPOUT = 2, /* sub = node number; step in `step` */
    ZT_RNG_SHUFFLE = 3, /* sub = epoch */
    ZT_RNG_SAMPLE = 4,  /* generation */
    ZT_RNG_TEST = 5
} zt_rng_purpose;
typedef struct {
    uint32_t key[2];
    uint32_t hi; /* third counter word: step */
    uint32_t sub;
} zt_rng;
zt_rng zt_rng_make(uint64_t seed, zt_rng_purpose purpose, uint32_t sub, uint32_t step);
void zt_rng_block(const zt_rng *r, uint64_t block, uint32_t out[4]); /* four words of block i */
uint32_t zt_rng_u32(const zt_rng *r, uint64_t i);
float zt_rng_uniform(const zt_rng *r, uint64_t i); /* [0, 1), 24 bits */
float zt_rng_normal(const zt_rng *r, uint64_t i);  /* Box-Muller on words 2j, 2j+1 of element i */
void zt_rng_normals(const zt_rng *r, uint64_t first, int64_t n, float *out); /* elements first.. */
uint64_t zt_hash(const void *p, size_t n);                                   /* FNV-1a, 64 bit */
#endif
