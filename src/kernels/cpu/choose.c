/* choose.c - the best table for the CPU at hand, and devices. */
#include "kernels/cpu/cpu.h"

const char *zt_kernels_products(void)
{
    return zt_products_name();
}

zt_status zt_kernels_cpu(const char *want, const zt_kernels **out)
{
    const zt_cpu *cpu = zt_cpu_features();
    const struct {
        const zt_kernels *table;
        bool can;
    } tables[] = {
#if defined(__x86_64__)
        {&zt_kernels_avx512_bf16, cpu->avx512_bf16},
        {&zt_kernels_avx512, cpu->avx512},
        {&zt_kernels_avx2, cpu->avx2 && cpu->fma && cpu->f16c},
#endif
        {&zt_kernels_plain, true},
    };
    const bool any = !want || !*want || strcmp(want, "auto") == 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (!any && strcmp(want, tables[i].table->name) != 0) continue;
        if (tables[i].can) {
            *out = tables[i].table;
            return ZT_OK;
        }
        if (!any)
            return ZT_FAIL(ZT_ERR_CONFIG, "kernels \"%s\": this CPU (%s) cannot run them", want,
                           cpu->brand);
    }
    return ZT_FAIL(ZT_ERR_CONFIG,
                   "kernels \"%s\" do not exist; there are auto, avx512_bf16, avx512, avx2, plain",
                   want);
}

zt_status zt_dev_create(const zt_kernels *k, int n_threads, zt_dev *out)
{
    *out = (zt_dev){.k = k, .n_threads = n_threads};
    return zt_products_create(n_threads, &out->products);
}

void zt_dev_destroy(zt_dev *dev)
{
    zt_products_destroy(&dev->products);
}
