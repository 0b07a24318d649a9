// SPDX-License-Identifier: Apache-2.0
// Truncated multi-source BFS over 512 sources at a time (models design, 2.4). A Search owns the memory of one pass and is used
// by one thread at a time; a pass may spread its wide levels over a ParallelFor. Same bits for any thread count and any
// instruction set. Memory: 64 w N + 192 N bytes and 8 N for lists of nodes, w = planeCount(K).
#pragma once

#include "core/result.h"
#include "kernels/cpu/search.h"
#include "kernels/graph/csr.h"
#include "kernels/types.h"

#include <stop_token>
#include <vector>

namespace megagraph::kernels {

constexpr int64_t kSources = 512; // bit lanes of one search: 8 query blocks

class Search {
  public:
    /// `graph` symmetric and outliving the search; 0 <= hops <= kMostPlaneHops.
    Search(CsrView graph, int32_t hops);

    /// Distances from `sources` (node numbers, at most 512; one may occur twice) within K hops. False if stopped: the result is
    /// then incomplete. The stop token is looked at before every 65,536 nodes of a level.
    bool run(std::span<const int32_t> sources, const ParallelFor& parallel, const std::stop_token& stop);

    /// The 8 tiles of all sources and the nodes [first, first + count), count <= 64.
    void tiles(int64_t first, int64_t count, cpu::SearchTiles& out) const { kernels_.tiles(call_, first, count, out); }
    /// Their planes; to[tile] = null: not wanted.
    void planesOut(int64_t first, int64_t count, uint64_t* const* to) const { kernels_.planesOut(call_, first, count, to); }
    /// Bytes of N nodes and K hops.
    static int64_t bytes(int64_t nodes, int32_t hops);

    int32_t hops() const { return hops_; }
    int32_t planes() const { return call_.planes; }
    const cpu::SearchKernels& kernels() const { return kernels_; }
    const cpu::SearchCall& call() const { return call_; }
    /// Room that is free between two runs, at least the planes of 8 query blocks over N + 1 keys: `strips` put their planes there.
    std::span<uint64_t> spare()
    {
        spareUsed_ = true;
        return balls_;
    }

  private:
    void clean();
    void start(std::span<const int32_t> sources);
    bool pushLevels(int32_t& level, const std::stop_token& stop);
    bool pullLevel(const ParallelFor& parallel, const std::stop_token& stop, bool& grew);

    CsrView graph_;
    int32_t hops_;
    const cpu::SearchKernels& kernels_;
    cpu::SearchCall call_{};
    std::vector<uint64_t> balls_, codes_, reached_; // balls_: visited, current, next
    std::vector<int32_t> frontier_, touched_;
    uint64_t lanes_[cpu::kSearchWords] = {};
    bool used_ = false, spareUsed_ = false;
};

/// One pass as plain arrays: codes of (sources) x (all nodes).
struct SourceDistances {
    int32_t hops = 0;
    std::vector<uint8_t> codes;     // [sources, nodes] 0..K, K + 1 beyond (far or unreachable)
    std::vector<int64_t> histogram; // [K + 1] pairs at distance t
};
/// Errors: InvalidInput (over 512 sources, a source outside the graph, K outside 0..27), Cancelled.
Result<SourceDistances> multiSourceDistances(CsrView graph, std::span<const int32_t> sources, int32_t hops,
                                             const ParallelFor& parallel, std::stop_token stop);

} // namespace megagraph::kernels
