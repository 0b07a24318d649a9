// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/tiles.h"

#include "core/bias_storage.h"
#include "kernels/graph/search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <numeric>

namespace megagraph::kernels {
namespace {

constexpr int64_t kWords = cpu::kSearchWords;
constexpr int64_t kCheckpoint = 256;        // key blocks per rank checkpoint
constexpr int64_t kPlaneUnits = 64 * 64 / 16; // uint16 units of one plane of a dense tile

/// One of the 8 tiles of a key block.
struct TileBits {
    const cpu::SearchKernels& kernels;
    const cpu::SearchTiles& all;
    int32_t tile, planes, hops;

    int64_t near() const { return all.pairs[tile]; }
    const uint64_t* rows(int64_t key) const { return &all.near[tile][key]; }
    void count(int64_t* counts) const { kernels.count(all, planes, hops, tile, counts); }
    int code(int key, int row) const
    {
        int code = 0;
        for (int32_t p = 0; p < planes; ++p)
            code |= int(all.code[p][tile][key] >> row & 1) << p;
        return code;
    }
};

struct Verdict { TileKind kind = TileKind::Base; int32_t constant = 0; };

Verdict judge(const TileBits& tile, int64_t allPairs)
{
    if (tile.near() == 0)
        return {};
    if (tile.near() == allPairs) {
        int64_t counts[kMostPlaneHops + 1] = {};
        tile.count(counts);
        for (int32_t t = 0; t <= tile.hops; ++t) {
            if (counts[t] == allPairs)
                return {TileKind::Const, t};
        }
    }
    return {tile.near() + 1 > kPlaneUnits * tile.planes ? TileKind::Dense : TileKind::List, 0};
}

/// Entries sorted by (row, col): columns come in order, so a stable count by row is enough.
void appendList(const TileBits& tile, std::vector<uint16_t>& out)
{
    std::array<uint16_t, 65> start{};
    for (uint64_t keys = tile.all.keys; keys != 0; keys &= keys - 1) {
        for (uint64_t rest = *tile.rows(std::countr_zero(keys)); rest != 0; rest &= rest - 1)
            ++start[size_t(std::countr_zero(rest)) + 1];
    }
    for (size_t r = 0; r < 64; ++r)
        start[r + 1] = uint16_t(start[r + 1] + start[r]);
    const size_t base = out.size();
    out.resize(base + 1 + size_t(tile.near()));
    out[base] = uint16_t(tile.near());
    for (uint64_t keys = tile.all.keys; keys != 0; keys &= keys - 1) {
        const int c = std::countr_zero(keys);
        for (uint64_t rest = *tile.rows(c); rest != 0; rest &= rest - 1) {
            const int row = std::countr_zero(rest);
            out[base + 1 + start[size_t(row)]++] = uint16_t(row << 10 | c << 4 | tile.code(c, row));
        }
    }
}

/// Planes as in TilePlanesView; pairs without a class have all bits.
void appendDense(const TileBits& tile, std::vector<uint16_t>& out)
{
    uint64_t words[5][64];
    std::memset(words, 0xFF, sizeof words);
    for (int32_t p = 0; p < tile.planes; ++p) {
        for (uint64_t keys = tile.all.keys; keys != 0; keys &= keys - 1) {
            const int c = std::countr_zero(keys);
            words[p][c] = tile.all.code[p][tile.tile][c];
        }
        tile.kernels.transpose(words[p]);
    }
    const size_t base = out.size();
    out.resize(base + size_t(tile.planes * kPlaneUnits));
    std::memcpy(out.data() + base, words, size_t(tile.planes) * sizeof words[0]);
}

static_assert(kMostListHops == megagraph::kMostListHops, "plans and kernels must agree on what a list entry can hold");

Result<Ok> check(CsrView graph, int32_t hops, int32_t mostHops, int64_t begin, int64_t end, std::span<const int64_t> cuts)
{
    if (hops < 0 || hops > mostHops)
        return Error{ErrorCode::InvalidInput, fmt::format("distance lists: hops: out of range, got {}, expected 0 to {}; cut distances earlier{}", hops, mostHops,
                                                          mostHops < kMostPlaneHops ? " or take bias policy planes or strips" : "")};
    if (begin < 0 || begin > end || end > graph.nodes + 1)
        return Error{ErrorCode::InvalidInput, fmt::format("distance lists: query rows: got [{}, {}), expected an interval of {} tokens", begin, end, graph.nodes)};
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        if (cuts[c] < 0 || cuts[c] > cuts[c + 1] || cuts[c + 1] > graph.nodes + 1)
            return Error{ErrorCode::InvalidInput, fmt::format("distance lists: key cuts: got [{}, {}) at {}, expected rising offsets up to {}", cuts[c], cuts[c + 1], c, graph.nodes)};
    }
    return Ok{};
}

/// Calls visit(slot, queryBlock, interval, keyBlock, tile, validRows) for every touched tile; key blocks of one
/// (query block, interval) come in order. Query blocks are counted from `begin`. Batches are independent tasks.
template <class Visit>
void forTouchedTiles(CsrView graph, int32_t hops, int64_t begin, int64_t end, std::span<const int64_t> cuts,
                     const ParallelFor& parallel, const std::stop_token& stop, const Visit& visit)
{
    struct Place { Search search; cpu::SearchTiles tiles; std::vector<int32_t> sources; };
    const int64_t batches = (end - begin + kSources - 1) / kSources;
    std::vector<std::unique_ptr<Place>> places(size_t(parallel.slots()));
    parallel.run(batches, [&](int64_t batch, int32_t slot) {
        if (stop.stop_requested())
            return;
        auto& place = places[size_t(slot)];
        if (!place)
            place.reset(new Place{Search(graph, hops), {}, {}});
        const int64_t first = begin + batch * kSources, rows = std::min(kSources, end - first);
        place->sources.resize(size_t(std::clamp<int64_t>(graph.nodes - first, 0, rows))); // a graph token has no near pairs
        std::iota(place->sources.begin(), place->sources.end(), int32_t(first));
        if (!place->search.run(place->sources, SerialFor(), stop))
            return;
        for (size_t c = 0; c + 1 < cuts.size(); ++c) {
            const int64_t keyEnd = std::min(cuts[c + 1], graph.nodes);
            for (int64_t key = cuts[c]; key < keyEnd; key += 64) {
                if ((key - cuts[c]) % (64 * kCheckpoint) == 0 && stop.stop_requested())
                    return;
                cpu::SearchTiles& tiles = place->tiles;
                place->search.tiles(key, std::min<int64_t>(64, keyEnd - key), tiles);
                for (int32_t t = 0; tiles.keys != 0 && t * 64 < rows; ++t) {
                    if (tiles.pairs[t] != 0)
                        visit(slot, batch * kWords + t, c, (key - cuts[c]) / 64,
                              TileBits{place->search.kernels(), tiles, t, place->search.planes(), hops}, std::min<int64_t>(64, rows - t * 64));
                }
            }
        }
    });
}

} // namespace

int64_t TileLists::bytes() const
{
    return int64_t(map.size() + rank.size() * sizeof(uint32_t) + offsets.size() * sizeof(uint32_t) +
                   (tileStart.size() + blockStart.size()) * sizeof(int64_t) + entries.size() * sizeof(uint16_t));
}

TileListsView TileLists::view() const
{
    return {queryBlocks, keyBlocks, mapStride, rankStride, map, rank, tileStart, offsets, blockStart, entries};
}

Result<std::vector<TileLists>> buildTileLists(CsrView graph, int32_t hops, int64_t queryBegin, int64_t queryEnd,
                                              std::span<const int64_t> keyCuts, const ParallelFor& parallel, std::stop_token stop)
{
    auto legal = check(graph, hops, kMostListHops, queryBegin, queryEnd, keyCuts);
    if (!legal)
        return std::move(legal).error();
    const int64_t queryBlocks = (queryEnd - queryBegin + 63) / 64;
    const size_t intervals = keyCuts.empty() ? 0 : keyCuts.size() - 1;
    std::vector<TileLists> out(intervals);
    struct Block { std::vector<uint32_t> offsets; std::vector<uint16_t> entries; std::vector<int64_t> tileBlocks; int64_t near = 0, dense = 0, constant = 0; };
    std::vector<std::vector<Block>> blocks(intervals, std::vector<Block>(size_t(queryBlocks)));
    for (size_t c = 0; c < intervals; ++c) {
        TileLists& lists = out[c];
        lists.queryBlocks = queryBlocks;
        lists.keyBlocks = (keyCuts[c + 1] - keyCuts[c] + 63) / 64;
        lists.mapStride = (lists.keyBlocks + 3) / 4;
        lists.rankStride = (lists.keyBlocks + kCheckpoint - 1) / kCheckpoint;
        lists.map.assign(size_t(queryBlocks * lists.mapStride), 0);
        lists.rank.assign(size_t(queryBlocks * lists.rankStride), 0);
    }
    forTouchedTiles(graph, hops, queryBegin, queryEnd, keyCuts, parallel, stop,
                    [&](int32_t, int64_t qb, size_t c, int64_t kb, const TileBits& tile, int64_t validRows) {
        TileLists& lists = out[c];
        Block& block = blocks[c][size_t(qb)];
        // the whole valid tile of the interval counts, a graph token's row or column included
        const int64_t validKeys = std::min<int64_t>(64, keyCuts[c + 1] - keyCuts[c] - kb * 64);
        const Verdict verdict = judge(tile, validRows * validKeys);
        lists.map[size_t(qb * lists.mapStride + kb / 4)] |= uint8_t(unsigned(verdict.kind) << (kb % 4 * 2));
        block.tileBlocks.push_back(kb);
        block.near += tile.near();
        if (verdict.kind == TileKind::Const) {
            block.offsets.push_back(uint32_t(verdict.constant));
            ++block.constant;
            return;
        }
        block.offsets.push_back(uint32_t(block.entries.size()));
        if (verdict.kind == TileKind::Dense) {
            appendDense(tile, block.entries);
            ++block.dense;
        } else {
            appendList(tile, block.entries);
        }
    });
    if (stop.stop_requested())
        return Error{ErrorCode::Cancelled, "distance lists: cancelled"};
    for (size_t c = 0; c < intervals; ++c) {
        TileLists& lists = out[c];
        lists.tileStart.push_back(0);
        lists.blockStart.push_back(0);
        size_t tiles = 0, units = 0;
        for (const Block& block : blocks[c]) {
            tiles += block.offsets.size();
            units += block.entries.size();
        }
        lists.offsets.reserve(tiles);
        lists.entries.reserve(units);
        for (int64_t qb = 0; qb < queryBlocks; ++qb) {
            Block& block = blocks[c][size_t(qb)];
            size_t before = 0;
            for (int64_t r = 0; r < lists.rankStride; ++r) {
                while (before < block.tileBlocks.size() && block.tileBlocks[before] < r * kCheckpoint)
                    ++before;
                lists.rank[size_t(qb * lists.rankStride + r)] = uint32_t(before);
            }
            lists.offsets.insert(lists.offsets.end(), block.offsets.begin(), block.offsets.end());
            lists.entries.insert(lists.entries.end(), block.entries.begin(), block.entries.end());
            lists.tileStart.push_back(int64_t(lists.offsets.size()));
            lists.blockStart.push_back(int64_t(lists.entries.size()));
            lists.nearPairs += block.near;
            const int64_t listTiles = int64_t(block.offsets.size()) - block.dense - block.constant;
            lists.listTiles += listTiles;
            lists.listPairs += int64_t(block.entries.size()) - listTiles - kPlaneUnits * planeCount(hops) * block.dense;
            lists.touchedTiles += int64_t(block.offsets.size());
            lists.denseTiles += block.dense;
            lists.constTiles += block.constant;
            block = {};
        }
    }
    return out;
}

Result<std::vector<TileSummary>> summarizeTiles(CsrView graph, int32_t hops, std::span<const int64_t> cuts,
                                                const ParallelFor& parallel, std::stop_token stop)
{
    const size_t intervals = cuts.empty() ? 0 : cuts.size() - 1;
    const size_t levels = size_t(hops) + 1;
    std::vector<TileSummary> out(intervals * intervals);
    for (TileSummary& summary : out)
        summary.hopPairs.assign(levels, 0);
    for (size_t i = 0; i < intervals; ++i) {
        auto legal = check(graph, hops, kMostPlaneHops, cuts[i], cuts[i + 1], cuts);
        if (!legal)
            return std::move(legal).error();
        // one accumulator per slot: integer counts, so their sum does not depend on the order
        std::vector<std::vector<TileSummary>> perSlot(size_t(parallel.slots()), std::vector<TileSummary>(intervals));
        for (auto& slot : perSlot)
            for (TileSummary& summary : slot)
                summary.hopPairs.assign(levels, 0);
        forTouchedTiles(graph, hops, cuts[i], cuts[i + 1], cuts, parallel, stop,
                        [&](int32_t slot, int64_t, size_t c, int64_t kb, const TileBits& tile, int64_t validRows) {
            TileSummary& summary = perSlot[size_t(slot)][c];
            const Verdict verdict = judge(tile, validRows * std::min<int64_t>(64, cuts[c + 1] - cuts[c] - kb * 64));
            summary.nearPairs += tile.near();
            ++summary.touchedTiles;
            summary.listTiles += verdict.kind == TileKind::List;
            summary.listPairs += verdict.kind == TileKind::List ? tile.near() : 0;
            summary.denseTiles += verdict.kind == TileKind::Dense;
            summary.constTiles += verdict.kind == TileKind::Const;
            int64_t counts[kMostPlaneHops + 1] = {};
            tile.count(counts);
            for (size_t t = 0; t < levels; ++t)
                summary.hopPairs[t] += double(counts[t]);
        });
        for (const auto& slot : perSlot) {
            for (size_t c = 0; c < intervals; ++c) {
                TileSummary& sum = out[i * intervals + c];
                sum.nearPairs += slot[c].nearPairs;
                sum.touchedTiles += slot[c].touchedTiles;
                sum.listTiles += slot[c].listTiles;
                sum.listPairs += slot[c].listPairs;
                sum.denseTiles += slot[c].denseTiles;
                sum.constTiles += slot[c].constTiles;
                for (size_t t = 0; t < levels; ++t)
                    sum.hopPairs[t] += slot[c].hopPairs[t];
            }
        }
    }
    if (stop.stop_requested())
        return Error{ErrorCode::Cancelled, "distance counts: cancelled"};
    return out;
}

int64_t farPairs(std::span<const int32_t> component, int64_t nearPairs)
{
    std::vector<int64_t> size;
    for (const int32_t c : component) {
        if (c < 0) // a graph token
            continue;
        if (size.size() <= size_t(c))
            size.resize(size_t(c) + 1, 0);
        ++size[size_t(c)];
    }
    int64_t pairs = 0;
    for (const int64_t nodes : size)
        pairs += nodes * nodes;
    return pairs - nearPairs;
}

std::vector<uint8_t> plainDistances(CsrView graph, int64_t source, int32_t hops)
{
    std::vector<uint8_t> out(size_t(graph.nodes), uint8_t(hops + 1));
    std::vector<int32_t> frontier{int32_t(source)}, next;
    out[size_t(source)] = 0;
    for (int32_t t = 1; t <= hops && !frontier.empty(); ++t) {
        next.clear();
        for (const int32_t v : frontier) {
            for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e) {
                const int32_t u = graph.indices[size_t(e)];
                if (out[size_t(u)] > hops) {
                    out[size_t(u)] = uint8_t(t);
                    next.push_back(u);
                }
            }
        }
        frontier.swap(next);
    }
    return out;
}

} // namespace megagraph::kernels
