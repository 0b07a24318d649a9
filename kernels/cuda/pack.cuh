// SPDX-License-Identifier: Apache-2.0
// The pass before every dense kernel: float or bf16 rows of any stride and d_h <= 128 become bf16 panels, 64 rows x 64
// columns of 8 KB in the 128-byte swizzle (panelOffset), zero padded to 32, 64 or 128 columns and to a multiple of 128
// rows. So every later copy is one contiguous aligned piece. Also what the kernels want to know per row and per
// 64-block.
#pragma once

#include "kernels/cuda/attention_params.cuh"

namespace megagraph::kernels::cuda {

struct PackParams {
    const void* data;
    int64_t rows, rowStride, headStride, blocks; // blocks: packed 64-row blocks per head
    int32_t heads, dim, type;
    unsigned char* packed;
    uint32_t *notes, *any; // rows with a value that is not finite, which is then packed as 0; null: packed as it is
};

/// Notes row `row` of a block.
__device__ __forceinline__ void noteRow(uint32_t* notes, uint32_t* any, int64_t block, int row)
{
    atomicOr(notes + 2 * block + (row >> 5), 1u << (row & 31));
    atomicOr(any, 1u);
}
/// Zero in place of halves that are not finite.
__device__ __forceinline__ uint32_t finiteHalves(uint32_t word)
{
    const uint32_t low = (word & 0x7F80u) == 0x7F80u ? 0u : word & 0xFFFFu;
    return (word >> 16 & 0x7F80u) == 0x7F80u ? low : low | (word & 0xFFFF0000u);
}

__device__ __forceinline__ float packValue(const PackParams& p, int64_t at)
{
    if (p.type == MegagraphCudaFloat)
        return readGlobal(static_cast<const float*>(p.data) + at);
    return bf16Value(readGlobal(static_cast<const uint16_t*>(p.data) + at));
}

/// One thread per 16-byte chunk (8 columns of a row); blocks of 256 threads cover a 64-row block of one head.
template <int D> __global__ void __launch_bounds__(kThreads) packPanels(const PackParams p)
{
    const int64_t block = blockIdx.x / unsigned(p.heads);
    const int head = int(blockIdx.x % unsigned(p.heads));
    unsigned char* to = p.packed + (int64_t(head) * p.blocks + block) * kBlockBytes<D>;
    for (int piece = int(threadIdx.x); piece < kTile * D / 8; piece += kThreads) {
        const int row = piece / (D / 8), chunk = piece % (D / 8);
        const int64_t from = block * kTile + row;
        uint32_t words[4] = {};
        if (from < p.rows) {
            const int64_t at = from * p.rowStride + head * p.headStride + 8 * chunk;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float low = 8 * chunk + 2 * i < p.dim ? packValue(p, at + 2 * i) : 0.0f;
                const float high = 8 * chunk + 2 * i + 1 < p.dim ? packValue(p, at + 2 * i + 1) : 0.0f;
                words[i] = packBf16(low, high);
            }
        }
        if (p.notes != nullptr) {
            bool finite = true;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t kept = finiteHalves(words[i]);
                finite = finite && kept == words[i];
                words[i] = kept;
            }
            if (!finite)
                noteRow(p.notes, p.any, int64_t(head) * p.blocks + block, row);
        }
        *reinterpret_cast<uint4*>(to + panelOffset<D>(row, chunk)) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/// (lse in log2 units, delta) per row, padded to whole packed blocks; a row without keys, and padding, gets (+inf, 0):
/// its probabilities are 0.
struct RowStatsParams {
    const float *lse, *delta; // [heads, rows]
    int64_t rows, paddedRows;
    int32_t heads;
    float2* stats;                         // [heads, paddedRows]
    uint32_t *lseNotes, *deltaNotes, *any; // as PackParams
};
__global__ void __launch_bounds__(kThreads) fillRowStats(const RowStatsParams p)
{
    const int64_t index = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    if (index >= p.paddedRows * p.heads)
        return;
    const int64_t head = index / p.paddedRows, row = index % p.paddedRows;
    const float lse = row < p.rows ? readGlobal(p.lse + head * p.rows + row) : negativeInfinity();
    bool empty = lse == negativeInfinity();
    float delta = empty ? 0.0f : readGlobal(p.delta + head * p.rows + row);
    if (p.lseNotes != nullptr && !empty) {
        const bool lseFinite = lse - lse == 0.0f, deltaFinite = delta - delta == 0.0f;
        const int64_t block = index / kTile;
        if (!lseFinite)
            noteRow(p.lseNotes, p.any, block, int(index % kTile));
        if (!deltaFinite)
            noteRow(p.deltaNotes, p.any, block, int(index % kTile));
        empty = !lseFinite;
        delta = lseFinite && deltaFinite ? delta : 0.0f;
    }
    p.stats[index] = make_float2(empty ? -negativeInfinity() : lse * kLog2e, delta);
}

struct BlockIdsParams {
    const int32_t *component, *segment; // [rows] or null
    int64_t rows;
    BlockIds* ids;
};
/// One warp per 64-block.
__global__ void __launch_bounds__(32) fillBlockIds(const BlockIdsParams p)
{
    const int64_t first = int64_t(blockIdx.x) * kTile;
    const int lane = int(threadIdx.x);
    constexpr int32_t kMost = 0x7FFFFFFF;
    int32_t low[2] = {kMost, kMost}, high[2] = {-kMost - 1, -kMost - 1};
    for (int64_t row = first + lane; row < first + kTile && row < p.rows; row += 32) {
        const int32_t value[2] = {p.component != nullptr ? readGlobal(p.component + row) : 0,
                                  p.segment != nullptr ? readGlobal(p.segment + row) : 0};
        for (int i = 0; i < 2; ++i) {
            low[i] = min(low[i], value[i]);
            high[i] = max(high[i], value[i]);
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        for (int i = 0; i < 2; ++i) {
            low[i] = min(low[i], int32_t(shuffleXor(uint32_t(low[i]), step)));
            high[i] = max(high[i], int32_t(shuffleXor(uint32_t(high[i]), step)));
        }
    }
    if (lane == 0)
        p.ids[blockIdx.x] = {low[0], high[0], low[1], high[1]};
}

} // namespace megagraph::kernels::cuda
