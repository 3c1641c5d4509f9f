#!/usr/bin/env bash
# How long the training steps of the MLP (batch 128) and the GPT (batch 16) take to become machine code, without a GPU:
# with an empty kernel cache (cold) and with a full one (warm). Each line is the best of RUNS processes; "sources" is
# passes, fusion and code generation, "kernels" is NVRTC or the cache, "command" the whole process with its report.
# Usage: benchmarks/compile_time.sh [TARGETS="sm_80 sm_90"] [RUNS=3]
set -euo pipefail
cd "$(dirname "$0")/.."

targets=${1:-sm_80 sm_90}
runs=${2:-3}
duotone=${DUOTONE:-build/release/tools/duotone}
if [ -z "${DUOTONE:-}" ]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target duotone_command -- -j "$(nproc)" >/dev/null
fi
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export DUOTONE_CACHE_DIR=$cache/kernels

once() {  # MODEL BATCH MODE TARGET: prints "SOURCES KERNELS COMMAND COUNT COMPILED"
  local begin=$EPOCHREALTIME
  "$duotone" kernels "samples/models/$1.duo" --batch="$2" --amp="$3" --target="$4" --emit=report \
    >/dev/null 2>"$cache/log" || { cat "$cache/log" >&2; exit 1; }
  local end=$EPOCHREALTIME
  awk -v begin="$begin" -v end="$end" '
    /^graph to sources:/ {sources = $4}
    / from the cache; / {count = $1; compiled = $3; split($0, part, "; "); split(part[2], word, " "); kernels = word[1]}
    END {printf "%.2f %.2f %.2f %d %d\n", sources, kernels, end - begin, count, compiled}' "$cache/log"
}

best() {  # of the lines of once, that with the shortest command
  sort -n -k 3 | head -n 1
}

printf '%-5s %-4s %-6s %-5s %8s %9s %8s %8s %8s\n' model amp target cache kernels compiled sources kernels command
for model in "mlp 128" "gpt 16"; do
  read -r name batch <<<"$model"
  for mode in f16 bf16 off; do
    for target in $targets; do
      cold=$(for _ in $(seq "$runs"); do rm -rf "$cache/kernels"; once "$name" "$batch" "$mode" "$target"; done | best)
      warm=$(for _ in $(seq "$runs"); do once "$name" "$batch" "$mode" "$target"; done | best)
      for line in "cold $cold" "warm $warm"; do
        read -r state sources kernels command count compiled <<<"$line"
        printf '%-5s %-4s %-6s %-5s %8d %9d %6s s %6s s %6s s\n' \
          "$name" "$mode" "$target" "$state" "$count" "$compiled" "$sources" "$kernels" "$command"
      done
    done
  done
done
