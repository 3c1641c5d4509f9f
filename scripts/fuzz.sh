#!/usr/bin/env bash
# Builds the libFuzzer targets (clang, AddressSanitizer) of the text form's parser, of the reader of machine
# code and of the emulator, which parses PTX and runs its kernels for a moment, and runs each for a bounded
# number of executions from its seed corpus. What they find is left in build/fuzz.
# Usage: scripts/fuzz.sh [EXECUTIONS=50000]
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target parse_fuzzer cubin_fuzzer ptx_fuzzer -- -j "$(nproc)"
mkdir -p build/fuzz/new_inputs build/fuzz/new_cubins build/fuzz/new_ptx
cd build/fuzz
common=(-runs="${1:-50000}" -timeout=10 -seed=1 -print_final_stats=1)
tests/fuzz/parse_fuzzer "${common[@]}" -max_len=4096 -dict=../../tests/fuzz/duo.dict new_inputs ../../tests/fuzz/corpus
tests/fuzz/cubin_fuzzer "${common[@]}" -max_len=8192 new_cubins ../../tests/fuzz/cubin_corpus
tests/fuzz/ptx_fuzzer "${common[@]}" -max_len=8192 -dict=../../tests/fuzz/ptx.dict new_ptx ../../tests/fuzz/ptx_corpus
