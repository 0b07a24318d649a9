// SPDX-License-Identifier: Apache-2.0
// Edge tiles of the edge encoding `hop1` (models design, 2.3): the entries of the graph on the tile grid of dense attention,
// whatever the bias policy. Owned results, pure; the same result for any number of calls.
#pragma once

#include "core/result.h"
#include "kernels/graph/csr.h"
#include "kernels/types.h"

#include <vector>

namespace megagraph::kernels {

/// Owner of one EdgeTilesView.
struct EdgeTiles {
    int64_t queryBlocks = 0, keyBlocks = 0;
    std::vector<int64_t> blockStart;
    std::vector<EdgeTile> tiles;
    std::vector<uint16_t> positions;
    std::vector<int64_t> entries; // [E] entry of the graph (index into indices) at each position: values come in this order
    /// Storage that attention reads; `entries` serve once, to bring features into order.
    int64_t bytes() const;
    EdgeTilesView view() const;
};

/// `graph` in token order, rows sorted, no entry twice. Query rows [queryBegin, queryEnd), key intervals
/// [keyCuts[c], keyCuts[c + 1]) as in buildTileLists; a graph token has no edges.
/// Errors: InvalidInput (rows, cuts, unsorted or repeated entries).
Result<std::vector<EdgeTiles>> buildEdgeTiles(CsrView graph, int64_t queryBegin, int64_t queryEnd, std::span<const int64_t> keyCuts);

} // namespace megagraph::kernels
