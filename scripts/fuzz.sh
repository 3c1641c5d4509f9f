#!/usr/bin/env bash
# Builds the text parser's libFuzzer target (clang, AddressSanitizer) and runs it for a bounded number of executions from the
# seed corpus. What it finds is left in build/fuzz.
# Usage: scripts/fuzz.sh [EXECUTIONS=50000]
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target parse_fuzzer -- -j "$(nproc)"
mkdir -p build/fuzz/new_inputs
cd build/fuzz
exec tests/fuzz/parse_fuzzer -runs="${1:-50000}" -max_len=4096 -timeout=10 -seed=1 -print_final_stats=1 \
  -dict=../../tests/fuzz/duo.dict new_inputs ../../tests/fuzz/corpus
