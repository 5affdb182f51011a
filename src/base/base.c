/* base.c - number formats, small allocations with fault injection, clock and log. */
#include "base/base.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[ZT_DTYPES] = {
    [ZT_F32] = {"fp32", 4},  [ZT_BF16] = {"bf16", 2}, [ZT_F16] = {"fp16", 2},
    [ZT_I32] = {"int32", 4}, [ZT_I64] = {"int64", 8}, [ZT_U8] = {"uint8", 1},
    [ZT_I8] = {"int8", 1},   [ZT_F64] = {"fp64", 8},
};

size_t zt_dtype_bytes(zt_dtype t)
{
    return dtypes[t].bytes;
}

const char *zt_dtype_name(zt_dtype t)
{
    return dtypes[t].name;
}

float zt_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
    uint32_t u;
    float f;
    if (exponent == 31) {
        u = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent != 0) {
        u = sign | (exponent + 112u) << 23 | mantissa << 13;
    } else { /* zero and subnormal: mantissa * 2^-24 is exact */
        f = (float)mantissa * 0x1p-24f;
        memcpy(&u, &f, 4);
        u |= sign;
    }
    memcpy(&f, &u, 4);
    return f;
}

uint16_t zt_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (a >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) { /* subnormal: adding 0.5 makes the FPU round at 2^-24 */
        float abs, magic = 0.5f;
        uint32_t r;
        memcpy(&abs, &a, 4);
        abs += magic;
        memcpy(&r, &abs, 4);
        return (uint16_t)(sign | (r - 0x3f000000u));
    }
    uint32_t r = a + 0xfffu + ((a >> 13) & 1u);
    return (uint16_t)(sign | ((r - 0x38000000u) >> 13));
}

float zt_load_f32(const void *p, zt_dtype t, int64_t i)
{
    switch (t) {
    case ZT_F32:
        return ((const float *)p)[i];
    case ZT_BF16:
        return zt_bf16_to_f32(((const uint16_t *)p)[i]);
    case ZT_F16:
        return zt_f16_to_f32(((const uint16_t *)p)[i]);
    case ZT_I32:
        return (float)((const int32_t *)p)[i];
    case ZT_I64:
        return (float)((const int64_t *)p)[i];
    case ZT_U8:
        return (float)((const uint8_t *)p)[i];
    case ZT_I8:
        return (float)((const int8_t *)p)[i];
    case ZT_F64:
        return (float)((const double *)p)[i];
    case ZT_DTYPES:
        break;
    }
    ZT_BUG("no such dtype");
    return 0;
}

void zt_store_f32(void *p, zt_dtype t, int64_t i, float x)
{
    switch (t) {
    case ZT_F32:
        ((float *)p)[i] = x;
        return;
    case ZT_BF16:
        ((uint16_t *)p)[i] = zt_f32_to_bf16(x);
        return;
    case ZT_F16:
        ((uint16_t *)p)[i] = zt_f32_to_f16(x);
        return;
    case ZT_F64:
        ((double *)p)[i] = (double)x;
        return;
    case ZT_I32:
    case ZT_I64:
    case ZT_U8:
    case ZT_I8:
    case ZT_DTYPES:
        break;
    }
    ZT_BUG("not a floating-point dtype");
}

/* ---- allocations ---- */
static _Thread_local int64_t alloc_fault = -1, io_fault = -1;

static bool counts_down(int64_t *n)
{
    return *n > 0 && --*n == 0;
}

void zt_fault_alloc(int64_t nth)
{
    alloc_fault = nth;
}

void zt_fault_io(int64_t nth)
{
    io_fault = nth;
}

bool zt_fault_io_hit(void)
{
    return counts_down(&io_fault);
}

void *zt_malloc(size_t bytes)
{
    return counts_down(&alloc_fault) ? NULL : malloc(bytes ? bytes : 1);
}

void *zt_malloc_aligned(size_t bytes)
{
    return counts_down(&alloc_fault) ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

void *zt_calloc(size_t n, size_t bytes)
{
    return counts_down(&alloc_fault) ? NULL : calloc(n ? n : 1, bytes ? bytes : 1);
}

void *zt_realloc(void *p, size_t bytes)
{
    return counts_down(&alloc_fault) ? NULL : realloc(p, bytes ? bytes : 1);
}

char *zt_strndup(const char *s, size_t n)
{
    n = strnlen(s, n);
    char *copy = zt_malloc(n + 1);
    if (copy) {
        memcpy(copy, s, n);
        copy[n] = '\0';
    }
    return copy;
}

char *zt_strdup(const char *s)
{
    return zt_strndup(s, strlen(s));
}

char *zt_format(const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *text = n < 0 ? NULL : zt_malloc((size_t)n + 1);
    if (text) (void)vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}

void zt_free(void *p)
{
    free(p);
}

/* ---- clock, log ---- */
double zt_now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static zt_log_level log_most = ZT_LOG_INFO; /* set once, before any thread starts */
static int log_rank;

void zt_log_setup(zt_log_level most, int rank)
{
    log_most = most;
    log_rank = rank;
}

void zt_log(zt_log_level level, const char *fmt, ...)
{
    static const char *const prefix[] = {"error: ", "warning: ", "", ""};
    if (level > log_most || (level >= ZT_LOG_WARN && log_rank != 0)) return;
    char text[4096]; /* one write a line, so that ranks do not mix theirs */
    int used = level == ZT_LOG_ERROR && log_rank > 0
                   ? snprintf(text, sizeof text, "%srank %d: ", prefix[level], log_rank)
                   : snprintf(text, sizeof text, "%s", prefix[level]);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text + used, sizeof text - (size_t)used - 1, fmt, args);
    va_end(args);
    size_t length = strnlen(text, sizeof text - 2);
    if (n < 0) return;
    text[length] = '\n';
    FILE *to = level <= ZT_LOG_WARN ? stderr : stdout;
    (void)fwrite(text, 1, length + 1, to);
    (void)fflush(to);
}

void zt_assert_failed(const char *what, const char *file, int line, const char *func)
{
    (void)fprintf(stderr, "bug: rank %d: %s, in %s (%s:%d); please report this\n", log_rank, what,
                  func, file, line);
    abort();
}

uint64_t zt_hash(const void *p, size_t n)
{
    const unsigned char *c = p;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 0x100000001b3u;
    return h;
}
