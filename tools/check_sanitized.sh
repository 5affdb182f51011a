#!/bin/sh
# The whole suite under the address and undefined-behaviour sanitizers, the rank tests under the thread
# sanitizer, and every fuzz target for FUZZ_SECONDS (30).
set -eu
cd "$(dirname "$0")/.."
cmake -S . -B build/asan -G Ninja -DZT_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null
ninja -C build/asan --quiet

(cd build/asan && ctest --output-on-failure -j2)
cmake -S . -B build/tsan -G Ninja -DZT_SANITIZE=thread -DZT_MPI=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null
ninja -C build/tsan --quiet
(cd build/tsan && ctest --output-on-failure -j2 -R 'comm_|data_|engine_|train_')
if command -v clang-14 >/dev/null; then
    cmake -S . -B build/fuzz -G Ninja -DCMAKE_C_COMPILER=clang-14 -DZT_FUZZ=ON \
        -DZT_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo >/dev/null
    ninja -C build/fuzz --quiet
    for target in build/fuzz/fuzz_*; do
        [ -x "$target" ] || continue
        corpus="fuzz/corpus/$(basename "$target" | sed 's/fuzz_//')"
        new=$(mktemp -d)
        "$target" -max_total_time="${FUZZ_SECONDS:-30}" -timeout=10 -verbosity=0 "$new" "$corpus"
        rm -rf "$new"
    done
fi
