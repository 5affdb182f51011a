/* cpu.h - what the files of the CPU backend share. */
#ifndef ZT_CPU_H
#define ZT_CPU_H
#include "kernels/kernels.h"

#include <stdio.h>

/* products.c */
ZT_MUST_USE zt_status zt_products_create(int n_threads, zt_products **out);
void zt_products_destroy(zt_products **p);
const char *zt_products_name(void);
size_t zt_linear_scratch(const zt_linear *l);
zt_status zt_linear_forward(zt_dev *dev, const zt_linear *l, const void *x, const void *w,
                            const void *b, void *y);
zt_status zt_linear_dx(zt_dev *dev, const zt_linear *l, const void *dy, const void *w, void *dx,
                       bool add);
zt_status zt_linear_dw(zt_dev *dev, const zt_linear *l, const void *x, const void *dy, void *dw,
                       void *db, zt_dtype dw_type, bool add);

/* The vector code, written once and compiled for each of these. */
extern const zt_kernels zt_kernels_plain, zt_kernels_avx2, zt_kernels_avx512,
    zt_kernels_avx512_bf16;
#endif
