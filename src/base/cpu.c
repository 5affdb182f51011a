/* cpu.c - what this CPU (and its operating system) can do. */
#include "base/base.h"

#include <pthread.h>

static zt_cpu cpu;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t enabled_state(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static void read_cpu(void)
{
    uint32_t a, b, c, d;
    for (uint32_t i = 0; i < 3; i++)
        if (__get_cpuid(0x80000002u + i, &a, &b, &c, &d)) {
            uint32_t words[4] = {a, b, c, d};
            memcpy(cpu.brand + (size_t)16 * i, words, 16);
        }
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27)) return;
    uint64_t state = enabled_state();
    bool ymm = (state & 6) == 6, zmm = (state & 0xe6) == 0xe6, tiles = (state & 0x60000) == 0x60000;
    cpu.fma = ymm && (c & 1u << 12);
    cpu.f16c = ymm && (c & 1u << 29);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        const uint32_t f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
        cpu.avx2 = ymm && (b & 1u << 5);
        cpu.avx512 = zmm && (b & f_dq_bw_vl) == f_dq_bw_vl;
        cpu.avx512_fp16 = cpu.avx512 && (d & 1u << 23);
        cpu.amx_bf16 = tiles && (d & 1u << 22);
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) cpu.avx512_bf16 = cpu.avx512 && (a & 1u << 5);
}
#else
static void read_cpu(void)
{
    (void)strcpy(cpu.brand, "unknown");
}
#endif

const zt_cpu *zt_cpu_features(void)
{
    (void)pthread_once(&once, read_cpu);
    return &cpu;
}
