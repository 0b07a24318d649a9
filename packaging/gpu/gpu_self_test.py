# SPDX-License-Identifier: Apache-2.0
"""Self tests of the Python parts: no GPU, no Torch (with Torch also the peers' arithmetic on the CPU). Each raises on a fault."""
import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile

import gpu_bars
import gpu_cases
import gpu_module


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def raises(kind, work):
    try:
        work()
    except kind as error:
        return str(error)
    raise AssertionError(f"expected {kind.__name__}")


def run_all(tests):
    for test in tests:
        test()
    print(f"self-test: {len(tests)} passed")
    return 0


# ---- bars --------------------------------------------------------------------------------------------------------------
def row(bar_id, what, ours, peer, **size):
    return {"id": bar_id, "what": what, "n": 16384, "heads": 8, "head_size": 64, **size, "ours": {"median_ms": ours}, "peer": {"median_ms": peer}}


def bars_are_judged_at_their_size_only():
    verdict = lambda *a, **k: gpu_bars.judge(row(*a, **k))["verdict"]
    expect(verdict("G4", "backward", 1.0, 1.5) == "met", "at the bar")
    expect(verdict("G4", "backward", 1.0, 1.49) == "missed", "below the bar")
    expect(verdict("G4", "backward", 1.0, 1.49, n=4096) == "reported", "another size")
    expect(verdict("G1", "forward", 1.0, 0.79) == "missed" and verdict("G1", "forward", 1.0, 0.81) == "met", "80 %")
    expect(verdict("G6", "backward", 1.0, 0.1) == "reported", "no bar")
    expect(verdict("G7", "edges forward", 1.0, 1.6, n=65536) == "met", "edges have a size of their own")
    reference = gpu_bars.judge({**row("G1", "forward", 1.0, 0.1), "reference_row": True})
    expect(reference["verdict"] == "reported", "the flash row is no bar")
    missing = gpu_bars.judge({"id": "G2", "what": "forward", "reason": "no Torch"})
    expect(missing["verdict"] == "not run" and missing["bar"].startswith(">= 1.0x"), "a row that was not run keeps its bar")
    expect(gpu_bars.judge(row("G2", "forward", None, 1.0))["verdict"] == "not run", "no time of ours")


# ---- measuring ---------------------------------------------------------------------------------------------------------
def rounds_are_interleaved():
    calls = []
    times = gpu_cases.interleaved([lambda: calls.append("a"), lambda: calls.append("b")], lambda work: (work(), 1.0)[1], warmups=2, rounds=4)
    expect(calls == ["a", "b"] * 6, f"order {calls}")
    expect([len(t) for t in times] == [4, 4], "rounds")
    slow = gpu_cases.interleaved([lambda: None], lambda work: 5000.0, warmups=0, rounds=10)
    expect(len(slow[0]) == 3, "slow work stops after three rounds")
    expect(gpu_cases.median([3, 1, 2]) == 2 and gpu_cases.median([4, 1, 2, 3]) == 2.5, "median")
    expect(abs(gpu_cases.timed([2.0, 1.0, 4.0], 2e12)["tflops"] - 1000.0) < 1e-6, "TFLOP/s from the median")


def sizes_that_peers_compute_wrongly_are_refused():
    gpu_cases.check_g2(16384, "bfloat16")
    expect("128" in raises(gpu_cases.NotRun, lambda: gpu_cases.check_g2(16448, "bfloat16")), "N mod 128 = 64")
    raises(gpu_cases.NotRun, lambda: gpu_cases.check_g2(16384, "float32"))
    gpu_cases.check_g3(46000)
    raises(gpu_cases.NotRun, lambda: gpu_cases.check_g3(46008))
    raises(gpu_cases.NotRun, lambda: gpu_cases.check_g3(16380))


def scripted(script):
    """A worker that says `script`: (seconds to wait before, record or raw text); a number as record = exit with that code."""
    source = ("import json,sys,time\n"
              f"for wait, what in json.loads({json.dumps(json.dumps(script))}):\n"
              "    time.sleep(wait)\n"
              "    if isinstance(what, int): sys.exit(what)\n"
              "    print(what if isinstance(what, str) else json.dumps(what), flush=True)\n")
    return subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)


def the_driver_survives_slow_and_dying_workers():
    import gpu_peers
    good = row("G2", "forward", 1.0, 2.0)
    scripts = [
        [[0, {"versions": {"torch": "x"}}], [0, "a library prints this"], [0, {"start": "G2"}], [0, {"row": good}], [0, {"end": "G2"}],
         [0, {"start": "G3"}], [30, {"end": "G3"}]],                                      # G3 takes too long
        [[0, {"versions": {"torch": "x"}}], [0, {"start": "G4"}], [0, {"row": row("G4", "forward", 1.0, 1.0)}], [0, 7]],  # dies in G4
        [[0, {"start": "G5"}], [0, {"failed": "G5", "reason": "no FA-4"}], [0, {"end": "G5"}]],
    ]
    asked, said = [], []

    def start(names):
        asked.append(list(names))
        return scripted(scripts[len(asked) - 1])
    gpu_peers.drive(start, [("G2", 5), ("G3", 1), ("G4", 5), ("G5", 5)], 60, said.append)
    expect(asked == [["G2", "G3", "G4", "G5"], ["G4", "G5"], ["G5"]], f"workers got {asked}")
    rows = [r["row"] for r in said if "row" in r]
    got = [(r["id"], r["what"], r["verdict"]) for r in rows]
    expect(got == [("G2", "forward", "met"), ("G3", "forward + backward", "not run"), ("G4", "forward", "missed"),
                   ("G4", "backward", "not run"), ("G5", "forward", "not run")], f"rows {got}")
    expect("longer than 1 s" in rows[1]["reason"] and "code 7" in rows[3]["reason"] and rows[4]["reason"] == "no FA-4", "reasons")
    expect(sum(1 for r in said if "versions" in r) == 1, "versions are said once")


def an_unusable_machine_gives_a_reason_for_every_bar():
    import gpu_peers
    said = []
    gpu_peers.drive(lambda names: scripted([[0, {"unusable": "Torch cannot be imported: x"}]]), gpu_peers.CASES, 30, said.append)
    rows = [r["row"] for r in said]
    expect(all(r["verdict"] == "not run" and "Torch cannot" in r["reason"] for r in rows), "reasons")
    expect({r["id"] for r in rows} == {"G1", "G2", "G3", "G4", "G5", "G6", "G7"}, "all ids")
    expect(len({(r["id"], r["what"], r["head_size"]) for r in rows}) == len(rows) == len(gpu_bars.BARS) + 2, "no row twice")
    late = []
    gpu_peers.drive(lambda names: scripted([]), [("G2", 5)], -1, late.append)
    expect("used up" in late[0]["row"]["reason"], "no time left")


# ---- module ------------------------------------------------------------------------------------------------------------
def layouts_are_compared_field_by_field():
    layout = {"version": gpu_module.VERSION, "structs": {
        s.__name__: {"size": ctypes.sizeof(s), "fields": {f[0]: getattr(s, f[0]).offset for f in s._fields_}} for s in gpu_module.STRUCTS}}
    expect(gpu_module.layout_faults(layout) == [], "our own layout")
    layout["structs"]["MegagraphCudaBias"]["fields"]["policy"] += 4
    layout["structs"]["MegagraphCudaShape"]["size"] += 8
    layout["structs"]["MegagraphCudaNew"] = {"size": 8, "fields": {}}
    layout["version"] = gpu_module.VERSION + 1
    faults = "\n".join(gpu_module.layout_faults(layout))
    for word in ("policy", "MegagraphCudaShape: size", "MegagraphCudaNew", "version"):
        expect(word in faults, f"{word} in {faults}")


def case_file(arrays, **header):
    """Bytes of a case file; arrays: name -> (type, values)."""
    room, body, described = 4096, b"", []
    for name, (kind, values) in arrays.items():
        described.append({"name": name, "type": kind, "count": len(values), "offset": room + len(body)})
        body += struct.pack(f"<{len(values)}{gpu_module.TYPES[kind][0]}", *values)
        body += b"\0" * (-len(body) % 64)
    text = json.dumps({"format": "megagraph.gpu_case", "version": 1, **header, "arrays": described}).encode()
    return (struct.pack("<q", len(text)) + text).ljust(room, b"\0") + body


def path_case():
    """Path 0-1-2-3 and the isolated node 4; K = 1; two heads."""
    return case_file({"table": ("float32", [0.5, 1.0, 0.25, -1.0, 0.0, 0.5, 0.0, -0.25, 2.0, 0.0]),
                      "component": ("int32", [0, 0, 0, 0, 1]), "indptr": ("int64", [0, 1, 3, 5, 6, 6]), "indices": ("int32", [1, 0, 2, 1, 3, 2]),
                      "map": ("uint8", [1]), "rank": ("uint32", [0]), "tile_start": ("int64", [0, 1]), "offsets": ("uint32", [0]),
                      "block_start": ("int64", [0, 12]), "entries": ("uint16", [11] + [0] * 11),
                      "near_row": ("int32", [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4]), "near_column": ("int32", [0, 1, 0, 1, 2, 1, 2, 3, 2, 3, 4]),
                      "near_class": ("uint8", [0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 0])},
                     tokens=5, heads=2, head_size=8, hops=1, classes=5,
                     lists={"query_blocks": 1, "key_blocks": 1, "map_stride": 1, "rank_stride": 1})


def case_files_are_read_and_damage_is_refused():
    data = path_case()
    header, arrays = gpu_module.read_header(data)
    expect(header["tokens"] == 5 and arrays["near_row"][:2] == ("int32", 11), "header")
    kind, count, offset = arrays["indices"]
    expect(struct.unpack_from(f"<{count}i", data, offset) == (1, 0, 2, 1, 3, 2), "values")
    raises(ValueError, lambda: gpu_module.read_header(data[:-64]))
    raises(ValueError, lambda: gpu_module.read_header(struct.pack("<q", 1 << 40) + data[8:]))
    raises(ValueError, lambda: gpu_module.read_header(data.replace(b"megagraph.gpu_case", b"megagraph.gpu_cast")))


# ---- with Torch: the peers' arithmetic on the CPU ----------------------------------------------------------------------
def torch_case():
    import torch
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.bin")
        with open(path, "wb") as file:
            file.write(path_case())
        case = gpu_module.Case(torch, path, "cpu")
    classes = case.class_matrix()
    expected = [[0, 1, 2, 2, 3], [1, 0, 1, 2, 3], [2, 1, 0, 1, 3], [2, 2, 1, 0, 3], [3, 3, 3, 3, 0]]
    expect(classes.tolist() == expected, f"classes {classes.tolist()}")
    shifted = case.shifted()
    expect(shifted[0].tolist() == [0.25, 0.75, 0.0, -1.25, -0.25] and float(shifted[1, 2]) == 0.0, "b - b[far]")
    bias = case.bias()
    expect(bias.hops == 1 and bias.classes == 5 and bias.lists.queryBlocks == 1 and bias.table == case._shifted.data_ptr(), "bias")
    return torch, case, classes, shifted


def draw(torch, n, heads, dim):
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(n, heads, dim, generator=generator) * 2 - 1 for _ in range(4)]


def peers_compute_what_the_reference_says():
    torch, _, classes, table = torch_case()
    q, k, v, _ = draw(torch, 5, 2, 8)
    P = [gpu_cases.to_peer(x) for x in (q, k, v)]
    mask = table[:, classes.long()].unsqueeze(0)
    dense = torch.nn.functional.scaled_dot_product_attention(*P, attn_mask=mask)[0].transpose(0, 1)
    expect(gpu_cases.error_of(torch, dense, q, k, v, table, classes) < 1e-5, "SDPA with the mask of classes")
    expect(gpu_cases.error_of(torch, dense, q, k, v) > 1e-2, "without bias it is something else")
    plain = torch.nn.functional.scaled_dot_product_attention(*P)[0].transpose(0, 1)
    expect(gpu_cases.error_of(torch, plain, q, k, v) < 1e-5, "SDPA")
    run = gpu_cases.sdpa(torch, "MATH")
    expect(torch.allclose(run(*P, mask)[0].transpose(0, 1), dense, atol=1e-5), "a named back end")


def flex_attention_with_the_table_is_the_same():
    from torch.nn.attention.flex_attention import flex_attention
    torch, _, classes, table = torch_case()
    q, k, v, dO = draw(torch, 5, 2, 8)
    P = [gpu_cases.to_peer(x) for x in (q, k, v)]
    out = flex_attention(*P, score_mod=gpu_cases.table_score(table, classes))
    expect(gpu_cases.error_of(torch, out[0].transpose(0, 1), q, k, v, table, classes) < 1e-5, "FlexAttention, eager")


def sparse_peers_compute_attention_over_the_rows():
    torch, case, _, _ = torch_case()
    q, k, v, _ = draw(torch, 5, 2, 8)
    indptr, indices = case.arrays["indptr"], case.arrays["indices"].long()
    row_of = torch.repeat_interleave(torch.arange(5), indptr[1:] - indptr[:-1])
    try:
        got = gpu_cases.csr_attention(torch, q, k, v, indptr, indices, row_of)
    except RuntimeError as error:  # sampled_addmm on the CPU needs MKL
        if "MKL" not in str(error):
            raise
        print("skipped: sampled_addmm needs MKL on the CPU")
        return
    allowed = torch.zeros(5, 5, dtype=torch.bool)
    allowed[row_of, indices] = True
    P = [gpu_cases.to_peer(x) for x in (q, k, v)]
    dense = torch.nn.functional.scaled_dot_product_attention(*P, attn_mask=allowed)[0].transpose(0, 1)
    expect(torch.allclose(got[:4], dense[:4], atol=1e-5), "rows with entries")
    expect(float(got[4].abs().sum()) == 0.0, "a row without entries is 0")


def the_module_is_called_with_the_right_arguments():
    """Attention and EdgeAttention against a module that records its calls."""
    torch, case, _, _ = torch_case()
    q, k, v, dO = (x.bfloat16() for x in draw(torch, 5, 2, 8))
    calls = []

    class Recorder:
        def bytes(self, name, *arguments):
            return 1000

        def call(self, name, *arguments):
            calls.append((name, len(arguments)))
    attention = gpu_module.Attention(torch, Recorder(), q, k, v, dO, case)
    attention._stream = lambda: ctypes.c_void_p(0)
    attention.forward()
    attention.backward(True)
    attention.backward(False)
    # counts without the error argument, from kernels/cuda/api.h
    expect(calls == [("attentionForward", 11), ("attentionDelta", 4), ("attentionBackward", 16), ("closeFarBin", 5),
                     ("attentionDelta", 4), ("attentionBackward", 16)], f"calls {calls}")
    calls.clear()
    case.arrays.update(transposed_indptr=case.arrays["indptr"], transposed_rows=case.arrays["indices"], transposed_entries=case.arrays["indptr"])
    edges = gpu_module.EdgeAttention(torch, Recorder(), q, k, v, dO, case)
    edges._stream = lambda: ctypes.c_void_p(0)
    edges.forward()
    edges.backward()
    expect(calls == [("edgeAttentionForward", 12), ("attentionDelta", 4), ("edgeAttentionBackward", 16)], f"calls {calls}")
    expect(attention._space()[0].value % 256 == 0, "workspace alignment")


def peers(with_torch):
    tests = [bars_are_judged_at_their_size_only, rounds_are_interleaved, sizes_that_peers_compute_wrongly_are_refused,
             the_driver_survives_slow_and_dying_workers, an_unusable_machine_gives_a_reason_for_every_bar, layouts_are_compared_field_by_field,
             case_files_are_read_and_damage_is_refused]
    if with_torch:
        tests += [peers_compute_what_the_reference_says, flex_attention_with_the_table_is_the_same,
                  sparse_peers_compute_attention_over_the_rows, the_module_is_called_with_the_right_arguments]
    return run_all(tests)


# ---- report ------------------------------------------------------------------------------------------------------------
def write_folder(folder, steps, **lines):
    with open(os.path.join(folder, "steps.tsv"), "w", encoding="utf-8") as file:
        file.writelines("\t".join(map(str, s)) + "\n" for s in steps)
    for name, records in lines.items():
        with open(os.path.join(folder, name + ".jsonl"), "w", encoding="utf-8") as file:
            file.writelines((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records)


GOOD_STEPS = [("environment", "passed", 2, 20, 0, ""), ("kernels", "passed", 9, 100, 0, ""), ("sanitizer", "skipped", 0, 60, 77, "absent")]


def report_of(steps, **lines):
    import gpu_report
    with tempfile.TemporaryDirectory() as folder:
        write_folder(folder, steps, **lines)
        report = gpu_report.build(folder, "abc")
    return report, gpu_report.markdown(report)


def exit_codes_follow_steps_and_bars():
    met, missed = ({"row": gpu_bars.judge(row("G2", "forward", 1.0, r))} for r in (2.0, 0.5))
    expect(report_of(GOOD_STEPS, bars=[met])[0]["exit_code"] == 0, "all passed")
    expect(report_of(GOOD_STEPS, bars=[met, missed])[0]["exit_code"] == 2, "a bar missed")
    failed = GOOD_STEPS + [("primitives", "failed", 1, 60, 1, "mma16816")]
    expect(report_of(failed, bars=[missed])[0]["exit_code"] == 1, "a check failed")
    late = GOOD_STEPS + [("benchmarks", "late", 210, 210, 124, "")]
    expect(report_of(late)[0]["exit_code"] == 1, "a late step")
    none = report_of([("environment", "failed", 1, 20, 3, '{"status": "failed", "reason": "no device"}')])[0]
    expect(none["exit_code"] == 3 and none["steps"][0]["reason"] == "no device", "no GPU")
    expect(report_of([])[0]["exit_code"] == 0, "nothing done yet")


def the_report_holds_what_the_steps_left():
    ours = [{"bench": "ours", "op": "dense", "what": w, "n": 16384, "heads": 8, "head_size": 64, "status": "ok", "median_ms": ms, "tflops": 300.0}
            for w, ms in (("forward, no bias", 1.0), ("forward, table", 1.1), ("backward, frozen table", 3.0), ("backward, learned table", 3.6))]
    report, text = report_of(
        GOOD_STEPS, environment=[{"gpu": {"name": "NVIDIA H200"}, "ceilings": {"copy_bytes_per_s": 4e12}}, "not json"],
        kernels=[{"check": "kernels", "case": "base_257", "status": "failed", "worst": {"array": "dq"}}, {"check": "kernels", "case": "x", "status": "passed"},
                 {"check": "kernels", "case": "path 90", "status": "skipped", "reason": "no sm_90"}, {"check": "kernels", "passed": 1}],
        bars=[{"versions": {"torch": "2.11"}}, {"ceilings": {"bf16_product": {"tflops": 780}}}, {"row": gpu_bars.judge(row("G2", "forward", 1.0, 2.0))}],
        ours=ours)
    expect(report["format"] == "megagraph.gpu_report" and report["version"] == 1 and report["commit"] == "abc", "format")
    expect(report["checks"]["kernels"] == {"passed": 1, "failed": 1, "skipped": 1, "failures": [
        {"check": "kernels", "case": "base_257", "status": "failed", "worst": {"array": "dq"}}], "skips": ["no sm_90"]}, "checks")
    expect(set(report["ceilings"]) == {"copy_bytes_per_s", "bf16_product"} and report["versions"]["torch"] == "2.11", "ceilings")
    goals = {g["what"]: g for g in report["goals"]}
    expect(goals["cost of the table, forward, d_h 64"]["verdict"] == "met" and goals["cost of the table gradient, d_h 64"]["verdict"] == "missed", "costs")
    expect(goals["forward, no bias, d_h 64"]["verdict"] == "missed", "300 of 380 TFLOP/s")
    expect("| G2 | forward | 16384 |" in text and "met" in text and "H200" in text and "absent" in text, text)
    json.loads(json.dumps(report))


def report():
    return run_all([bars_are_judged_at_their_size_only, exit_codes_follow_steps_and_bars, the_report_holds_what_the_steps_left])
