# SPDX-License-Identifier: Apache-2.0
"""The cases G1 to G8: our kernels and each peer on the same tensors, rounds interleaved. Every function gives rows for gpu_bars.judge;
a peer that refuses gives a row with its reason. Peers get contiguous copies in their own layout and, where a bias is needed, a bias
that is already built: what is timed is the attention call alone.
"""
import json
import os
import subprocess

import gpu_module

SIZE = {"n": 16384, "heads": 8, "head_size": 64, "dtype": "bf16"}
WARMUPS, ROUNDS, MOST_SECONDS = 3, 10, 2.0


# ---- measuring ---------------------------------------------------------------------------------------------------------
def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def interleaved(works, timer, warmups=WARMUPS, rounds=ROUNDS, most_seconds=MOST_SECONDS):
    """Milliseconds of each work: `rounds` rounds of one call each, in turn; fewer when the time is used up, never below 3."""
    for _ in range(warmups):
        for work in works:
            timer(work)
    times = [[] for _ in works]
    for done in range(rounds):
        if done >= 3 and sum(map(sum, times)) > most_seconds * 1e3:
            break
        for mine, work in zip(times, works):
            mine.append(timer(work))
    return times


def timed(times, flops=None):
    middle = median(times)
    row = {"median_ms": middle, "min_ms": min(times), "max_ms": max(times), "rounds": len(times)}
    if flops:
        row["tflops"] = flops / middle * 1e-9
    return row


def require(condition, reason):
    if not condition:
        raise NotRun(reason)


class NotRun(Exception):
    """A row that is owed but cannot be measured, with its reason."""


def check_g2(n, mask_dtype):
    """cuDNN with a mask is wrong elsewhere: pytorch#196678."""
    require(n % 128 != 64, f"N mod 128 is 64 ({n}): cuDNN masks are wrong there (pytorch#196678)")
    require(mask_dtype == "bfloat16", f"mask is {mask_dtype}, expected bfloat16 (pytorch#196678)")


def check_g3(n):
    """The memory-efficient kernel addresses with 32 bits: pytorch#187227."""
    require(n <= 46000, f"N is {n}, above 46,000: 32-bit offsets (pytorch#187227)")
    require(n % 8 == 0, f"N mod 8 is {n % 8}: the mask must be aligned")


class Gpu:
    """Torch, our module and the tensors of the worker."""

    def __init__(self, torch, module_path, program, work):
        self.torch, self.program, self.work = torch, program, work
        self.module = gpu_module.Module(module_path)
        self.cases = {}
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timer(self, work):
        self.begin.record()
        work()
        self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end)

    def case(self, tokens, heads, dim, hops=2):
        key = (tokens, heads, dim, hops)
        if key not in self.cases:
            path = os.path.join(self.work, f"case_{tokens}_{heads}_{dim}_{hops}.bin")
            subprocess.run([self.program, "export", "--out", path, "--tokens", str(tokens), "--heads", str(heads), "--dim", str(dim),
                            "--hops", str(hops)], check=True, stdout=subprocess.DEVNULL)
            self.cases = {key: gpu_module.Case(self.torch, path, "cuda")}
            os.remove(path)
        return self.cases[key]

    def tensors(self, n, heads, dim):
        generator = self.torch.Generator(device="cuda").manual_seed(20)
        draw = lambda scale: ((self.torch.rand(n, heads, dim, generator=generator, device="cuda") * 2 - 1) * scale).bfloat16()
        return draw(2), draw(2), draw(1), draw(1)

    def extra_bytes(self, work):
        """Peak of the allocator above what is held before."""
        cuda = self.torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        work()
        cuda.synchronize()
        return cuda.max_memory_allocated() - before


def to_peer(x):
    """[N, H, dh] -> contiguous [1, H, N, dh]."""
    return x.transpose(0, 1).unsqueeze(0).contiguous()


def error_of(torch, got, q, k, v, table=None, classes=None, rows=64):
    """Relative L2 error of rows of `got` [N, H, dh] against fp64. table [H, B] as kernels see it, classes [N, N] uint8."""
    n, heads, dim = q.shape
    at = torch.linspace(0, n - 1, min(rows, n), device=q.device).long()
    difference = norm = 0.0
    for h in range(heads):
        scores = q[at, h].double() @ k[:, h].double().T * dim ** -0.5
        if table is not None:
            scores += table[h].double()[classes[at].long()]
        expected = torch.softmax(scores, -1) @ v[:, h].double()
        difference += float(((got[at, h].double() - expected) ** 2).sum())
        norm += float((expected ** 2).sum())
    return (difference / norm) ** 0.5


def dense_flops(n, heads, dim, factor):
    return factor * float(n) * n * dim * heads


def row(bar_id, what, ours, peer, **size):
    return {"id": bar_id, "what": what, **size, "ours": ours, "peer": peer}


# ---- peers -------------------------------------------------------------------------------------------------------------
def sdpa(torch, backend):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    chosen = getattr(SDPBackend, backend)

    def run(q, k, v, mask=None):
        with sdpa_kernel([chosen]):  # any other back end is an error, so the named one is the one that ran
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return run


def attempts(rows, bar_id, what, size, work):
    """Adds what `work` returns, or a row that says why there is none."""
    try:
        rows.append(work())
    except NotRun as reason:
        rows.append({"id": bar_id, "what": what, **size, "reason": str(reason)})
    except Exception as error:  # a library that refuses is a result too
        text = " ".join(str(error).split())[:300]
        rows.append({"id": bar_id, "what": what, **size, "reason": f"{type(error).__name__}: {text}"})


def g8(gpu):
    torch = gpu.torch
    side = 8192
    a, b = (torch.randn(side, side, device="cuda").bfloat16() for _ in range(2))
    product = timed(interleaved([lambda: a @ b], gpu.timer)[0], 2.0 * side ** 3)
    half = torch.empty(8 << 30, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(half)
    copy = timed(interleaved([lambda: other.copy_(half)], gpu.timer)[0])
    copy["bytes_per_s"] = 2 * half.numel() / copy["median_ms"] * 1e3
    return [{"ceilings": {"bf16_product": product, "copy": copy}}]


def g1(gpu, dim=64):
    torch, size = gpu.torch, {**SIZE, "head_size": dim}
    n, heads = size["n"], size["heads"]
    q, k, v, dO = gpu.tensors(n, heads, dim)
    ours = gpu_module.Attention(torch, gpu.module, q, k, v, dO)
    P = [to_peer(x).requires_grad_() for x in (q, k, v)]
    dP = to_peer(dO)
    rows = []
    for backend, judged in (("CUDNN_ATTENTION", True), ("FLASH_ATTENTION", False)):
        run = sdpa(torch, backend)

        def forward():
            with torch.no_grad():
                ours_ms, peer_ms = interleaved([ours.forward, lambda: run(*P)], gpu.timer)
                peer = {"name": "SDPA", "backend": backend, **timed(peer_ms, dense_flops(n, heads, dim, 4)),
                        "error": error_of(torch, run(*P)[0].transpose(0, 1), q, k, v)}
            mine = {**timed(ours_ms, dense_flops(n, heads, dim, 4)), "error": error_of(torch, ours.o, q, k, v)}
            return {**row("G1", "forward", mine, peer, **size), "reference_row": not judged}

        def backward():
            out = run(*P)
            grad = lambda: torch.autograd.grad(out, P, dP, retain_graph=True)
            ours_ms, peer_ms = interleaved([lambda: ours.backward(False), grad], gpu.timer)
            flops = dense_flops(n, heads, dim, 10)
            return {**row("G1", "backward", timed(ours_ms, flops), {"name": "SDPA", "backend": backend, **timed(peer_ms, flops)}, **size),
                    "reference_row": not judged}

        attempts(rows, "G1", "forward", size, forward)
        attempts(rows, "G1", "backward", size, backward)
    return rows


def g2(gpu):
    torch, size = gpu.torch, SIZE
    n, heads, dim = size["n"], size["heads"], size["head_size"]
    rows = []

    def forward():
        case = gpu.case(n, heads, dim)
        q, k, v, dO = gpu.tensors(n, heads, dim)
        ours = gpu_module.Attention(torch, gpu.module, q, k, v, dO, case)
        classes = case.class_matrix()
        table = case.shifted()
        mask = torch.empty(1, heads, n, n, dtype=torch.bfloat16, device="cuda")
        for h in range(heads):
            for begin in range(0, n, 2048):
                mask[0, h, begin:begin + 2048] = table[h][classes[begin:begin + 2048].long()]
        check_g2(n, str(mask.dtype).split(".")[-1])
        run, P = sdpa(torch, "CUDNN_ATTENTION"), [to_peer(x) for x in (q, k, v)]
        with torch.no_grad():
            ours_ms, peer_ms = interleaved([ours.forward, lambda: run(*P, mask)], gpu.timer)
            peer_error = error_of(torch, run(*P, mask)[0].transpose(0, 1), q, k, v, table, classes)
        flops = dense_flops(n, heads, dim, 4)
        return row("G2", "forward", {**timed(ours_ms, flops), "error": error_of(torch, ours.o, q, k, v, table, classes),
                                     "extra_bytes": ours.space.numel()},
                   {"name": "SDPA", "backend": "CUDNN_ATTENTION, bf16 mask", **timed(peer_ms, flops), "error": peer_error,
                    "extra_bytes": mask.numel() * 2}, **size)

    attempts(rows, "G2", "forward", size, forward)
    return rows


def learned_bias(gpu, bar_id, what, backend, forward_too):
    """SDPA whose mask [1, H, N, N] needs a gradient. To its favour the mask is built already and its gradient is not folded to the
    table's."""
    torch, size = gpu.torch, SIZE
    n, heads, dim = size["n"], size["heads"], size["head_size"]
    check_g3(n)
    case = gpu.case(n, heads, dim)
    q, k, v, dO = gpu.tensors(n, heads, dim)
    ours = gpu_module.Attention(torch, gpu.module, q, k, v, dO, case)
    mask = torch.zeros(1, heads, n, n, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    run, P, dP = sdpa(torch, backend), [to_peer(x).requires_grad_() for x in (q, k, v)], to_peer(dO)

    def ours_both():
        if forward_too:
            ours.forward()
        ours.backward(True)

    if forward_too:
        peer_both = lambda: torch.autograd.grad(run(*P, mask), [*P, mask], dP)
    else:
        ours.forward()
        out = run(*P, mask)
        peer_both = lambda: torch.autograd.grad(out, [*P, mask], dP, retain_graph=True)
    extra = gpu.extra_bytes(peer_both)
    ours_ms, peer_ms = interleaved([ours_both, peer_both], gpu.timer)
    flops = dense_flops(n, heads, dim, 14 if forward_too else 10)
    return row(bar_id, what, {**timed(ours_ms, flops), "extra_bytes": ours.space.numel()},
               {"name": "SDPA", "backend": f"{backend}, mask with gradient", **timed(peer_ms, flops), "extra_bytes": extra}, **size)


def g3(gpu):
    rows = []
    attempts(rows, "G3", "forward + backward", SIZE,
             lambda: learned_bias(gpu, "G3", "forward + backward", "EFFICIENT_ATTENTION", True))
    return rows


def g6(gpu):
    rows = []
    attempts(rows, "G6", "backward", SIZE, lambda: learned_bias(gpu, "G6", "backward", "CUDNN_ATTENTION", False))
    return rows


def table_score(table, classes):
    """score_mod of FlexAttention: the learned table at the class of the pair."""
    def score(value, b, h, i, j):
        return value + table[h, classes[i, j].int()]
    return score


def flex(gpu, bar_id, options=None, backward=True):
    torch, size, rows = gpu.torch, SIZE, []
    n, heads, dim = size["n"], size["heads"], size["head_size"]
    state = {}

    def prepare():
        if state:
            return
        from torch.nn.attention.flex_attention import flex_attention
        case = gpu.case(n, heads, dim)
        q, k, v, dO = gpu.tensors(n, heads, dim)
        state.update(case=case, q=q, k=k, v=v, classes=case.class_matrix(), table=case.shifted(),
                     ours=gpu_module.Attention(torch, gpu.module, q, k, v, dO, case), dP=to_peer(dO),
                     P=[to_peer(x) for x in (q, k, v)], call=torch.compile(flex_attention, dynamic=False))

    def forward():
        prepare()
        score = table_score(state["table"], state["classes"])
        peer = lambda: state["call"](*state["P"], score_mod=score, kernel_options=options)
        with torch.no_grad():
            ours_ms, peer_ms = interleaved([state["ours"].forward, peer], gpu.timer)
            tensors = [state[x] for x in ("q", "k", "v", "table", "classes")]
            errors = [error_of(torch, x, *tensors) for x in (state["ours"].o, peer()[0].transpose(0, 1))]
        flops = dense_flops(n, heads, dim, 4)
        return row(bar_id, "forward", {**timed(ours_ms, flops), "error": errors[0]},
                   {"name": "FlexAttention compiled", "backend": json.dumps(options or "triton"), **timed(peer_ms, flops),
                    "error": errors[1]}, **size)

    def learned():
        prepare()
        table = state["table"].clone().requires_grad_()
        P = [x.detach().clone().requires_grad_() for x in state["P"]]
        out = state["call"](*P, score_mod=table_score(table, state["classes"]), kernel_options=options)
        peer = lambda: torch.autograd.grad(out, [*P, table], state["dP"], retain_graph=True)
        state["ours"].forward()
        ours_ms, peer_ms = interleaved([lambda: state["ours"].backward(True), peer], gpu.timer)
        flops = dense_flops(n, heads, dim, 10)
        gradient = peer()[3]
        mine = state["ours"].db
        difference = float((gradient.float() - mine).norm() / gradient.float().norm())
        return row(bar_id, "backward", {**timed(ours_ms, flops), "table_gradient_difference": difference},
                   {"name": "FlexAttention compiled", "backend": json.dumps(options or "triton"), **timed(peer_ms, flops)}, **size)

    attempts(rows, bar_id, "forward", size, forward)
    if backward:
        attempts(rows, bar_id, "backward", size, learned)
    return rows


def csr_attention(torch, q, k, v, indptr, indices, row_of):
    """Sampled product, softmax over the rows of a CSR matrix, product; per head, fp32 (sampled_addmm takes no bf16)."""
    n, heads, dim = q.shape
    out = torch.empty_like(q)
    zeros = torch.zeros(indices.numel(), device=q.device)
    pattern = torch.sparse_csr_tensor(indptr, indices, zeros, (n, k.shape[0]))
    for h in range(heads):
        scores = torch.sparse.sampled_addmm(pattern, q[:, h].contiguous(), k[:, h].contiguous().T, beta=0.0, alpha=dim ** -0.5).values()
        high = torch.full((n,), -float("inf"), device=q.device).scatter_reduce(0, row_of, scores, "amax")
        weights = torch.exp(scores - high[row_of])
        sums = torch.zeros(n, device=q.device).scatter_add(0, row_of, weights)
        weights = weights / sums[row_of]
        out[:, h] = torch.sparse_csr_tensor(indptr, indices, weights, (n, k.shape[0])) @ v[:, h].contiguous()
    return out


def g7(gpu):
    torch, rows = gpu.torch, []
    size = {"n": 65536, "heads": 8, "head_size": 64, "dtype": "bf16"}
    n, heads, dim = size["n"], size["heads"], size["head_size"]
    state = {}

    def prepare():
        require(gpu.module.has("edgeAttentionForward"), "the module has no edge attention")
        if state:
            return
        case = gpu.case(n, heads, dim, hops=0)
        q, k, v, dO = gpu.tensors(n, heads, dim)
        indptr = case.arrays["indptr"]
        row_of = torch.repeat_interleave(torch.arange(n, device="cuda"), indptr[1:] - indptr[:-1])
        state.update(case=case, q=q, k=k, v=v, dO=dO, row_of=row_of, edges=int(case.arrays["indices"].numel()),
                     ours=gpu_module.EdgeAttention(torch, gpu.module, q, k, v, dO, case))

    def pyg():
        prepare()
        try:
            from torch_geometric.nn import TransformerConv
        except ImportError as error:
            raise NotRun(f"torch_geometric is not installed ({error})") from error
        conv = TransformerConv(dim, dim, heads=heads).cuda()
        P = [state[x].detach().clone().requires_grad_() for x in ("q", "k", "v")]
        edges = torch.stack([state["case"].arrays["indices"].long(), state["row_of"]])  # from, to
        run = lambda: conv.propagate(edges, query=P[0], key=P[1], value=P[2], edge_attr=None, size=None)  # without its projections
        peer = lambda: torch.autograd.grad(run(), P, state["dO"])

        def ours():
            state["ours"].forward()
            state["ours"].backward()

        ours_ms, peer_ms = interleaved([ours, peer], gpu.timer)
        flops = 14.0 * state["edges"] * heads * dim
        same = run().detach().float().view(n, heads, dim)
        difference = float((same - state["ours"].o.float()).norm() / same.norm())
        return row("G7", "edges forward + backward", {**timed(ours_ms, flops), "difference_of_outputs": difference},
                   {"name": "PyG TransformerConv", "backend": "propagate, bf16", **timed(peer_ms, flops)}, edges=state["edges"], **size)

    def cusparse():
        prepare()
        P = [state[x].float() for x in ("q", "k", "v")]
        indptr, indices = state["case"].arrays["indptr"], state["case"].arrays["indices"].long()
        with torch.no_grad():
            peer = lambda: csr_attention(torch, *P, indptr, indices, state["row_of"])
            ours_ms, peer_ms = interleaved([state["ours"].forward, peer], gpu.timer)
            got, mine = peer(), state["ours"].o.float()
        flops = 4.0 * state["edges"] * heads * dim
        return row("G7", "edges forward", {**timed(ours_ms, flops), "edge_heads_per_s": state["edges"] * heads / median(ours_ms) * 1e3,
                                           "difference_of_outputs": float((got - mine).norm() / got.norm())},
                   {"name": "cuSPARSE SDDMM, softmax, SpMM", "backend": "torch.sparse, fp32", **timed(peer_ms, flops)},
                   edges=state["edges"], **size)

    attempts(rows, "G7", "edges forward + backward", size, pyg)
    attempts(rows, "G7", "edges forward", size, cusparse)
    return rows


RUN = {"G8": g8, "G4": lambda gpu: flex(gpu, "G4"), "G2": g2, "G1": g1, "G3": g3, "G7": g7, "G6": g6,
       "G1@128": lambda gpu: g1(gpu, 128), "G5": lambda gpu: flex(gpu, "G5", {"BACKEND": "FLASH"}, backward=False)}
