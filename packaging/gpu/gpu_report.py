# SPDX-License-Identifier: Apache-2.0
"""gpu_report.json and gpu_report.md from what the steps of packaging/gpu_check.sh left in its output folder.

  gpu_report.py --out DIR [--commit C] [--program FILE] [--module FILE]      exit code as gpu_check.sh
  gpu_report.py --self-test

JSON: format megagraph.gpu_report, version 1; exit_code, summary, commit, programs {name: {sha256, bytes}}, machine {host, gpu},
versions, steps [{step, status, seconds, limit_s, reason}], checks {step: {passed, failed, skipped, failures}}, ceilings, bars (rows
of the kernel benchmark's form), ours (our times alone), goals (absolute goals and costs, reported). A reader skips unknown keys.
"""
import argparse
import hashlib
import json
import os
import platform
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu_bars  # noqa: E402

PASSED, FAILED, MISSED, NO_GPU = 0, 1, 2, 3


def read_lines(path):
    """JSON objects of a file, one a line; other lines are skipped; [] without the file."""
    records = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict):
                    records.append(record)
    except FileNotFoundError:
        pass
    return records


def plain_reason(text):
    """The reason inside a JSON line of megagraph-gpu-test, else the text."""
    try:
        return json.loads(text).get("reason", text)
    except (ValueError, AttributeError):
        return text.strip()


def read_steps(path):
    steps = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                step, status, seconds, limit, code, reason = (line.rstrip("\n").split("\t") + [""] * 6)[:6]
                steps.append({"step": step, "status": status, "seconds": int(seconds), "limit_s": int(limit), "code": int(code),
                              **({"reason": plain_reason(reason)} if status != "passed" else {})})
    except FileNotFoundError:
        pass
    return steps


def checks_of(records):
    counted = [r for r in records if "case" in r]
    count = lambda status: sum(1 for r in counted if r.get("status") == status)
    return {"passed": count("passed"), "failed": count("failed"), "skipped": count("skipped"),
            "failures": [r for r in counted if r.get("status") == "failed"],
            "skips": sorted({r.get("reason", "") for r in counted if r.get("status") == "skipped"})}


def goals_of(ours, gpu_name):
    """Absolute goals on an H200, and on every GPU the costs of table and table gradient (ours over ours)."""
    goals, by = [], {}
    for r in ours:
        if r.get("op") == "dense" and r.get("status") == "ok" and r.get("n") == gpu_bars.JUDGED["n"]:
            by[(r["what"], r["head_size"])] = r
    for (what, dim), goal in gpu_bars.H200_GOALS.items():
        if (what, dim) in by and "H200" in gpu_name:
            got = by[(what, dim)]["tflops"]
            goals.append({"what": f"{what}, d_h {dim}", "value": got, "goal": goal, "unit": "TFLOP/s", "verdict": "met" if got >= goal else "missed"})
    for dim, most_table in ((64, 0.20), (128, 0.12)):
        pairs = (("forward, table", "forward, no bias", most_table, "cost of the table, forward"),
                 ("backward, learned table", "backward, frozen table", 0.15, "cost of the table gradient"))
        for more, less, most, name in pairs:
            if (more, dim) in by and (less, dim) in by:
                cost = by[(more, dim)]["median_ms"] / by[(less, dim)]["median_ms"] - 1
                goals.append({"what": f"{name}, d_h {dim}", "value": cost, "goal": most, "unit": "share", "verdict": "met" if cost <= most else "missed"})
    for r in ours:
        if r.get("op") == "edges" and r.get("status") == "ok" and r.get("what") == "forward":
            rate = r["edges"] * r["heads"] / r["median_ms"] * 1e3
            if "H200" in gpu_name:
                goals.append({"what": "edges forward, METIS order", "value": rate, "goal": gpu_bars.H200_EDGE_HEADS_PER_S,
                              "unit": "edge-heads/s", "verdict": "met" if rate >= gpu_bars.H200_EDGE_HEADS_PER_S else "missed"})
    largest = [r for r in ours if r.get("op") == "largest"]
    if largest:
        trained = sum(1 for r in largest if r.get("status") == "ok")
        goals.append({"what": "largest N, one layer of d = 512, forward and backward", "value": largest[0]["n"] if trained >= 3 else 0,
                      "goal": 1 << 20, "unit": "tokens", "verdict": "met" if trained >= 3 else "missed",
                      **({} if trained >= 3 else {"reason": largest[0].get("reason", "")})})
    return goals


def exit_code(steps, bars):
    if any(s["code"] == NO_GPU for s in steps):
        return NO_GPU
    if any(s["status"] in ("failed", "late") for s in steps):
        return FAILED
    return MISSED if any(b.get("verdict") == "missed" for b in bars) else PASSED


def host():
    model = memory = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
        with open("/proc/meminfo", encoding="utf-8") as file:
            memory = int(file.readline().split()[1]) * 1024
    except OSError:
        pass
    return {"cpu": model, "cores": os.cpu_count(), "memory_bytes": memory, "kernel": platform.release(), "python": platform.python_version()}


def hashed(path):
    if not path or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        data = file.read()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def build(out, commit="", programs=()):
    steps = read_steps(os.path.join(out, "steps.tsv"))
    lines = {name: read_lines(os.path.join(out, name + ".jsonl")) for name in ("environment", "primitives", "kernels", "bars", "ours")}
    gpu = next((r["gpu"] for r in lines["environment"] if "gpu" in r), {})
    bars = [r["row"] for r in lines["bars"] if "row" in r]
    ceilings = {}
    for record in lines["environment"] + lines["bars"]:
        ceilings.update(record.get("ceilings", {}))
    versions = next((r["versions"] for r in lines["bars"] if "versions" in r), {})
    code = exit_code(steps, bars)
    count = lambda verdict: sum(1 for b in bars if b.get("verdict") == verdict)
    summary = {PASSED: "all passed", FAILED: "a check failed", MISSED: "a bar missed", NO_GPU: "no usable GPU"}[code]
    return {"format": "megagraph.gpu_report", "version": 1, "exit_code": code,
            "summary": f"{summary}; bars: {count('met')} met, {count('missed')} missed, {count('not run')} not run, {count('reported')} reported",
            "commit": commit, "programs": {os.path.basename(p): hashed(p) for p in programs if p and hashed(p)},
            "machine": {"host": host(), "gpu": gpu}, "versions": versions, "steps": steps,
            "checks": {name: checks_of(lines[name]) for name in ("primitives", "kernels")}, "ceilings": ceilings, "bars": bars,
            "ours": [r for r in lines["ours"] if r.get("bench") == "ours"], "goals": goals_of(lines["ours"], gpu.get("name", ""))}


def cell(value):
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value if value is not None else "").replace("|", "/")


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(cell(v) for v in each) + " |" for each in rows]
    return "\n".join(lines)


def markdown(report):
    gpu = report["machine"]["gpu"]
    parts = ["# GPU check", f"**{report['summary']}** (exit code {report['exit_code']}). Commit {report['commit'] or 'unknown'}.",
             "GPU: " + (", ".join(f"{k} {v}" for k, v in gpu.items()) if gpu else "none found") + ".",
             "Host: " + ", ".join(f"{k} {v}" for k, v in report["machine"]["host"].items()) + "."]
    if report["versions"]:
        parts.append("Versions: " + ", ".join(f"{k} {v}" for k, v in report["versions"].items()) + ".")
    parts += ["## Steps", table(["step", "status", "s", "limit", "reason"],
                                [[s["step"], s["status"], s["seconds"], s["limit_s"], s.get("reason", "")] for s in report["steps"]])]
    for name, c in report["checks"].items():
        if c["passed"] or c["failed"] or c["skipped"]:
            parts.append(f"{name}: {c['passed']} passed, {c['failed']} failed, {c['skipped']} skipped"
                         + (f" ({'; '.join(c['skips'])})" if c["skips"] else "") + ".")
            parts += ["- " + json.dumps(f) for f in c["failures"][:20]]
    if report["ceilings"]:
        parts += ["## Ceilings (G8)", "```\n" + json.dumps(report["ceilings"], indent=1) + "\n```"]
    if report["bars"]:
        parts += ["## Bars", table(["id", "what", "N", "d_h", "ours ms", "TFLOP/s", "peer", "peer ms", "ratio", "bar", "verdict"],
                                   [[b["id"], b["what"], b.get("n"), b.get("head_size"), b.get("ours", {}).get("median_ms"),
                                     b.get("ours", {}).get("tflops"), f"{b.get('peer', {}).get('name', '')} {b.get('peer', {}).get('backend', '')}",
                                     b.get("peer", {}).get("median_ms"), b.get("ratio"), b["bar"],
                                     b["verdict"] + (": " + b["reason"] if b.get("reason") else "")] for b in report["bars"]])]
    if report["ours"]:
        parts += ["## Ours alone", table(["op", "what", "N", "d_h", "median ms", "TFLOP/s", "status"],
                                         [[r.get("op"), r.get("what"), r.get("n"), r.get("head_size"), r.get("median_ms"), r.get("tflops"),
                                           r.get("status", "") + (": " + r["reason"] if r.get("reason") else "")] for r in report["ours"]])]
    if report["goals"]:
        parts += ["## Goals (reported)", table(["goal", "value", "aim", "unit", "verdict"],
                                               [[g["what"], g["value"], g["goal"], g["unit"], g["verdict"]] for g in report["goals"]])]
    return "\n\n".join(parts) + "\n"


def write(path, text):
    """Whole or not at all: a run that is cut off keeps the last report."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="gpu_check_out")
    parser.add_argument("--commit", default="")
    parser.add_argument("--program", default="")
    parser.add_argument("--module", default="")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        import gpu_self_test
        return gpu_self_test.report()
    report = build(arguments.out, arguments.commit, (arguments.program, arguments.module))
    write(os.path.join(arguments.out, "gpu_report.json"), json.dumps(report, indent=1) + "\n")
    write(os.path.join(arguments.out, "gpu_report.md"), markdown(report))
    print(report["summary"])
    return report["exit_code"]


if __name__ == "__main__":
    sys.exit(main())
