// SPDX-License-Identifier: Apache-2.0
// Bytes of the distance structure per storage policy and the choice `auto` between them (models design, 2.3): one set of formulas
// for the planner, the workers and the tests, which hold them against what the builders store. K hops, w bit planes,
// n own query rows, N keys of one interval. Pure; counts fit int64 up to 2^28 tokens.
#pragma once

#include "core/plan.h"

#include <cstdint>

namespace megagraph {

constexpr int64_t kMostListHops = 15; ///< an entry of a list has four bits for the class

/// w = ceil(log2(K + 2)).
int32_t biasPlanes(int64_t hops);

/// What the `lists` of (n rows) x (N keys) hold; TileSummary (kernels/graph/tiles.h) counts it.
struct ListCounts {
    int64_t listPairs = 0;    // near pairs in List tiles
    int64_t listTiles = 0, denseTiles = 0, touchedTiles = 0;
};
/// Exactly the storage of kernels TileLists.
int64_t listBytes(int64_t rows, int64_t keys, int64_t hops, const ListCounts& counts);
/// 2 ν + 4 τ + n N / 16,384 + n N / 262,144 + n / 8: before tiles are judged, from near pairs and touched tiles alone.
int64_t listBytesEstimate(int64_t rows, int64_t keys, int64_t nearPairs, int64_t touchedTiles);
/// Exactly the storage of kernels TilePlanes for one graph: 512 w per tile.
int64_t planeBytes(int64_t rows, int64_t keys, int64_t hops);
/// The same for a pack with `tiles` tiles inside the key ranges.
int64_t packPlaneBytes(int64_t rows, int64_t hops, int64_t tiles);
/// Exactly the memory of kernels StripPlanes for a graph of `nodes`: planes of the search, its lines or the strip in their
/// place (the larger), lists of nodes.
int64_t stripBytes(int64_t nodes, int64_t hops);
/// Exactly the storage of kernels EdgeTiles with values of `heads` heads.
int64_t edgeTileBytes(int64_t rows, int64_t edges, int64_t touchedTiles, int64_t heads);

/// What plans and profiles of a model hold before anyone chooses: lists while an entry has room for K, then planes.
inline BiasPolicy usualBiasPolicy(int64_t hops) { return hops > kMostListHops ? BiasPolicy::Planes : BiasPolicy::Lists; }

struct BiasChoice {
    int64_t rows = 0, keys = 0, hops = 0; // n, N over all key intervals, K
    int64_t nearPairs = 0, touchedTiles = 0;
    int64_t packTiles = -1;               // >= 0: a pack with that many tiles inside its key ranges
    int64_t budgetBytes = 0;              // for the distance structure of this rank
};
/// Policy `auto`: packs take planes; K <= 2, or lists that are smaller than planes and fit, take lists; then planes if they fit,
/// else strips. K over 15 has no lists, over 27 nothing (legality is checked elsewhere).
BiasPolicy chooseBiasPolicy(const BiasChoice& choice);

} // namespace megagraph
