// SPDX-License-Identifier: Apache-2.0
// The keep bits of a warp's score fragments, the mask of kernels/dropout.h: one Philox4x32-7 call gives the draws of
// one row and 8 columns. A lane makes the calls of some column groups, compares the draws and passes 8 bits per call to
// its neighbours.
#pragma once

#include "kernels/cuda/attention_params.cuh"

namespace megagraph::kernels::cuda {

struct PhiloxWords {
    uint32_t word[4];
};

__device__ __forceinline__ PhiloxWords philox(const Mask& mask, uint32_t head, uint64_t row, uint64_t columnGroup)
{
    uint32_t c0 = uint32_t(columnGroup), c1 = uint32_t(row), c2 = mask.item, c3 = mask.layerSite | head << 8;
    uint32_t key0 = mask.key0, key1 = mask.key1;
#pragma unroll
    for (int round = 0; round < 7; ++round) {
        const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ key0;
        c1 = low1;
        c2 = high0 ^ c3 ^ key1;
        c3 = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

/// Bit c: column 8 columnGroup + c is kept.
__device__ __forceinline__ uint32_t keepEight(const Mask& mask, uint32_t head, uint64_t row, uint64_t columnGroup)
{
    const PhiloxWords words = philox(mask, head, row, columnGroup);
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        bits |= uint32_t((words.word[i] & 0xFFFFu) >= mask.threshold) << (2 * i);
        bits |= uint32_t((words.word[i] >> 16) >= mask.threshold) << (2 * i + 1);
    }
    return bits;
}
__device__ __forceinline__ uint32_t keepOne(const Mask& mask, uint32_t head, uint64_t row, uint64_t column)
{
    return keepEight(mask, head, row, column >> 3) >> (column & 7) & 1u;
}

/// Forward, 16 queries x 64 keys: bit 4j + 2r + b belongs to (row g + 8r, column 8j + 2t + b). row: global number of
/// the warp's first query; column: of the tile's first key.
__device__ __forceinline__ uint32_t keepRows(const Mask& mask, uint32_t head, uint64_t row, uint64_t column)
{
    const int lane = int(recomputed(threadIdx.x) & 31), g = lane >> 2, t = lane & 3;
    uint32_t keep = 0;
    if ((column & 7) != 0) {
#pragma unroll 1
        for (int e = 0; e < 32; ++e)
            keep |= keepOne(mask, head, row + uint64_t(g + 8 * (e >> 1 & 1)),
                            column + uint64_t(8 * (e >> 2) + 2 * t + (e & 1)))
                    << e;
        return keep;
    }
    uint32_t mine = 0; // byte 2r + i: row g + 8r, group 4i + t
#pragma unroll 1
    for (int call = 0; call < 4; ++call)
        mine |= keepEight(mask, head, row + uint64_t(g + 8 * (call >> 1)), (column >> 3) + uint64_t(4 * (call & 1) + t))
                << (8 * call);
#pragma unroll
    for (int source = 0; source < 4; ++source) {
        const uint32_t bits = shuffleFrom(mine, 4 * g + source) >> (2 * t);
#pragma unroll
        for (int call = 0; call < 4; ++call)
            keep |= (bits >> (8 * call) & 3u) << (4 * (4 * (call & 1) + source) + 2 * (call >> 1));
    }
    return keep;
}

/// Backward, 16 keys x 8 kGroups queries (keys are the fragment's rows): bit 4j + 2r + b belongs to (key g + 8r, query
/// 8j + 2t + b). row: global number of the first query; column: of the warp's first key.
template <int kGroups>
__device__ __forceinline__ uint32_t keepColumns(const Mask& mask, uint32_t head, uint64_t row, uint64_t column)
{
    const int lane = int(recomputed(threadIdx.x) & 31), g = lane >> 2, t = lane & 3;
    uint32_t keep = 0;
    if ((column & 7) != 0) {
#pragma unroll 1
        for (int e = 0; e < 4 * kGroups; ++e)
            keep |= keepOne(mask, head, row + uint64_t(8 * (e >> 2) + 2 * t + (e & 1)),
                            column + uint64_t(g + 8 * (e >> 1 & 1)))
                    << e;
        return keep;
    }
    constexpr int kCalls = kGroups / 2; // of a lane; call number 4j + 2b + r over the 8 lanes of one t
    uint32_t mine = 0;
#pragma unroll 1
    for (int i = 0; i < kCalls; ++i) {
        const int call = g * kCalls + i;
        const uint64_t query = row + uint64_t(8 * (call >> 2) + 2 * t + (call >> 1 & 1));
        mine |= keepEight(mask, head, query, (column >> 3) + uint64_t(call & 1)) << (8 * i);
    }
#pragma unroll
    for (int source = 0; source < 8; ++source) {
        const uint32_t bits = shuffleFrom(mine, 4 * source + t) >> g;
#pragma unroll
        for (int i = 0; i < kCalls; ++i) {
            const int call = source * kCalls + i;
            keep |= (bits >> (8 * i) & 1u) << (4 * (call >> 2) + 2 * (call & 1) + (call >> 1 & 1));
        }
    }
    return keep;
}

} // namespace megagraph::kernels::cuda
