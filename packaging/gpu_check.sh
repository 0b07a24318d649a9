#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks a machine with one NVIDIA GPU (sm_80 or later) in under 8 minutes: kernels against stored results, memory and race
# checks, speed beside other libraries. Needs no compiler, no network and no root, and changes no setting of the GPU.
#   packaging/gpu_check.sh [--out DIR] [--bin DIR] [--torch DIR] [--only STEP]     run; report in DIR/gpu_report.{json,md}
#   packaging/gpu_check.sh --dry-run [--bin DIR]      anywhere: programs, goldens and Python parts are sound; prints the plan
#   packaging/gpu_check.sh --bundle DIR [--bin DIR]   programs, goldens, Python parts and shared libraries (but not libc, the
#                                                     driver and Torch) in DIR; on the GPU machine run DIR/gpu_check.sh
# --out    default ./gpu_check_out            --bin    default: the bundle's, else build/{cuda,release}/bin
# The bundle carries megagraph and megagraph-worker, too; they want LD_LIBRARY_PATH=DIR/lib:(folder of torch)/torch/lib.
# --torch  folder that holds the package `torch`, for the peers and the worker; default: the torch of python3
# --only   environment primitives kernels sanitizer benchmarks report
# A failed or late step is recorded and the next one runs; the reports are written again after each step.
# Exit: 0 all passed, 1 a check failed, 2 a bar missed, 3 no usable GPU, 64 wrong use.
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
all_steps="environment primitives kernels sanitizer benchmarks report"
declare -A limit=([environment]=20 [primitives]=60 [kernels]=100 [sanitizer]=60 [benchmarks]=210 [report]=10)

fail_usage() { echo "gpu_check.sh: $1; known: --out DIR --bin DIR --torch DIR --only STEP --dry-run --bundle DIR" >&2; exit 64; }

out=gpu_check_out bin= torch= only= dry=0 bundle=
while [ $# -gt 0 ]; do
    case $1 in
    --out | --bin | --torch | --only | --bundle)
        [ $# -ge 2 ] || fail_usage "$1: needs a value"
        case $1 in --out) out=$2 ;; --bin) bin=$2 ;; --torch) torch=$2 ;; --only) only=$2 ;; --bundle) bundle=$2 ;; esac
        shift 2 ;;
    --dry-run) dry=1; shift ;;
    *) fail_usage "unknown option $1" ;;
    esac
done
if [ -n "$only" ] && [[ " $all_steps " != *" $only "* ]]; then
    echo "gpu_check.sh: --only: unknown step $only; known: $all_steps" >&2
    exit 64
fi

if [ -f "$here/bundle.json" ]; then # inside a bundle
    root=$here data=$here/goldens parts=$here/gpu
    bin=${bin:-$here/bin}
else
    root=$(dirname "$here") data=$(dirname "$here")/tests/data/kernels parts=$here/gpu
    for folder in "$root/build/cuda/bin" "$root/build/release/bin"; do
        [ -z "$bin" ] && [ -x "$folder/megagraph-gpu-test" ] && bin=$folder
    done
    bin=${bin:-$root/build/release/bin}
fi
program=$bin/megagraph-gpu-test module=$bin/libmegagraph_cuda.so
libraries=$root/lib
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
[ -n "$torch" ] && export PYTHONPATH=$torch${PYTHONPATH:+:$PYTHONPATH}
python=$(command -v python3 || true)

commit() {
    if [ -f "$root/bundle.json" ]; then
        sed -n 's/.*"commit": "\([^"]*\)".*/\1/p' "$root/bundle.json"
    elif command -v git >/dev/null && git -C "$root" rev-parse HEAD >/dev/null 2>&1; then
        echo "$(git -C "$root" rev-parse HEAD)$([ -z "$(git -C "$root" status --porcelain -uno 2>/dev/null)" ] || echo "+changes")"
    else
        echo unknown
    fi
}

find_sanitizer() {
    local tool
    for tool in "$(command -v compute-sanitizer)" /usr/local/cuda*/bin/compute-sanitizer /opt/nvidia/compute-sanitizer/compute-sanitizer \
        /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
        [ -n "$tool" ] && [ -x "$tool" ] && { echo "$tool"; return; }
    done
}

# ---- dry run -----------------------------------------------------------------------------------------------------------
faults=0
fault() { echo "  FAULT $1"; faults=$((faults + 1)); }

check_program() { # file, whether it must be there
    if [ ! -f "$1" ]; then
        if [ "$2" = needed ]; then fault "$1: missing; build with nvcc (cmake --preset cuda) or name the folder with --bin"; else echo "  absent  $1 (optional)"; fi
        return
    fi
    local missing
    missing=$(LD_LIBRARY_PATH="$libraries" ldd "$1" 2>&1 | grep "not found" | grep -vE "libcuda\.so|libtorch|libc10|libnvidia-ml" || true)
    if [ -n "$missing" ]; then fault "$1: libraries: $missing"; else echo "  ok      $1 ($(($(stat -c %s "$1") / 1048576)) MiB)"; fi
}

dry_run() {
    echo "programs"
    check_program "$program" needed
    check_program "$module" needed
    check_program "$bin/megagraph" optional
    check_program "$bin/megagraph-worker" optional
    if [ -x "$program" ] && [ -f "$module" ]; then
        local said
        if said=$("$program" version --module "$module" 2>&1); then echo "  ok      module loads: $said"; else fault "module: $said"; fi
        if said=$("$program" layout 2>&1); then
            if [ -n "$python" ]; then
                if said=$("$python" "$parts/gpu_peers.py" --check-layout <(echo "$said") 2>&1); then
                    echo "  ok      $said"
                else
                    fault "layout of the module's structs: $said"
                fi
            fi
        else
            fault "layout: $said"
        fi
        echo "goldens"
        if said=$("$program" goldens --data "$data" 2>&1); then echo "  ok      $said"; else fault "goldens: $said"; fi
    fi
    echo "python parts"
    if [ -z "$python" ]; then
        echo "  absent  python3: benchmarks without peers, report as text only"
    else
        for part in gpu_report.py gpu_peers.py; do
            local said
            if said=$("$python" "$parts/$part" --self-test 2>&1); then echo "  ok      $part: $(echo "$said" | tail -1)"; else fault "$part: $said"; fi
        done
    fi
    echo "plan (commit $(commit))"
    local step total=0
    for step in $all_steps; do
        total=$((total + limit[$step]))
        printf '  %-12s %4d s  %s\n' "$step" "${limit[$step]}" "$(describe "$step")"
    done
    echo "  together     $total s at most"
    if [ $faults -gt 0 ]; then echo "dry run: $faults faults"; exit 1; fi
    echo "dry run: passed"
    exit 0
}

describe() {
    case $1 in
    environment) echo "GPU (sm_80 or later), driver, clocks, power, free memory; 8 GB copy (G8)" ;;
    primitives) echo "every hardware operation of the kernels against the emulation's stored results" ;;
    kernels) echo "paths 80 and 90 against 24 stored cases and, to 16k tokens, against CPU kernels; forms agree; 3 runs equal" ;;
    sanitizer)
        local tool
        tool=$(find_sanitizer)
        echo "memcheck and racecheck at 257 tokens by ${tool:-compute-sanitizer (absent here: skipped)}" ;;
    benchmarks) echo "8192^3 product (G8), then G4 G2 G1 G3 G7 G6 G5 beside Torch, then our times alone, largest N" ;;
    report) echo "gpu_report.json, gpu_report.md" ;;
    esac
}

# ---- bundle ------------------------------------------------------------------------------------------------------------
make_bundle() {
    if [ -e "$bundle" ] && [ -n "$(ls -A "$bundle" 2>/dev/null)" ] && [ ! -f "$bundle/bundle.json" ]; then
        echo "gpu_check.sh: --bundle: $bundle: is not empty and no bundle of ours; name another folder" >&2
        exit 64
    fi
    [ -x "$program" ] && [ -f "$module" ] || { echo "gpu_check.sh: --bundle: $bin: needs megagraph-gpu-test and libmegagraph_cuda.so; build with nvcc or name --bin" >&2; exit 1; }
    local bundled_commit
    bundled_commit=$(commit)
    rm -rf "$bundle"
    mkdir -p "$bundle"/{bin,lib,goldens,gpu} || exit 1
    cp "$program" "$module" "$bundle/bin/"
    for optional in megagraph megagraph-worker; do [ -x "$bin/$optional" ] && cp "$bin/$optional" "$bundle/bin/"; done
    cp "$data"/* "$bundle/goldens/"
    cp "$parts"/*.py "$bundle/gpu/"
    cp "$here/gpu_check.sh" "$bundle/"
    # libc's own parts, the loader, the driver and Torch (with what its wheel brings) belong to the machine
    local skip='^(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt|libresolv|libutil|libanl|libmvec|libcuda|libnvidia-ml)[.-]'
    local file name path
    for file in "$bundle"/bin/*; do
        ldd "$file" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}'
    done | sort -u | while read -r name path; do
        [[ $name =~ $skip || $path == */torch/lib/* || $path == */nvidia/* || $name =~ ^lib(torch|c10) ]] || cp -L "$path" "$bundle/lib/$name"
    done
    strip --strip-debug "$bundle"/bin/megagraph* 2>/dev/null
    local needs bytes
    needs=$(grep -aohE 'GLIBC_2\.[0-9]+' "$bundle"/bin/* "$bundle"/lib/* | sort -u -t. -k2 -n | tail -1)
    bytes=$(du -sb "$bundle" | cut -f1)
    printf '{"format": "megagraph.gpu_bundle", "version": 1, "commit": "%s", "needs": "%s", "bytes": %s}\n' "$bundled_commit" "$needs" "$bytes" >"$bundle/bundle.json"
    echo "bundle: $bundle: $(ls "$bundle/bin" | tr '\n' ' ')+ $(ls "$bundle/lib" | wc -l) libraries + $(ls "$bundle/goldens" | wc -l) golden files," \
        "$(((bytes + 524288) / 1048576)) MiB of at most 60, needs $needs"
    if [ "$bytes" -gt $((60 * 1048576)) ]; then
        echo "gpu_check.sh: --bundle: size: got $bytes bytes, expected at most $((60 * 1048576)); build in Release without debug information" >&2
        exit 1
    fi
    exit 0
}
# ---- steps -------------------------------------------------------------------------------------------------------------
# Each prints to its log and ends with 0 passed, 1 failed, 3 no usable GPU, 77 skipped (last line of the log = reason).
step_environment() { "$program" environment --module "$module" >"$out/environment.jsonl"; local code=$?; cat "$out/environment.jsonl"; return $code; }
step_primitives() { "$program" primitives --module "$module" --data "$data" | tee "$out/primitives.jsonl"; }
step_kernels() { "$program" kernels --module "$module" --data "$data" | tee "$out/kernels.jsonl"; }

step_sanitizer() {
    local tool code=0 each
    tool=$(find_sanitizer)
    [ -n "$tool" ] || { echo "compute-sanitizer is not installed"; return 77; }
    for each in memcheck racecheck; do
        echo "== $each"
        timeout -k 5 28 "$tool" --tool $each --error-exitcode 9 "$program" sanitize --module "$module" >"$out/$each.log" 2>&1
        local said=$?
        tail -n 5 "$out/$each.log"
        if grep -qiE "device not supported|unable to initialize|not supported on this" "$out/$each.log"; then
            echo "$each cannot work on this machine: $(grep -iE "not supported|unable" "$out/$each.log" | head -1)"
            return 77
        fi
        [ $said = 0 ] || { echo "$each: exit $said"; code=1; }
    done
    return $code
}

step_benchmarks() {
    local begin=$SECONDS
    if [ -n "$python" ]; then
        "$python" "$parts/gpu_peers.py" --program "$program" --module "$module" --work "$out/work" --seconds 118 --out "$out/bars.jsonl" ||
            echo "peers: exit $?"
    else
        echo "peers: not run: python3 is not installed"
    fi
    rm -rf "$out/work"
    "$program" bench --module "$module" --seconds $((200 - (SECONDS - begin))) | tee "$out/ours.jsonl"
}

report() {
    if [ -n "$python" ]; then
        "$python" "$parts/gpu_report.py" --out "$out" --commit "$(commit)" --program "$program" --module "$module" "$@"
        return
    fi
    cat "$out/steps.tsv"
    awk -F'\t' '$5 == 3 {none = 1} $2 == "failed" || $2 == "late" {bad = 1} END {exit none ? 3 : bad}' "$out/steps.tsv"
}

record() { printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${limit[$1]}" "$4" "$5" >>"$out/steps.tsv"; }

run_step() {
    local step=$1 log=$out/$1.log begin=$SECONDS code status late=0 group
    printf '== %s (at most %d s)\n' "$step" "${limit[$step]}"
    set -m # a process group of its own, so that the limit ends all that the step started
    ("step_$step") >"$log" 2>&1 &
    group=$!
    set +m
    while kill -0 "$group" 2>/dev/null; do
        if [ $((SECONDS - begin)) -ge "${limit[$step]}" ]; then
            late=1
            kill -TERM -- "-$group" 2>/dev/null
            sleep 2
            kill -KILL -- "-$group" 2>/dev/null
            break
        fi
        sleep 0.2
    done
    wait "$group" 2>/dev/null
    code=$?
    case $code in 0) status=passed ;; 77) status=skipped ;; *) status=failed ;; esac
    [ $late = 0 ] || { status=late code=124; }
    record "$step" $status $((SECONDS - begin)) "$code" "$(tail -n 1 "$log" | tr '\t\n' '  ' | cut -c1-400)"
    printf '   %s, %d s: %s\n' "$status" $((SECONDS - begin)) "$(tail -n 1 "$log" | cut -c1-160)"
    return $code
}

skip_step() { record "$1" skipped 0 77 "$2"; }

[ $dry = 1 ] && dry_run
[ -n "$bundle" ] && make_bundle

mkdir -p "$out" || exit 64
out=$(cd "$out" && pwd)
rm -f "$out"/*.jsonl "$out"/*.log "$out/steps.tsv" "$out"/gpu_report.*
begin_of_run=$SECONDS
usable=1
for step in $all_steps; do
    if [ "$step" = report ]; then
        record report passed $((SECONDS - begin_of_run)) 0 "seconds of the whole run"
    elif [ -n "$only" ] && [ "$only" != "$step" ]; then
        skip_step "$step" "not asked for: --only $only"
    elif [ $usable = 0 ]; then
        skip_step "$step" "no usable GPU"
    elif [ ! -x "$program" ] || [ ! -f "$module" ]; then
        record "$step" failed 0 1 "$bin: needs megagraph-gpu-test and libmegagraph_cuda.so; build with nvcc or name --bin"
    else
        run_step "$step"
        [ $? = 3 ] && usable=0
    fi
    report >"$out/report.log" 2>&1
    code=$?
done
cat "$out/report.log"
echo "report: $out/gpu_report.md; exit $code"
exit $code
