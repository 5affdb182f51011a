#!/bin/sh
# PyTorch with fresh pages out of the way: freed memory is kept, and huge pages are used.
# PYTHON names the interpreter that has torch and transformers.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296:glibc.malloc.mmap_max=0:glibc.malloc.hugetlb=1
THREADS=${THREADS:-$(nproc)}
export THREADS OMP_NUM_THREADS="$THREADS" OMP_PROC_BIND=true
exec "${PYTHON:-python3}" "$(dirname "$0")/peer_pytorch.py" "$@"
