# SPDX-License-Identifier: Apache-2.0
"""Peers of the kernel benchmark that exist in Python only. Started by the worker of `megagraph bench kernels`:

    peers.py TORCH_ROOT THREADS

Reads one JSON object per line from standard input, answers each with one line on standard output:
    {"op": "hello"}                                    what is installed here, from package data
    {"op": "torch"}                                    version and commit of torch, which is imported
    {"op": "prepare", "peer", "tensors", "settings"}   tensors: name -> NPY file, settings: numbers of the case
    {"op": "round"}                                    one run of the prepared peer: {"ms": ...}
    {"op": "result", "path"}                           output of the last round as NPY (fp32 or int32)
    {"op": "bytes"}                                    growth of the resident peak over one round
An answer has "ok"; when that is false, "reason" says why. Ends at the end of its input.
"""
import importlib.metadata
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # whatever a library prints must not get between the answers

torch_root, threads = sys.argv[1], int(sys.argv[2])


def import_torch():
    """The torch of this Python; if it has none, the wheel that the worker links."""
    try:
        import torch
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        sys.path.append(torch_root)
        import torch
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    return torch


def version(package):
    """Without importing it, which takes seconds for some."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def hello(_):
    names = ("numpy", "scipy", "networkx", "torch_geometric")
    return {"python": sys.version.split()[0], **{name: version(name) for name in names}}


def torch_build(_):
    try:
        torch = import_torch()
    except Exception as error:
        raise RuntimeError(f"python cannot import torch: {type(error).__name__}: {error}")
    return {"torch": torch.__version__, "torch_commit": torch.version.git_version}


def load_tensors(paths):
    import numpy
    torch = import_torch()
    return {name: torch.from_numpy(numpy.load(path)) for name, path in paths.items()}


def per_head(stored):
    """[N, H, d] as stored -> [1, H, N, d], a view, as the peers in the worker get it."""
    return stored.transpose(0, 1).unsqueeze(0)


def prepare_compiled(tensors, settings):
    torch = import_torch()
    q, k, v = (per_head(tensors[name]) for name in "qkv")
    table, classes, scale = tensors["table"], tensors["classes"], settings["scale"]

    def attention(q, k, v, table, classes):
        scores = q @ k.transpose(-1, -2) * scale + table[:, classes]
        return torch.softmax(scores, -1) @ v

    compiled = torch.compile(attention, fullgraph=True)

    def run():
        with torch.no_grad():
            return compiled(q, k, v, table, classes)

    return run, lambda out: out[0].transpose(0, 1), "torch.compile, inductor"


def prepare_flex(tensors, settings):
    torch = import_torch()
    from torch.nn.attention.flex_attention import flex_attention
    q, k, v = (per_head(tensors[name]).contiguous() for name in "qkv")
    table, classes, scale = tensors["table"], tensors["classes"], settings["scale"]

    def score(value, batch, head, row, column):
        return value + table[head, classes[row, column]]

    compiled = torch.compile(flex_attention, fullgraph=True)

    def run():
        with torch.no_grad():
            return compiled(q, k, v, score_mod=score, scale=scale)

    return run, lambda out: out[0].transpose(0, 1), "torch.compile, inductor"


def prepare_pyg(tensors, settings):
    torch = import_torch()
    from torch_geometric.nn import TransformerConv
    width = settings["head_size"]
    conv = TransformerConv(width, width, heads=1, concat=False, root_weight=False)
    row, column = tensors["row"].long(), tensors["column"].long()
    edges = torch.stack([column, row])  # messages flow from keys to queries
    q, k, v = (tensors[name].clone().requires_grad_(True) for name in "qkv")
    gradient = tensors["dO"]

    def run():  # the layer's message passing without its linear maps
        for leaf in (q, k, v):
            leaf.grad = None
        per_head = [leaf.view(-1, 1, width) for leaf in (q, k, v)]
        out = conv.propagate(edges, query=per_head[0], key=per_head[1], value=per_head[2], edge_attr=None).squeeze(1)
        out.backward(gradient)
        return out.detach()

    import torch_geometric
    return run, lambda out: out, f"TransformerConv.propagate, PyG {torch_geometric.__version__}"


def sparse_graph(paths):
    import numpy
    from scipy.sparse import csr_matrix
    indptr, indices = numpy.load(paths["indptr"]), numpy.load(paths["indices"])
    nodes = len(indptr) - 1
    return csr_matrix((numpy.ones(len(indices), dtype=numpy.float64), indices, indptr), shape=(nodes, nodes))


def prepare_scipy(paths, _):
    import scipy
    from scipy.sparse.csgraph import shortest_path
    graph = sparse_graph(paths)
    return (lambda: shortest_path(graph, method="D", directed=True, unweighted=True)), None, f"shortest_path unweighted, SciPy {scipy.__version__}"


def prepare_networkx(paths, settings):
    import networkx
    graph = networkx.from_scipy_sparse_array(sparse_graph(paths))
    sources, hops = settings["sources"], settings["hops"]

    def run():
        return [networkx.single_source_shortest_path_length(graph, source, cutoff=hops) for source in range(sources)]

    return run, None, f"single_source_shortest_path_length, networkx {networkx.__version__}"


class Peer:
    run = view = last = None


def prepare(request):
    Peer.run = Peer.view = Peer.last = None
    name, paths = request["peer"], request["tensors"]
    if name in ("scipy", "networkx"):
        makers = {"scipy": prepare_scipy, "networkx": prepare_networkx}
        Peer.run, Peer.view, backend = makers[name](paths, request["settings"])
    else:
        makers = {"compiled": prepare_compiled, "flex": prepare_flex, "pyg": prepare_pyg}
        Peer.run, Peer.view, backend = makers[name](load_tensors(paths), request["settings"])
    if name in ("compiled", "flex"):
        Peer.last = Peer.run()  # compiles now, not in a round
    return {"backend": backend}


def one_round(_):
    start = time.perf_counter()
    Peer.last = Peer.run()
    return {"ms": 1e3 * (time.perf_counter() - start)}


def write_result(request):
    import numpy
    if Peer.view is None:
        raise RuntimeError("this peer has no result to compare")
    numpy.save(request["path"], numpy.ascontiguousarray(Peer.view(Peer.last).contiguous().numpy()))
    return {}


def resident(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    return 0


def extra_bytes(_):
    Peer.last = None
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # the peak starts anew
    before = resident("VmRSS")
    Peer.last = Peer.run()
    return {"extra_bytes": max(0, resident("VmHWM") - before)}


handlers = {"hello": hello, "torch": torch_build, "prepare": prepare, "round": one_round, "result": write_result, "bytes": extra_bytes}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"ok": True, **handlers[request["op"]](request)}
    except Exception as error:
        text = str(error).strip().splitlines()
        name = "" if type(error) is RuntimeError else f"{type(error).__name__}: "
        answer = {"ok": False, "reason": f"{name}{text[0] if text else 'no text'}"[:400]}
    answers.write(json.dumps(answer) + "\n")
