/* avx512_bf16.c - the vector code compiled for avx512_bf16 (flags in cmake/kernels.cmake). */
#include "kernels/cpu/vec.h"

#define TABLE      zt_kernels_avx512_bf16
#define TABLE_NAME "avx512_bf16"
#include "kernels/cpu/table.inc"
