#!/usr/bin/env bash
# Test accuracy of the MLP on Fashion-MNIST in fp32, f16 with dynamic loss scaling, and bf16, over the same seeds:
# means, and the mean paired difference to fp32 with its standard error.
# Usage: benchmarks/fashion_mnist_accuracy.sh [EPOCHS=10] [SEEDS="1 2 3 4 5"] [extra options of `duotone train`]
# Runs one process per core, each with one thread; results do not depend on the number of threads.
set -euo pipefail
cd "$(dirname "$0")/.."

epochs=${1:-10}
seeds=${2:-1 2 3 4 5}
shift $(($# > 2 ? 2 : $#))
cmake --preset release >/dev/null
cmake --build --preset release --target duotone_command -- -j "$(nproc)" >/dev/null
out=out/accuracy
mkdir -p "$out"

run() {  # MODE SEED [options]
  local mode=$1 seed=$2
  shift 2
  build/release/tools/duotone train samples/models/mlp.duo --data=fashion-mnist --amp="$mode" --optimizer=adamw \
    --lr=1e-3 --weight-decay=0.01 --batch=128 --epochs="$epochs" --seed="$seed" --threads=1 --device=cpu \
    --json="$out/$mode.$seed.json" "$@" >"$out/$mode.$seed.txt" 2>"$out/$mode.$seed.log"
}
export -f run
export epochs out

for seed in $seeds; do
  for mode in off f16 bf16; do echo "$mode $seed"; done
done | xargs -P "$(nproc)" -L 1 bash -c 'run "${@: -2}" "${@:1:$#-2}"' _ "$@"

for mode in off f16 bf16; do
  for seed in $seeds; do
    echo "$mode $seed $(awk '/^test_accuracy/ {print $2}' "$out/$mode.$seed.txt")"
  done
done | awk '
  {acc[$1, $2] = 100 * $3; sum[$1] += 100 * $3; if ($1 == "off") seeds[++n] = $2}
  END {
    split("off f16 bf16", modes, " ")
    for (m = 1; m <= 3; ++m) {
      line = sprintf("%-5s mean %.2f %%  runs", modes[m], sum[modes[m]] / n)
      for (i = 1; i <= n; ++i) line = line sprintf(" %.2f", acc[modes[m], seeds[i]])
      if (m > 1) {
        d = s = 0
        for (i = 1; i <= n; ++i) d += acc[modes[m], seeds[i]] - acc["off", seeds[i]]
        d /= n
        for (i = 1; i <= n; ++i) s += (acc[modes[m], seeds[i]] - acc["off", seeds[i]] - d) ^ 2
        line = line sprintf("  difference to fp32 %+.2f points, standard error %.2f", d, n > 1 ? sqrt(s / (n - 1) / n) : 0)
      }
      print line
    }
  }'
