// SPDX-License-Identifier: Apache-2.0
// Dense attention, backward, for sm_80 and later. A block keeps one key tile (128 keys, 64 for d_h 128) of one head and
// passes over all 64-query blocks: S^T = K Q^T and dP^T = V dO^T again, dV += P^T dO, dK += dS^T Q, dq += dS K.
// Deterministic: a block draws a ticket when it starts, the ticket is its (key tile, head), and it adds to a query
// block of dq only when all earlier key tiles have (turns). It waits for earlier starters only, so it cannot deadlock;
// sums follow key order.
#pragma once

#include "kernels/cuda/attention_dropout.cuh"
#include "kernels/cuda/attention_edges.cuh"

namespace megagraph::kernels::cuda {

template <int D> struct Backward {
    static constexpr int kKeys = D == 128 ? 64 : 128;
    static constexpr int kQueryWarps = D == 128 ? 2 : 1; // warps that share the keys of a row group
    static constexpr int kGroups = 8 / kQueryWarps;      // n8 groups of queries in a warp's fragment of S^T
    static constexpr int kHalves = kKeys / kTile;        // class tiles of a step
    static constexpr int kColumns = D / 8 / kQueryWarps; // n8 groups of d_h in a warp's fragment of dK, dV

    static constexpr int kK = 0, kV = kK + kKeys * D * 2;
    static constexpr int kStages = kV + kKeys * D * 2; // [stage] Q, dO, row statistics
    static constexpr int kStats = 2 * kBlockBytes<D>;
    static constexpr int kStage = kStats + kTile * 8;
    static constexpr int kDs = kStages + 2 * kStage; // dS^T, keys x 64 queries, bf16 in the swizzle of d_h 64
    static constexpr int kP = kDs + kKeys * 128;     // P^T, when warps share it
    static constexpr int kCodes = kP + (kQueryWarps > 1 ? kKeys * 128 : 0);
    static constexpr int kTables = kCodes + kHalves * kCodeBytes;
    static constexpr int kPresent = kTables + int(sizeof(SharedTables)); // [half][4]
    static constexpr int kTicket = kPresent + 32;
    static constexpr int kEdges = kTicket + 32; // [half], with edge values only
    template <Addend kAddend>                   // [classes][kThreads] fp32
    static constexpr int kSums = kEdges + (kAddend == kEdgeBias ? kHalves * int(sizeof(EdgeRows)) : 0);
    template <Addend kAddend> static constexpr int bytes(int classes)
    {
        return kSums<kAddend> + classes * kThreads * 4;
    }
};

/// S^T or dP^T: rows are this warp's keys, columns its queries.
template <int D>
__device__ __forceinline__ void transposedScores(const PanelLane<D>& rows, const PanelLane<D>& columns,
                                                 float (&s)[Backward<D>::kGroups][4])
{
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
        uint32_t a[4];
        ldmatrix<false>(a, rows.at(0, 2 * k));
#pragma unroll
        for (int j = 0; j < Backward<D>::kGroups / 2; ++j) {
            uint32_t b[4];
            ldmatrix<false>(b, columns.at(16 * j, 2 * k));
            mma16816(s[2 * j], a, b[0], b[1]);
            mma16816(s[2 * j + 1], a, b[2], b[3]);
        }
    }
}

/// The codes of key row g + 8r that this lane needs, two words per four n8 groups.
template <int D>
__device__ __forceinline__ void readCodes(const unsigned char* codes, int queryWarp, int r,
                                          uint32_t (&words)[Backward<D>::kGroups / 2])
{
    const int lane = int(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
    const unsigned char* at = codes + (g + 8 * r) * kTile + 16 * t;
    if constexpr (Backward<D>::kGroups == 8) {
        const uint4 word = *reinterpret_cast<const uint4*>(at);
        words[0] = word.x;
        words[1] = word.y;
        words[2] = word.z;
        words[3] = word.w;
    } else {
        const uint2 word = *reinterpret_cast<const uint2*>(at + 8 * queryWarp);
        words[0] = word.x;
        words[1] = word.y;
    }
}

/// s: S^T -> P^T.
template <int D, Addend kAddend>
__device__ __forceinline__ void
transposedProbabilities(const DenseParams& p, const TileLook& look, int keysLeft, const SharedTables* tables,
                        const unsigned char* codes, const EdgeRows& edges, const float* edgeValues, int key0,
                        int queryWarp, const float2* stats, float (&s)[Backward<D>::kGroups][4])
{
    constexpr bool kBiased = kAddend != kNoBias;
    constexpr int kGroups = Backward<D>::kGroups;
    const int lane = int(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
    if (kBiased && look.path == kClasses) {
        const float* table = look.split ? tables->full : tables->near;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            uint32_t words[kGroups / 2];
            readCodes<D>(codes, queryWarp, r, words);
#pragma unroll
            for (int j = 0; j < kGroups; ++j) {
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
        for (int j = 0; j < kGroups; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[j][i] = fmaf(s[j][i], p.scaleLog2, addend);
        }
    }
    if constexpr (kAddend == kEdgeBias)
        eachEdgeColumn<kGroups>(edges, 32 * queryWarp, key0, [&](int j, int i, int64_t place) {
            s[j][i] = fmaf(readGlobal(edgeValues + place), kLog2e, s[j][i]);
        });
    const bool allowed[2] = {g < keysLeft, g + 8 < keysLeft};
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        const float4 pair = *reinterpret_cast<const float4*>(stats + 8 * j + 2 * t); // lse, delta of two queries
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            s[j][2 * r] = allowed[r] ? exp2Fast(s[j][2 * r] - pair.x) : 0.0f;
            s[j][2 * r + 1] = allowed[r] ? exp2Fast(s[j][2 * r + 1] - pair.z) : 0.0f;
        }
    }
}

/// p: P^T -> (P Z)^T; dp: dP^T -> dS^T = P (Z dP - delta).
template <int D>
__device__ __forceinline__ void
transposedGradient(const DenseParams& params, uint32_t head, uint64_t row, uint64_t column, const float2* stats,
                   float (&p)[Backward<D>::kGroups][4], float (&dp)[Backward<D>::kGroups][4])
{
    constexpr int kGroups = Backward<D>::kGroups;
    const int t = int(threadIdx.x & 3);
    uint32_t keep = kAllLanes;
    float keepScale = 1.0f;
    if (params.mask.threshold != 0) {
        keep = keepColumns<kGroups>(params.mask, head, row, column);
        keepScale = params.mask.keepScale;
    }
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
        const float4 pair = *reinterpret_cast<const float4*>(stats + 8 * j + 2 * t);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float z = (keep >> (4 * j + i) & 1u) != 0 ? keepScale : 0.0f;
            dp[j][i] = p[j][i] * (z * dp[j][i] - ((i & 1) == 0 ? pair.y : pair.w));
            p[j][i] *= z;
        }
    }
}

/// sums [classes][kThreads] += dS^T by class; the far bin is left open.
template <int D>
__device__ __forceinline__ void addTableGradient(const DenseParams& p, const TileLook& look, const unsigned char* codes,
                                                 const uint32_t* present, int queryWarp,
                                                 const float (&dS)[Backward<D>::kGroups][4], float* sums)
{
    constexpr int kGroups = Backward<D>::kGroups;
    float* mine = sums + threadIdx.x;
    if (look.path == kUniform) {
        if (look.code == p.codes.far)
            return;
        float sum = 0.0f;
#pragma unroll
        for (int r = 0; r < 2; ++r) { // in the order of a class tile: the storage of the pairs does not change the bits
#pragma unroll
            for (int j = 0; j < kGroups; ++j)
                sum = sum + dS[j][2 * r] + dS[j][2 * r + 1];
        }
        mine[look.code * kThreads] += sum;
        return;
    }
    uint32_t words[2][kGroups / 2];
    readCodes<D>(codes, queryWarp, 0, words[0]);
    readCodes<D>(codes, queryWarp, 1, words[1]);
    uint32_t met = present[0] | present[1] | present[2] | present[3];
#pragma unroll 1
    while (met != 0) {
        const uint32_t code = uint32_t(__ffs(int(met))) - 1;
        met &= met - 1;
        float sum = 0.0f;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
            for (int j = 0; j < kGroups; ++j) {
#pragma unroll
                for (int b = 0; b < 2; ++b)
                    sum += (words[r][j >> 1] >> (16 * (j & 1) + 8 * b) & 0xFFu) == code ? dS[j][2 * r + b] : 0.0f;
            }
        }
        mine[code * kThreads] += sum;
    }
}

/// Fragments of 16 keys x queries as bf16 into `to`, 128-byte rows in the swizzle of d_h 64.
template <int D>
__device__ __forceinline__ void storeTransposed(unsigned char* to, int keyRow, int queryWarp,
                                                const float (&s)[Backward<D>::kGroups][4])
{
    const int lane = int(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int j = 0; j < Backward<D>::kGroups; ++j) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int at = panelOffset<64>(keyRow + g + 8 * r, queryWarp * Backward<D>::kGroups + j) + 4 * t;
            *reinterpret_cast<uint32_t*>(to + at) = packBf16(s[j][2 * r], s[j][2 * r + 1]);
        }
    }
}

/// out [16 keys, columns of this warp] += s^T (this warp's keys x all 64 queries) times rows [64 queries, d_h].
template <int D>
__device__ __forceinline__ void addKeyGradient(const float (&s)[Backward<D>::kGroups][4], const unsigned char* stored,
                                               int keyRow, int queryWarp, const unsigned char* rows,
                                               float (&out)[Backward<D>::kColumns][4])
{
    const int lane = int(threadIdx.x & 31), inMatrix = lane & 7, matrix = lane >> 3;
    const PanelLane<64> left(stored + keyRow * 128, (matrix & 1) * 8 + inMatrix, matrix >> 1);
    // the second warp of a pair has the second panel of d_h 128
    const PanelLane<D> right(rows + (Backward<D>::kQueryWarps > 1 ? queryWarp * 8192 : 0), (matrix & 1) * 8 + inMatrix,
                             matrix >> 1);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        uint32_t a[4];
        if constexpr (Backward<D>::kQueryWarps > 1) {
            ldmatrix<false>(a, left.at(0, 2 * k));
        } else {
            a[0] = packBf16(s[2 * k][0], s[2 * k][1]);
            a[1] = packBf16(s[2 * k][2], s[2 * k][3]);
            a[2] = packBf16(s[2 * k + 1][0], s[2 * k + 1][1]);
            a[3] = packBf16(s[2 * k + 1][2], s[2 * k + 1][3]);
        }
#pragma unroll
        for (int n = 0; n < Backward<D>::kColumns / 2; ++n) {
            uint32_t b[4];
            ldmatrix<true>(b, right.at(16 * k, 2 * n));
            mma16816(out[2 * n], a, b[0], b[1]);
            mma16816(out[2 * n + 1], a, b[2], b[3]);
        }
    }
}

/// dq [64 queries, d_h] of this step: warp = (16 queries, half of d_h).
template <int D>
__device__ __forceinline__ void queryGradient(const unsigned char* dS, const unsigned char* keys, int warp,
                                              float (&out)[D / 16][4])
{
    const int lane = int(threadIdx.x & 31), inMatrix = lane & 7, matrix = lane >> 3;
    const int queryChunk = 2 * (warp & 3), columnChunk = (warp >> 2) * (D / 16);
    const int row = (matrix >> 1) * 8 + inMatrix;
#pragma unroll
    for (int k = 0; k < Backward<D>::kKeys / 16; ++k) {
        uint32_t a[4];
        ldmatrix<true>(a, dS + panelOffset<64>(16 * k + row, queryChunk + (matrix & 1)));
#pragma unroll
        for (int n = 0; n < D / 32; ++n) {
            uint32_t b[4];
            ldmatrix<true>(
                b, keys + panelOffset<D>(16 * k + (matrix & 1) * 8 + inMatrix, columnChunk + 2 * n + (matrix >> 1)));
            mma16816(out[2 * n], a, b[0], b[1]);
            mma16816(out[2 * n + 1], a, b[2], b[3]);
        }
    }
}

template <int D>
__device__ __forceinline__ void addToQueries(const DenseParams& p, int head, int64_t row0, int warp,
                                             const float (&out)[D / 16][4])
{
    const int lane = int(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int64_t row = row0 + 16 * (warp & 3) + g + 8 * r;
        if (row >= p.queries)
            continue;
        float* dq = p.dq + (row * p.heads + head) * p.dim;
#pragma unroll
        for (int n = 0; n < D / 16; ++n) {
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                const int column = (warp >> 2) * (D / 2) + 8 * n + 2 * t + b;
                if (column < p.dim)
                    dq[column] = readGlobalFresh(dq + column) + p.scale * out[n][2 * r + b];
            }
        }
    }
}

template <int D>
__device__ __forceinline__ void addToKeys(const DenseParams& p, int head, int64_t row0, int firstColumn, float factor,
                                          float* to, const float (&out)[Backward<D>::kColumns][4])
{
    const int lane = int(threadIdx.x & 31), g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int64_t row = row0 + g + 8 * r;
        if (row >= p.keys)
            continue;
        float* at = to + (row * p.heads + head) * p.dim;
#pragma unroll
        for (int n = 0; n < Backward<D>::kColumns; ++n) {
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                const int column = firstColumn + 8 * n + 2 * t + b;
                if (column < p.dim)
                    at[column] += factor * out[n][2 * r + b];
            }
        }
    }
}

/// Adds the threads' sums, one warp per class, and writes the row of this (head, key tile).
__device__ __forceinline__ void writeTableRow(const DenseParams& p, int64_t row, const float* sums)
{
    const int warp = int(threadIdx.x >> 5), lane = int(threadIdx.x & 31);
    for (int code = warp; code < p.codes.classes; code += kThreads / 32) {
        float sum = 0.0f;
        for (int i = lane; i < kThreads; i += 32)
            sum += sums[code * kThreads + i];
        for (int step = 16; step > 0; step /= 2)
            sum += shuffleXor(sum, step);
        if (lane == 0)
            p.tableRows[row * p.codes.classes + code] = sum;
    }
}

template <int D, Addend kAddend>
__global__ void __launch_bounds__(kThreads, 1) attentionBackward80(const __grid_constant__ DenseParams p)
{
    using B = Backward<D>;
    constexpr bool kBiased = kAddend != kNoBias;
    unsigned char* shared = dynamicShared();
    auto* tables = reinterpret_cast<SharedTables*>(shared + B::kTables);
    auto* sums = reinterpret_cast<float*>(shared + B::template kSums<kAddend>);
    auto* ticketPlace = reinterpret_cast<int32_t*>(shared + B::kTicket);
    const int warp = int(threadIdx.x >> 5), lane = int(threadIdx.x & 31), inMatrix = lane & 7, matrix = lane >> 3;
    const bool wantTable = kBiased && p.tableRows != nullptr;

    if (threadIdx.x == 0)
        *ticketPlace = atomicAdd(p.ticket, 1);
    __syncthreads();
    const int ticket = *ticketPlace;
    const int head = ticket % p.heads;
    const int keyTile = ticket / p.heads;

    // roles: 16 keys of the tile and, with two warps per key row, a half of the queries (of d_h for dK, dV)
    const int keyWarp = warp % (B::kKeys / 16), queryWarp = warp / (B::kKeys / 16);
    const int half = B::kHalves == 1 ? 0 : keyWarp >> 2, keyRow = keyWarp * 16;
    const int who = int(threadIdx.x) & (kExpanders - 1),
              expander = int(threadIdx.x) / kExpanders; // expands the tile of half `expander`
    const int keyBlock = keyTile * B::kHalves + half;
    unsigned char* codes = shared + B::kCodes + half * kCodeBytes;
    auto* present = reinterpret_cast<uint32_t*>(shared + B::kPresent) + 4 * half;
    auto* edges = reinterpret_cast<EdgeRows*>(shared + B::kEdges) + half;

    /// Looks at a query block: own tile into `look`; copies and expands if one of the block's tiles is needed, which it
    /// returns.
    const auto prepare = [&](int stage, int queryBlock, TileLook& look) {
        bool needed = !kBiased; // the same for the whole block
        look = {!kBiased && keyBlock < p.keyBlocks ? kUniform : kSkip, 0, kStoredBase, false, nullptr};
#pragma unroll 1
        for (int other = B::kHalves - 1; kBiased && other >= 0; --other) { // this warp's tile last
            look = findTile(p, tables, queryBlock, keyBlock ^ other);
            needed = needed || look.path != kSkip;
        }
        if (needed) {
            unsigned char* to = shared + B::kStages + stage * B::kStage;
            const int64_t from = int64_t(head) * p.packedQueryBlocks + queryBlock;
            copyPanels(to, p.q + from * kBlockBytes<D>, kBlockBytes<D>);
            copyPanels(to + kBlockBytes<D>, p.dO + from * kBlockBytes<D>, kBlockBytes<D>);
            copyPanels(to + B::kStats, reinterpret_cast<const unsigned char*>(p.rowStats + from * kTile), kTile * 8);
        }
        commitCopies();
        if (kBiased && look.path == kClasses && (B::kHalves == 2 || expander == 0))
            expandColumns(p, look, queryBlock, keyBlock, codes, present, who, 1 + half);
        if (kAddend == kEdgeBias && look.path != kSkip && (B::kHalves == 2 || expander == 0))
            fillEdges(p, queryBlock, keyBlock, edges, who, 1 + half);
        return needed;
    };

    if (kBiased && warp == 0)
        fillTables(p, head, lane, tables);
    for (int i = int(threadIdx.x); wantTable && i < p.codes.classes * kThreads; i += kThreads)
        sums[i] = 0.0f;
    __syncthreads();
    const int64_t keyOffset = (int64_t(head) * p.packedKeyBlocks + int64_t(keyTile) * B::kHalves) * kBlockBytes<D>;
    copyPanels(shared + B::kK, p.k + keyOffset, B::kKeys * D * 2);
    copyPanels(shared + B::kV, p.v + keyOffset, B::kKeys * D * 2);

    float dK[B::kColumns][4] = {}, dV[B::kColumns][4] = {};
    const int queryBlocks = int(p.queryBlocks);
    int32_t* turns = p.turns + int64_t(head) * p.queryBlocks;
    TileLook look = {};
    bool needed = false;
    // one query block ahead: step -1 only prepares
    for (int queryBlock = -1; queryBlock < queryBlocks; ++queryBlock) {
        const int stage = queryBlock & 1;
        waitCopies<0>();
        __syncthreads();
        if (threadIdx.x == 0 && queryBlock > 0)
            publishValue(turns + queryBlock - 1, keyTile + 1);
        const unsigned char* panels = shared + B::kStages + stage * B::kStage;
        if (needed) {
            float s[B::kGroups][4] = {}, dS[B::kGroups][4] = {};
            if (look.path != kSkip) {
                const int queryOffset = B::kQueryWarps > 1 ? queryWarp * 32 * 128 : 0;
                const int keyPlace = (keyRow >> 6) * kBlockBytes<D> + (keyRow & 63) * (D == 32 ? 64 : 128);
                const int rowA = (matrix & 1) * 8 + inMatrix, rowB = (matrix >> 1) * 8 + inMatrix;
                const auto* rowStats = reinterpret_cast<const float2*>(panels + B::kStats) + 32 * queryWarp;
                const unsigned char* warpCodes = codes + (keyRow & 63) * kTile;
                const int64_t keysLeft =
                    p.keys - int64_t(keyBlock) * kTile - (keyRow & 63); // from this warp's first key
                transposedScores<D>(PanelLane<D>(shared + B::kK + keyPlace, rowA, matrix >> 1),
                                    PanelLane<D>(panels + queryOffset, rowB, matrix & 1), s);
                const int64_t edgesBefore = int64_t(head) * p.edges.edges;
                transposedProbabilities<D, kAddend>(
                    p, look, keysLeft < 16 ? int(keysLeft) : 16, tables, warpCodes, *edges,
                    kAddend == kEdgeBias ? p.edges.values + edgesBefore : nullptr, keyRow & 63, queryWarp, rowStats, s);
                transposedScores<D>(PanelLane<D>(shared + B::kV + keyPlace, rowA, matrix >> 1),
                                    PanelLane<D>(panels + kBlockBytes<D> + queryOffset, rowB, matrix & 1), dS);
                transposedGradient<D>(p, uint32_t(p.headOffset + head),
                                      uint64_t(p.queryOffset + int64_t(queryBlock) * kTile + 32 * queryWarp),
                                      uint64_t(p.keyOffset + int64_t(keyBlock) * kTile + (keyRow & 63)), rowStats, s,
                                      dS);
                if (kAddend == kEdgeBias && p.edges.gradient != nullptr)
                    eachEdgeColumn<B::kGroups>(*edges, 32 * queryWarp, keyRow & 63, [&](int j, int i, int64_t place) {
                        p.edges.gradient[edgesBefore + place] += dS[j][i];
                    });
                if (wantTable)
                    addTableGradient<D>(p, look, warpCodes, present, queryWarp, dS, sums);
            }
            storeTransposed<D>(shared + B::kDs, keyRow, queryWarp, dS);
            if constexpr (B::kQueryWarps > 1) {
                storeTransposed<D>(shared + B::kP, keyRow, queryWarp, s);
                __syncthreads();
            }
            if (look.path != kSkip) {
                addKeyGradient<D>(s, shared + B::kP, keyRow, queryWarp, panels + kBlockBytes<D>, dV);
                addKeyGradient<D>(dS, shared + B::kDs, keyRow, queryWarp, panels, dK);
            }
        }
        __syncthreads();
        const bool added = needed;
        needed = false;
        if (queryBlock + 1 < queryBlocks)
            needed = prepare(stage ^ 1, queryBlock + 1, look);
        if (queryBlock < 0)
            continue;
        float dQ[D / 16][4] = {};
        if (added)
            queryGradient<D>(shared + B::kDs, shared + B::kK, warp, dQ);
        if (threadIdx.x == 0)
            waitForValue(turns + queryBlock, keyTile);
        __syncthreads();
        if (added)
            addToQueries<D>(p, head, int64_t(queryBlock) * kTile, warp, dQ);
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0)
        publishValue(turns + queryBlocks - 1, keyTile + 1);
    const int64_t keyRow0 = int64_t(keyTile) * B::kKeys + keyRow;
    const int firstColumn = B::kQueryWarps > 1 ? 64 * queryWarp : 0;
    addToKeys<D>(p, head, keyRow0, firstColumn, p.scale, p.dk, dK);
    addToKeys<D>(p, head, keyRow0, firstColumn, 1.0f, p.dv, dV);
    if (wantTable)
        writeTableRow(p, int64_t(head) * ((p.keyBlocks + B::kHalves - 1) / B::kHalves) + keyTile, sums);
}

} // namespace megagraph::kernels::cuda
