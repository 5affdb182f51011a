/* plain.c - the vector code compiled for any CPU. */
#include "kernels/cpu/vec.h"

#define TABLE      zt_kernels_plain
#define TABLE_NAME "plain"
#include "kernels/cpu/table.inc"
