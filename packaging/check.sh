#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds everything with warnings as errors, runs all tests, then core, kernels, planner and launch
# once more under the address and undefined-behaviour sanitizers. Needs neither a GPU nor a display.
#   packaging/check.sh [--no-install] [--no-sanitizers]
set -euo pipefail
cd "$(dirname "$0")/.."

setup=()
sanitizers=1
for argument in "$@"; do
    case $argument in
    --no-install) setup+=(--no-install) ;;
    --no-sanitizers) sanitizers=0 ;;
    *) echo "check.sh: unknown option $argument; known: --no-install --no-sanitizers" >&2; exit 2 ;;
    esac
done

step() { printf '\n== %s (%d s so far)\n' "$1" "$SECONDS"; }
export QT_QPA_PLATFORM=offscreen
jobs=$(nproc)

step "set up"
packaging/setup.sh "${setup[@]}"

step "build"
cmake --preset release
cmake --build --preset release -j "$jobs"

step "test"
ctest --preset release -j "$jobs"

if [ $sanitizers = 1 ]; then
    step "build with sanitizers"
    cmake --preset asan
    cmake --build --preset asan -j "$jobs"
    step "test with sanitizers"
    UBSAN_OPTIONS=print_stacktrace=1 ctest --preset asan -j "$jobs"
fi
step "all checks passed"
