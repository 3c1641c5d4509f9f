#!/usr/bin/env bash
# Validation loss of a small GPT (two layers, width 64, context 64) on a text file, in fp32, f16 with dynamic loss scaling, and
# bf16, after a growing number of steps.
# Usage: benchmarks/gpt_text_loss.sh TEXT_FILE [STEPS="100 200 400 800"]
# The text may have at most 65 distinct characters.
set -euo pipefail
text=$(realpath "${1:?usage: benchmarks/gpt_text_loss.sh TEXT_FILE [STEPS]}")
steps=${2:-100 200 400 800}
cd "$(dirname "$0")/.."
duotone=${DUOTONE:-build/release/tools/duotone}
if [ -z "${DUOTONE:-}" ]; then
  cmake --preset release >/dev/null
  cmake --build --preset release --target duotone_command -- -j "$(nproc)" >/dev/null
fi

for mode in off f16 bf16; do
  line=$(printf '%-5s' "$mode")
  for n in $steps; do
    loss=$("$duotone" train samples/models/gpt_small.duo --data="text:$text" --amp="$mode" --optimizer=adamw --lr=3e-3 \
      --weight-decay=0.01 --batch=16 --max-steps="$n" --seed=1 --quiet | awk '/^validation_loss/ {print $2}')
    line+="  $n steps: $loss"
  done
  echo "$line"
done
