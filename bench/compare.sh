#!/bin/sh
# Zeroth and PyTorch in turns on GPT-2 124M, B = 4: rounds of both, then the ratio of the medians.
#
#     PYTHON=python-with-torch bench/compare.sh BUILD [T [rounds [steps]]]
set -eu
build=${1:-build} T=${2:-256} rounds=${3:-3} steps=${4:-3}
here=$(dirname "$0")
ninja -C "$build" --quiet bench_train
log=$(mktemp)
for _ in $(seq "$rounds"); do
    "$build/bench_train" "$T" "$steps" | tee -a "$log"
    "$here/peer_pytorch.sh" "$T" "$steps" 2>/dev/null | tee -a "$log"
done
for kind in fp32 bf16; do
    ours=$(grep "^$kind" "$log" | sed 's/.*T=[0-9 ]* \([0-9.]*\) tokens.*/\1/' | sort -n | sed -n "$(((rounds + 1) / 2))p")
    peer=$(grep "^torch.* $kind" "$log" | sed 's/.*T=[0-9]* \([0-9.]*\) tokens.*/\1/' | sort -n | sed -n "$(((rounds + 1) / 2))p")
    share=$(grep "^$kind" "$log" | sed 's/.*limit *\([0-9.]*\) %.*/\1/' | sort -n | sed -n "$(((rounds + 1) / 2))p")
    awk "BEGIN { printf \"$kind T=$T: %.0f tokens/s, PyTorch %.0f: %.2f times; %.0f %% of the limit\n\", $ours, $peer, $ours / $peer, $share }"
done
rm -f "$log"
