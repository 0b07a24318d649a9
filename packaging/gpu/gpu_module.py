# SPDX-License-Identifier: Apache-2.0
"""libmegagraph_cuda.so through ctypes: the structs of kernels/cuda/api.h, and its calls on Torch tensors.

`layout_faults` holds every struct against what the compiler says (megagraph-gpu-test layout), so a change of api.h that is not
followed here is found by the dry run, not by a crash on a GPU.
"""
import ctypes
from ctypes import POINTER, Structure, byref, c_char, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p

VERSION = 2
BF16 = 1
LISTS = 2


def struct(name, *fields):
    return type(name, (Structure,), {"_fields_": list(fields)})


def same(kind, *names):
    return [(name, kind) for name in names]


MegagraphCudaError = struct("MegagraphCudaError", ("code", c_int32), ("text", c_char * 252))
MegagraphCudaView = struct("MegagraphCudaView", ("data", c_void_p), ("rows", c_int64), *same(c_int32, "heads", "dim"),
                           *same(c_int64, "rowStride", "headStride"), *same(c_int32, "type", "reserved"))
MegagraphCudaShape = struct("MegagraphCudaShape", *same(c_int64, "queries", "keys", "queryOffset", "keyOffset"),
                            *same(c_int32, "heads", "dim", "headOffset", "reserved"), ("scale", c_double))
MegagraphCudaPlanesView = struct("MegagraphCudaPlanesView",
                                 *same(c_void_p, "words", "kinds", "tileFirst", "keyBlockBegin", "keyBlockEnd"),
                                 *same(c_int64, "keyBlocks", "kindStride"), *same(c_int32, "planes", "reserved"))
MegagraphCudaListsView = struct("MegagraphCudaListsView",
                                *same(c_void_p, "map", "rank", "tileStart", "offsets", "blockStart", "entries"),
                                *same(c_int64, "queryBlocks", "keyBlocks", "mapStride", "rankStride"))
MegagraphCudaEdgeTile = struct("MegagraphCudaEdgeTile", *same(c_uint32, "keyBlock", "count"), ("first", c_int64))
MegagraphCudaEdgeValues = struct("MegagraphCudaEdgeValues", *same(c_void_p, "blockStart", "tiles", "positions"),
                                 *same(c_int64, "queryBlocks", "keyBlocks", "edges"), *same(c_void_p, "values", "gradient"))
MegagraphCudaBias = struct("MegagraphCudaBias", *same(c_int32, "hops", "classes"), ("table", c_void_p),
                           *same(c_void_p, "queryComponent", "keyComponent", "querySegment", "keySegment"),
                           *same(c_int32, "policy", "reserved"), ("planes", MegagraphCudaPlanesView),
                           ("lists", MegagraphCudaListsView), ("edges", MegagraphCudaEdgeValues))
MegagraphCudaDropout = struct("MegagraphCudaDropout", ("p", c_double), *same(c_uint64, "seed", "step"),
                              *same(c_uint32, "item", "layer", "site", "reserved"))
MegagraphCudaState = struct("MegagraphCudaState", *same(c_void_p, "m", "l", "acc"))
MegagraphCudaEdgeGraph = struct("MegagraphCudaEdgeGraph", *same(c_int64, "rows", "keys", "entries"),
                                *same(c_void_p, "indptr", "indices", "transposedIndptr", "transposedRows", "transposedEntries"),
                                *same(c_int32, "selfKey", "selfClass", "classes", "headOffset"),
                                *same(c_int64, "selfOffset", "queryOffset", "keyOffset"),
                                *same(c_void_p, "keyNumbers", "entryClass", "table", "entryBias", "u"),
                                *same(c_int32, "gt", "reserved"))
MegagraphCudaEdgeBiasGradient = struct("MegagraphCudaEdgeBiasGradient", *same(c_void_p, "table", "entryBias", "ds", "u"))
MegagraphCudaTable = struct(
    "MegagraphCudaTable", *same(c_int32, "version", "size"),
    *same(c_void_p, "packedBytes", "packHeads", "attentionForwardWorkspace", "attentionBackwardWorkspace", "attentionForward",
          "attentionPartial", "attentionCombine", "attentionFinish", "attentionDelta", "attentionBackward", "closeFarBin",
          "edgeAttentionForwardWorkspace", "edgeAttentionBackwardWorkspace", "edgeAttentionForward", "edgeAttentionPartial",
          "edgeAttentionFinish", "edgeAttentionBackward", "forceDensePath"))
STRUCTS = [MegagraphCudaError, MegagraphCudaView, MegagraphCudaShape, MegagraphCudaPlanesView, MegagraphCudaListsView,
           MegagraphCudaEdgeTile, MegagraphCudaEdgeValues, MegagraphCudaBias, MegagraphCudaDropout, MegagraphCudaState,
           MegagraphCudaEdgeGraph, MegagraphCudaEdgeBiasGradient, MegagraphCudaTable]


def layout_faults(layout):
    """Lines that say where our structs differ from the compiler's; empty if nowhere."""
    faults = [] if layout.get("version") == VERSION else [f"version: got {layout.get('version')}, expected {VERSION}"]
    known = {s.__name__: s for s in STRUCTS}
    theirs = layout.get("structs", {})
    for name in sorted(set(known) | set(theirs)):
        if name not in known or name not in theirs:
            faults.append(f"{name}: known only to {'the module' if name in theirs else 'gpu_module.py'}")
            continue
        ours = {field[0]: getattr(known[name], field[0]).offset for field in known[name]._fields_}
        if ctypes.sizeof(known[name]) != theirs[name]["size"]:
            faults.append(f"{name}: size, got {ctypes.sizeof(known[name])}, expected {theirs[name]['size']}")
        if ours != theirs[name]["fields"]:
            wrong = [f for f in set(ours) | set(theirs[name]["fields"]) if ours.get(f) != theirs[name]["fields"].get(f)]
            faults.append(f"{name}: fields differ: {', '.join(sorted(wrong))}")
    return faults


class Module:
    """The table's functions. Every call that can fail raises RuntimeError with the module's text."""

    SIZES = {"attentionForwardWorkspace": [c_void_p], "attentionBackwardWorkspace": [c_void_p, c_int32],
             "edgeAttentionForwardWorkspace": [c_void_p, c_int32, c_int32],
             "edgeAttentionBackwardWorkspace": [c_void_p, c_int32, c_int32]}

    def __init__(self, path):
        library = ctypes.CDLL(path)
        library.megagraphCudaTable.restype = POINTER(MegagraphCudaTable)
        library.megagraphCudaTable.argtypes = [c_int32]
        table = library.megagraphCudaTable(VERSION)
        if not table or table.contents.size != ctypes.sizeof(MegagraphCudaTable):
            raise RuntimeError(f"{path}: has no table of version {VERSION} and {ctypes.sizeof(MegagraphCudaTable)} bytes")
        self.table = table.contents

    def has(self, name):
        return bool(getattr(self.table, name))

    def bytes(self, name, *arguments):
        function = ctypes.CFUNCTYPE(c_int64, *self.SIZES[name])(getattr(self.table, name))
        return function(*[ctypes.addressof(a) if isinstance(a, Structure) else a for a in arguments])

    def call(self, name, *arguments):
        """Structures go by address, tensors by data pointer, ints as int64 or int32 by their ctypes wrapper, None as null."""
        kinds, values = [], []
        for a in arguments:
            if isinstance(a, Structure):
                kinds.append(c_void_p)
                values.append(ctypes.addressof(a))
            elif hasattr(a, "data_ptr"):
                kinds.append(c_void_p)
                values.append(a.data_ptr())
            elif a is None:
                kinds.append(c_void_p)
                values.append(None)
            elif isinstance(a, (c_int32, c_int64, c_double, c_void_p)):
                kinds.append(type(a))
                values.append(a)
            else:
                raise TypeError(f"{name}: argument {a!r} needs a ctypes type")
        error = MegagraphCudaError()
        function = ctypes.CFUNCTYPE(c_int32, *kinds, c_void_p)(getattr(self.table, name))
        if function(*values, ctypes.addressof(error)) != 0:
            raise RuntimeError(f"module: {error.text.decode(errors='replace')}")


def view(tensor):
    """[rows, heads, dim] bf16, dim contiguous."""
    rows, heads, dim = tensor.shape
    assert tensor.stride(2) == 1 and tensor.element_size() == 2
    return MegagraphCudaView(tensor.data_ptr(), rows, heads, dim, tensor.stride(0), tensor.stride(1), BF16, 0)


class Attention:
    """Our dense attention on Torch tensors of one device; one workspace, the current stream. q, k, v, dO [N, H, dh] bf16."""

    def __init__(self, torch, module, q, k, v, dO, case=None):
        self.torch, self.module = torch, module
        self.q, self.k, self.v, self.dO = q, k, v, dO
        n, heads, dim = q.shape
        self.shape = MegagraphCudaShape(n, k.shape[0], 0, 0, heads, dim, 0, 0, dim ** -0.5)
        self.dropout = MegagraphCudaDropout()
        self.o = torch.empty_like(q)
        new = lambda *size: torch.zeros(*size, dtype=torch.float32, device=q.device)
        self.lse, self.delta = new(heads, n), new(heads, n)
        self.dq, self.dk, self.dv = new(n, heads, dim), new(*k.shape), new(*k.shape)
        self.case = case
        self.bias = case.bias() if case else MegagraphCudaBias()
        classes = self.bias.classes
        self.partials = torch.zeros(heads, max(classes, 1), dtype=torch.float64, device=q.device)
        self.db = new(heads, max(classes, 1))
        room = max(module.bytes("attentionForwardWorkspace", self.shape),
                   module.bytes("attentionBackwardWorkspace", self.shape, classes))
        self.space = torch.empty(room + 256, dtype=torch.uint8, device=q.device)

    def _stream(self):
        return c_void_p(self.torch.cuda.current_stream().cuda_stream)

    def _space(self):
        address = (self.space.data_ptr() + 255) // 256 * 256
        return c_void_p(address), c_int64(self.space.data_ptr() + self.space.numel() - address)

    def forward(self):
        self.module.call("attentionForward", self.shape, view(self.q), view(self.k), view(self.v), self.bias, self.dropout,
                         view(self.o), self.lse, *self._space(), self._stream())
        return self.o

    def backward(self, learned):
        for gradient in (self.dq, self.dk, self.dv):
            gradient.zero_()
        self.module.call("attentionDelta", view(self.o), view(self.dO), self.delta, self._stream())
        if learned:
            self.partials.zero_()
        self.module.call("attentionBackward", self.shape, view(self.q), view(self.k), view(self.v), view(self.dO), self.lse,
                         self.delta, self.bias, self.dropout, self.dq, self.dk, self.dv, self.partials if learned else None,
                         *self._space(), self._stream())
        if learned:
            self.module.call("closeFarBin", c_int32(self.shape.heads), c_int32(self.bias.hops), self.partials, self.db,
                             self._stream())


class EdgeAttention:
    """Our sparse attention on the graph of a case."""

    def __init__(self, torch, module, q, k, v, dO, case):
        self.torch, self.module, self.case = torch, module, case
        self.q, self.k, self.v, self.dO = q, k, v, dO
        n, heads, dim = q.shape
        a = case.arrays
        self.graph = MegagraphCudaEdgeGraph()
        self.graph.rows = self.graph.keys = n
        self.graph.entries, self.graph.selfClass = a["indices"].numel(), -1
        for field, name in (("indptr", "indptr"), ("indices", "indices"), ("transposedIndptr", "transposed_indptr"),
                            ("transposedRows", "transposed_rows"), ("transposedEntries", "transposed_entries")):
            setattr(self.graph, field, a[name].data_ptr())
        self.dropout, self.none = MegagraphCudaDropout(), MegagraphCudaEdgeBiasGradient()
        self.o = torch.empty_like(q)
        new = lambda *size: torch.zeros(*size, dtype=torch.float32, device=q.device)
        self.lse, self.delta = new(heads, n), new(heads, n)
        self.dq, self.dk, self.dv = new(n, heads, dim), new(n, heads, dim), new(n, heads, dim)
        room = max(module.bytes(name, self.graph, heads, dim)
                   for name in ("edgeAttentionForwardWorkspace", "edgeAttentionBackwardWorkspace"))
        self.space = torch.empty(room + 256, dtype=torch.uint8, device=q.device)
        self.scale = c_double(dim ** -0.5)

    _stream = Attention._stream
    _space = Attention._space

    def forward(self):
        self.module.call("edgeAttentionForward", self.graph, self.scale, view(self.q), view(self.k), view(self.v), self.dropout,
                         view(self.o), self.lse, None, *self._space(), self._stream())
        return self.o

    def backward(self):
        self.module.call("attentionDelta", view(self.o), view(self.dO), self.delta, self._stream())
        self.module.call("edgeAttentionBackward", self.graph, self.scale, view(self.q), view(self.k), view(self.v), view(self.dO),
                         self.lse, self.delta, self.dropout, self.dq, self.dk, self.dv, self.none, *self._space(), self._stream())


TYPES = {"float32": ("f", 4), "int32": ("i", 4), "int64": ("q", 8), "uint8": ("B", 1), "uint16": ("H", 2), "uint32": ("I", 4)}


def read_header(data):
    """JSON of a case file and its arrays as (type, count, offset); refuses sizes that do not fit."""
    import json
    import struct as binary
    (length,) = binary.unpack_from("<q", data, 0)
    if not 0 < length <= len(data) - 8:
        raise ValueError(f"case file: length of its header, got {length}, expected at most {len(data) - 8}")
    header = json.loads(bytes(data[8:8 + length]))
    if header.get("format") != "megagraph.gpu_case" or header.get("version") != 1:
        raise ValueError(f"case file: got format {header.get('format')!r} version {header.get('version')!r}")
    arrays = {}
    for a in header["arrays"]:
        size = TYPES[a["type"]][1]
        if a["count"] < 0 or a["offset"] % 64 or a["offset"] + a["count"] * size > len(data):
            raise ValueError(f"case file: array {a['name']} does not fit the file")
        arrays[a["name"]] = (a["type"], a["count"], a["offset"])
    return header, arrays


class Case:
    """Structure of a case file as tensors of a device."""

    def __init__(self, torch, path, device):
        with open(path, "rb") as file:
            data = bytearray(file.read())
        self.torch, self.device = torch, device
        self.header, where = read_header(data)
        self.arrays = {}
        for name, (kind, count, offset) in where.items():
            stored = {"uint16": torch.int16, "uint32": torch.int32}.get(kind, getattr(torch, kind, None))  # same bits
            self.arrays[name] = (torch.frombuffer(data, dtype=stored, count=count, offset=offset).to(device) if count
                                 else torch.empty(0, dtype=stored, device=device))
        self.tokens, self.hops, self.classes = (self.header[key] for key in ("tokens", "hops", "classes"))

    def shifted(self):
        table = self.arrays["table"].view(-1, self.classes)
        return (table - table[:, self.hops + 1:self.hops + 2]).contiguous()

    def bias(self):
        a, lists = self.arrays, self.header["lists"]
        self._shifted = self.shifted()
        bias = MegagraphCudaBias()
        bias.hops, bias.classes, bias.table = self.hops, self.classes, self._shifted.data_ptr()
        bias.queryComponent = bias.keyComponent = a["component"].data_ptr()
        bias.policy = LISTS
        bias.lists = MegagraphCudaListsView(*(a[name].data_ptr() for name in ("map", "rank", "tile_start", "offsets", "block_start",
                                                                              "entries")),
                                            *(lists[name] for name in ("query_blocks", "key_blocks", "map_stride", "rank_stride")))
        return bias

    def class_matrix(self):
        """[N, N] uint8: class of every pair; what the peers index."""
        torch, a = self.torch, self.arrays
        component = a["component"]
        far, apart = self.hops + 1, self.hops + 2
        matrix = torch.full((self.tokens, self.tokens), far, dtype=torch.uint8, device=self.device)
        for begin in range(0, self.tokens, 4096):
            rows = slice(begin, min(begin + 4096, self.tokens))
            matrix[rows][component[rows, None] != component[None, :]] = apart
        matrix[a["near_row"].long(), a["near_column"].long()] = a["near_class"]
        return matrix
