// SPDX-License-Identifier: Apache-2.0
// Kernels of sparse attention over the entries of a CSR graph (layout of warps: edge_params.cuh). Online softmax as in
// FlashAttention-2 (arXiv 2307.08691) over two entries per group at a time; backward goes by row (dq, gradients of the
// bias), then by key (dk, dv) with probabilities made again. No atomics: every sum has one order, so bits repeat.
#pragma once

#include "kernels/cuda/edge_params.cuh"

namespace megagraph::kernels::cuda {

/// m in log2 units.
struct EdgeState {
    float m, l;
    float acc[kChannels];
};

/// (m, l, acc) + (m2, l2, acc2) under one maximum; -inf stands for nothing.
__device__ __forceinline__ void joinStates(EdgeState& a, float m2, float l2, const float (&acc2)[kChannels])
{
    const float m = fmaxf(a.m, m2), origin = m == negativeInfinity() ? 0.0f : m;
    const float factor = exp2Fast(a.m - origin), factor2 = exp2Fast(m2 - origin);
    a.m = m;
    a.l = a.l * factor + l2 * factor2;
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        a.acc[i] = a.acc[i] * factor + acc2[i] * factor2;
}

/// What the dot products carry: log2 units, but GT's clamp is in natural ones.
template <bool kGt> __device__ __forceinline__ float productScale(const EdgeParams& p)
{
    return kGt ? p.scale : p.scaleLog2;
}

/// Score of a pair in log2 units, -inf behind the end of the piece. The clamp keeps NaN.
template <bool kGt>
__device__ __forceinline__ float scoreOf(const EdgeParams& p, const EdgeLane& lane, const EdgePair& pair,
                                         int32_t classNumber, float dot)
{
    if (pair.other < 0 || !lane.active)
        return negativeInfinity();
    if constexpr (kGt)
        return (dot > kGtBound ? kGtBound : dot < -kGtBound ? -kGtBound : dot) * kLog2e;
    else
        return dot + biasOf(p, lane.head, pair, classNumber) * kLog2e;
}

/// Where a row begins: its state so far, or nothing. Ends with the warp together, so that a lane may write the state.
__device__ __forceinline__ EdgeState startOf(const EdgeParams& p, const EdgeLane& lane, int64_t row, bool wanted)
{
    EdgeState s{negativeInfinity(), 0.0f, {}};
    if (p.partial && !p.first) {
        if (wanted && lane.group == 0 && lane.active) {
            const int64_t at = int64_t(lane.head) * p.queries + row;
            s.m = p.stateM[at];
            s.l = p.stateL[at];
            const float* acc = p.stateAcc + (row * p.heads + lane.head) * p.dim + lane.channel;
#pragma unroll
            for (int i = 0; i < kChannels; ++i)
                s.acc[i] = i < lane.count ? acc[i] : 0.0f;
        }
        __syncwarp();
    }
    return s;
}

__device__ __forceinline__ void finishRow(const EdgeParams& p, const EdgeLane& lane, int64_t row, const EdgeState& s)
{
    const int64_t at = int64_t(lane.head) * p.queries + row;
    if (p.partial) {
        if (lane.part == 0) {
            p.stateM[at] = s.m;
            p.stateL[at] = s.l;
        }
        storeFloats(p.stateAcc + (row * p.heads + lane.head) * p.dim + lane.channel, s.acc, lane.count, false);
        return;
    }
    const bool empty = s.l == 0.0f;
    const float sum = p.gt && !empty ? s.l + kGtTerm * exp2Fast(-s.m) : s.l, factor = empty ? 0.0f : 1.0f / sum;
    if (lane.part == 0)
        p.lse[at] = empty ? negativeInfinity() : kLn2 * (s.m + log2f(sum));
    float out[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        out[i] = s.acc[i] * factor;
    storeTyped(p.o, p.oType, row * p.oRowStride + int64_t(lane.head) * p.oHeadStride + lane.channel, out, lane.count,
               p.oWide);
}

/// State of a piece: m [heads], l [heads], acc [heads, dim].
__device__ __forceinline__ float* stateAt(const EdgeParams& p, int64_t number, int floatsPerHead)
{
    return p.states + number * (int64_t(p.heads) * floatsPerHead);
}

__device__ __forceinline__ int64_t itemOfWarp(const EdgeParams& p)
{
    return int64_t(blockIdx.x / unsigned(p.headGroups)) * int(blockDim.x / 32) + int(threadIdx.x / 32);
}

template <class T, bool kGt>
__global__ void __launch_bounds__(kEdgeThreads, kGt ? kEdgeBlocksGt : kEdgeBlocks) edgeForward(const EdgeParams p)
{
    const EdgeLane lane = edgeLane(p, int(blockIdx.x % unsigned(p.headGroups)));
    const int64_t item = itemOfWarp(p);
    EdgePiece piece;
    if (item >= p.rows + p.slots || !findPiece<false>(p, item, piece))
        return;
    float q[kChannels];
    loadRow<T>(p, lane, p.q, piece.row, q);
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        q[i] *= productScale<kGt>(p);
    EdgeState s = startOf(p, lane, piece.row, piece.whole);
    const int total = piece.count + (piece.self >= 0 ? 1 : 0);
    EdgePair next0 = pairAt(p, piece, lane.group), next1 = pairAt(p, piece, lane.group + lane.groups);
    for (int first = 0; first < total; first += 2 * lane.groups) {
        const EdgePair pair0 = next0, pair1 = next1; // the next keys come while these rows are on their way
        next0 = pairAt(p, piece, first + lane.group + 2 * lane.groups);
        next1 = pairAt(p, piece, first + lane.group + 3 * lane.groups);
        const OtherRow<T, kGt> k0(p, lane, p.k, pair0), k1(p, lane, p.k, pair1);
        const RawRow<T> v0 = loadRaw<T>(p, lane, p.v, pair0.other), v1 = loadRaw<T>(p, lane, p.v, pair1.other);
        const float dot0 = sumParts(p, k0.dot(q)), dot1 = sumParts(p, k1.dot(q));
        if constexpr (kGt) {
            k0.storeProducts(p, lane, pair0, q);
            k1.storeProducts(p, lane, pair1, q);
        }
        const float s0 = scoreOf<kGt>(p, lane, pair0, classOf(p, pair0), dot0),
                    s1 = scoreOf<kGt>(p, lane, pair1, classOf(p, pair1), dot1);
        const float m = fmaxf(s.m, fmaxf(s0, s1)), origin = m == negativeInfinity() ? 0.0f : m;
        const float factor = exp2Fast(s.m - origin), p0 = exp2Fast(s0 - origin), p1 = exp2Fast(s1 - origin);
        s.m = m;
        s.l = s.l * factor + (p0 + p1);
        float w0 = p0, w1 = p1;
        if (p.mask.threshold != 0 && lane.active) {
            w0 *= pair0.other < 0 ? 0.0f : keepOf(p, lane.head, piece.row, pair0.other);
            w1 *= pair1.other < 0 ? 0.0f : keepOf(p, lane.head, piece.row, pair1.other);
        }
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            s.acc[i] *= factor;
        addChannels<T>(s.acc, w0, v0);
        addChannels<T>(s.acc, w1, v1);
    }
    for (int step = p.lanesPerHead * p.headsPerWarp; step < 32; step *= 2) {
        float acc2[kChannels];
        const float m2 = shuffleXor(s.m, step), l2 = shuffleXor(s.l, step);
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            acc2[i] = shuffleXor(s.acc[i], step);
        joinStates(s, m2, l2, acc2);
    }
    if (lane.group != 0 || !lane.active)
        return;
    if (piece.whole) {
        finishRow(p, lane, piece.row, s);
        return;
    }
    float* state = stateAt(p, piece.state, 2 + p.dim);
    if (lane.part == 0) {
        state[lane.head] = s.m;
        state[p.heads + lane.head] = s.l;
    }
    storeFloats(state + 2 * p.heads + lane.head * p.dim + lane.channel, s.acc, lane.count, false);
}

/// The first slot of a long row combines all its pieces in order. A long row has a slot number 1; others leave.
__device__ __forceinline__ bool findLongRow(const EdgeParams& p, int64_t slot, EdgePiece& piece, int& pieces)
{
    if (slot >= p.slots || !findPiece<false>(p, p.rows + slot, piece))
        return false;
    const int64_t start = readGlobal(p.start + piece.row), length = readGlobal(p.start + piece.row + 1) - start;
    pieces = int((length + kEdgeChunk - 1) / kEdgeChunk);
    return piece.begin == start + kEdgeChunk;
}
/// State number of piece i of the row whose second piece is `second`.
__device__ __forceinline__ int64_t stateOf(const EdgePiece& second, int i)
{
    return i == 0 ? (second.begin - kEdgeChunk) / kEdgeChunk : second.state + i - 1;
}

__global__ void __launch_bounds__(kEdgeThreads, kEdgeBlocks) edgeForwardLong(const EdgeParams p)
{
    const EdgeLane lane = edgeLane(p, int(blockIdx.x % unsigned(p.headGroups)));
    EdgePiece piece;
    int pieces = 0;
    if (!findLongRow(p, itemOfWarp(p), piece, pieces))
        return;
    EdgeState s = startOf(p, lane, piece.row, true);
    if (lane.group != 0 || !lane.active)
        return;
    for (int i = 0; i < pieces; ++i) {
        const float* state = stateAt(p, stateOf(piece, i), 2 + p.dim);
        float acc[kChannels];
#pragma unroll
        for (int c = 0; c < kChannels; ++c)
            acc[c] = c < lane.count ? state[2 * p.heads + lane.head * p.dim + lane.channel + c] : 0.0f;
        joinStates(s, state[lane.head], state[p.heads + lane.head], acc);
    }
    finishRow(p, lane, piece.row, s);
}

/// What the gradients of one pair need; the owner's side of the products is kept in registers.
struct EdgeGrad {
    float weight, dS; // P Z and P (Z dP - delta)
};
template <bool kGt>
__device__ __forceinline__ EdgeGrad gradOf(const EdgeParams& p, const EdgeLane& lane, const EdgePair& pair,
                                           int64_t query, int64_t key, int32_t classNumber, float dot, float dP,
                                           float lseLog2, float delta)
{
    if (pair.other < 0 || !lane.active)
        return {0.0f, 0.0f};
    const float probability = exp2Fast(scoreOf<kGt>(p, lane, pair, classNumber, dot) - lseLog2);
    const float keep = keepOf(p, lane.head, query, key);
    const bool flat = kGt && (dot > kGtBound || dot < -kGtBound); // the clamp passes no gradient
    return {probability * keep, flat ? 0.0f : probability * (keep * dP - delta)};
}
/// +inf for a row without keys: its probabilities are 0.
__device__ __forceinline__ float lseLog2Of(float lse)
{
    return lse == negativeInfinity() ? -negativeInfinity() : lse * kLog2e;
}

__device__ __forceinline__ void sumGroups(const EdgeParams& p, float (&x)[kChannels])
{
    for (int step = p.lanesPerHead * p.headsPerWarp; step < 32; step *= 2) {
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            x[i] += shuffleXor(x[i], step);
    }
}

/// Sums of a piece: the result's row if the piece is whole, else its state.
__device__ __forceinline__ void storeSum(const EdgeParams& p, const EdgeLane& lane, const EdgePiece& piece,
                                         float* result, int which, int arrays, const float (&x)[kChannels])
{
    float* to = piece.whole ? result + piece.row * (int64_t(p.heads) * p.dim)
                            : stateAt(p, piece.state, arrays * p.dim) + which * p.heads * p.dim;
    storeFloats(to + lane.head * p.dim + lane.channel, x, lane.count, piece.whole && p.oWide);
}

/// dS of one pair to its places: dw, and the bin of its class in the warp's own sums.
__device__ __forceinline__ void storeBias(const EdgeParams& p, const EdgeLane& lane, const EdgePair& pair,
                                          int32_t classNumber, float dS, float* bins)
{
    if (lane.part != 0 || !lane.active || pair.other < 0)
        return;
    if (p.dBias != nullptr && pair.entry >= 0)
        p.dBias[int64_t(lane.head) * p.entries + pair.entry] = dS;
    if (bins != nullptr && classNumber >= 0)
        bins[(lane.group * p.headsPerWarp + lane.headInWarp) * p.classes + classNumber] += dS;
}

template <class T, bool kGt>
__device__ __forceinline__ void backwardRow(const EdgeParams& p, const EdgeLane& lane, const EdgePiece& piece,
                                            float* bins)
{
    float q[kChannels], dO[kChannels], sum[kChannels] = {};
    loadRow<T>(p, lane, p.q, piece.row, q);
    loadRow<T>(p, lane, p.dO, piece.row, dO);
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        q[i] *= productScale<kGt>(p);
    const int64_t at = int64_t(lane.active ? lane.head : 0) * p.queries + piece.row;
    const float lse = lseLog2Of(readGlobal(p.lseIn + at)), delta = readGlobal(p.delta + at);
    const int total = piece.count + (piece.self >= 0 ? 1 : 0);
    EdgePair next0 = pairAt(p, piece, lane.group), next1 = pairAt(p, piece, lane.group + lane.groups);
    for (int first = 0; first < total; first += 2 * lane.groups) {
        const EdgePair pair0 = next0, pair1 = next1; // the next keys come while these rows are on their way
        next0 = pairAt(p, piece, first + lane.group + 2 * lane.groups);
        next1 = pairAt(p, piece, first + lane.group + 3 * lane.groups);
        const OtherRow<T, kGt> k0(p, lane, p.k, pair0), k1(p, lane, p.k, pair1);
        const RawRow<T> v0 = loadRaw<T>(p, lane, p.v, pair0.other), v1 = loadRaw<T>(p, lane, p.v, pair1.other);
        const float dot0 = sumParts(p, k0.dot(q)), dot1 = sumParts(p, k1.dot(q));
        const float dP0 = sumParts(p, dotChannels<T>(dO, v0)), dP1 = sumParts(p, dotChannels<T>(dO, v1));
        const int32_t class0 = classOf(p, pair0), class1 = classOf(p, pair1);
        const EdgeGrad g0 = gradOf<kGt>(p, lane, pair0, piece.row, pair0.other, class0, dot0, dP0, lse, delta);
        const EdgeGrad g1 = gradOf<kGt>(p, lane, pair1, piece.row, pair1.other, class1, dot1, dP1, lse, delta);
        storeBias(p, lane, pair0, class0, g0.dS, bins);
        storeBias(p, lane, pair1, class1, g1.dS, bins);
        if constexpr (kGt) {
            k0.storeGradient(p, lane, pair0, g0.dS, q);
            k1.storeGradient(p, lane, pair1, g1.dS, q);
        }
        k0.addTo(sum, p, lane, pair0, g0.dS);
        k1.addTo(sum, p, lane, pair1, g1.dS);
    }
    sumGroups(p, sum);
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        sum[i] *= p.scale;
    if (lane.group == 0 && lane.active)
        storeSum(p, lane, piece, p.dq, 0, 1, sum);
}

/// With a table gradient each warp takes rows in a fixed stride and keeps sums of its own per (group, head, class) in
/// shared memory; they leave as one row of tableRows per warp. Else every warp has one piece.
template <class T, bool kGt>
__global__ void __launch_bounds__(kEdgeThreads, kGt ? kEdgeBlocksGt : kEdgeBlocks) edgeBackwardRows(const EdgeParams p)
{
    const EdgeLane lane = edgeLane(p, int(blockIdx.x % unsigned(p.headGroups)));
    const int64_t warp = itemOfWarp(p), warps = int64_t(gridDim.x / unsigned(p.headGroups)) * int(blockDim.x / 32);
    const int sums = lane.groups * p.headsPerWarp * p.classes, thread = int(threadIdx.x & 31);
    float* bins = nullptr;
    if (p.tableRows != nullptr) {
        bins = reinterpret_cast<float*>(dynamicShared()) + int(threadIdx.x / 32) * sums;
        for (int i = thread; i < sums; i += 32)
            bins[i] = 0.0f;
        __syncwarp();
    }
    for (int64_t item = warp; item < p.rows + p.slots; item += warps) {
        EdgePiece piece;
        if (findPiece<false>(p, item, piece))
            backwardRow<T, kGt>(p, lane, piece, bins);
    }
    if (bins == nullptr)
        return;
    __syncwarp();
    for (int i = thread; i < p.headsPerWarp * p.classes; i += 32) {
        const int head = int(blockIdx.x % unsigned(p.headGroups)) * p.headsPerWarp + i / p.classes;
        float sum = 0.0f;
        for (int group = 0; group < lane.groups; ++group)
            sum += bins[group * p.headsPerWarp * p.classes + i];
        if (head < p.heads)
            p.tableRows[(warp * p.heads + head) * p.classes + i % p.classes] = sum;
    }
}

/// table [heads, classes] += the rows of all warps in fixed order, fp64; one warp per sum.
__global__ void __launch_bounds__(kEdgeThreads, kEdgeBlocks)
    edgeTableSum(const float* rows, int64_t warps, int sums, double* table)
{
    const int64_t which = int64_t(blockIdx.x) * int(blockDim.x / 32) + int(threadIdx.x / 32);
    if (which >= sums)
        return;
    double sum = 0;
    for (int64_t w = int(threadIdx.x & 31); w < warps; w += 32)
        sum += double(readGlobal(rows + w * sums + which));
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(kAllLanes, sum, step);
    if ((threadIdx.x & 31) == 0)
        table[which] += sum;
}

template <class T, bool kGt>
__global__ void __launch_bounds__(kEdgeThreads, kGt ? kEdgeBlocksGt : kEdgeBlocks) edgeBackwardKeys(const EdgeParams p)
{
    const EdgeLane lane = edgeLane(p, int(blockIdx.x % unsigned(p.headGroups)));
    const int64_t item = itemOfWarp(p);
    EdgePiece piece;
    if (item >= p.rows + p.slots || !findPiece<true>(p, item, piece))
        return;
    float k[kChannels], v[kChannels], dk[kChannels] = {}, dv[kChannels] = {};
    loadRow<T>(p, lane, p.k, piece.row, k);
    loadRow<T>(p, lane, p.v, piece.row, v);
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        k[i] *= productScale<kGt>(p);
    const int64_t head = int64_t(lane.active ? lane.head : 0) * p.queries;
    const int total = piece.count + (piece.self >= 0 ? 1 : 0);
    EdgePair next0 = pairAt(p, piece, lane.group), next1 = pairAt(p, piece, lane.group + lane.groups);
    for (int first = 0; first < total; first += 2 * lane.groups) {
        const EdgePair pair0 = next0, pair1 = next1; // the next keys come while these rows are on their way
        next0 = pairAt(p, piece, first + lane.group + 2 * lane.groups);
        next1 = pairAt(p, piece, first + lane.group + 3 * lane.groups);
        const OtherRow<T, kGt> q0(p, lane, p.q, pair0), q1(p, lane, p.q, pair1);
        const RawRow<T> dO0 = loadRaw<T>(p, lane, p.dO, pair0.other), dO1 = loadRaw<T>(p, lane, p.dO, pair1.other);
        const int64_t row0 = pair0.other < 0 ? 0 : pair0.other, row1 = pair1.other < 0 ? 0 : pair1.other;
        const float lse0 = lseLog2Of(readGlobal(p.lseIn + head + row0)),
                    lse1 = lseLog2Of(readGlobal(p.lseIn + head + row1));
        const float delta0 = readGlobal(p.delta + head + row0), delta1 = readGlobal(p.delta + head + row1);
        const float dot0 = sumParts(p, q0.dot(k)), dot1 = sumParts(p, q1.dot(k));
        const float dP0 = sumParts(p, dotChannels<T>(v, dO0)), dP1 = sumParts(p, dotChannels<T>(v, dO1));
        const EdgeGrad g0 =
            gradOf<kGt>(p, lane, pair0, pair0.other, piece.row, classOf(p, pair0), dot0, dP0, lse0, delta0);
        const EdgeGrad g1 =
            gradOf<kGt>(p, lane, pair1, pair1.other, piece.row, classOf(p, pair1), dot1, dP1, lse1, delta1);
        q0.addTo(dk, p, lane, pair0, g0.dS);
        q1.addTo(dk, p, lane, pair1, g1.dS);
        addChannels<T>(dv, g0.weight, dO0);
        addChannels<T>(dv, g1.weight, dO1);
    }
    sumGroups(p, dk);
    sumGroups(p, dv);
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        dk[i] *= p.scale;
    if (lane.group != 0 || !lane.active)
        return;
    storeSum(p, lane, piece, p.dk, 0, 2, dk);
    storeSum(p, lane, piece, p.dv, 1, 2, dv);
}

/// Sums of the pieces of long rows in piece order: results of `arrays` sums per row.
__global__ void __launch_bounds__(kEdgeThreads, kEdgeBlocks)
    edgeSumLong(const EdgeParams p, int arrays, float* result0, float* result1)
{
    const EdgeLane lane = edgeLane(p, int(blockIdx.x % unsigned(p.headGroups)));
    EdgePiece piece;
    int pieces = 0;
    if (!findLongRow(p, itemOfWarp(p), piece, pieces) || lane.group != 0 || !lane.active)
        return;
    for (int which = 0; which < arrays; ++which) {
        float sum[kChannels] = {};
        for (int i = 0; i < pieces; ++i) {
            const float* state =
                stateAt(p, stateOf(piece, i), arrays * p.dim) + (which * p.heads + lane.head) * p.dim + lane.channel;
#pragma unroll
            for (int c = 0; c < kChannels; ++c)
                sum[c] += c < lane.count ? state[c] : 0.0f;
        }
        float* to = (which == 0 ? result0 : result1) + (piece.row * p.heads + lane.head) * p.dim + lane.channel;
        storeFloats(to, sum, lane.count, p.oWide);
    }
}

} // namespace megagraph::kernels::cuda
