// SPDX-License-Identifier: Apache-2.0
#include "kernels/checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

namespace megagraph::kernels {
namespace {

Error invalid(const char* op, const std::string& text)
{
    return {ErrorCode::InvalidInput, std::string(op) + ": " + text};
}

int64_t blocks(int64_t tokens)
{
    return (tokens + kTile - 1) / kTile;
}

Result<Ok> checkIds(const char* op, const char* name, std::span<const int32_t> ids, int64_t tokens)
{
    if (!ids.empty() && int64_t(ids.size()) != tokens)
        return invalid(op, std::string(name) + ": size, got " + std::to_string(ids.size()) + ", expected 0 or " +
                               std::to_string(tokens) + "; one id per token.");
    return Ok{};
}

/// Kinds, offsets and lengths of the touched tiles of one query block.
Result<Ok> checkQueryBlock(const char* op, const Bias& bias, int64_t block)
{
    const TileListsView& lists = bias.lists;
    const int64_t first = lists.tileStart[block], last = lists.tileStart[block + 1];
    const int64_t begin = lists.blockStart[block], end = lists.blockStart[block + 1];
    const std::string place = "lists: query block " + std::to_string(block);
    if (first < 0 || first > last || last > int64_t(lists.offsets.size()) || begin < 0 || begin > end ||
        end > int64_t(lists.entries.size()))
        return invalid(op, place + ": start, got a range outside the storage, expected ascending starts; rebuild the lists.");
    int64_t tile = first;
    for (int64_t keyBlock = 0; keyBlock < lists.keyBlocks; ++keyBlock) {
        if (keyBlock % 256 == 0 && lists.rank[block * lists.rankStride + keyBlock / 256] != tile - first)
            return invalid(op, place + ": rank checkpoint, got " +
                                   std::to_string(lists.rank[block * lists.rankStride + keyBlock / 256]) + ", expected " +
                                   std::to_string(tile - first) + "; rebuild the lists.");
        const int kind = lists.map[block * lists.mapStride + keyBlock / 4] >> (2 * (keyBlock & 3)) & 3;
        if (kind == 0)
            continue;
        if (tile >= last)
            return invalid(op, place + ": touched tiles, got more in the map than the " + std::to_string(last - first) +
                                   " stored; rebuild the lists.");
        const int64_t offset = lists.offsets[tile++], room = end - begin - offset;
        if (kind == int(TileKind::Const) ? offset >= bias.classes
            : kind == int(TileKind::Dense) ? room < 256 * planeCount(bias.hops)
                                           : room < 1 || room < 1 + lists.entries[begin + offset])
            return invalid(op, place + ": key block " + std::to_string(keyBlock) + ": offset or class " +
                                   std::to_string(offset) + " outside the storage; rebuild the lists.");
    }
    if (tile != last)
        return invalid(op, place + ": touched tiles, got " + std::to_string(tile - first) + " in the map, expected " +
                               std::to_string(last - first) + "; rebuild the lists.");
    return Ok{};
}

Result<Ok> checkLists(const char* op, const AttentionShape& shape, const Bias& bias)
{
    const TileListsView& lists = bias.lists;
    const int64_t qb = blocks(shape.queries), kb = blocks(shape.keys);
    if (lists.queryBlocks != qb || lists.keyBlocks != kb)
        return invalid(op, "lists: blocks, got " + std::to_string(lists.queryBlocks) + " x " + std::to_string(lists.keyBlocks) +
                               ", expected " + std::to_string(qb) + " x " + std::to_string(kb) +
                               "; build them for these rows and keys.");
    if (lists.mapStride < (kb + 3) / 4 || lists.rankStride < (kb + 255) / 256 || int64_t(lists.map.size()) < qb * lists.mapStride ||
        int64_t(lists.rank.size()) < qb * lists.rankStride || int64_t(lists.tileStart.size()) < qb + 1 ||
        int64_t(lists.blockStart.size()) < qb + 1)
        return invalid(op, "lists: headers, got arrays too short for " + std::to_string(qb) + " query blocks; rebuild the lists.");
    for (int64_t block = 0; block < qb; ++block) {
        MEGAGRAPH_TRY(std::ignore, checkQueryBlock(op, bias, block));
    }
    return Ok{};
}

Result<Ok> checkPlanes(const char* op, const AttentionShape& shape, const Bias& bias)
{
    const TilePlanesView& planes = bias.planes;
    const int64_t qb = blocks(shape.queries), kb = blocks(shape.keys);
    if (planes.queryBlocks != qb || planes.keyBlocks != kb || planes.planes != planeCount(bias.hops))
        return invalid(op, "planes: blocks and planes, got " + std::to_string(planes.queryBlocks) + " x " + std::to_string(planes.keyBlocks) +
                               " of " + std::to_string(planes.planes) + ", expected " + std::to_string(qb) + " x " + std::to_string(kb) +
                               " of " + std::to_string(planeCount(bias.hops)) + "; build them for these rows, keys and hops.");
    const int64_t stored = int64_t(planes.words.size()) / (kTile * planes.planes);
    if (planes.tileFirst.empty() && planes.keyBlockBegin.empty() && planes.keyBlockEnd.empty()) {
        if (kb > 0 && stored / kb < qb)
            return invalid(op, "planes: words, got " + std::to_string(stored) + " tiles, expected " + std::to_string(qb) + " x " +
                                   std::to_string(kb) + "; rebuild the planes.");
        return Ok{};
    }
    if (int64_t(planes.tileFirst.size()) != qb || int64_t(planes.keyBlockBegin.size()) != qb || int64_t(planes.keyBlockEnd.size()) != qb)
        return invalid(op, "planes: ranges, got arrays that do not have " + std::to_string(qb) + " elements, one per query block; rebuild the planes.");
    for (int64_t block = 0; block < qb; ++block) {
        const int64_t begin = planes.keyBlockBegin[block], end = planes.keyBlockEnd[block], first = planes.tileFirst[block];
        if (begin < 0 || begin > end || end > kb || first < 0 || first > stored || end - begin > stored - first)
            return invalid(op, "planes: query block " + std::to_string(block) + ": range, got key blocks [" + std::to_string(begin) + ", " +
                                   std::to_string(end) + ") from tile " + std::to_string(first) + ", expected a range within " +
                                   std::to_string(kb) + " key blocks and " + std::to_string(stored) + " tiles; rebuild the planes.");
    }
    return Ok{};
}

/// One tile of edge values: inside the arrays, its pairs inside the tile and sorted.
Result<Ok> checkEdgeTile(const char* op, const AttentionShape& shape, const EdgeTilesView& edges, int64_t block, int64_t number)
{
    const EdgeTile& tile = edges.tiles[number];
    const std::string place = "edge tiles: query block " + std::to_string(block) + ": tile " + std::to_string(number);
    const bool rising = number == edges.blockStart[block] || edges.tiles[number - 1].keyBlock < tile.keyBlock;
    if (int64_t(tile.keyBlock) >= edges.keyBlocks || !rising)
        return invalid(op, place + ": key block, got " + std::to_string(tile.keyBlock) + ", expected rising numbers below " +
                               std::to_string(edges.keyBlocks) + "; rebuild the edge tiles.");
    const int64_t stored = int64_t(edges.positions.size());
    const int64_t expected = number == edges.blockStart.front() ? tile.first : edges.tiles[number - 1].first + edges.tiles[number - 1].count;
    if (tile.first != expected || tile.first < 0 || tile.first > stored || int64_t(tile.count) > stored - tile.first)
        return invalid(op, place + ": positions, got " + std::to_string(tile.count) + " from " + std::to_string(tile.first) +
                               ", expected them one behind another among " + std::to_string(stored) + "; rebuild the edge tiles.");
    const int64_t rows = std::min<int64_t>(kTile, shape.queries - block * kTile), keys = std::min<int64_t>(kTile, shape.keys - tile.keyBlock * int64_t(kTile));
    int32_t before = -1;
    for (const uint16_t position : edges.positions.subspan(size_t(tile.first), tile.count)) {
        if (position <= before || position >> 6 >= rows || (position & 63) >= keys)
            return invalid(op, place + ": position, got " + std::to_string(position) + ", expected rising pairs inside " +
                                   std::to_string(rows) + " x " + std::to_string(keys) + "; rebuild the edge tiles.");
        before = position;
    }
    return Ok{};
}

Result<Ok> checkEdgeValues(const char* op, const AttentionShape& shape, const EdgeValues& edges)
{
    if (edges.values == nullptr)
        return Ok{};
    const EdgeTilesView& tiles = edges.tiles;
    const int64_t qb = blocks(shape.queries), kb = blocks(shape.keys);
    if (tiles.queryBlocks != qb || tiles.keyBlocks != kb || int64_t(tiles.blockStart.size()) != qb + 1)
        return invalid(op, "edge tiles: blocks, got " + std::to_string(tiles.queryBlocks) + " x " + std::to_string(tiles.keyBlocks) + " and " +
                               std::to_string(tiles.blockStart.size()) + " starts, expected " + std::to_string(qb) + " x " + std::to_string(kb) +
                               "; build them for these rows and keys.");
    if (tiles.blockStart.front() < 0 || tiles.blockStart.back() > int64_t(tiles.tiles.size()) ||
        !std::is_sorted(tiles.blockStart.begin(), tiles.blockStart.end()))
        return invalid(op, "edge tiles: starts, got numbers that do not rise within 0 to " + std::to_string(tiles.tiles.size()) +
                               "; rebuild the edge tiles.");
    for (int64_t block = 0; block < qb; ++block) {
        for (int64_t t = tiles.blockStart[block]; t < tiles.blockStart[block + 1]; ++t) {
            MEGAGRAPH_TRY(std::ignore, checkEdgeTile(op, shape, tiles, block, t));
        }
    }
    return Ok{};
}

} // namespace

Result<Ok> checkPointer(const char* op, const char* name, const void* pointer, int64_t elements)
{
    if (pointer == nullptr && elements > 0)
        return invalid(op, std::string(name) + ": pointer, got null, expected " + std::to_string(elements) + " elements; pass the array.");
    return Ok{};
}

Result<Ok> checkShape(const char* op, const AttentionShape& shape)
{
    if (shape.queries < 0 || shape.keys < 0 || shape.heads < 0 || shape.queryOffset < 0 || shape.keyOffset < 0 || shape.headOffset < 0)
        return invalid(op, "shape: negative count or offset; pass counts >= 0.");
    if (shape.dim < 1)
        return invalid(op, "shape: head width, got " + std::to_string(shape.dim) + ", expected 1.." + std::to_string(kMaxHeadDim) + ".");
    if (shape.dim > kMaxHeadDim)
        return Error{ErrorCode::Unsupported, std::string(op) + ": shape: head width, got " + std::to_string(shape.dim) +
                                                 ", expected at most " + std::to_string(kMaxHeadDim) + "; use more heads."};
    if (shape.kvSplits < 1)
        return invalid(op, "shape: kvSplits, got " + std::to_string(shape.kvSplits) + ", expected >= 1.");
    if (!std::isfinite(shape.scale))
        return invalid(op, "shape: scale, got a value that is not finite; pass 1 / sqrt(head width).");
    return Ok{};
}

Result<Ok> checkBias(const char* op, const AttentionShape& shape, const Bias& bias)
{
    MEGAGRAPH_TRY(std::ignore, checkIds(op, "query components", bias.queryComponent, shape.queries));
    MEGAGRAPH_TRY(std::ignore, checkIds(op, "key components", bias.keyComponent, shape.keys));
    MEGAGRAPH_TRY(std::ignore, checkIds(op, "query segments", bias.querySegment, shape.queries));
    MEGAGRAPH_TRY(std::ignore, checkIds(op, "key segments", bias.keySegment, shape.keys));
    if (bias.querySegment.empty() != bias.keySegment.empty() && shape.queries > 0 && shape.keys > 0)
        return invalid(op, "segments: got them on one side only, expected both or none.");
    MEGAGRAPH_TRY(std::ignore, checkEdgeValues(op, shape, bias.edges));
    if (bias.table == nullptr)
        return Ok{};
    if (bias.queryComponent.empty() != bias.keyComponent.empty() && shape.queries > 0 && shape.keys > 0)
        return invalid(op, "components: got them on one side only, expected both or none.");
    if (bias.hops < 0 || bias.classes != bias.hops + 4)
        return invalid(op, "bias: classes, got K = " + std::to_string(bias.hops) + " and B = " + std::to_string(bias.classes) +
                               ", expected B = K + 4.");
    const bool planes = bias.storage == BiasStorage::Planes;
    const int32_t most = planes ? kMostPlaneHops : kMostListHops;
    if (bias.hops > most)
        return Error{ErrorCode::Unsupported, std::string(op) + ": bias: K, got " + std::to_string(bias.hops) +
                                                 ", expected at most " + std::to_string(most) + (planes ? " with planes" : " with lists") +
                                                 "; cut the distances."};
    for (int32_t h = 0; h < shape.heads; ++h) {
        const float far = bias.table[int64_t(h) * bias.classes + bias.hops + 1];
        if (!std::isfinite(far))
            return invalid(op, "bias: far entry of head " + std::to_string(h) + ", got " + std::to_string(far) +
                                   ", expected a finite value; subtract the far bin from the table.");
    }
    return planes ? checkPlanes(op, shape, bias) : checkLists(op, shape, bias);
}

Result<Ok> checkDropout(const char* op, const Dropout& dropout)
{
    if (!(dropout.p >= 0.0 && dropout.p < 1.0))
        return invalid(op, "dropout: p, got " + std::to_string(dropout.p) + ", expected 0 <= p < 1.");
    return Ok{};
}

Result<Ok> checkGraph(const char* op, const EdgeGraph& graph, bool transposed)
{
    const auto pointers = [&](const char* name, std::span<const int64_t> p, int64_t rows, size_t entries) -> Result<Ok> {
        if (int64_t(p.size()) != rows + 1 || p.front() != 0 || p.back() != int64_t(entries) || !std::is_sorted(p.begin(), p.end()))
            return invalid(op, std::string(name) + ": row pointers, got " + std::to_string(p.size()) + " for " +
                                   std::to_string(rows) + " rows and " + std::to_string(entries) +
                                   " entries, expected rows + 1 ascending numbers from 0 to the entry count.");
        return Ok{};
    };
    const auto numbers = [&](const char* name, std::span<const int32_t> n, int64_t bound) -> Result<Ok> {
        uint32_t high = 0; // one pass without branches: this runs in front of every call
        for (const int32_t value : n)
            high = std::max(high, uint32_t(value));
        if (!n.empty() && int64_t(high) >= bound)
            return invalid(op, std::string(name) + ": got " + std::to_string(int32_t(high)) + ", expected 0.." +
                                   std::to_string(bound - 1) + "; the graph does not match its tokens.");
        return Ok{};
    };
    if (graph.rows < 0 || graph.keys < 0)
        return invalid(op, "graph: negative count.");
    MEGAGRAPH_TRY(std::ignore, pointers("indptr", graph.indptr, graph.rows, graph.indices.size()));
    MEGAGRAPH_TRY(std::ignore, numbers("indices", graph.indices, graph.keys));
    if (graph.selfKey && (graph.selfOffset < 0 || graph.selfOffset + graph.rows > graph.keys))
        return invalid(op, "graph: self keys, got " + std::to_string(graph.selfOffset) + " + " + std::to_string(graph.rows) +
                               " rows, expected at most " + std::to_string(graph.keys) + " keys.");
    if (!transposed)
        return Ok{};
    MEGAGRAPH_TRY(std::ignore, pointers("transposed indptr", graph.transposedIndptr, graph.keys, graph.transposedRows.size()));
    if (graph.transposedRows.size() != graph.indices.size())
        return invalid(op, "graph: transposed entries, got " + std::to_string(graph.transposedRows.size()) + ", expected " +
                               std::to_string(graph.indices.size()) + ".");
    return numbers("transposed rows", graph.transposedRows, graph.rows);
}

} // namespace megagraph::kernels
