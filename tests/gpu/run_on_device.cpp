// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/run_on_device.h"

#include "tests/gpu/run_on_cpu.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace megagraph::kernels::goldens {
namespace {

Result<Ok> said(int32_t code, const MegagraphCudaError& error)
{
    if (code != MegagraphCudaOk)
        return moduleError(error);
    return Ok{};
}

Error noRoom(const char* what, int64_t bytes)
{
    return {ErrorCode::OutOfMemory, std::string("device: ") + what + ": got no memory, expected " + std::to_string(bytes) +
                                        " bytes; free the GPU of other programs."};
}

/// Tensors of a case on the device.
struct Tensors {
    DeviceArray<Bfloat16> q, k, v, dO, o;
    DeviceArray<float> lse, delta, dq, dk, dv;

    Tensors(DeviceMemory& memory, const Inputs& in)
        : q(memory, toBf16(in.q)), k(memory, toBf16(in.k)), v(memory, toBf16(in.v)), dO(memory, toBf16(in.dO)),
          o(memory, int64_t(in.q.size())), lse(memory, in.shape.queries * in.shape.heads),
          delta(memory, in.shape.queries * in.shape.heads), dq(memory, int64_t(in.q.size())), dk(memory, int64_t(in.k.size())),
          dv(memory, int64_t(in.v.size()))
    {
        dq.clear();
        dk.clear();
        dv.clear();
    }
    bool ok() const
    {
        return q.ok() && k.ok() && v.ok() && dO.ok() && o.ok() && lse.ok() && delta.ok() && dq.ok() && dk.ok() && dv.ok();
    }
    std::vector<Array> arrays(const AttentionShape& s) const
    {
        const int64_t width = int64_t(s.heads) * s.dim;
        return {fromRows("o", s.queries, width, toFloats(o.values())), fromHeadRows("lse", s.queries, s.heads, lse.values()),
                fromRows("dq", s.queries, width, dq.values()), fromRows("dk", s.keys, width, dk.values()),
                fromRows("dv", s.keys, width, dv.values())};
    }
};

/// One key interval of a dense case, ready to be called.
struct Part {
    MegagraphCudaShape shape;
    MegagraphCudaView k, v;
    DeviceBias bias;
    float *dk, *dv;
    DeviceArray<unsigned char> workspace;

    Part(const MegagraphCudaTable& table, DeviceMemory& memory, const Inputs& in, const Tensors& t, Form form, Interval keys)
        : shape(shapeOf(in.shape)), bias(memory, in, form.storage, keys.begin, keys.end)
    {
        const int64_t skip = keys.begin * in.shape.heads * in.shape.dim;
        shape.keys = keys.size();
        shape.keyOffset += keys.begin;
        k = viewOf(t.k.data() + skip, keys.size(), shape.heads, shape.dim, MegagraphCudaBf16);
        v = viewOf(t.v.data() + skip, keys.size(), shape.heads, shape.dim, MegagraphCudaBf16);
        dk = t.dk.data() + skip;
        dv = t.dv.data() + skip;
        workspace = DeviceArray<unsigned char>(memory, std::max(table.attentionForwardWorkspace(&shape),
                                                                table.attentionBackwardWorkspace(&shape, in.classCount)));
    }
};

/// Uneven intervals, one of them of odd length, so later ones start off the grid of the first.
std::vector<Interval> intervals(int64_t keys, bool ring)
{
    if (!ring)
        return {{0, keys}};
    const int64_t first = std::min<int64_t>(keys, keys / 2 + 3), second = std::min<int64_t>(keys, first + keys / 8);
    return {{0, first}, {first, second}, {second, keys}};
}

/// m, l, acc of a state.
struct State {
    DeviceArray<float> m, l, acc;
    MegagraphCudaState view{};

    State(DeviceMemory& memory, const AttentionShape& s)
        : m(memory, s.queries * s.heads), l(memory, s.queries * s.heads), acc(memory, s.queries * s.heads * s.dim)
    {
        view = {m.data(), l.data(), acc.data()};
    }
    bool ok() const { return m.ok() && l.ok() && acc.ok(); }
};

class DenseRun {
  public:
    DenseRun(const MegagraphCudaTable& table, DeviceMemory& memory, const Inputs& in, Form form)
        : table_(table), memory_(memory), in_(in), form_(form), t_(memory, in), dropout_(dropoutOf(in.dropout))
    {
        for (const Interval keys : intervals(in.shape.keys, form.ring))
            parts_.push_back(std::make_unique<Part>(table, memory, in, t_, form, keys));
        const AttentionShape& s = in.shape;
        q_ = viewOf(t_.q.data(), s.queries, s.heads, s.dim, MegagraphCudaBf16);
        o_ = viewOf(t_.o.data(), s.queries, s.heads, s.dim, MegagraphCudaBf16);
        dO_ = viewOf(t_.dO.data(), s.queries, s.heads, s.dim, MegagraphCudaBf16);
    }

    Result<std::vector<Array>> arrays()
    {
        if (!t_.ok())
            return noRoom("tensors", int64_t(in_.q.size()) * 40);
        MEGAGRAPH_TRY(std::ignore, form_.ring ? forwardByParts() : forward(*parts_.front()));
        MEGAGRAPH_TRY(std::ignore, said(table_.attentionDelta(&o_, &dO_, t_.delta.data(), nullptr, &error_), error_));
        const int64_t bins = int64_t(in_.shape.heads) * in_.classCount;
        DeviceArray<double> partials(memory_, bins);
        DeviceArray<float> db(memory_, bins);
        partials.clear();
        for (const auto& part : parts_) {
            MEGAGRAPH_TRY(std::ignore, backward(*part, in_.table.empty() ? nullptr : partials.data()));
        }
        if (!in_.table.empty()) {
            MEGAGRAPH_TRY(std::ignore, said(table_.closeFarBin(in_.shape.heads, in_.hops, partials.data(), db.data(), nullptr,
                                                               &error_), error_));
        }
        if (const std::string failure = memory_.finish(); !failure.empty())
            return Error{ErrorCode::Internal, "device: " + failure};
        std::vector<Array> arrays = t_.arrays(in_.shape);
        if (!in_.table.empty())
            arrays.push_back(fromRows("table", in_.shape.heads, in_.classCount, db.values()));
        if (!in_.entryValues.empty()) {
            std::vector<float> dw(in_.entryValues.size(), 0.0f);
            for (const auto& part : parts_)
                part->bias.addEdgeGradient(in_.shape.heads, dw);
            arrays.push_back(fromRows("dw", int64_t(in_.graph.indices.size()), in_.shape.heads, dw));
        }
        return arrays;
    }

  private:
    Result<Ok> forward(const Part& p)
    {
        return said(table_.attentionForward(&p.shape, &q_, &p.k, &p.v, &p.bias.view(), &dropout_, &o_, t_.lse.data(),
                                            p.workspace.data(), p.workspace.size(), nullptr, &error_), error_);
    }
    Result<Ok> partial(const Part& p, bool first, const State& state)
    {
        return said(table_.attentionPartial(&p.shape, &q_, &p.k, &p.v, &p.bias.view(), &dropout_, first ? 1 : 0, &state.view,
                                            p.workspace.data(), p.workspace.size(), nullptr, &error_), error_);
    }
    /// Intervals 0 and 1 into one state, interval 2 into another, then the two are combined.
    Result<Ok> forwardByParts()
    {
        const AttentionShape& s = in_.shape;
        State a(memory_, s), b(memory_, s);
        if (!a.ok() || !b.ok())
            return noRoom("states", s.queries * s.heads * s.dim * 8);
        MEGAGRAPH_TRY(std::ignore, partial(*parts_[0], true, a));
        MEGAGRAPH_TRY(std::ignore, partial(*parts_[1], false, a));
        MEGAGRAPH_TRY(std::ignore, partial(*parts_[2], true, b));
        MEGAGRAPH_TRY(std::ignore,
                      said(table_.attentionCombine(s.queries, s.heads, s.dim, &a.view, &b.view, nullptr, &error_), error_));
        MEGAGRAPH_TRY(std::ignore, said(table_.attentionFinish(&a.view, &o_, t_.lse.data(), nullptr, &error_), error_));
        if (const std::string failure = memory_.finish(); !failure.empty()) // the states end here
            return Error{ErrorCode::Internal, "device: " + failure};
        return Ok{};
    }
    Result<Ok> backward(const Part& p, double* partials)
    {
        return said(table_.attentionBackward(&p.shape, &q_, &p.k, &p.v, &dO_, t_.lse.data(), t_.delta.data(), &p.bias.view(),
                                             &dropout_, t_.dq.data(), p.dk, p.dv, partials, p.workspace.data(),
                                             p.workspace.size(), nullptr, &error_), error_);
    }

    const MegagraphCudaTable& table_;
    DeviceMemory& memory_;
    const Inputs& in_;
    Form form_;
    Tensors t_;
    MegagraphCudaDropout dropout_;
    MegagraphCudaView q_{}, o_{}, dO_{};
    MegagraphCudaError error_{};
    std::vector<std::unique_ptr<Part>> parts_;
};

Result<std::vector<Array>> runEdges(const MegagraphCudaTable& table, DeviceMemory& memory, const Inputs& in)
{
    if (table.edgeAttentionForward == nullptr || table.edgeAttentionBackward == nullptr)
        return Error{ErrorCode::Unsupported, "module: edgeAttention: no such entry in this build"};
    const AttentionShape& s = in.shape;
    Tensors t(memory, in);
    const DeviceArray<int64_t> indptr(memory, in.graph.indptr), transposedIndptr(memory, in.transposed.indptr),
        transposedEntries(memory, in.transposed.entries);
    const DeviceArray<int32_t> indices(memory, in.graph.indices), transposedRows(memory, in.transposed.rows);
    if (!t.ok())
        return noRoom("tensors", int64_t(in.q.size()) * 40);
    const EdgeGraph host = in.edges();
    MegagraphCudaEdgeGraph graph{};
    graph.rows = host.rows;
    graph.keys = host.keys;
    graph.entries = int64_t(in.graph.indices.size());
    graph.indptr = indptr.data();
    graph.indices = indices.data();
    graph.transposedIndptr = transposedIndptr.data();
    graph.transposedRows = transposedRows.data();
    graph.transposedEntries = transposedEntries.data();
    graph.selfKey = host.selfKey ? 1 : 0;
    graph.selfClass = -1;
    graph.selfOffset = host.selfOffset;
    graph.queryOffset = host.queryOffset;
    graph.keyOffset = host.keyOffset;
    const DeviceArray<Bfloat16> u(memory, toBf16(in.u)), ds(memory, toBf16(in.ds)), products(memory, int64_t(in.u.size()));
    const DeviceArray<float> du(memory, int64_t(in.u.size()));
    graph.gt = in.u.empty() ? 0 : 1;
    graph.u = in.u.empty() ? nullptr : u.data();
    const auto view = [&](const DeviceArray<Bfloat16>& a, int64_t rows) {
        return viewOf(a.data(), rows, s.heads, s.dim, MegagraphCudaBf16);
    };
    const MegagraphCudaView q = view(t.q, s.queries), k = view(t.k, s.keys), v = view(t.v, s.keys), o = view(t.o, s.queries),
                            dO = view(t.dO, s.queries);
    const MegagraphCudaDropout dropout = dropoutOf(in.dropout);
    DeviceArray<unsigned char> space(memory, std::max(table.edgeAttentionForwardWorkspace(&graph, s.heads, s.dim),
                                                      table.edgeAttentionBackwardWorkspace(&graph, s.heads, s.dim)));
    MegagraphCudaEdgeBiasGradient bias{};
    bias.ds = in.u.empty() ? nullptr : ds.data();
    bias.u = in.u.empty() ? nullptr : du.data();
    MegagraphCudaError error{};
    MEGAGRAPH_TRY(std::ignore, said(table.edgeAttentionForward(&graph, s.scale, &q, &k, &v, &dropout, &o, t.lse.data(),
                                                               in.u.empty() ? nullptr : products.data(), space.data(),
                                                               space.size(), nullptr, &error), error));
    MEGAGRAPH_TRY(std::ignore, said(table.attentionDelta(&o, &dO, t.delta.data(), nullptr, &error), error));
    MEGAGRAPH_TRY(std::ignore, said(table.edgeAttentionBackward(&graph, s.scale, &q, &k, &v, &dO, t.lse.data(), t.delta.data(),
                                                                &dropout, t.dq.data(), t.dk.data(), t.dv.data(), &bias,
                                                                space.data(), space.size(), nullptr, &error), error));
    if (const std::string failure = memory.finish(); !failure.empty())
        return Error{ErrorCode::Internal, "device: " + failure};
    std::vector<Array> arrays = t.arrays(s);
    if (!in.u.empty()) {
        const int64_t width = int64_t(s.heads) * s.dim;
        arrays.push_back(fromRows("s", graph.entries, width, toFloats(products.values())));
        arrays.push_back(fromRows("du", graph.entries, width, du.values()));
    }
    return arrays;
}

TileLists listsOf(const Inputs& in, int64_t keyBegin, int64_t keyEnd)
{
    if (keyBegin == 0 && keyEnd == in.keys.size())
        return in.lists;
    const int64_t cuts[] = {in.keys.begin + keyBegin, in.keys.begin + keyEnd};
    auto lists = buildTileLists(in.graph.view(), in.hops, in.rows.begin, in.rows.end, cuts, SerialFor(), {});
    return lists ? std::move(lists.value().front()) : TileLists();
}

/// Map of the lists with List turned into Dense: all touched tiles are stored as planes.
std::vector<uint8_t> kindsOf(const TileLists& lists)
{
    std::vector<uint8_t> kinds = lists.map;
    for (uint8_t& four : kinds)
        for (int shift = 0; shift < 8; shift += 2)
            if ((four >> shift & 3) == int(TileKind::List))
                four = uint8_t(four ^ (int(TileKind::List) ^ int(TileKind::Dense)) << shift);
    return kinds;
}

} // namespace

const char* Form::name() const
{
    return storage == Lists ? (ring ? "lists, ring" : "lists") : ring ? "planes, ring" : "planes";
}

std::vector<uint64_t> planesOf(const Inputs& in, int64_t keyBegin, int64_t keyEnd)
{
    const int64_t rows = in.rows.size(), keys = keyEnd - keyBegin, keyBlocks = (keys + kTile - 1) / kTile;
    const int32_t planes = planeCount(in.hops);
    std::vector<uint64_t> words(size_t((rows + kTile - 1) / kTile * keyBlocks * planes * kTile), 0);
    for (int64_t i = 0; i < (rows + kTile - 1) / kTile * kTile; ++i) {
        for (int64_t j = 0; j < keyBlocks * kTile; ++j) {
            const uint8_t c = i < rows && j < keys ? in.classes[size_t(i * in.keys.size() + keyBegin + j)] : reference::kMasked;
            const auto code = uint32_t(c <= in.hops ? c : in.hops + 1);
            const int64_t tile = i / kTile * keyBlocks + j / kTile;
            for (int32_t p = 0; p < planes; ++p)
                words[size_t((tile * planes + p) * kTile + i % kTile)] |= uint64_t(code >> p & 1) << (j % kTile);
        }
    }
    return words;
}

DeviceBias::DeviceBias(DeviceMemory& memory, const Inputs& in, Form::Storage storage, int64_t keyBegin, int64_t keyEnd)
{
    view_.hops = in.hops;
    view_.classes = in.classCount;
    const auto part = [](const std::vector<int32_t>& all, int64_t begin, int64_t end) {
        return all.empty() ? std::span<const int32_t>() : std::span(all).subspan(size_t(begin), size_t(end - begin));
    };
    const auto put = [&](DeviceArray<int32_t>& to, const std::vector<int32_t>& all, int64_t begin, int64_t end) -> const int32_t* {
        if (all.empty())
            return nullptr;
        to = DeviceArray<int32_t>(memory, part(all, begin, end));
        return to.data();
    };
    view_.queryComponent = put(queryComponent_, in.component, in.rows.begin, in.rows.end);
    view_.keyComponent = put(keyComponent_, in.component, in.keys.begin + keyBegin, in.keys.begin + keyEnd);
    view_.querySegment = put(querySegment_, in.segment, in.rows.begin, in.rows.end);
    view_.keySegment = put(keySegment_, in.segment, in.keys.begin + keyBegin, in.keys.begin + keyEnd);
    view_.policy = MegagraphCudaNoTiles;
    if (!in.entryValues.empty()) {
        static_assert(sizeof(EdgeTile) == sizeof(MegagraphCudaEdgeTile));
        edges_ = edgeBlock(in, keyBegin, keyEnd);
        edgeStart_ = DeviceArray<int64_t>(memory, edges_.tiles.blockStart);
        edgeTiles_ = DeviceArray<EdgeTile>(memory, edges_.tiles.tiles);
        edgePositions_ = DeviceArray<uint16_t>(memory, edges_.tiles.positions);
        edgeValues_ = DeviceArray<float>(memory, edges_.values);
        edgeGradient_ = DeviceArray<float>(memory, int64_t(edges_.values.size()));
        edgeGradient_.clear();
        view_.edges = {edgeStart_.data(), reinterpret_cast<const MegagraphCudaEdgeTile*>(edgeTiles_.data()), edgePositions_.data(),
                       edges_.tiles.queryBlocks, edges_.tiles.keyBlocks, edges_.places(), edgeValues_.data(),
                       edgeGradient_.data()};
    }
    if (in.table.empty())
        return;
    table_ = DeviceArray<float>(memory, in.shifted);
    view_.table = table_.data();
    const TileLists lists = listsOf(in, keyBegin, keyEnd);
    map_ = DeviceArray<uint8_t>(memory, storage == Form::Planes ? kindsOf(lists) : lists.map);
    if (storage == Form::Planes) {
        words_ = DeviceArray<uint64_t>(memory, planesOf(in, keyBegin, keyEnd));
        view_.policy = MegagraphCudaPlanes;
        view_.planes.words = words_.data();
        view_.planes.keyBlocks = (keyEnd - keyBegin + kTile - 1) / kTile;
        view_.planes.planes = planeCount(in.hops);
        view_.planes.kinds = map_.data();
        view_.planes.kindStride = lists.mapStride;
        return;
    }
    rank_ = DeviceArray<uint32_t>(memory, lists.rank);
    tileStart_ = DeviceArray<int64_t>(memory, lists.tileStart);
    offsets_ = DeviceArray<uint32_t>(memory, lists.offsets);
    blockStart_ = DeviceArray<int64_t>(memory, lists.blockStart);
    entries_ = DeviceArray<uint16_t>(memory, lists.entries);
    view_.policy = MegagraphCudaLists;
    view_.lists = {map_.data(), rank_.data(), tileStart_.data(), offsets_.data(), blockStart_.data(), entries_.data(),
                   lists.queryBlocks, lists.keyBlocks, lists.mapStride, lists.rankStride};
}

void DeviceBias::addEdgeGradient(int32_t heads, std::span<float> byEntry) const
{
    edges_.scatter(edgeGradient_.values(), heads, byEntry);
}

MegagraphCudaView viewOf(void* data, int64_t rows, int32_t heads, int32_t dim, int32_t type)
{
    return {data, rows, heads, dim, int64_t(heads) * dim, dim, type, 0};
}

MegagraphCudaShape shapeOf(const AttentionShape& s)
{
    return {s.queries, s.keys, s.queryOffset, s.keyOffset, s.heads, s.dim, s.headOffset, 0, s.scale};
}

MegagraphCudaDropout dropoutOf(const Dropout& d)
{
    return {d.p, d.seed, d.step, d.item, d.layer, d.site, 0};
}

std::vector<Bfloat16> toBf16(std::span<const float> values)
{
    std::vector<Bfloat16> out;
    for (const float x : values)
        out.push_back(toBfloat16(x));
    return out;
}

std::vector<float> toFloats(std::span<const Bfloat16> values)
{
    std::vector<float> out;
    for (const Bfloat16 x : values)
        out.push_back(toFloat(x));
    return out;
}

Error moduleError(const MegagraphCudaError& error)
{
    const ErrorCode code = error.code == MegagraphCudaUnsupported    ? ErrorCode::Unsupported
                           : error.code == MegagraphCudaInvalidInput ? ErrorCode::InvalidInput
                                                                     : ErrorCode::Internal;
    return {code, std::string("module: ") + error.text};
}

Result<std::vector<Array>> runOnDevice(const MegagraphCudaTable& table, DeviceMemory& memory, const Case& c, const Inputs& inputs,
                                       Form form)
{
    if (c.op == Op::Edges)
        return runEdges(table, memory, inputs);
    return DenseRun(table, memory, inputs, form).arrays();
}

} // namespace megagraph::kernels::goldens
