#!/usr/bin/env bash
# Installs the distribution's packages that Duotone needs, and NVRTC where there is no CUDA toolkit 13; does nothing when
# they are there.
# Usage: scripts/setup.sh [run|test]     run: what building and training need; test (default): also what the tests need
# DUOTONE_SETUP_NO_TOOLKIT=1 installs NVRTC even if there is a toolkit.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
mode=${1:-test}

packages=(
  cmake g++ ninja-build        # build
  libabsl-dev                  # errors and text
  llvm-19-dev libzstd-dev      # ADT containers, FileCheck
  libdnnl-dev                  # matrix products on the CPU
  libcli11-dev nlohmann-json3-dev zlib1g-dev  # the command
  dataset-fashion-mnist        # what quickstart trains on
)
if [ "$mode" = test ]; then
  packages+=(libgtest-dev libgmock-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14)
fi

# NVRTC compiles CUDA kernels and needs no GPU. runtime/cuda/nvrtc.cc looks in the same places.
nvrtc_folder=$root/.deps/nvrtc
nvrtc_version=$(sed -n 's/^nvidia-cuda-nvrtc==\([0-9.]*\).*/\1/p' "$root/scripts/nvrtc-requirements.txt")
has_nvrtc() {
  [ -d "$nvrtc_folder/nvidia_cuda_nvrtc-$nvrtc_version.dist-info" ] && return 0
  [ -n "${DUOTONE_SETUP_NO_TOOLKIT:-}" ] && return 1
  [ -e "${DUOTONE_NVRTC:-}" ] && return 0
  local folder
  for folder in "${CUDA_HOME:-}/lib64" "${CUDA_PATH:-}/lib64" /usr/local/cuda/lib64; do
    [ -e "$folder/libnvrtc.so.13" ] && return 0
  done
  # What the linker's cache names may be gone.
  local library
  library=$(/sbin/ldconfig -p 2>/dev/null | sed -n 's/.*libnvrtc\.so\.13 .*=> //p' | head -n 1)
  [ -n "$library" ] && [ -e "$library" ]
}
need_nvrtc=false
if ! has_nvrtc; then
  need_nvrtc=true
  python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [ "${status:0:2}" = ii ] || missing+=("$package")
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The package lists may be missing or old: refresh them, then install.
install_packages() {
  if ! command -v apt-get >/dev/null; then
    echo "setup: these Debian packages are missing and there is no apt-get to install them: ${missing[*]}" >&2
    exit 1
  fi
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: please install as root: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}" >&2
  if ! { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
           apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get could not install ${missing[*]}; its last lines are above" >&2
    exit 1
  fi
}

# Into a folder of the checkout, which the build tells the library; pip compares the hash. The folder appears whole.
install_nvrtc() {
  echo "setup: installing NVRTC $nvrtc_version into .deps (no CUDA toolkit 13 found)" >&2
  local new=$nvrtc_folder.new.$$
  if ! python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
         --target "$new" -r "$root/scripts/nvrtc-requirements.txt" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -rf "$new"
    echo "setup: pip could not install NVRTC $nvrtc_version; its last lines are above. Without it, and without a CUDA" \
         "toolkit 13, kernels for GPUs cannot be compiled" >&2
    # Training on the CPU does without; the tests do not.
    [ "$mode" = run ] && return 0
    exit 1
  fi
  rm -f "$new"/nvidia/cu13/lib/libnvrtc*.alt.so*  # a second build of the same, half of the size
  rm -rf "$nvrtc_folder"
  mv "$new" "$nvrtc_folder"
}

[ ${#missing[@]} -eq 0 ] || install_packages
! $need_nvrtc || install_nvrtc
