// SPDX-License-Identifier: Apache-2.0
// Graphs of the distance tests and plain readers of lists and planes: one dense table of classes per storage.
#pragma once

#include "core/random.h"
#include "kernels/graph/planes.h"
#include "kernels/graph/tiles.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace megagraph::kernels::testing {

constexpr uint8_t kBase = 255;

struct GraphCase {
    std::string name;
    Csr graph; // symmetric, no loops, no repeats
};

inline Csr fromEdges(int64_t nodes, const std::vector<std::pair<int32_t, int32_t>>& edges)
{
    std::vector<std::vector<int32_t>> rows(static_cast<size_t>(nodes));
    for (const auto& [a, b] : edges)
        rows[size_t(a)].push_back(b);
    Csr out;
    out.indptr.push_back(0);
    for (auto& row : rows) {
        std::sort(row.begin(), row.end());
        out.indices.insert(out.indices.end(), row.begin(), row.end());
        out.indptr.push_back(int64_t(out.indices.size()));
    }
    return symmetrised(out.view()); // loops, repeats and missing directions are the input's business
}

/// Communities of 256 nodes, power-law degrees around `degree`, one edge in ten leaves its community.
inline Csr communities(int64_t nodes, int64_t degree, uint64_t seed = 1)
{
    std::vector<std::pair<int32_t, int32_t>> edges;
    for (int64_t v = 0; v < nodes; ++v) {
        const double u = std::max(1e-4, drawUniform(seed, 1, uint64_t(v)));
        const auto own = std::min<int64_t>(nodes / 8, int64_t(double(degree) / 4 / std::sqrt(u) + 0.5)); // mean degree / 2
        for (int64_t e = 0; e < own; ++e) {
            const uint64_t draw = uint64_t(v) * 4096 + uint64_t(e);
            const int64_t first = v / 256 * 256, size = std::min<int64_t>(256, nodes - first);
            const bool inside = drawUniform(seed, 2, draw) < 0.9;
            const int64_t to = inside ? first + int64_t(drawBelow(seed, 3, draw, uint64_t(size))) : int64_t(drawBelow(seed, 4, draw, uint64_t(nodes)));
            edges.push_back({int32_t(v), int32_t(to)});
        }
    }
    return fromEdges(nodes, edges);
}

/// The graphs of the models design, section 8, item 4.
inline std::vector<GraphCase> graphCases()
{
    using Edges = std::vector<std::pair<int32_t, int32_t>>;
    std::vector<GraphCase> out;
    const auto add = [&](const char* name, int64_t nodes, const Edges& edges) { out.push_back({name, fromEdges(nodes, edges)}); };
    const auto draw = [](uint64_t stream, uint64_t i, int64_t below) { return int32_t(drawBelow(17, stream, i, uint64_t(below))); };
    add("empty", 0, {});
    add("one node", 1, {});
    add("no edges", 70, {});
    Edges e;
    for (int32_t i = 0; i < 40; ++i)
        e.push_back({2 * i, 2 * i + 2});
    add("isolated nodes between linked ones", 130, e);
    e.clear();
    for (int32_t i = 0; i + 1 < 200; ++i) {
        if (i != 30 && i != 100) // borders inside tiles
            e.push_back({i, i + 1});
    }
    add("components with borders inside tiles", 200, e);
    add("self loops and duplicates", 66, {{0, 0}, {1, 2}, {1, 2}, {2, 1}, {65, 65}, {64, 65}, {3, 64}});
    e.clear();
    for (int32_t i = 0; i < 150; ++i)
        e.push_back({draw(1, uint64_t(i), 100), draw(2, uint64_t(i), 100)});
    add("directed, one direction given", 100, e);
    e.clear();
    for (int32_t i = 1; i < 300; ++i)
        e.push_back({0, i});
    add("star", 300, e);
    for (int32_t i = 150; i < 299; ++i)
        e.push_back({299, i});
    add("two hubs", 300, e);
    e.clear();
    for (int32_t i = 0; i < 150; ++i) {
        for (int32_t j = i + 1; j < 150; ++j)
            e.push_back({i, j});
    }
    add("clique and isolated nodes", 200, e);
    e.clear();
    for (int32_t i = 0; i + 1 < 180; ++i)
        e.push_back({i, i + 1});
    add("path longer than K", 180, e);
    e.push_back({0, 179});
    add("first and last node joined", 180, e);
    e.clear();
    for (int32_t i = 0; i < 60; ++i) {
        for (int32_t j = 0; j < 70; ++j)
            e.push_back({i, 60 + j});
    }
    add("complete bipartite", 130, e);
    e.clear();
    for (int32_t r = 0; r < 14; ++r) {
        for (int32_t c = 0; c < 14; ++c) {
            if (c + 1 < 14)
                e.push_back({r * 14 + c, r * 14 + c + 1});
            if (r + 1 < 14)
                e.push_back({r * 14 + c, (r + 1) * 14 + c});
        }
    }
    add("grid", 196, e);
    e.clear();
    for (uint64_t i = 0; i < 900; ++i) { // R-MAT, 0.57 0.19 0.19 0.05, on 256 nodes
        int32_t a = 0, b = 0;
        for (uint64_t level = 0; level < 8; ++level) {
            const double u = drawUniform(3, level, i);
            a = 2 * a + (u >= 0.76);
            b = 2 * b + ((u >= 0.57 && u < 0.76) || u >= 0.95);
        }
        e.push_back({a, b});
    }
    add("R-MAT", 256, e);
    out.push_back({"communities", communities(700, 14)});
    for (auto& [a, b] : e) { // unsorted ids
        a = int32_t((int64_t(a) * 77 + 5) % 256);
        b = int32_t((int64_t(b) * 77 + 5) % 256);
    }
    std::reverse(e.begin(), e.end());
    add("R-MAT, ids in no order", 256, e);
    return out;
}

/// Classes of (rows x keys) by plain searches; a token (index N) has none.
inline std::vector<uint8_t> plainTable(const Csr& graph, int32_t hops, int64_t q0, int64_t q1, int64_t k0, int64_t k1)
{
    std::vector<uint8_t> out(size_t((q1 - q0) * (k1 - k0)), kBase);
    const int64_t nodes = graph.view().nodes;
    for (int64_t q = q0; q < std::min(q1, nodes); ++q) {
        const auto row = plainDistances(graph.view(), q, hops);
        for (int64_t k = k0; k < std::min(k1, nodes); ++k)
            out[size_t((q - q0) * (k1 - k0) + k - k0)] = row[size_t(k)] > hops ? kBase : row[size_t(k)];
    }
    return out;
}

/// Writes the codes of one tile of planes; rows from row0 of the table.
template <class Word>
void putPlanes(const Word* words, int32_t planes, int32_t hops, int64_t row0, int64_t rows, int64_t kb, int64_t keys, std::vector<uint8_t>& out)
{
    const auto* bytes = reinterpret_cast<const unsigned char*>(words);
    for (int64_t r = 0; r < 64; ++r) {
        for (int64_t c = 0; c < 64; ++c) {
            int code = 0;
            for (int32_t p = 0; p < planes; ++p)
                code |= (bytes[p * 512 + r * 8 + c / 8] >> (c % 8) & 1) << p;
            if (code > hops)
                continue;
            ASSERT_TRUE(row0 + r < rows && kb * 64 + c < keys) << "a code outside the tile's rows and keys";
            out[size_t((row0 + r) * keys + kb * 64 + c)] = uint8_t(code);
        }
    }
}

inline std::vector<uint8_t> planesTable(const TilePlanesView& view, int32_t hops, int64_t rows, int64_t keys)
{
    std::vector<uint8_t> out(size_t(rows * keys), kBase);
    EXPECT_EQ(view.planes, planeCount(hops));
    for (int64_t qb = 0; qb < view.queryBlocks; ++qb) {
        const bool ranged = !view.tileFirst.empty();
        const int64_t begin = ranged ? view.keyBlockBegin[size_t(qb)] : 0, end = ranged ? view.keyBlockEnd[size_t(qb)] : view.keyBlocks;
        for (int64_t kb = begin; kb < end; ++kb) {
            const int64_t tile = ranged ? view.tileFirst[size_t(qb)] + kb - begin : qb * view.keyBlocks + kb;
            putPlanes(view.words.data() + tile * 64 * view.planes, view.planes, hops, qb * 64, rows, kb, keys, out);
        }
    }
    return out;
}

inline std::vector<uint8_t> listsTable(const TileListsView& view, int32_t hops, int64_t rows, int64_t keys)
{
    std::vector<uint8_t> out(size_t(rows * keys), kBase);
    for (int64_t qb = 0; qb < view.queryBlocks; ++qb) {
        int64_t at = view.tileStart[size_t(qb)];
        for (int64_t kb = 0; kb < view.keyBlocks; ++kb) {
            if (kb % 256 == 0) {
                EXPECT_EQ(at - view.tileStart[size_t(qb)], view.rank[size_t(qb * view.rankStride + kb / 256)]);
            }
            const auto kind = TileKind(view.map[size_t(qb * view.mapStride + kb / 4)] >> (kb % 4 * 2) & 3);
            if (kind == TileKind::Base)
                continue;
            const uint32_t offset = view.offsets[size_t(at++)];
            const uint16_t* stored = view.entries.data() + view.blockStart[size_t(qb)] + (kind == TileKind::Const ? 0 : offset);
            const int64_t row0 = qb * 64, rowEnd = std::min<int64_t>(64, rows - row0), keyEnd = std::min<int64_t>(64, keys - kb * 64);
            if (kind == TileKind::Dense)
                putPlanes(stored, planeCount(hops), hops, row0, rows, kb, keys, out);
            for (int64_t i = 1; kind == TileKind::List && i <= stored[0]; ++i) {
                EXPECT_TRUE(i == 1 || stored[i - 1] >> 4 < stored[i] >> 4) << "entries are sorted by (row, col)";
                out[size_t((row0 + (stored[i] >> 10)) * keys + kb * 64 + (stored[i] >> 4 & 63))] = uint8_t(stored[i] & 15);
            }
            for (int64_t r = 0; kind == TileKind::Const && r < rowEnd; ++r)
                std::fill_n(out.begin() + (row0 + r) * keys + kb * 64, keyEnd, uint8_t(offset));
        }
        EXPECT_EQ(at, view.tileStart[size_t(qb) + 1]);
    }
    return out;
}

} // namespace megagraph::kernels::testing
