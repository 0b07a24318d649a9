#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing to build MegaGraph Studio on Debian 12 or Ubuntu 24.04: system packages, and LibTorch 2.11.0 in
# the cache folder ${XDG_CACHE_HOME:-~/.cache}/megagraph, where a second clone finds it. Does nothing twice.
#   packaging/setup.sh [--no-install]     --no-install: only say what is missing (exit 1 if anything is)
set -euo pipefail

install=1
for argument in "$@"; do
    case $argument in
    --no-install) install=0 ;;
    *) echo "setup.sh: unknown option $argument; known: --no-install" >&2; exit 2 ;;
    esac
done

packages=(
    g++ cmake ninja-build ccache pkg-config python3 python3-pip ca-certificates git
    nlohmann-json3-dev libfmt-dev libcli11-dev zlib1g-dev libminizip-dev libhwloc-dev libmetis-dev libeigen3-dev libspectra-dev libsqlite3-dev libgloo-dev
    libgtest-dev libgmock-dev qt6-base-dev qt6-svg-dev libqcustomplot-dev fonts-dejavu-core
)
libtorch=${XDG_CACHE_HOME:-$HOME/.cache}/megagraph/libtorch-2.11.0
wheels=(torch==2.11.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "setup.sh: system packages: need root to install, got user $(id -un) without sudo;" \
            "install them yourself and use --no-install: ${missing[*]}" >&2
        exit 1
    fi
}

missing=()
for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "system packages missing: ${missing[*]}"
    if [ $install = 0 ]; then
        echo "setup.sh: install them with: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    for try in 1 2 3; do
        as_root apt-get -q update && as_root apt-get -q install -y --no-install-recommends "${missing[@]}" && break
        [ $try = 3 ] && { echo "setup.sh: apt-get failed three times; see its messages above" >&2; exit 1; }
        sleep $((5 * try))
    done
else
    echo "system packages: all ${#packages[@]} present"
fi

complete() { [ -e "$1/.complete" ] && [ -e "$1/torch/lib/libtorch_cpu.so" ] && [ -e "$1/torch/lib/libc10.so" ]; }
if [ -n "${Torch_ROOT:-}" ]; then
    echo "LibTorch: Torch_ROOT=$Torch_ROOT is used as it is"
elif complete "$libtorch"; then
    echo "LibTorch: $libtorch"
elif [ $install = 0 ]; then
    echo "setup.sh: LibTorch 2.11.0 missing at $libtorch; run packaging/setup.sh, or set Torch_ROOT" >&2
    exit 1
else
    free_kib=$(df -Pk "$(dirname "$(mkdir -p "$libtorch" && rmdir "$libtorch" && echo "$libtorch")")" | awk 'NR==2 {print $4}')
    if [ "$free_kib" -lt $((2 * 1024 * 1024)) ]; then
        echo "setup.sh: LibTorch: $libtorch: needs 2 GiB, got $((free_kib / 1024)) MiB free; set XDG_CACHE_HOME to a larger volume" >&2
        exit 1
    fi
    echo "LibTorch: downloading 545 MB into $libtorch"
    # unpacked beside and renamed, so a broken download leaves nothing that looks whole; pip checks every file's hash
    for try in 1 2 3; do
        rm -rf "$libtorch".tmp-*
        part=$libtorch.tmp-$$
        if python3 -m pip install --quiet --no-deps --no-compile --disable-pip-version-check --root-user-action=ignore \
            --target "$part" "${wheels[@]}"; then
            rm -rf "$libtorch"
            touch "$part/.complete"
            mv "$part" "$libtorch"
            break
        fi
        [ $try = 3 ] && { echo "setup.sh: LibTorch could not be downloaded in three tries; see pip's messages above" >&2; exit 1; }
        echo "LibTorch: download failed, trying again"
        sleep $((5 * try))
    done
fi
