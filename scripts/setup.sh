#!/usr/bin/env bash
# Installs the distribution's packages that Duotone needs; does nothing when they are there.
# Usage: scripts/setup.sh [run|test]     run: what building and training need; test (default): also what the tests need
set -euo pipefail

packages=(
  cmake g++ ninja-build        # build
  libabsl-dev                  # errors and text
  llvm-19-dev libzstd-dev      # ADT containers, FileCheck
  libdnnl-dev                  # matrix products on the CPU
  libcli11-dev nlohmann-json3-dev zlib1g-dev  # the command
  dataset-fashion-mnist        # what quickstart trains on
)
if [ "${1:-test}" = test ]; then
  packages+=(libgtest-dev libgmock-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14)
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [ "${status:0:2}" = ii ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "setup: these Debian packages are missing and there is no apt-get to install them: ${missing[*]}" >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: please install as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  sudo=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}
# The package lists may be missing or old: refresh them, then install.
if ! { "${sudo[@]}" apt-get update -q && install; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: apt-get could not install ${missing[*]}; its last lines are above" >&2
  exit 1
fi
