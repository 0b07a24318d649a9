// SPDX-License-Identifier: Apache-2.0
// Edge values of dense attention (kernels/types.h, EdgeValues): one addend per stored pair of a 64 x 64 tile. The pairs
// of a tile come into shared memory as bits of its query rows; a lane looks at the bits of its fragment and finds a
// value by the number of set bits before it. So neither classes nor the number of pairs of a tile are limited.
#pragma once

#include "kernels/cuda/attention_classes.cuh"

namespace megagraph::kernels::cuda {

/// mask: bit c of word w of a query row = pair (row, 32 w + c). The values of a row lie one behind another from
/// start[row], counted from `first` of the tile; rows without a pair have no start.
struct EdgeRows {
    uint32_t mask[kTile][2];
    uint16_t start[kTile];
    int64_t first;
    int32_t count, reserved;
};
static_assert(sizeof(EdgeRows) % 16 == 0);

struct EdgeLook {
    int64_t first;
    int32_t count;
};

/// Edge tile at a place, count 0 if none. By a whole warp, which looks at 32 tiles at a time.
__device__ __forceinline__ EdgeLook findEdges(const DenseParams& p, int64_t queryBlock, int64_t keyBlock)
{
    const MegagraphCudaEdgeValues& edges = p.edges;
    const int lane = int(threadIdx.x & 31);
    int64_t low = readGlobal(edges.blockStart + queryBlock), high = readGlobal(edges.blockStart + queryBlock + 1);
    while (high - low > 32) { // lane i has the first tile of part i
        const int64_t part = (high - low + 31) / 32, at = low + lane * part;
        const bool before = at < high && int64_t(readGlobal(&edges.tiles[at].keyBlock)) <= keyBlock;
        const int parts = __popc(__ballot_sync(kAllLanes, before));
        if (parts == 0)
            return {0, 0};
        low += (parts - 1) * part;
        high = high - low < part ? high : low + part;
    }
    const int64_t at = low + lane;
    const bool here = at < high && int64_t(readGlobal(&edges.tiles[at].keyBlock)) == keyBlock;
    const uint32_t found = __ballot_sync(kAllLanes, here);
    if (found == 0)
        return {0, 0};
    const MegagraphCudaEdgeTile* tile = edges.tiles + low + (__ffs(int(found)) - 1);
    return {readGlobal(&tile->first), int32_t(readGlobal(&tile->count))};
}

/// By kExpanders threads, numbered `who`; a barrier must follow.
__device__ __forceinline__ void fillEdges(const DenseParams& p, int64_t queryBlock, int64_t keyBlock, EdgeRows* rows,
                                          int who, int barrier)
{
    static_assert(kExpanders == 2 * kTile);
    const EdgeLook look = findEdges(p, queryBlock, keyBlock);
    if (who == 0) {
        rows->first = look.first;
        rows->count = look.count;
    }
    if (look.count == 0)
        return;
    rows->mask[who >> 1][who & 1] = 0;
    namedBarrier(barrier, kExpanders);
    const uint16_t* positions = p.edges.positions + look.first;
#pragma unroll 1
    for (int e = who; e < look.count; e += kExpanders) {
        const uint32_t position = readGlobal(positions + e), row = position >> 6;
        atomicOr(&rows->mask[row][position >> 5 & 1], 1u << (position & 31));
        if (e == 0 || uint32_t(readGlobal(positions + e - 1)) >> 6 != row)
            rows->start[row] = uint16_t(e);
    }
}

/// Bits of `word` below `bit`.
__device__ __forceinline__ int bitsBefore(uint32_t word, uint32_t bit)
{
    return __popc(word & ((1u << bit) - 1));
}

/// Forward, 16 queries from `row0` of the tile x 64 keys: s += w in log2 units.
__device__ __forceinline__ void addEdgeRows(const DenseParams& p, int head, const EdgeRows& rows, int row0,
                                            float (&s)[8][4])
{
    if (rows.count == 0)
        return;
    __syncwarp(); // nothing is fetched ahead into registers that the scores need
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int lane = int(recomputed(threadIdx.x) & 31), g = lane >> 2, t = lane & 3, row = row0 + g + 8 * r;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t word = rows.mask[row][half];
            if ((word & 0x03030303u << (2 * t)) == 0)
                continue;
            const int before = rows.start[row] + (half == 0 ? 0 : __popc(rows.mask[row][0]));
            const float* mine =
                p.edges.values + (int(recomputed(uint32_t(head))) * p.edges.edges + rows.first + before);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int j = 4 * half + (i >> 1), b = i & 1;
                const uint32_t bit = uint32_t(8 * (i >> 1) + 2 * t + b);
                if ((word >> bit & 1) != 0)
                    s[j][2 * r + b] = fmaf(readGlobal(mine + bitsBefore(word, bit)), kLog2e, s[j][2 * r + b]);
            }
        }
    }
}

/// Backward, 16 keys from `key0` of the tile (a multiple of 16) x 8 kGroups queries from `row0`, keys as the fragment's
/// rows: body(j, i, place) for every pair of this lane, s[j][i] of the fragment and its place in a head's values.
template <int kGroups, class Body>
__device__ __forceinline__ void eachEdgeColumn(const EdgeRows& rows, int row0, int key0, Body&& body)
{
    if (rows.count == 0)
        return;
    const int lane = int(recomputed(threadIdx.x) & 31), g = lane >> 2, t = lane & 3;
    const uint32_t bit = uint32_t((key0 & 31) + g);
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
            const int row = row0 + 8 * j + 2 * t + b;
            const uint2 mask = *reinterpret_cast<const uint2*>(rows.mask[row]);
            const uint32_t word = key0 < 32 ? mask.x : mask.y;
            if ((word >> bit & 0x101u) == 0)
                continue;
            const int64_t begin = rows.first + rows.start[row] + (key0 < 32 ? 0 : __popc(mask.x));
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                if ((word >> (bit + 8 * r) & 1) != 0)
                    body(j, 2 * r + b, begin + bitsBefore(word, bit + 8 * r));
            }
        }
    }
}

} // namespace megagraph::kernels::cuda
