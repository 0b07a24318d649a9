// SPDX-License-Identifier: Apache-2.0
// Dense attention, forward, for sm_80 and later: 128 queries x 64 keys, 8 warps of 16 queries, online softmax in base 2
// (FlashAttention-2, arXiv 2307.08691). Block = (128-query tile, head), heads fastest, so that all heads of a tile share class
// data in the second-level cache. Two stages of K, V and codes: while one tile is computed the next one is copied and expanded.
// The 64-row halves of the tile have a class tile, and may be skipped, each for itself.
#pragma once

#include "kernels/cuda/attention_classes.cuh"
#include "kernels/cuda/attention_dropout.cuh"

namespace megagraph::kernels::cuda {

template <int D, bool kBiased> struct ForwardShared {
    static constexpr int kQueries = 0; // 128 x D
    static constexpr int kKeys = kQueries + 2 * kBlockBytes<D>; // [stage] K, V
    static constexpr int kStage = 2 * kBlockBytes<D>;
    static constexpr int kCodes = kKeys + 2 * kStage; // [stage][half] 64 x 64
    static constexpr int kTables = kCodes + (kBiased ? 4 * kCodeBytes : 0);
    static constexpr int kBytes = kTables + (kBiased ? int(sizeof(SharedTables)) : 0);
};

/// What one warp carries: 16 queries, of which a lane holds rows g and g + 8.
template <int D> struct ForwardRows {
    float out[D / 8][4];
    float high[2], sum[2]; // maximum, and this lane's part of the sum
};

template <int D> __device__ __forceinline__ void loadForwardState(const DenseParams& p, int head, int64_t row0, ForwardRows<D>& rows)
{
    const int t = int(threadIdx.x & 3);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int64_t row = row0 + 8 * r;
        const bool held = p.partial != 0 && p.first == 0 && row < p.queries;
        rows.high[r] = held ? p.stateM[int64_t(head) * p.queries + row] : negativeInfinity();
        rows.sum[r] = held && t == 0 ? p.stateL[int64_t(head) * p.queries + row] : 0.0f;
        const float* acc = p.stateAcc + (row * p.heads + head) * p.dim;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                const int column = 8 * n + 2 * t + b;
                rows.out[n][2 * r + b] = held && column < p.dim ? acc[column] : 0.0f;
            }
        }
    }
}

/// s' = s scale log2 e + addend, and -inf behind the last key.
template <bool kBiased>
__device__ __forceinline__ void addBias(const DenseParams& p, const TileLook& look, const SharedTables* tables, const unsigned char* codes,
                                        int keysLeft, float (&s)[8][4])
{
    const int lane = int(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
    if (kBiased && look.path == kClasses) {
        const float* table = look.split ? tables->full : tables->near;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const uint4 word = *reinterpret_cast<const uint4*>(codes + (g + 8 * r) * kTile + 16 * t);
            const uint32_t words[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
            for (int j = 0; j < 8; ++j) {
#pragma unroll
                for (int b = 0; b < 2; ++b) {
                    const uint32_t code = words[j >> 1] >> (16 * (j & 1) + 8 * b) & (kMaxCodes - 1);
                    s[j][2 * r + b] = fmaf(s[j][2 * r + b], p.scaleLog2, table[code]);
                }
            }
        }
    } else {
        const float addend = kBiased ? tables->full[look.code] : 0.0f;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[j][i] = fmaf(s[j][i], p.scaleLog2, addend);
        }
    }
    if (keysLeft < kTile) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[j][i] = 8 * j + 2 * t + (i & 1) < keysLeft ? s[j][i] : negativeInfinity();
        }
    }
}

/// Scores to probabilities under the running maximum; out and sum follow it.
template <int D> __device__ __forceinline__ void softmaxRows(float (&s)[8][4], ForwardRows<D>& rows)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float high = rows.high[r];
#pragma unroll
        for (int j = 0; j < 8; ++j)
            high = fmaxf(high, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        high = fmaxf(high, shuffleXor(high, 1));
        high = fmaxf(high, shuffleXor(high, 2));
        const float origin = high == negativeInfinity() ? 0.0f : high; // a row without keys so far
        const float factor = exp2Fast(rows.high[r] - origin);
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                s[j][2 * r + b] = exp2Fast(s[j][2 * r + b] - origin);
                sum += s[j][2 * r + b];
            }
        }
        rows.high[r] = high;
        rows.sum[r] = fmaf(rows.sum[r], factor, sum);
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            rows.out[n][2 * r] *= factor;
            rows.out[n][2 * r + 1] *= factor;
        }
    }
}

__device__ __forceinline__ void applyKeep(uint32_t keep, float keepScale, float (&s)[8][4])
{
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            s[j][i] = (keep >> (4 * j + i) & 1u) != 0 ? s[j][i] * keepScale : 0.0f;
    }
}

template <int D> __device__ __forceinline__ void writeRow(const DenseParams& p, int head, int64_t row, int r, const ForwardRows<D>& rows)
{
    const int t = int(threadIdx.x & 3);
    float sum = rows.sum[r];
    sum += shuffleXor(sum, 1);
    sum += shuffleXor(sum, 2);
    if (row >= p.queries)
        return;
    const int64_t at = int64_t(head) * p.queries + row;
    const bool partial = p.partial != 0;
    const float factor = partial ? 1.0f : sum == 0.0f ? 0.0f : 1.0f / sum;
    if (t == 0 && partial) {
        p.stateM[at] = rows.high[r];
        p.stateL[at] = sum;
    } else if (t == 0) {
        p.lse[at] = sum == 0.0f ? negativeInfinity() : kLn2 * (rows.high[r] + log2f(sum));
    }
    float* acc = p.stateAcc + (row * p.heads + head) * p.dim;
    const int64_t out = row * p.oRowStride + head * p.oHeadStride;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
        for (int b = 0; b < 2; ++b) {
            const int column = 8 * n + 2 * t + b;
            const float value = rows.out[n][2 * r + b] * factor;
            if (column >= p.dim)
                continue;
            if (partial)
                acc[column] = value;
            else if (p.oType == MegagraphCudaFloat)
                static_cast<float*>(p.o)[out + column] = value;
            else
                static_cast<uint16_t*>(p.o)[out + column] = uint16_t(packBf16(value, 0.0f));
        }
    }
}

/// The next key block from `from` that one of the two halves needs; `look` of this warp's half.
template <bool kBiased>
__device__ __forceinline__ int64_t nextKeyBlock(const DenseParams& p, const SharedTables* tables, int64_t tile, int half, int64_t from,
                                                TileLook& look)
{
    if constexpr (!kBiased) {
        look = {kUniform, 0, kStoredBase, false, nullptr};
        return from;
    }
    for (int64_t block = from; block < p.keyBlocks; ++block) {
        const TileLook mine = findTile(p, tables, 2 * tile + half, block), other = findTile(p, tables, 2 * tile + 1 - half, block);
        if (mine.path == kSkip && other.path == kSkip)
            continue;
        look = mine;
        return block;
    }
    return p.keyBlocks;
}

template <int D, bool kBiased>
__global__ void __launch_bounds__(kThreads, D == 128 ? 1 : 2) attentionForward80(const __grid_constant__ DenseParams p)
{
    using Place = ForwardShared<D, kBiased>;
    unsigned char* shared = dynamicShared();
    auto* tables = reinterpret_cast<SharedTables*>(shared + Place::kTables);
    const int warp = int(threadIdx.x >> 5), lane = int(threadIdx.x & 31), half = warp >> 2, who = int(threadIdx.x & 127);
    const int head = int(blockIdx.x % unsigned(p.heads));
    const int64_t tile = blockIdx.x / unsigned(p.heads), row0 = tile * 2 * kTile + warp * 16 + (lane >> 2);
    const unsigned char* keys = p.k + int64_t(head) * p.packedKeyBlocks * kBlockBytes<D>;
    const unsigned char* values = p.v + int64_t(head) * p.packedKeyBlocks * kBlockBytes<D>;

    const auto copyKeys = [&](int stage, int64_t block) {
        copyPanels(shared + Place::kKeys + stage * Place::kStage, keys + block * kBlockBytes<D>, kBlockBytes<D>);
        copyPanels(shared + Place::kKeys + stage * Place::kStage + kBlockBytes<D>, values + block * kBlockBytes<D>, kBlockBytes<D>);
        commitCopies();
    };
    const auto codesOf = [&](int stage) { return shared + Place::kCodes + (2 * stage + half) * kCodeBytes; };

    if constexpr (kBiased) {
        if (warp == 0)
            fillTables(p, head, lane, tables);
        __syncthreads();
    }
    ForwardRows<D> rows;
    loadForwardState<D>(p, head, row0, rows);
    TileLook next = {};
    int64_t nextBlock = nextKeyBlock<kBiased>(p, tables, tile, half, 0, next);
    copyPanels(shared + Place::kQueries, p.q + (int64_t(head) * p.packedQueryBlocks + 2 * tile) * kBlockBytes<D>, 2 * kBlockBytes<D>);
    if (nextBlock < p.keyBlocks) {
        copyKeys(0, nextBlock);
        if (kBiased && next.path == kClasses)
            expandRows(p, next, 2 * tile + half, nextBlock, codesOf(0), who, 1 + half);
    } else {
        commitCopies();
    }
    const int inMatrix = lane & 7, matrix = lane >> 3;
    waitCopies<0>();
    __syncthreads();
    uint32_t query[D / 16][4];
    const PanelLane<D> queryLane(shared + Place::kQueries + (warp >> 2) * kBlockBytes<D> + (warp & 3) * 16 * (D == 32 ? 64 : 128),
                                 (matrix & 1) * 8 + inMatrix, matrix >> 1);
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
        ldmatrix<false>(query[k], queryLane.at(0, 2 * k));

    for (int stage = 0; nextBlock < p.keyBlocks; stage ^= 1) {
        const TileLook look = next;
        const int64_t block = nextBlock;
        nextBlock = nextKeyBlock<kBiased>(p, tables, tile, half, block + 1, next);
        waitCopies<0>();
        __syncthreads();
        if (nextBlock < p.keyBlocks) {
            copyKeys(stage ^ 1, nextBlock);
            if (kBiased && next.path == kClasses)
                expandRows(p, next, 2 * tile + half, nextBlock, codesOf(stage ^ 1), who, 1 + half);
        }
        if (kBiased && look.path == kSkip)
            continue;
        const unsigned char* keyPanels = shared + Place::kKeys + stage * Place::kStage;
        float s[8][4] = {};
        const PanelLane<D> keyLane(keyPanels, (matrix >> 1) * 8 + inMatrix, matrix & 1);
#pragma unroll
        for (int k = 0; k < D / 16; ++k) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                uint32_t b[4];
                ldmatrix<false>(b, keyLane.at(16 * j, 2 * k));
                mma16816(s[2 * j], query[k], b[0], b[1]);
                mma16816(s[2 * j + 1], query[k], b[2], b[3]);
            }
        }
        const int64_t left = p.keys - block * kTile;
        addBias<kBiased>(p, look, tables, codesOf(stage) + (warp & 3) * 16 * kTile, left < kTile ? int(left) : kTile, s);
        softmaxRows<D>(s, rows);
        if (p.mask.threshold != 0) {
            const uint32_t keep = keepRows(p.mask, uint32_t(p.headOffset + head), uint64_t(p.queryOffset + tile * 2 * kTile + warp * 16),
                                           uint64_t(p.keyOffset + block * kTile));
            applyKeep(keep, p.mask.keepScale, s);
        }
        const PanelLane<D> valueLane(keyPanels + kBlockBytes<D>, (matrix & 1) * 8 + inMatrix, matrix >> 1);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const uint32_t a[4] = {packBf16(s[2 * k][0], s[2 * k][1]), packBf16(s[2 * k][2], s[2 * k][3]),
                                   packBf16(s[2 * k + 1][0], s[2 * k + 1][1]), packBf16(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
            for (int n = 0; n < D / 16; ++n) {
                uint32_t b[4];
                ldmatrix<true>(b, valueLane.at(16 * k, 2 * n));
                mma16816(rows.out[2 * n], a, b[0], b[1]);
                mma16816(rows.out[2 * n + 1], a, b[2], b[3]);
            }
        }
    }
    writeRow<D>(p, head, row0, 0, rows);
    writeRow<D>(p, head, row0 + 8, 1, rows);
}

} // namespace megagraph::kernels::cuda
