#!/usr/bin/env bash
# Checks formatting and runs clang-tidy (both version 14).
# Usage: scripts/lint.sh [--format-only | --fix] [FILES]    default: all files that git tracks
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-}
case "$mode" in
  --format-only | --fix) shift ;;
esac
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files '*.cc' '*.h')
fi
if [ "$mode" = --fix ]; then
  clang-format-14 -i "${files[@]}"
  exit 0
fi
clang-format-14 --dry-run -Werror "${files[@]}"
[ "$mode" = --format-only ] && exit 0

cmake --preset default >/dev/null
printf '%s\n' "${files[@]}" | grep '\.cc$' | grep -v '^tests/consumer/' |
  xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/default --quiet 2>/dev/null
