#!/usr/bin/env bash
# Installs packages, builds and runs all tests.
# Usage: scripts/test.sh [PRESET] [ctest options]      PRESET: default, asan, ubsan or tsan
set -euo pipefail
cd "$(dirname "$0")/.."

preset=default
case "${1:-}" in
  default | asan | ubsan | tsan) preset=$1; shift ;;
esac
scripts/setup.sh test
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" -- -j "$(nproc)"
ctest --preset "$preset" -j "$(nproc)" "$@"
