#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The full acceptance runs whose short forms packaging/check.sh holds: accuracy over seeds, 50-step parity of every parallel form,
# prediction against measurement, and the out-of-memory answer. About 25 minutes on two quiet cores; every line prints its
# limit and verdict, and the exit status is 1 if a limit was missed.
#   packaging/acceptance.sh [--data FOLDER] [--bin FOLDER] [--only accuracy|parity|heterophily|prediction|memory]
set -euo pipefail
cd "$(dirname "$0")/.."
data=../shared/data bin=build/release/bin only=all
while [ $# -gt 0 ]; do
    case $1 in
    --data) data=$2; shift 2 ;;
    --bin) bin=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    *) echo "acceptance.sh: unknown option $1; known: --data --bin --only" >&2; exit 2 ;;
    esac
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MEGAGRAPH_HOME=$work/home
PATH=$(realpath "$bin"):$PATH
missed=0

field() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1]))
for k in sys.argv[2].split("."): v=v[int(k)] if isinstance(v,list) else v[k]
print(v)' "$1" "$2"; }
# verdict TEXT VALUE OPERATOR LIMIT
verdict() {
    local word=met
    [ -n "$2" ] || { printf '%-58s no value: the command failed, see above\n' "$1"; missed=1; return 0; }
    python3 -c "import sys; sys.exit(0 if $2 $3 $4 else 1)" || { word=MISSED; missed=1; }
    printf '%-58s %12.6g  (%s %s)  %s\n' "$1" "$2" "$3" "$4" "$word"
}
wants() { [ "$only" = all ] || [ "$only" = "$1" ]; }
import() { megagraph import "$data/$1" --name "$2" >/dev/null; }
# accuracy MODEL RANKS LIMIT: mean test accuracy of three seeds
accuracy() {
    local sum=0 seed
    for seed in 1 2 3; do
        megagraph train --data cora --model "$1" --ranks "$2" --seed $seed --json >"$work/r.json" 2>/dev/null
        sum="$sum + $(field "$work/r.json" test.value)"
    done
    verdict "$1, $2 ranks, mean test accuracy of 3 seeds" "$(python3 -c "print(($sum) / 3)")" '>=' "$3"
}
# parity NAME MODEL PLAN-OPTIONS...
parity() {
    local name=$1 model=$2
    shift 2
    megagraph plan --data cora --model "$model" "$@" --out "$work/p.json" >/dev/null
    megagraph verify "$work/p.json" --steps 50 --json >"$work/c.json" 2>"$work/e.txt" || cat "$work/e.txt"
    verdict "$name: loss over 50 steps" "$(field "$work/c.json" loss_rel_max)" '<=' 1e-5
    verdict "$name: gradients" "$(field "$work/c.json" gradient_rel_max)" '<=' 1e-4
}
# predicted NAME MODEL DATA PLAN-OPTIONS...
predicted() {
    local name=$1 model=$2 set=$3
    shift 3
    megagraph plan --data "$set" --model "$model" "$@" --out "$work/p.json" >/dev/null
    megagraph train --plan "$work/p.json" --seed 1 --json >"$work/r.json" 2>/dev/null
    verdict "$name: step time, |predicted / measured - 1|" \
        "$(python3 -c "print(abs($(field "$work/r.json" step_ms.predicted) / $(field "$work/r.json" step_ms.measured) - 1))")" '<=' 0.30
    verdict "$name: peak memory, |predicted / measured - 1|" \
        "$(python3 -c "print(abs($(field "$work/r.json" ranks.0.peak_bytes.predicted) / $(field "$work/r.json" ranks.0.peak_bytes.measured) - 1))")" '<=' 0.15
}

import cora-ogb cora
if wants prediction; then # first: it wants the quietest machine
    megagraph generate community --name sample >/dev/null
    for pair in "cora graphormer-cora" "sample graphormer-sample"; do
        set -- $pair
        megagraph profile --quick --ranks 2 --data "$1" --model "$2" >/dev/null 2>&1
        predicted "$1 gather 2" "$2" "$1" --ranks 2 --allow exchange=gather --allow ring=2
        predicted "$1 ring 2" "$2" "$1" --ranks 2 --allow exchange=ring --allow ring=2
    done
fi
if wants accuracy; then
    for ranks in 1 2; do accuracy sgformer-cora $ranks 0.80; done
    accuracy graphormer-cora 1 0.72
fi
if wants parity; then
    clusters=(--set sequence_mode=clusters --set sequence_tokens=700 --ranks 2 --allow replicas=2)
    parity "graphormer ring 2" graphormer-cora --ranks 2 --allow exchange=ring --allow ring=2
    parity "graphormer ring 3, uneven" graphormer-cora --ranks 3 --allow exchange=ring --allow ring=3
    parity "graphormer gather 2" graphormer-cora --ranks 2 --allow exchange=gather --allow ring=2
    parity "graphormer data parallel 2" graphormer-cora "${clusters[@]}"
    labels=(--set loss=cross_entropy --set metric=accuracy) # Cora has seven classes, the preset is for two
    parity "sparse GT gather 2" gt-sparse-minesweeper-small "${labels[@]}" --ranks 2 --allow exchange=gather --allow ring=2
    parity "sparse GT data parallel 2" gt-sparse-minesweeper-small "${labels[@]}" "${clusters[@]}"
    parity "SGFormer reduce 2" sgformer-cora --ranks 2 --allow exchange=reduce --allow ring=2
fi
if wants heterophily; then
    import npz-edges-minesweeper/minesweeper.npz minesweeper
    auc() { megagraph train --data minesweeper --model gt-sparse-minesweeper-small --seed 1 "$@" --json >"$work/r.json" 2>/dev/null; field "$work/r.json" test.value; }
    one=$(auc --ranks 1)
    megagraph plan --data minesweeper --model gt-sparse-minesweeper-small --ranks 2 --allow exchange=gather --allow ring=2 --out "$work/p.json" >/dev/null
    megagraph train --plan "$work/p.json" --seed 1 --json >"$work/r.json" 2>/dev/null
    verdict "minesweeper AUC, |2 ranks - serial $one|" "$(python3 -c "print(abs($(field "$work/r.json" test.value) - $one))")" '<=' 0.005
    verdict "minesweeper AUC without neighbours" "$(auc --ranks 1 --set neighbours=none)" '<=' 0.55
fi
if wants memory; then
    import npz-csr-coauthor-cs/coauthor_cs.npz coauthor-cs
    megagraph plan --data coauthor-cs --model graphormer-scale --ranks 1 --budget 1GiB --allow attention=materialised \
        --even-infeasible --out "$work/p.json" >/dev/null || true
    status=0
    megagraph train --plan "$work/p.json" --risk-oom >"$work/oom.txt" 2>&1 || status=$?
    grep -i "out of memory\|outofmemory" "$work/oom.txt" | head -3
    verdict "materialised coauthor-cs in 1 GiB: exit status" "$status" '==' 12
    SECONDS=0
    megagraph plan --data coauthor-cs --model graphormer-scale --ranks 2 --budget 1GiB --out "$work/p.json" >/dev/null
    megagraph train --plan "$work/p.json" --steps 3 --seed 1 --json >"$work/r.json" 2>/dev/null
    verdict "fused coauthor-cs, 2 ranks: steps" "$(field "$work/r.json" steps)" '==' 3
    verdict "fused coauthor-cs, 2 ranks: seconds" $SECONDS '<=' 600
fi
exit $missed
