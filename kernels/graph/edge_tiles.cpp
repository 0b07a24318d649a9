// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/edge_tiles.h"

#include <algorithm>
#include <fmt/format.h>

namespace megagraph::kernels {
namespace {

Result<Ok> check(CsrView graph, int64_t begin, int64_t end, std::span<const int64_t> cuts)
{
    const auto invalid = [](const std::string& text) { return Error{ErrorCode::InvalidInput, "edge tiles: " + text}; };
    if (begin < 0 || begin > end || end > graph.nodes + 1)
        return invalid(fmt::format("query rows: got [{}, {}), expected an interval of {} tokens", begin, end, graph.nodes));
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        if (cuts[c] < 0 || cuts[c] > cuts[c + 1] || cuts[c + 1] > graph.nodes + 1)
            return invalid(fmt::format("key cuts: got [{}, {}) at {}, expected rising offsets up to {}", cuts[c], cuts[c + 1], c, graph.nodes));
    }
    for (int64_t v = begin; v < std::min(end, graph.nodes); ++v) {
        for (int64_t e = graph.indptr[size_t(v)] + 1; e < graph.indptr[size_t(v) + 1]; ++e) {
            if (graph.indices[size_t(e) - 1] >= graph.indices[size_t(e)])
                return invalid(fmt::format("row {}: got {} before {}, expected rising neighbours, none twice; sort the graph", v,
                                           graph.indices[size_t(e) - 1], graph.indices[size_t(e)]));
        }
    }
    return Ok{};
}

struct Entry {
    int64_t key, entry; // key block, then position in the tile, as one number
};

/// Entries of 64 query rows inside one key interval, in order of tile and position.
void collect(CsrView graph, int64_t row, int64_t rows, int64_t keyBegin, int64_t keyEnd, std::vector<Entry>& out)
{
    out.clear();
    for (int64_t r = 0; r < rows; ++r) {
        const auto first = graph.indices.begin() + graph.indptr[size_t(row + r)], last = graph.indices.begin() + graph.indptr[size_t(row + r) + 1];
        for (auto it = std::lower_bound(first, last, keyBegin); it != last && *it < keyEnd; ++it) {
            const int64_t column = *it - keyBegin;
            out.push_back({column / kTile * (kTile * kTile) + r * kTile + column % kTile, it - graph.indices.begin()});
        }
    }
    std::sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
}

} // namespace

int64_t EdgeTiles::bytes() const
{
    return int64_t(blockStart.size() * sizeof(int64_t) + tiles.size() * sizeof(EdgeTile) + positions.size() * sizeof(uint16_t));
}

EdgeTilesView EdgeTiles::view() const
{
    return {queryBlocks, keyBlocks, blockStart, tiles, positions};
}

Result<std::vector<EdgeTiles>> buildEdgeTiles(CsrView graph, int64_t queryBegin, int64_t queryEnd, std::span<const int64_t> keyCuts)
{
    if (auto legal = check(graph, queryBegin, queryEnd, keyCuts); !legal)
        return std::move(legal).error();
    std::vector<EdgeTiles> out(keyCuts.empty() ? 0 : keyCuts.size() - 1);
    std::vector<Entry> block;
    for (size_t c = 0; c < out.size(); ++c) {
        EdgeTiles& edges = out[c];
        edges.queryBlocks = (queryEnd - queryBegin + kTile - 1) / kTile;
        edges.keyBlocks = (keyCuts[c + 1] - keyCuts[c] + kTile - 1) / kTile;
        edges.blockStart.push_back(0);
        for (int64_t row = queryBegin; row < queryEnd; row += kTile) {
            const int64_t rows = std::clamp<int64_t>(std::min(queryEnd, graph.nodes) - row, 0, kTile);
            collect(graph, row, rows, keyCuts[c], std::min(keyCuts[c + 1], graph.nodes), block);
            for (size_t i = 0; i < block.size(); ++i) {
                const auto keyBlock = uint32_t(block[i].key / (kTile * kTile));
                if (i == 0 || edges.tiles.back().keyBlock != keyBlock)
                    edges.tiles.push_back({keyBlock, 0, int64_t(edges.positions.size())});
                ++edges.tiles.back().count;
                edges.positions.push_back(uint16_t(block[i].key % (kTile * kTile)));
                edges.entries.push_back(block[i].entry);
            }
            edges.blockStart.push_back(int64_t(edges.tiles.size()));
        }
    }
    return out;
}

} // namespace megagraph::kernels
