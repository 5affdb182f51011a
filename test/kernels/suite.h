/* suite.h - what the kernel tests share: every table that this CPU can run, buffers with guards, random data. */
#ifndef ZT_TEST_KERNELS_H
#define ZT_TEST_KERNELS_H
#include "harness.h"
#include "kernels/kernels.h"

static const zt_dtype types[] = {ZT_F32, ZT_BF16, ZT_F16};
/* relative rounding of a stored result, with room for a few of fp32 on the way */
static const double eps_of[ZT_DTYPES] = {[ZT_F32] = 2e-6, [ZT_BF16] = 4.5e-3, [ZT_F16] = 6e-4};

enum { GUARD = 64, SCRATCH = 64 << 20 };

static char *scratch_of(void)
{
    static char *scratch;
    if (!scratch) scratch = aligned_alloc(64, SCRATCH);
    return scratch;
}

/* The tables in turn; false when there are no more. */
static inline bool next_table(int *i, int n_threads, zt_dev *dev)
{
    static const char *const names[] = {"plain", "avx2", "avx512", "avx512_bf16"};
    for (; *i < 4; ++*i) {
        const zt_kernels *k;
        if (zt_kernels_cpu(names[*i], &k) != ZT_OK) continue;
        ++*i;
        OK(zt_dev_create(k, n_threads, dev));
        dev->scratch = scratch_of();
        dev->scratch_bytes = SCRATCH;
        return true;
    }
    return false;
}

/* n elements between guards that must stay. */
typedef struct {
    char *raw, *data;
    int64_t n;
    zt_dtype type;
} buffer;

static inline buffer make(int64_t n, zt_dtype type)
{
    buffer b = {.n = n, .type = type};
    const size_t bytes = (size_t)n * zt_dtype_bytes(type);
    b.raw = aligned_alloc(64, (bytes + 2 * GUARD + 63) / 64 * 64);
    memset(b.raw, 0x5A, bytes + 2 * GUARD);
    b.data = b.raw + GUARD;
    return b;
}

/* Values of about unit size, exactly representable in the type. */
static inline buffer randoms(int64_t n, zt_dtype type, uint32_t seed)
{
    buffer b = make(n, type);
    zt_rng r = zt_rng_make(seed, ZT_RNG_TEST, 0, 0);
    for (int64_t i = 0; i < n; i++)
        zt_store_f32(b.data, type, i, zt_rng_normal(&r, (uint64_t)i));
    return b;
}

static inline double get(const buffer *b, int64_t i)
{
    return (double)zt_load_f32(b->data, b->type, i);
}

static inline void drop_at(int line, buffer *b)
{
    const size_t bytes = (size_t)b->n * zt_dtype_bytes(b->type);
    for (int i = 0; i < GUARD; i++)
        if (b->raw[i] != 0x5A || b->data[bytes + (size_t)i] != 0x5A)
            fail_msg("line %d: written outside of a buffer", line);
    free(b->raw);
}
#define DROP(b) drop_at(__LINE__, &(b))

/* |got - want| <= bound * (|want| + scale) */
static inline void close_at(int line, const char *what, const zt_dev *dev, double got, double want,
                            double bound, double scale)
{
    if (!(fabs(got - want) <= bound * (fabs(want) + scale)))
        fail_msg("line %d, %s, kernels %s: %.9g, wanted %.9g", line, what, dev->k->name, got, want);
}
#define CLOSE(what, got, want, bound, scale) close_at(__LINE__, what, &dev, got, want, bound, scale)
#endif
