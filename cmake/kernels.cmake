# The vector code is compiled once for each kind of CPU; which one runs is decided at run time.
set_source_files_properties(src/kernels/cpu/plain.c PROPERTIES COMPILE_OPTIONS "-O3;-Wno-psabi")
set_source_files_properties(src/kernels/cpu/avx2.c PROPERTIES
  COMPILE_OPTIONS "-O3;-mavx2;-mfma;-mf16c;-Wno-psabi")
set(avx512 "-O3;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c;-mprefer-vector-width=512")
set_source_files_properties(src/kernels/cpu/avx512.c PROPERTIES COMPILE_OPTIONS "${avx512}")
set_source_files_properties(src/kernels/cpu/avx512_bf16.c PROPERTIES COMPILE_OPTIONS "${avx512};-mavx512bf16")
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(src/kernels/cpu/avx2.c src/kernels/cpu/avx512.c src/kernels/cpu/avx512_bf16.c
    PROPERTIES HEADER_FILE_ONLY ON)
endif()
