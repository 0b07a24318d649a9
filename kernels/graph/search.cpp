// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/search.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <fmt/format.h>

namespace megagraph::kernels {
namespace {

constexpr int64_t kWords = cpu::kSearchWords;
constexpr int64_t kChunk = 1 << 16; // nodes between two looks at the stop token
constexpr int64_t kPushCost = 4;    // a pushed entry costs about four pulled ones

/// Three lines per node, or the planes of a strip over all key blocks (the last one ragged).
int64_t ballWords(int64_t nodes, int32_t planes)
{
    return (nodes + kTile) * kWords * std::max(3, planes);
}

} // namespace

Search::Search(CsrView graph, int32_t hops)
    : graph_(graph), hops_(hops), kernels_(cpu::searchKernels()), balls_(size_t(ballWords(graph.nodes, planeCount(hops)))),
      codes_(size_t(graph.nodes * kWords * planeCount(hops)), ~uint64_t(0)), reached_(size_t((graph.nodes + 63) / 64)),
      frontier_(size_t(graph.nodes)), touched_(size_t(graph.nodes))
{
    call_.nodes = graph.nodes;
    call_.entries = int64_t(graph.indices.size());
    call_.indptr = graph.indptr.data();
    call_.indices = graph.indices.data();
    call_.planes = planeCount(hops);
    call_.lanes = lanes_;
    call_.codes = codes_.data();
    call_.reached = reached_.data();
}

int64_t Search::bytes(int64_t nodes, int32_t hops)
{
    return 8 * (ballWords(nodes, planeCount(hops)) + nodes * kWords * planeCount(hops) + (nodes + 63) / 64) + 8 * nodes;
}

/// Back to the state of a fresh search: only lines of reached nodes differ from it.
void Search::clean()
{
    if (spareUsed_)
        std::fill(balls_.begin(), balls_.end(), 0);
    const int64_t width = call_.planes * kWords, ball = graph_.nodes * kWords;
    for (size_t block = 0; block < reached_.size(); ++block) {
        for (uint64_t rest = reached_[block]; rest != 0; rest &= rest - 1) {
            const int64_t node = int64_t(block) * 64 + std::countr_zero(rest);
            std::fill_n(codes_.begin() + node * width, width, ~uint64_t(0));
            for (int64_t array = 0; array < 3 && !spareUsed_; ++array)
                std::fill_n(balls_.begin() + array * ball + node * kWords, kWords, 0);
        }
        reached_[block] = 0;
    }
    spareUsed_ = false;
}

void Search::start(std::span<const int32_t> sources)
{
    if (used_)
        clean();
    used_ = true;
    call_.visited = balls_.data();
    call_.current = call_.visited + graph_.nodes * kWords;
    call_.next = call_.current + graph_.nodes * kWords;
    call_.frontierSize = 0;
    std::fill(std::begin(lanes_), std::end(lanes_), 0);
    for (size_t s = 0; s < sources.size(); ++s) {
        const int64_t node = sources[s], word = node * kWords + int64_t(s) / 64;
        const uint64_t bit = uint64_t(1) << (s % 64), nodeBit = uint64_t(1) << (node % 64);
        lanes_[s / 64] |= bit;
        call_.visited[word] |= bit;
        call_.current[word] |= bit;
        for (int32_t p = 0; p < call_.planes; ++p)
            call_.codes[(node * call_.planes + p) * kWords + int64_t(s) / 64] &= ~bit;
        if ((reached_[size_t(node / 64)] & nodeBit) == 0)
            frontier_[size_t(call_.frontierSize++)] = int32_t(node);
        reached_[size_t(node / 64)] |= nodeBit;
    }
}

/// Levels with a short frontier; `level` becomes the first one that is not done. False if stopped.
bool Search::pushLevels(int32_t& level, const std::stop_token& stop)
{
    for (; level <= hops_ && call_.frontierSize > 0; ++level) {
        int64_t entries = 0;
        for (int64_t i = 0; i < call_.frontierSize; ++i) {
            const size_t node = size_t(frontier_[size_t(i)]);
            entries += graph_.indptr[node + 1] - graph_.indptr[node];
        }
        if (entries * kPushCost > int64_t(graph_.indices.size()))
            return true;
        if (stop.stop_requested())
            return false;
        call_.level = level;
        call_.frontier = frontier_.data();
        call_.touched = touched_.data();
        call_.frontierSize = kernels_.push(call_);
        frontier_.swap(touched_);
        std::swap(call_.current, call_.next);
    }
    return true;
}

bool Search::pullLevel(const ParallelFor& parallel, const std::stop_token& stop, bool& grew)
{
    // chunks start at multiples of 64: a word of `reached` belongs to one of them
    const int64_t slots = parallel.slots();
    const int64_t step = slots == 1 ? kChunk : std::clamp<int64_t>(graph_.nodes / (4 * slots) / 64 * 64, 64, kChunk);
    std::atomic<bool> any{false};
    parallel.run((graph_.nodes + step - 1) / step, [&](int64_t chunk, int32_t) {
        if (!stop.stop_requested() && kernels_.pull(call_, chunk * step, std::min(graph_.nodes, (chunk + 1) * step)))
            any.store(true, std::memory_order_relaxed);
    });
    grew = any.load();
    return !stop.stop_requested();
}

bool Search::run(std::span<const int32_t> sources, const ParallelFor& parallel, const std::stop_token& stop)
{
    start(sources);
    int32_t level = 1;
    if (!pushLevels(level, stop))
        return false;
    if (call_.frontierSize == 0)
        return !stop.stop_requested();
    for (; level <= hops_; ++level) {
        call_.level = level;
        bool grew = false;
        if (!pullLevel(parallel, stop, grew))
            return false;
        std::swap(call_.visited, call_.next);
        if (!grew)
            break;
    }
    return true;
}

Result<SourceDistances> multiSourceDistances(CsrView graph, std::span<const int32_t> sources, int32_t hops,
                                             const ParallelFor& parallel, std::stop_token stop)
{
    if (hops < 0 || hops > kMostPlaneHops)
        return Error{ErrorCode::InvalidInput, fmt::format("distances: hops: out of range, got {}, expected 0 to {}; cut distances earlier", hops, kMostPlaneHops)};
    if (int64_t(sources.size()) > kSources)
        return Error{ErrorCode::InvalidInput, fmt::format("distances: sources: got {}, expected at most {}; ask in several calls", sources.size(), kSources)};
    for (const int32_t s : sources) {
        if (s < 0 || s >= graph.nodes)
            return Error{ErrorCode::InvalidInput, fmt::format("distances: sources: got node {}, expected 0 to {}; pass nodes of this graph", s, graph.nodes - 1)};
    }
    Search search(graph, hops);
    if (!search.run(sources, parallel, stop))
        return Error{ErrorCode::Cancelled, "distances: cancelled"};
    SourceDistances out{hops, std::vector<uint8_t>(sources.size() * size_t(graph.nodes), uint8_t(hops + 1)), std::vector<int64_t>(size_t(hops) + 1, 0)};
    cpu::SearchTiles tiles;
    for (int64_t key = 0; key < graph.nodes; key += 64) {
        search.tiles(key, std::min<int64_t>(64, graph.nodes - key), tiles);
        for (int64_t t = 0; tiles.keys != 0 && t < kWords; ++t) {
            search.kernels().count(tiles, search.planes(), hops, int32_t(t), out.histogram.data());
            for (uint64_t keys = tiles.keys; keys != 0; keys &= keys - 1) {
                const int c = std::countr_zero(keys);
                for (uint64_t rest = tiles.near[t][c]; rest != 0; rest &= rest - 1) {
                    const int bit = std::countr_zero(rest);
                    int code = 0;
                    for (int32_t p = 0; p < search.planes(); ++p)
                        code |= int(tiles.code[p][t][c] >> bit & 1) << p;
                    out.codes[size_t((t * 64 + bit) * graph.nodes + key + c)] = uint8_t(code);
                }
            }
        }
    }
    return out;
}

} // namespace megagraph::kernels
