#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a clone to a trained model: installs what is missing, builds, then runs the main job on the built-in sample - profile
# this machine, search the plans, train with the fastest that fits on local ranks. With a display it opens the studio on the
# same project.
#   packaging/quickstart.sh [--no-install] [--no-studio]
set -euo pipefail
cd "$(dirname "$0")/.."

setup=()
studio=1
for argument in "$@"; do
    case $argument in
    --no-install) setup+=(--no-install) ;;
    --no-studio) studio=0 ;;
    *) echo "quickstart.sh: unknown option $argument; known: --no-install --no-studio" >&2; exit 2 ;;
    esac
done

step() { printf '\n== %s (%d s so far)\n' "$1" "$SECONDS"; }

step "set up"
packaging/setup.sh "${setup[@]}"

step "build"
[ -e build/release/build.ninja ] || cmake --preset release
cmake --build --preset release -j "$(nproc)" --target megagraph megagraph-worker megagraph-studio
bin=$PWD/build/release/bin
home=${MEGAGRAPH_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/megagraph}
project=$home/projects/sample
mkdir -p "$project"

step "sample"
if [ -e "$home/datasets/sample/dataset.json" ]; then
    echo "data set sample: present in $home"
else
    "$bin/megagraph" generate community --name sample
fi

step "profile this machine"
"$bin/megagraph" profile --quick --data sample --model graphormer-sample

step "search the plans"
"$bin/megagraph" plan --data sample --model graphormer-sample --out "$project/plan.json"

step "train"
"$bin/megagraph" train --plan "$project/plan.json"

cat > "$project/sample.megagraph" <<PROJECT
{"format": "megagraph.project", "version": 1, "dataset": "sample", "model": "graphormer-sample", "clusters": [],
 "active_cluster": 0, "constraints": "", "plans": ["plan.json"], "runs": []}
PROJECT

step "done"
echo "project: $project/sample.megagraph"
echo "programs: $bin/megagraph, $bin/megagraph-studio"
if [ $studio = 1 ] && [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    exec "$bin/megagraph-studio" "$project/sample.megagraph"
fi
