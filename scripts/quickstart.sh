#!/usr/bin/env bash
# From a clean clone to a trained network: installs packages, builds, and trains the MLP on Fashion-MNIST in f16 with
# dynamic loss scaling on the CPU.
# Usage: scripts/quickstart.sh [options of `duotone train`, such as --epochs=10, --amp=bf16, --data-dir=DIR]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh run
cmake --preset release >/dev/null
cmake --build --preset release --target duotone_command -- -j "$(nproc)"

exec build/release/tools/duotone train samples/models/mlp.duo \
  --data=fashion-mnist --amp=f16 --optimizer=adamw --lr=1e-3 --weight-decay=0.01 --batch=128 --epochs=5 --seed=1 \
  --device=cpu --dump=graph --dump-dir=out/quickstart "$@"
