/* avx2.c - the vector code compiled for avx2 (flags in cmake/kernels.cmake). */
#include "kernels/cpu/vec.h"

#define TABLE      zt_kernels_avx2
#define TABLE_NAME "avx2"
#include "kernels/cpu/table.inc"
