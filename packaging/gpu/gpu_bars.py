# SPDX-License-Identifier: Apache-2.0
"""What our kernels must reach beside other libraries (models design, section 7), and the verdict on one measured row.

A row is a dict of the kernel benchmark's form: id, what, n, heads, head_size, dtype, ours {median_ms, tflops, error, extra_bytes},
peer {name, backend, median_ms, error, extra_bytes}, ratio, bar, verdict, reason. ratio = peer's median over ours.
"""

# bars are judged at this size only; other sizes are reported
JUDGED = {"n": 16384, "heads": 8, "head_size": 64}

# (id, what, least ratio or None = reported only, text)
BARS = [
    ("G1", "forward", 0.80, ">= 80 % of SDPA cuDNN without bias"),
    ("G1", "backward", 0.80, ">= 80 % of SDPA cuDNN without bias"),
    ("G2", "forward", 1.00, ">= 1.0x SDPA cuDNN with the bf16 bias already built"),
    ("G3", "forward + backward", 2.00, ">= 2x SDPA memory-efficient with a learned bias"),
    ("G4", "forward", 1.15, ">= 1.15x compiled FlexAttention with a table"),
    ("G4", "backward", 1.50, ">= 1.5x compiled FlexAttention with the table's gradient"),
    ("G5", "forward", None, "reported"),
    ("G6", "backward", None, "reported, with the workspace of the bias gradient"),
    ("G7", "edges forward + backward", 3.00, ">= 3x PyG TransformerConv"),
    ("G7", "edges forward", 1.50, ">= 1.5x cuSPARSE sampled product, softmax, product"),
]

# absolute goals on an H200, TFLOP/s (models design, section 5.2): (what, head size) -> goal of the best path
H200_GOALS = {
    ("forward, no bias", 64): 380, ("backward, no bias", 64): 260,
    ("forward, no bias", 128): 560, ("backward, no bias", 128): 460,
    ("forward, table", 64): 310, ("forward, table", 128): 495,
}
H200_EDGE_HEADS_PER_S = 8e9


def bar_of(row):
    """(least ratio or None, text) of a row, or None if it has no bar."""
    for bar_id, what, least, text in BARS:
        if row.get("id") == bar_id and row.get("what") == what:
            return least, text
    return None


def judged_size(row):
    if row.get("id") == "G7":
        return row.get("heads") == JUDGED["heads"] and row.get("head_size") == JUDGED["head_size"]
    return all(row.get(key) == value for key, value in JUDGED.items())


def judge(row):
    """The row with ratio, bar and verdict: met, missed, reported, or not run with its reason."""
    row = dict(row)
    bar = bar_of(row)
    least, text = bar if bar else (None, "reported")
    row["bar"] = text
    if row.get("reason"):
        row["verdict"] = "not run"
        return row
    ours, peer = row.get("ours", {}).get("median_ms"), row.get("peer", {}).get("median_ms")
    if not ours or not peer:
        row["verdict"], row["reason"] = "not run", "no time of " + ("our kernel" if not ours else "the peer")
        return row
    row["ratio"] = peer / ours
    if row.get("reference_row"):  # a peer beside the one that the bar names
        row["verdict"] = "reported"
    elif least is None or not judged_size(row):
        row["verdict"] = "reported"
    else:
        row["verdict"] = "met" if row["ratio"] >= least else "missed"
    return row


def not_run(bar_id, what, reason, **size):
    return judge({"id": bar_id, "what": what, **size, "reason": reason})


def rows_of_case(bar_id):
    """The whats that a case owes a row for."""
    return [what for each, what, _, _ in BARS if each == bar_id]
