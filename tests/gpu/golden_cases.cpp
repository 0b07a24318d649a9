// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/golden_cases.h"

#include "core/hash.h"
#include "core/random.h"
#include "kernels/reference/edge_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace megagraph::kernels::goldens {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
using enum GraphKind;
using enum TableKind;

constexpr Case kCases[] = {
    {"one_token", "one token, one head", Op::Dense, Rings, 1, {}, {}, 1, 8, 2, Random, false, 1, 0, false, true},
    {"slim_63", "63 tokens, d_h 10, graph token", Op::Dense, Rings, 63, {}, {}, 3, 10, 2, Random, true},
    {"plain_64", "one tile without bias", Op::Dense, NoGraph, 64, {}, {}, 2, 16, 0, NoTable},
    {"hops0_65", "K = 0", Op::Dense, Rings, 65, {}, {}, 2, 24, 0},
    {"hops3_129", "K = 3, several components, edge values", Op::Dense, Rings, 129, {}, {}, 2, 32, 3, Random, false, 1, 0, false,
     false, true},
    {"base_257", "the usual shape, ragged", Op::Dense, Rings, 257, {}, {}, 2, 64, 2, Random, true},
    {"plain_257", "no bias, ragged", Op::Dense, NoGraph, 257, {}, {}, 2, 64, 0, NoTable},
    {"dropout_257", "dropout 0.1", Op::Dense, Rings, 257, {}, {}, 2, 64, 2, Random, false, 1, 0.1},
    {"wide_257", "d_h 128", Op::Dense, Rings, 257, {}, {}, 1, 128, 2, Random, true},
    {"wide_dropout_257", "d_h 128, dropout 0.5", Op::Dense, Rings, 257, {}, {}, 1, 128, 2, Random, false, 1, 0.5},
    {"wide_plain_192", "d_h 128, no bias", Op::Dense, NoGraph, 192, {}, {}, 1, 128, 0, NoTable},
    {"odd_width_192", "d_h 96, grid, K = 9: dense tiles, edge values", Op::Dense, Grid, 192, {}, {}, 1, 96, 9, Random, false, 1, 0,
     false, false, true},
    {"pack_200", "pack of 11 graphs", Op::Dense, Rings, 200, {}, {}, 2, 32, 2, Random, false, 11},
    {"path_300", "path, K = 12: constant and split tiles", Op::Dense, Path, 300, {}, {}, 2, 64, 12},
    {"hops15_260", "K = 15", Op::Dense, Path, 260, {}, {}, 1, 32, 15, Random, true},
    {"block_192", "192 rows of 257 keys, global offsets, dropout, edge values", Op::Dense, Rings, 257, {65, 257}, {0, 257}, 2, 64, 2,
     Random, true, 1, 0.1, false, false, true},
    {"keys_odd", "rows before an interval of keys that starts at an odd number", Op::Dense, Rings, 257, {0, 100}, {131, 257}, 2, 64,
     2, Random, false, 1, 0.1},
    {"masked_rows", "pack whose first rows see none of the keys", Op::Dense, Rings, 200, {0, 200}, {100, 200}, 2, 64, 2, Random,
     false, 5},
    {"huge_table", "table entries of 1e4 and -1e4", Op::Dense, Rings, 130, {}, {}, 2, 64, 2, Huge, false, 1, 0, false, true},
    {"minus_infinity", "unreachable pairs at -inf", Op::Dense, Rings, 257, {}, {}, 2, 64, 2, MinusInfinity},
    {"heads_16", "16 narrow heads", Op::Dense, Rings, 70, {}, {}, 16, 8, 1},
    {"long_1000", "1,000 tokens", Op::Dense, Rings, 1000, {}, {}, 1, 64, 2, Random, true},
    {"edges_star", "sparse: hub of 699 entries, self keys, dropout", Op::Edges, Star, 700, {}, {}, 2, 32, 1, NoTable, false,
     1, 0.1, true},
    {"edges_rings", "sparse, GT: short and empty rows, a row interval", Op::Edges, Rings, 500, {100, 500}, {0, 500}, 2, 64, 1,
     NoTable, false, 1, 0, false, false, true},
};
static_assert(std::size(kCases) <= 24);

/// Uniform in [-scale, scale), rounded to bf16.
std::vector<float> draw(int64_t count, uint64_t seed, uint64_t stream, float scale)
{
    std::vector<float> values(size_t(count), 0.0f);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = toFloat(toBfloat16(scale * float(2.0 * drawUniform(seed, stream, i) - 1.0)));
    return values;
}

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

Csr csrOf(int64_t nodes, Pairs pairs)
{
    const size_t directed = pairs.size();
    for (size_t i = 0; i < directed; ++i)
        pairs.emplace_back(pairs[i].second, pairs[i].first);
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    Csr graph;
    graph.indptr.assign(size_t(nodes) + 1, 0);
    for (const auto& [from, to] : pairs) {
        ++graph.indptr[size_t(from) + 1];
        graph.indices.push_back(int32_t(to));
    }
    for (size_t i = 1; i < graph.indptr.size(); ++i)
        graph.indptr[i] += graph.indptr[i - 1];
    return graph;
}

/// Paths with chords over [begin, end); about every tenth node at the end stays isolated.
void addRing(Pairs& pairs, int64_t begin, int64_t end, uint64_t seed)
{
    for (int64_t i = begin; i < end; ++i) {
        if (i + 1 < end)
            pairs.emplace_back(i, i + 1);
        const int64_t other = begin + int64_t(drawBelow(seed, 78, uint64_t(i), uint64_t(end - begin)));
        if (drawUniform(seed, 77, uint64_t(i)) < 0.3 && other != i)
            pairs.emplace_back(i, other);
    }
}

/// Nodes of the case's graph; the graph token is none.
Csr makeGraph(const Case& c, uint64_t seed)
{
    const int64_t nodes = c.token ? c.tokens - 1 : c.tokens;
    Pairs pairs;
    if (c.graph == Path || c.graph == Grid) {
        const int64_t columns = 16;
        for (int64_t i = 0; i + 1 < nodes; ++i) {
            if (c.graph == Path || (i + 1) % columns != 0)
                pairs.emplace_back(i, i + 1);
            if (c.graph == Grid && i + columns < nodes)
                pairs.emplace_back(i, i + columns);
        }
    } else if (c.graph == Star) {
        for (int64_t i = 1; i < nodes; ++i)
            pairs.emplace_back(0, i);
    } else if (c.graph == Rings) {
        const int64_t parts = c.segments > 1 ? c.segments : 3, linked = c.segments > 1 ? nodes : nodes - nodes / 10;
        for (int64_t p = 0; p < parts; ++p)
            addRing(pairs, linked * p / parts, linked * (p + 1) / parts, seed);
    }
    return csrOf(nodes, std::move(pairs));
}

std::vector<float> makeTable(const Case& c, int32_t classCount, uint64_t seed)
{
    if (c.table == NoTable)
        return {};
    std::vector<float> table(size_t(c.heads) * size_t(classCount));
    for (size_t i = 0; i < table.size(); ++i) // multiples of 1/256: b - b[far] is exact in fp32, even beside 1e4
        table[i] = float(std::floor(512.0 * drawUniform(seed, 5, i)) - 256.0) / 256.0f;
    for (int32_t h = 0; h < c.heads; ++h) {
        float* row = table.data() + h * classCount;
        if (c.table == Huge) {
            row[0] = 1e4f;
            row[1] = -1e4f;
        } else if (c.table == MinusInfinity) {
            row[c.hops + 2] = -kInfinity;
        }
    }
    return table;
}

/// Class of each pair of the blocks by plain searches, independent of the tile lists.
std::vector<uint8_t> makeClasses(const Case& c, const Inputs& in, CsrView graph)
{
    std::vector<uint8_t> classes;
    classes.reserve(size_t(in.rows.size() * in.keys.size()));
    for (int64_t i = in.rows.begin; i < in.rows.end; ++i) {
        const bool rowIsToken = i >= graph.nodes;
        const std::vector<uint8_t> distance = rowIsToken ? std::vector<uint8_t>() : plainDistances(graph, i, c.hops);
        for (int64_t j = in.keys.begin; j < in.keys.end; ++j) {
            const bool sameGraph = in.segment.empty() || in.segment[size_t(i)] == in.segment[size_t(j)];
            if (!sameGraph)
                classes.push_back(reference::kMasked);
            else if (rowIsToken || j >= graph.nodes)
                classes.push_back(uint8_t(c.hops + 3));
            else if (in.component[size_t(i)] != in.component[size_t(j)])
                classes.push_back(uint8_t(c.hops + 2));
            else
                classes.push_back(std::min(distance[size_t(j)], uint8_t(c.hops + 1)));
        }
    }
    return classes;
}

void makeStructure(const Case& c, Inputs& in, const Csr& graph)
{
    in.component = components(graph.view());
    in.component.resize(size_t(c.tokens), -1);
    for (int64_t i = 0; c.segments > 1 && i < c.tokens; ++i)
        in.segment.push_back(int32_t((i * c.segments + c.segments - 1) / c.tokens)); // as addRing cuts
    if (c.op == Op::Edges) {
        in.graph = rows(graph.view(), in.rows.begin, in.rows.end);
        in.transposed = transposed(in.graph.view(), c.tokens);
        return;
    }
    if (!in.table.empty() || !in.segment.empty())
        in.classes = makeClasses(c, in, graph.view());
    if (in.table.empty())
        return;
    in.graph = graph;
    const int64_t cuts[] = {in.keys.begin, in.keys.end};
    auto lists = buildTileLists(graph.view(), c.hops, in.rows.begin, in.rows.end, cuts, SerialFor(), {});
    if (lists)
        in.lists = std::move(lists.value().front());
}

Array arrayOf(const char* name, int64_t rows, int64_t width, const std::vector<double>& values)
{
    return {name, rows, width, values};
}

/// [H, rows] -> [rows, H], without the constant b[far] that kernels never see.
Array lseArray(const Inputs& in, const std::vector<double>& lse)
{
    const int64_t rows = in.rows.size(), heads = in.shape.heads;
    Array out{"lse", rows, heads, std::vector<double>(size_t(rows * heads))};
    for (int64_t h = 0; h < heads; ++h) {
        const double far = in.table.empty() ? 0.0 : double(in.table[size_t(h * in.classCount + in.hops + 1)]);
        for (int64_t i = 0; i < rows; ++i)
            out.values[size_t(i * heads + h)] = lse[size_t(h * rows + i)] - far;
    }
    return out;
}

std::vector<double> widened(const std::vector<float>& values)
{
    return {values.begin(), values.end()};
}

int64_t entriesOf(const Inputs& in)
{
    return int64_t(in.graph.indices.size());
}

/// [H, E] -> [E, H]
Array byEntry(const char* name, const Inputs& in, const std::vector<double>& values, std::span<const int64_t> entries)
{
    const int64_t heads = in.shape.heads, count = int64_t(entries.size());
    Array out{name, entriesOf(in), heads, std::vector<double>(size_t(entriesOf(in) * heads))};
    for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < count; ++i)
            out.values[size_t(entries[size_t(i)] * heads + h)] = values[size_t(h * count + i)];
    return out;
}

std::vector<Array> collect(const Inputs& in, const reference::Output& out, const reference::Gradients& g)
{
    const int64_t width = int64_t(in.shape.heads) * in.shape.dim;
    std::vector<Array> arrays{arrayOf("o", in.rows.size(), width, out.o), lseArray(in, out.lse),
                              arrayOf("dq", in.rows.size(), width, g.dq), arrayOf("dk", in.keys.size(), width, g.dk),
                              arrayOf("dv", in.keys.size(), width, g.dv)};
    if (!in.table.empty())
        arrays.push_back(arrayOf("table", in.shape.heads, in.classCount, g.table));
    return arrays;
}

} // namespace

std::span<const Case> allCases()
{
    return kCases;
}

const Case* findCase(std::string_view id)
{
    const auto found = std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& c) { return id == c.id; });
    return found == std::end(kCases) ? nullptr : found;
}

Bias Inputs::bias() const
{
    Bias b;
    b.hops = hops;
    b.classes = classCount;
    b.table = table.empty() ? nullptr : shifted.data();
    const auto part = [](const std::vector<int32_t>& all, Interval r) {
        return all.empty() ? std::span<const int32_t>() : std::span(all).subspan(size_t(r.begin), size_t(r.size()));
    };
    b.queryComponent = part(component, rows);
    b.keyComponent = part(component, keys);
    b.querySegment = part(segment, rows);
    b.keySegment = part(segment, keys);
    if (!table.empty())
        b.lists = lists.view();
    return b;
}

EdgeBlock edgeBlock(const Inputs& in, int64_t keyBegin, int64_t keyEnd)
{
    const int64_t cuts[] = {in.keys.begin + keyBegin, in.keys.begin + keyEnd};
    auto tiles = buildEdgeTiles(in.graph.view(), in.rows.begin, in.rows.end, cuts);
    if (!tiles)
        return {};
    EdgeBlock block{std::move(tiles.value().front()), {}};
    for (int32_t h = 0; h < in.shape.heads; ++h)
        for (const int64_t entry : block.tiles.entries)
            block.values.push_back(in.entryValues[size_t(h * entriesOf(in) + entry)]);
    return block;
}

void EdgeBlock::scatter(std::span<const float> gradient, int32_t heads, std::span<float> byEntry) const
{
    for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < places(); ++i)
            byEntry[size_t(tiles.entries[size_t(i)] * heads + h)] = gradient[size_t(h * places() + i)];
}

EdgeBias Inputs::edgeBias() const
{
    EdgeBias b;
    b.kind = u.empty() ? EdgeBiasKind::None : EdgeBiasKind::Gt;
    b.u = u.empty() ? nullptr : u.data();
    return b;
}

EdgeGraph Inputs::edges() const
{
    EdgeGraph g;
    g.rows = rows.size();
    g.keys = keys.size();
    g.indptr = graph.indptr;
    g.indices = graph.indices;
    g.transposedIndptr = transposed.indptr;
    g.transposedRows = transposed.rows;
    g.transposedEntries = transposed.entries;
    g.selfKey = selfKey;
    g.selfOffset = rows.begin;
    g.queryOffset = rows.begin;
    g.keyOffset = keys.begin;
    return g;
}

Inputs makeInputs(const Case& c)
{
    Inputs in;
    const uint64_t seed = fnv1a64(c.id);
    const auto all = [&](Interval i) { return i.size() == 0 ? Interval{0, c.tokens} : i; };
    in.rows = all(c.rows);
    in.keys = all(c.keys);
    in.hops = c.hops;
    in.classCount = c.hops + 4;
    in.selfKey = c.selfKey;
    in.shape.queries = in.rows.size();
    in.shape.keys = in.keys.size();
    in.shape.queryOffset = in.rows.begin;
    in.shape.keyOffset = in.keys.begin;
    in.shape.heads = c.heads;
    in.shape.dim = c.dim;
    in.shape.scale = 1.0 / std::sqrt(double(c.dim));
    if (c.dropout > 0)
        in.dropout = {c.dropout, seed, 7, 3, 2, kSiteAttention};
    const int64_t width = int64_t(c.heads) * c.dim;
    in.q = draw(in.rows.size() * width, seed, 1, 2.0f);
    in.k = draw(in.keys.size() * width, seed, 2, 2.0f);
    in.v = draw(in.keys.size() * width, seed, 3, 1.0f);
    in.dO = draw(in.rows.size() * width, seed, 4, 1.0f);
    in.table = makeTable(c, in.classCount, seed);
    in.shifted = in.table;
    for (size_t i = 0; i < in.table.size(); ++i)
        in.shifted[i] -= in.table[i / size_t(in.classCount) * size_t(in.classCount) + size_t(c.hops + 1)];
    makeStructure(c, in, makeGraph(c, seed));
    if (c.perEdge && c.op == Op::Dense) {
        in.entryValues = draw(entriesOf(in) * c.heads, seed, 6, 2.0f);
    } else if (c.perEdge) {
        in.u = draw(entriesOf(in) * width, seed, 6, 4.0f); // some scores are beyond the clamp
        in.ds = draw(entriesOf(in) * width, seed, 7, 0.25f);
    }
    return in;
}

std::vector<Array> referenceOf(const Case& c, const Inputs& in)
{
    const std::vector<double> dO = widened(in.dO);
    if (c.op == Op::Edges) {
        reference::Edges p;
        p.rows = in.rows.size();
        p.keys = in.keys.size();
        p.queryOffset = p.selfOffset = in.rows.begin;
        p.keyOffset = in.keys.begin;
        p.heads = c.heads;
        p.dim = c.dim;
        p.selfKey = c.selfKey;
        p.scale = in.shape.scale;
        p.indptr = in.graph.indptr;
        p.indices = in.graph.indices;
        p.q = widened(in.q);
        p.k = widened(in.k);
        p.v = widened(in.v);
        p.dropout = in.dropout;
        p.kind = in.edgeBias().kind;
        p.u = widened(in.u);
        const reference::EdgeOutput out = reference::edgeForward(p);
        const reference::EdgeGradients g = reference::edgeBackward(p, dO, widened(in.ds));
        std::vector<Array> arrays = collect(in, out, g);
        if (!in.u.empty()) {
            arrays.push_back(arrayOf("s", entriesOf(in), int64_t(c.heads) * c.dim, out.s));
            arrays.push_back(arrayOf("du", entriesOf(in), int64_t(c.heads) * c.dim, g.du));
        }
        return arrays;
    }
    reference::Dense p;
    p.queries = in.rows.size();
    p.keys = in.keys.size();
    p.queryOffset = in.rows.begin;
    p.keyOffset = in.keys.begin;
    p.heads = c.heads;
    p.dim = c.dim;
    p.classCount = in.classCount;
    p.scale = in.shape.scale;
    p.q = widened(in.q);
    p.k = widened(in.k);
    p.v = widened(in.v);
    p.classes = in.classes;
    p.table = widened(in.table);
    p.dropout = in.dropout;
    std::vector<int64_t> entries; // of the graph inside the block
    for (int64_t i = in.rows.begin; !in.entryValues.empty() && i < std::min(in.rows.end, in.graph.view().nodes); ++i) {
        for (int64_t e = in.graph.indptr[size_t(i)]; e < in.graph.indptr[size_t(i) + 1]; ++e) {
            const int64_t key = in.graph.indices[size_t(e)] - in.keys.begin;
            if (key < 0 || key >= p.keys)
                continue;
            p.pairs.push_back((i - in.rows.begin) * p.keys + key);
            entries.push_back(e);
        }
    }
    for (int64_t h = 0; h < c.heads; ++h)
        for (const int64_t e : entries)
            p.pairValues.push_back(double(in.entryValues[size_t(h * entriesOf(in) + e)]));
    const reference::Gradients g = reference::denseBackward(p, dO);
    std::vector<Array> arrays = collect(in, reference::denseForward(p), g);
    if (!in.entryValues.empty())
        arrays.push_back(byEntry("dw", in, g.pairValues, entries));
    return arrays;
}

} // namespace megagraph::kernels::goldens
