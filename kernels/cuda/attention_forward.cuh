// SPDX-License-Identifier: Apache-2.0
// Dense attention, forward, for sm_80 and later: 128 queries x 64 keys, 8 warps of 16 queries, online softmax in base 2
// (FlashAttention-2, arXiv 2307.08691). Block = (128-query tile, head), heads fastest, so that all heads of a tile
// share class data in the second-level cache. Two stages of K, V and codes: while one tile is computed the next one is
// copied and expanded. The 64-row halves of the tile have a class tile, and may be skipped, each for itself.
#pragma once

#include "kernels/cuda/attention_dropout.cuh"
#include "kernels/cuda/attention_edges.cuh"

namespace megagraph::kernels::cuda {

template <int D, Addend kAddend> struct ForwardShared {
    static constexpr bool kBiased = kAddend != kNoBias;
    static constexpr int kQueries = 0;                          // 128 x D
    static constexpr int kKeys = kQueries + 2 * kBlockBytes<D>; // [stage] K, V
    static constexpr int kStage = 2 * kBlockBytes<D>;
    static constexpr int kCodes = kKeys + 2 * kStage; // [stage][half] 64 x 64
    static constexpr int kTables = kCodes + (kBiased ? 4 * kCodeBytes : 0);
    static constexpr int kEdges = kTables + (kBiased ? int(sizeof(SharedTables)) : 0); // [stage][half]
    static constexpr int kBytes = kEdges + (kAddend == kEdgeBias ? 4 * int(sizeof(EdgeRows)) : 0);
};

/// What one warp carries: 16 queries, of which a lane holds rows g and g + 8.
template <int D> struct ForwardRows {
    float out[D / 8][4];
    float high[2], sum[2]; // maximum, and this lane's part of the sum
};

template <int D>
__device__ __forceinline__ void loadForwardState(const DenseParams& p, int head, int64_t row0, ForwardRows<D>& rows)
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

/// What the computation of a tile still needs of its look, in one register.
struct TileForm {
    int32_t packed;
    __device__ __forceinline__ explicit TileForm(const TileLook& look)
        : packed(look.path | int32_t(look.split) << 2 | look.code << 8)
    {
    }
    __device__ __forceinline__ int32_t path() const { return packed & 3; }
    __device__ __forceinline__ bool split() const { return (packed & 4) != 0; }
    __device__ __forceinline__ int32_t code() const { return packed >> 8; }
};

/// s' = s scale log2 e + addend, and -inf behind the last key.
template <bool kBiased>
__device__ __forceinline__ void addBias(const DenseParams& p, TileForm form, const SharedTables* tables,
                                        const unsigned char* codes, int keysLeft, float (&s)[8][4])
{
    const int lane = int(recomputed(threadIdx.x) & 31), g = lane >> 2, t = lane & 3;
    if (kBiased && form.path() == kClasses) {
        const float* table = form.split() ? tables->full : tables->near;
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
        const float addend = kBiased ? tables->full[form.code()] : 0.0f;
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

template <int D>
__device__ __forceinline__ void writeRow(const DenseParams& p, int head, int64_t row, int r, const ForwardRows<D>& rows)
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
__device__ __forceinline__ int nextKeyBlock(const DenseParams& p, const SharedTables* tables, int tile, int half,
                                            int from, TileLook& look)
{
    if constexpr (!kBiased) {
        look = {kUniform, 0, kStoredBase, false, nullptr};
        return from;
    } else {
        int block = from;
        for (bool needed = false; block < p.keyBlocks; ++block) {
#pragma unroll 1
            for (int other = 1; other >= 0; --other) { // this warp's half last
                look = findTile(p, tables, 2 * tile + (half ^ other), block);
                needed = needed || look.path != kSkip;
            }
            if (needed)
                break;
        }
        return block;
    }
}

__device__ __forceinline__ void copyFragment(const uint32_t (&from)[4], uint32_t (&to)[4])
{
#pragma unroll
    for (int i = 0; i < 4; ++i)
        to[i] = from[i];
}

/// S = Q K^T of 16 queries x 64 keys. kHeld: the query fragments are in `held`, else they are read again.
template <int D, bool kHeld>
__device__ __forceinline__ void scoreRows(const PanelLane<D>& queryLane, const uint32_t (&held)[kHeld ? D / 16 : 1][4],
                                          const PanelLane<D>& keyLane, float (&s)[8][4])
{
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        uint32_t a[4];
        if constexpr (kHeld)
            copyFragment(held[k], a);
        else
            ldmatrix<false>(a, queryLane.at(0, 2 * k));
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            uint32_t b[4];
            ldmatrix<false>(b, keyLane.at(16 * j, 2 * k));
            mma16816(s[2 * j], a, b[0], b[1]);
            mma16816(s[2 * j + 1], a, b[2], b[3]);
        }
    }
}

/// out += P V; P rounded to bf16 stays in registers: two neighbouring n8 fragments are one A operand.
template <int D>
__device__ __forceinline__ void addValues(const float (&s)[8][4], const PanelLane<D>& valueLane, float (&out)[D / 8][4])
{
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const uint32_t a[4] = {packBf16(s[2 * k][0], s[2 * k][1]), packBf16(s[2 * k][2], s[2 * k][3]),
                               packBf16(s[2 * k + 1][0], s[2 * k + 1][1]), packBf16(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < D / 16; ++n) {
            uint32_t b[4];
            ldmatrix<true>(b, valueLane.at(16 * k, 2 * n));
            mma16816(out[2 * n], a, b[0], b[1]);
            mma16816(out[2 * n + 1], a, b[2], b[3]);
        }
    }
}

/// The same two products by a warp group, which has one half of the tile: operands in shared memory, P in registers.
template <int D>
__device__ __forceinline__ void scoreGroup(const unsigned char* queries, const unsigned char* keys, float (&s)[8][4])
{
    beginGroupProducts();
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        const int at = (k >> 2) * 8192 + (k & 3) * 32;
        wgmma64x64x16(s, panelDescriptor(queries + at, 16), panelDescriptor(keys + at, 16), k > 0 ? 1 : 0);
    }
    finishGroupProducts();
}
template <int D>
__device__ __forceinline__ void addValuesGroup(const float (&s)[8][4], const unsigned char* values,
                                               float (&out)[D / 8][4])
{
    uint32_t a[4][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        a[k][0] = packBf16(s[2 * k][0], s[2 * k][1]);
        a[k][1] = packBf16(s[2 * k][2], s[2 * k][3]);
        a[k][2] = packBf16(s[2 * k + 1][0], s[2 * k + 1][1]);
        a[k][3] = packBf16(s[2 * k + 1][2], s[2 * k + 1][3]);
    }
    beginGroupProducts();
#pragma unroll
    for (int k = 0; k < 4; ++k)
        wgmma64xNx16<D>(out, a[k], panelDescriptor(values + k * 16 * 128, 8192));
    finishGroupProducts();
}

/// kGroups: products by warp groups (sm_90a), else by warps.
template <int D, Addend kAddend, bool kGroups> __device__ __forceinline__ void forwardTile(const DenseParams& p)
{
    using Place = ForwardShared<D, kAddend>;
    constexpr bool kBiased = Place::kBiased;
    constexpr bool kHeld = !kBiased && D != 64 && !kGroups; // registers for the query fragments
    unsigned char* shared = dynamicShared();
    auto* tables = reinterpret_cast<SharedTables*>(shared + Place::kTables);
    const int warp = int(threadIdx.x >> 5), lane = int(threadIdx.x & 31), half = warp >> 2;
    const int head = int(blockIdx.x % unsigned(p.heads)), tile = int(blockIdx.x / unsigned(p.heads));

    const auto copyBlock = [&](int head, int stage, int block) {
        const int64_t from = (int64_t(head) * p.packedKeyBlocks + block) * kBlockBytes<D>;
        unsigned char* to = shared + Place::kKeys + stage * Place::kStage;
        copyPanels(to, p.k + from, kBlockBytes<D>);
        copyPanels(to + kBlockBytes<D>, p.v + from, kBlockBytes<D>);
    };
    const auto codesOf = [&](int stage) { return shared + Place::kCodes + (2 * stage + half) * kCodeBytes; };
    const auto edgesOf = [&](int stage) {
        return reinterpret_cast<EdgeRows*>(shared + Place::kEdges) + 2 * stage + half;
    };

    copyPanels(shared + Place::kQueries, p.q + (int64_t(head) * p.packedQueryBlocks + 2 * tile) * kBlockBytes<D>,
               2 * kBlockBytes<D>);
    commitCopies();
    if constexpr (kBiased) {
        if (warp == 0)
            fillTables(p, head, lane, tables);
        __syncthreads();
    }
    const auto firstRow = [&] { return int64_t(tile) * 2 * kTile + warp * 16 + (lane >> 2); };
    ForwardRows<D> rows;
    loadForwardState<D>(p, head, firstRow(), rows);
    const auto queryLaneOf = [&](int thread) { // this warp's 16 queries as A operands
        const int queryWarp = thread >> 5, row = (thread >> 3 & 1) * 8 + (thread & 7);
        unsigned char* panels = shared + Place::kQueries + (queryWarp >> 2) * kBlockBytes<D>;
        return PanelLane<D>(panels + (queryWarp & 3) * 16 * (D == 32 ? 64 : 128), row, thread >> 4 & 1);
    };
    uint32_t held[kHeld ? D / 16 : 1][4] = {};

    // one step ahead: while block is computed, the next one is copied and its codes are expanded; step -1 computes
    // nothing
    TileForm form(TileLook{});
    for (int stage = 1, block = -1; block < p.keyBlocks; stage ^= 1) {
        const uint32_t place = recomputed(blockIdx.x);
        const int head = int(place % unsigned(p.heads)), tile = int(place / unsigned(p.heads));
        TileLook next = {};
        const int nextBlock = nextKeyBlock<kBiased>(p, tables, tile, half, block + 1, next);
        waitCopies<0>();
        if constexpr (kGroups)
            fenceProxy();
        __syncthreads();
        if (nextBlock < p.keyBlocks) {
            copyBlock(head, stage ^ 1, nextBlock);
            commitCopies();
            const int who = int(recomputed(threadIdx.x) & 127);
            if (kBiased && next.path == kClasses)
                expandRows(p, next, 2 * tile + half, nextBlock, codesOf(stage ^ 1), who, 1 + half);
            if (kAddend == kEdgeBias && next.path != kSkip)
                fillEdges(p, 2 * tile + half, nextBlock, edgesOf(stage ^ 1), who, 1 + half);
        }
        if (kHeld && block < 0) {
            const PanelLane<D> queryLane = queryLaneOf(int(threadIdx.x));
#pragma unroll
            for (int k = 0; k < (kHeld ? D / 16 : 1); ++k)
                ldmatrix<false>(held[k], queryLane.at(0, 2 * k));
        }
        if (block >= 0 && (!kBiased || form.path() != kSkip)) {
            const int thread = int(recomputed(threadIdx.x)), warp = thread >> 5, inMatrix = thread & 7,
                      matrix = thread >> 3 & 3;
            const unsigned char* panels = shared + Place::kKeys + stage * Place::kStage;
            float s[8][4] = {};
            if constexpr (kGroups)
                scoreGroup<D>(shared + Place::kQueries + (warp >> 2) * kBlockBytes<D>, panels, s);
            else
                scoreRows<D, kHeld>(queryLaneOf(thread), held,
                                    PanelLane<D>(panels, (matrix >> 1) * 8 + inMatrix, matrix & 1), s);
            const int64_t left = p.keys - int64_t(block) * kTile;
            addBias<kBiased>(p, form, tables, codesOf(stage) + (warp & 3) * 16 * kTile,
                             left < kTile ? int(left) : kTile, s);
            if constexpr (kAddend == kEdgeBias)
                addEdgeRows(p, head, *edgesOf(stage), (warp & 3) * 16, s);
            softmaxRows<D>(s, rows);
            if (p.mask.threshold != 0) {
                const uint32_t keep = keepRows(p.mask, uint32_t(p.headOffset + head),
                                               uint64_t(p.queryOffset + int64_t(tile) * 2 * kTile + warp * 16),
                                               uint64_t(p.keyOffset + int64_t(block) * kTile));
                applyKeep(keep, p.mask.keepScale, s);
            }
            if constexpr (kGroups)
                addValuesGroup<D>(s, panels + kBlockBytes<D>, rows.out);
            else
                addValues<D>(s, PanelLane<D>(panels + kBlockBytes<D>, (matrix & 1) * 8 + inMatrix, matrix >> 1),
                             rows.out);
        }
        form = TileForm(next);
        block = nextBlock;
    }
    writeRow<D>(p, head, firstRow(), 0, rows);
    writeRow<D>(p, head, firstRow() + 8, 1, rows);
}

template <int D, Addend kAddend>
__global__ void __launch_bounds__(kThreads, D == 128 ? 1 : 2) attentionForward80(const __grid_constant__ DenseParams p)
{
    forwardTile<D, kAddend, false>(p);
}
/// sm_90a; d_h 64 and 128.
template <int D, Addend kAddend>
__global__ void __launch_bounds__(kThreads, D == 128 ? 1 : 2) attentionForward90(const __grid_constant__ DenseParams p)
{
    forwardTile<D, kAddend, true>(p);
}

} // namespace megagraph::kernels::cuda
