// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/tiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>

namespace megagraph::kernels {
namespace {

constexpr int64_t kSources = 512; // bit lanes of one search: 8 query blocks
constexpr int64_t kWords = kSources / 64;
constexpr int64_t kCheckpoint = 256;        // key blocks per rank checkpoint
constexpr int64_t kPlaneUnits = 64 * 64 / 16; // uint16 units of one plane of a dense tile
constexpr int32_t kMostHops = 15;           // class code of a list entry has 4 bits

/// Frontiers of one truncated search from up to 512 neighbouring sources: plane t holds, per node, the sources at distance t.
class Search {
  public:
    Search(CsrView graph, int32_t hops) : graph_(graph), planes_(size_t(hops) + 1), visited_(size_t(graph.nodes * kWords))
    {
        for (auto& plane : planes_)
            plane.resize(size_t(graph.nodes * kWords));
    }

    void run(int64_t first, int64_t count)
    {
        std::fill(visited_.begin(), visited_.end(), 0);
        std::fill(planes_[0].begin(), planes_[0].end(), 0);
        for (int64_t s = 0; s < count; ++s) {
            const int64_t word = (first + s) * kWords + s / 64;
            planes_[0][size_t(word)] |= uint64_t(1) << (s % 64);
            visited_[size_t(word)] |= uint64_t(1) << (s % 64);
        }
        for (size_t t = 1; t < planes_.size(); ++t)
            step(planes_[t - 1].data(), planes_[t].data());
    }

    const uint64_t* plane(size_t t) const { return planes_[t].data(); }
    size_t levels() const { return planes_.size(); }

  private:
    void step(const uint64_t* __restrict current, uint64_t* __restrict next)
    {
        for (int64_t v = 0; v < graph_.nodes; ++v) {
            uint64_t reached[kWords] = {};
            for (int64_t e = graph_.indptr[size_t(v)]; e < graph_.indptr[size_t(v) + 1]; ++e) {
                const uint64_t* from = current + int64_t(graph_.indices[size_t(e)]) * kWords;
                for (int64_t w = 0; w < kWords; ++w)
                    reached[w] |= from[w];
            }
            uint64_t* seen = visited_.data() + v * kWords;
            for (int64_t w = 0; w < kWords; ++w) {
                next[v * kWords + w] = reached[w] & ~seen[w];
                seen[w] |= reached[w];
            }
        }
    }

    CsrView graph_;
    std::vector<std::vector<uint64_t>> planes_;
    std::vector<uint64_t> visited_;
};

/// Words of one tile: bits[t][key] holds the rows at distance t from that key.
struct TileBits {
    std::array<std::array<uint64_t, 64>, kMostHops + 1> bits;
    std::array<int64_t, kMostHops + 1> pairs{};
    int64_t near = 0;
};

void readTile(const Search& search, int64_t key, int64_t keys, int64_t word, TileBits& tile)
{
    tile.near = 0;
    for (size_t t = 0; t < search.levels(); ++t) {
        const uint64_t* plane = search.plane(t) + key * kWords + word;
        int64_t pairs = 0;
        for (int64_t c = 0; c < keys; ++c) {
            tile.bits[t][size_t(c)] = plane[c * kWords];
            pairs += std::popcount(plane[c * kWords]);
        }
        tile.pairs[t] = pairs;
        tile.near += pairs;
    }
}

struct Verdict { TileKind kind = TileKind::Base; int32_t constant = 0; };

Verdict judge(const TileBits& tile, size_t levels, int64_t allPairs)
{
    if (tile.near == 0)
        return {};
    for (size_t t = 0; t < levels; ++t) {
        if (tile.pairs[t] == allPairs)
            return {TileKind::Const, int32_t(t)};
    }
    return {tile.near + 1 > kPlaneUnits * planeCount(int32_t(levels) - 1) ? TileKind::Dense : TileKind::List, 0};
}

/// Entries sorted by (row, col): columns come in order, so a stable count by row is enough.
void appendList(const TileBits& tile, size_t levels, int64_t keys, std::vector<uint16_t>& out)
{
    std::array<uint16_t, 65> start{};
    for (size_t t = 0; t < levels; ++t) {
        for (int64_t c = 0; c < keys; ++c) {
            for (uint64_t rest = tile.bits[t][size_t(c)]; rest != 0; rest &= rest - 1)
                ++start[size_t(std::countr_zero(rest)) + 1];
        }
    }
    for (size_t r = 0; r < 64; ++r)
        start[r + 1] = uint16_t(start[r + 1] + start[r]);
    const size_t base = out.size();
    out.resize(base + 1 + size_t(tile.near));
    out[base] = uint16_t(tile.near);
    for (int64_t c = 0; c < keys; ++c) {
        for (size_t t = 0; t < levels; ++t) {
            for (uint64_t rest = tile.bits[t][size_t(c)]; rest != 0; rest &= rest - 1) {
                const auto row = unsigned(std::countr_zero(rest));
                out[base + 1 + start[row]++] = uint16_t(row << 10 | unsigned(c) << 4 | unsigned(t));
            }
        }
    }
}

/// Planes as in TilePlanesView; pairs without a class have all bits.
void appendDense(const TileBits& tile, size_t levels, int64_t keys, std::vector<uint16_t>& out)
{
    const auto planes = size_t(planeCount(int32_t(levels) - 1));
    std::vector<uint64_t> words(planes * 64, ~uint64_t(0));
    for (size_t t = 0; t < levels; ++t) {
        for (int64_t c = 0; c < keys; ++c) {
            for (uint64_t rest = tile.bits[t][size_t(c)]; rest != 0; rest &= rest - 1) {
                for (size_t p = 0; p < planes; ++p) {
                    if ((t >> p & 1) == 0)
                        words[p * 64 + size_t(std::countr_zero(rest))] &= ~(uint64_t(1) << c);
                }
            }
        }
    }
    const size_t base = out.size();
    out.resize(base + words.size() * 4);
    std::memcpy(out.data() + base, words.data(), words.size() * 8);
}

Result<Ok> check(CsrView graph, int32_t hops, int64_t begin, int64_t end, std::span<const int64_t> cuts)
{
    if (hops < 0 || hops > kMostHops)
        return Error{ErrorCode::InvalidInput, fmt::format("distance lists: hops: out of range, got {}, expected 0 to {}; cut distances earlier", hops, kMostHops)};
    if (begin < 0 || begin > end || end > graph.nodes + 1)
        return Error{ErrorCode::InvalidInput, fmt::format("distance lists: query rows: got [{}, {}), expected an interval of {} tokens", begin, end, graph.nodes)};
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        if (cuts[c] < 0 || cuts[c] > cuts[c + 1] || cuts[c + 1] > graph.nodes + 1)
            return Error{ErrorCode::InvalidInput, fmt::format("distance lists: key cuts: got [{}, {}) at {}, expected rising offsets up to {}", cuts[c], cuts[c + 1], c, graph.nodes)};
    }
    return Ok{};
}

/// Calls visit(slot, queryBlock, interval, keyBlock, tile, validRows, validKeys) for every touched tile; key blocks of one
/// (query block, interval) come in order. Query blocks are counted from `begin`. Batches are independent tasks.
template <class Visit>
void forTouchedTiles(CsrView graph, int32_t hops, int64_t begin, int64_t end, std::span<const int64_t> cuts,
                     const ParallelFor& parallel, const std::stop_token& stop, const Visit& visit)
{
    const int64_t batches = (end - begin + kSources - 1) / kSources;
    std::vector<std::unique_ptr<Search>> searches(size_t(parallel.slots()));
    parallel.run(batches, [&](int64_t batch, int32_t slot) {
        if (stop.stop_requested())
            return;
        auto& search = searches[size_t(slot)];
        if (!search)
            search = std::make_unique<Search>(graph, hops);
        const int64_t first = begin + batch * kSources;
        const int64_t sources = std::min(kSources, end - first);
        search->run(first, std::clamp<int64_t>(graph.nodes - first, 0, sources)); // a graph token has no near pairs
        TileBits tile;
        for (size_t c = 0; c + 1 < cuts.size(); ++c) {
            const int64_t keyEnd = std::min(cuts[c + 1], graph.nodes);
            for (int64_t key = cuts[c]; key < keyEnd; key += 64) {
                const int64_t keys = std::min<int64_t>(64, keyEnd - key);
                uint64_t any[kWords] = {};
                for (size_t t = 0; t < search->levels(); ++t) {
                    const uint64_t* plane = search->plane(t) + key * kWords;
                    for (int64_t i = 0; i < keys * kWords; ++i)
                        any[i % kWords] |= plane[i];
                }
                for (int64_t w = 0; w * 64 < sources; ++w) {
                    if (any[w] == 0)
                        continue;
                    readTile(*search, key, keys, w, tile);
                    visit(slot, batch * kWords + w, c, (key - cuts[c]) / 64, tile, std::min<int64_t>(64, sources - w * 64), keys);
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
    auto legal = check(graph, hops, queryBegin, queryEnd, keyCuts);
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
    const size_t levels = size_t(hops) + 1;
    forTouchedTiles(graph, hops, queryBegin, queryEnd, keyCuts, parallel, stop,
                    [&](int32_t, int64_t qb, size_t c, int64_t kb, const TileBits& tile, int64_t validRows, int64_t) {
        TileLists& lists = out[c];
        Block& block = blocks[c][size_t(qb)];
        // the whole valid tile of the interval counts, a graph token's row or column included
        const int64_t validKeys = std::min<int64_t>(64, keyCuts[c + 1] - keyCuts[c] - kb * 64);
        const Verdict verdict = judge(tile, levels, validRows * validKeys);
        lists.map[size_t(qb * lists.mapStride + kb / 4)] |= uint8_t(unsigned(verdict.kind) << (kb % 4 * 2));
        block.tileBlocks.push_back(kb);
        block.near += tile.near;
        if (verdict.kind == TileKind::Const) {
            block.offsets.push_back(uint32_t(verdict.constant));
            ++block.constant;
            return;
        }
        block.offsets.push_back(uint32_t(block.entries.size()));
        const int64_t keys = std::min<int64_t>(64, std::min(keyCuts[c + 1], graph.nodes) - keyCuts[c] - kb * 64);
        if (verdict.kind == TileKind::Dense) {
            appendDense(tile, levels, keys, block.entries);
            ++block.dense;
        } else {
            appendList(tile, levels, keys, block.entries);
        }
    });
    if (stop.stop_requested())
        return Error{ErrorCode::Cancelled, "distance lists: cancelled"};
    for (size_t c = 0; c < intervals; ++c) {
        TileLists& lists = out[c];
        lists.tileStart.push_back(0);
        lists.blockStart.push_back(0);
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
        auto legal = check(graph, hops, cuts[i], cuts[i + 1], cuts);
        if (!legal)
            return std::move(legal).error();
        // one accumulator per slot: integer counts, so their sum does not depend on the order
        std::vector<std::vector<TileSummary>> perSlot(size_t(parallel.slots()), std::vector<TileSummary>(intervals));
        for (auto& slot : perSlot)
            for (TileSummary& summary : slot)
                summary.hopPairs.assign(levels, 0);
        forTouchedTiles(graph, hops, cuts[i], cuts[i + 1], cuts, parallel, stop,
                        [&](int32_t slot, int64_t, size_t c, int64_t kb, const TileBits& tile, int64_t validRows, int64_t) {
            TileSummary& summary = perSlot[size_t(slot)][c];
            const Verdict verdict = judge(tile, levels, validRows * std::min<int64_t>(64, cuts[c + 1] - cuts[c] - kb * 64));
            summary.nearPairs += tile.near;
            ++summary.touchedTiles;
            summary.listTiles += verdict.kind == TileKind::List;
            summary.denseTiles += verdict.kind == TileKind::Dense;
            summary.constTiles += verdict.kind == TileKind::Const;
            for (size_t t = 0; t < levels; ++t)
                summary.hopPairs[t] += double(tile.pairs[t]);
        });
        for (const auto& slot : perSlot) {
            for (size_t c = 0; c < intervals; ++c) {
                TileSummary& sum = out[i * intervals + c];
                sum.nearPairs += slot[c].nearPairs;
                sum.touchedTiles += slot[c].touchedTiles;
                sum.listTiles += slot[c].listTiles;
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
