/* avx512.c - the vector code compiled for avx512 (flags in cmake/kernels.cmake). */
#include "kernels/cpu/vec.h"

#define TABLE      zt_kernels_avx512
#define TABLE_NAME "avx512"
#include "kernels/cpu/table.inc"
