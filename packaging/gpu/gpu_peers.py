# SPDX-License-Identifier: Apache-2.0
"""Our CUDA kernels beside other libraries on one GPU: same tensors, one process, rounds interleaved (ours, peer, ours, peer).

  gpu_peers.py --program megagraph-gpu-test --module libmegagraph_cuda.so --work DIR --out bars.jsonl [--seconds S] [--only G4]
  gpu_peers.py --self-test [--with-torch]     logic without a GPU; with Torch also the peers' arithmetic on the CPU
  gpu_peers.py --check-layout FILE            struct layouts of gpu_module.py against the compiler's

A worker process runs the cases in order of value; the parent ends it when a case takes longer than its limit, writes the rows
that are missing as "not run" with the reason, and starts another worker for the rest.
"""
import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import gpu_bars  # noqa: E402
import gpu_cases  # noqa: E402
import gpu_module  # noqa: E402

# in order of value: (case, seconds at most)
CASES = [("G8", 25), ("G4", 60), ("G2", 25), ("G1", 25), ("G3", 25), ("G7", 40), ("G6", 20), ("G1@128", 20), ("G5", 30)]


# ---- worker and parent -------------------------------------------------------------------------------------------------
def versions(torch):
    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
             "python": sys.version.split()[0], "gpu": torch.cuda.get_device_name(0)}
    for name in ("triton", "torch_geometric"):
        try:
            found[name] = __import__(name).__version__
        except Exception as error:
            found[name] = f"absent ({type(error).__name__})"
    return found


def worker(arguments):
    say = lambda record: print(json.dumps(record), flush=True)
    try:
        import torch
    except Exception as error:
        say({"unusable": f"Torch cannot be imported: {error}"})
        return
    if not torch.cuda.is_available():
        say({"unusable": "Torch sees no GPU"})
        return
    say({"versions": versions(torch)})
    gpu = gpu_cases.Gpu(torch, arguments.module, arguments.program, arguments.work)
    for case in arguments.cases.split(","):
        say({"start": case})
        try:
            for result in gpu_cases.RUN[case](gpu):
                say({"row": result} if "id" in result else result)
        except Exception as error:
            say({"failed": case, "reason": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
        gpu.torch.cuda.empty_cache()
        say({"end": case})


def lines_of(process):
    """Lines of a child through a queue, so that waiting for one can end; None at its end."""
    lines = queue.Queue()

    def pump():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)
    threading.Thread(target=pump, daemon=True).start()
    return lines


def owed(case, rows, reason, size=None):
    """Rows of the case that were not measured."""
    bar_id = case.split("@")[0]
    size = dict(size or gpu_cases.SIZE)
    if "@" in case:
        size["head_size"] = int(case.split("@")[1])
    have = {r["what"] for r in rows if r["id"] == bar_id and r.get("head_size") == size.get("head_size")}
    return [gpu_bars.not_run(bar_id, what, reason, **size) for what in gpu_bars.rows_of_case(bar_id) if what not in have]


def drive(start_worker, cases, seconds, emit, clock=time.monotonic):
    """Runs `cases` [(name, limit)] through workers; `start_worker(names)` gives a process with text lines on stdout. `emit` gets
    each record once; rows are judged. Every case ends in rows, measured or not."""
    end_of_all = clock() + seconds
    left, versions_said = list(cases), False
    while left:
        if clock() >= end_of_all:
            for name, _ in left:
                for missing in owed(name, [], "time of the step is used up"):
                    emit({"row": missing})
            return
        process = start_worker([name for name, _ in left])
        lines, current, limit_end, rows, why = lines_of(process), None, end_of_all, [], None
        while why is None:
            wait = min(limit_end, end_of_all) - clock()
            try:
                line = lines.get(timeout=max(wait, 0.01)) if wait > 0 else lines.get_nowait()
            except queue.Empty:
                why = "time of the step is used up" if clock() >= end_of_all else f"took longer than {dict(cases).get(current, 0)} s"
                break
            if line is None:
                why = f"the worker ended early (code {process.wait()})" if left else ""
                break
            try:
                record = json.loads(line)
            except ValueError:
                continue  # libraries print, too
            if not isinstance(record, dict):
                continue
            if "unusable" in record:
                for name, _ in left:
                    for missing in owed(name, [], record["unusable"]):
                        emit({"row": missing})
                left = []
            elif "start" in record:
                current, rows = record["start"], []
                limit_end = clock() + dict(cases)[current]
            elif "row" in record:
                judged = gpu_bars.judge(record["row"])
                rows.append(judged)
                emit({"row": judged})
            elif "failed" in record:
                for missing in owed(record["failed"], rows, record["reason"]):
                    emit({"row": missing})
                    rows.append(missing)
            elif "end" in record:
                for missing in owed(record["end"], rows, "the case gave no row"):
                    emit({"row": missing})
                left = [c for c in left if c[0] != record["end"]]
                current, limit_end = None, end_of_all
            elif "versions" not in record or not versions_said:
                versions_said = versions_said or "versions" in record
                emit(record)
        process.kill()
        process.wait()
        if left and why:
            name = current or left[0][0]
            for missing in owed(name, rows if current else [], why):
                emit({"row": missing})
            left = [c for c in left if c[0] != name]


def main_run(arguments):
    os.makedirs(arguments.work, exist_ok=True)
    cases = [c for c in CASES if not arguments.only or c[0].split("@")[0] == arguments.only]
    with open(arguments.out, "w", encoding="utf-8") as out:
        def emit(record):
            out.write(json.dumps(record) + "\n")
            out.flush()
            if "row" in record:
                r = record["row"]
                ratio = f"{r['ratio']:.2f}x" if "ratio" in r else r.get("reason", "")
                print(f"{r['id']} {r['what']} N={r.get('n')} d_h={r.get('head_size')}: {r['verdict']} {ratio}", flush=True)

        def start(names):
            return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", "--cases", ",".join(names), "--program",
                                     arguments.program, "--module", arguments.module, "--work", arguments.work, "--out", "-"],
                                    stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
        drive(start, cases, arguments.seconds, emit)
    return 0


def check_layout(path):
    with open(path, encoding="utf-8") as file:
        faults = gpu_module.layout_faults(json.load(file))
    print("\n".join(faults) if faults else f"layout of {len(gpu_module.STRUCTS)} structs agrees with the compiler's")
    return 1 if faults else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="megagraph-gpu-test")
    parser.add_argument("--module", default="libmegagraph_cuda.so")
    parser.add_argument("--work", default="work")
    parser.add_argument("--out", default="bars.jsonl")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--only", default="", choices=["", *sorted({c.split("@")[0] for c, _ in CASES})])
    parser.add_argument("--cases", default="", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--with-torch", action="store_true", help="with --self-test: the peers' arithmetic on the CPU")
    parser.add_argument("--check-layout", default="")
    arguments = parser.parse_args()
    if arguments.self_test:
        import gpu_self_test
        return gpu_self_test.peers(arguments.with_torch)
    if arguments.check_layout:
        return check_layout(arguments.check_layout)
    if arguments.worker:
        worker(arguments)
        return 0
    return main_run(arguments)


if __name__ == "__main__":
    sys.exit(main())
