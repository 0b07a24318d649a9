// SPDX-License-Identifier: Apache-2.0
// Truncated multi-source BFS and the `lists` storage of distance classes (models design, 2.3 and 2.4). Distances are taken on
// the symmetrised graph of the sequence. Same bytes for any thread count.
#pragma once

#include "core/result.h"
#include "kernels/graph/csr.h"
#include "kernels/types.h"

#include <memory>
#include <stop_token>
#include <vector>

namespace megagraph::kernels {

/// Owner of one TileListsView.
struct TileLists {
    int64_t queryBlocks = 0, keyBlocks = 0, mapStride = 0, rankStride = 0;
    std::vector<uint8_t> map;
    std::vector<uint32_t> rank, offsets;
    std::vector<int64_t> tileStart, blockStart;
    std::vector<uint16_t> entries;
    int64_t nearPairs = 0, touchedTiles = 0, listTiles = 0, denseTiles = 0, constTiles = 0;
    int64_t listPairs = 0; // near pairs in List tiles
    int64_t bytes() const;
    TileListsView view() const;
};

struct TileSummary {
    int64_t nearPairs = 0, touchedTiles = 0, listTiles = 0, denseTiles = 0, constTiles = 0;
    int64_t listPairs = 0; // near pairs in List tiles
    std::vector<double> hopPairs; // [K + 1] pairs at distance 0..K
};

/// `graph` symmetric, in token order. Query rows [queryBegin, queryEnd) of the sequence, key intervals
/// [keyCuts[c], keyCuts[c+1]): one TileLists per interval, each with its own 64 grid starting at the interval's first token.
/// queryEnd and the last cut may be nodes + 1: the graph token (index N), which has no entries.
/// Errors: InvalidInput (K > 15, rows, cuts), Cancelled.
Result<std::vector<TileLists>> buildTileLists(CsrView graph, int32_t hops, int64_t queryBegin, int64_t queryEnd,
                                              std::span<const int64_t> keyCuts, const ParallelFor& parallel, std::stop_token stop);
/// Counts without storing, for GraphStats; K up to 27, Dense tiles as `lists` would judge them. Row i of the result: query
/// interval i against every key interval.
Result<std::vector<TileSummary>> summarizeTiles(CsrView graph, int32_t hops, std::span<const int64_t> cuts,
                                                const ParallelFor& parallel, std::stop_token stop); // C * C, row-major
/// Pairs of class far: pairs inside a component less the near ones (of all rows and keys). 0: the distances are exact.
int64_t farPairs(std::span<const int32_t> component, int64_t nearPairs);
/// Distance class 0..K of one source to all nodes by plain truncated BFS; K + 1 for everything else. The oracle.
std::vector<uint8_t> plainDistances(CsrView graph, int64_t source, int32_t hops);

} // namespace megagraph::kernels
