// SPDX-License-Identifier: Apache-2.0
// Element-wise steps around dense attention: combine and finish of partial states, delta, the sum of table gradients.
// One thread per row and head, or per bin; sums in a fixed order.
#pragma once

#include "kernels/cuda/attention_params.cuh"

namespace megagraph::kernels::cuda {

struct StateParams {
    float *m, *l, *acc;
    const float *otherM, *otherL, *otherAcc;
    int64_t rows;
    int32_t heads, dim;
    void* o;
    int64_t oRowStride, oHeadStride;
    int32_t oType;
    float added; // to the sum of a row with keys, at its true scale: GT's 1e-6
    float* lse;
};

/// Eight rows per block of 256 threads: one warp per (row, head), heads fastest.
__device__ __forceinline__ bool rowOfWarp(int64_t rows, int heads, int64_t& row, int& head)
{
    const int64_t index = int64_t(blockIdx.x) * (kThreads / 32) + (threadIdx.x >> 5);
    row = index / heads;
    head = int(index % heads);
    return row < rows;
}

__global__ void __launch_bounds__(kThreads) combineStates(const StateParams p)
{
    int64_t row;
    int head;
    if (!rowOfWarp(p.rows, p.heads, row, head))
        return;
    const int lane = int(threadIdx.x & 31);
    const int64_t at = int64_t(head) * p.rows + row;
    const float am = p.m[at], bm = p.otherM[at], high = fmaxf(am, bm);
    const float fa = am == negativeInfinity() ? 0.0f : exp2Fast(am - high);
    const float fb = bm == negativeInfinity() ? 0.0f : exp2Fast(bm - high);
    const float al = p.l[at], sum = al * fa + p.otherL[at] * fb;
    __syncwarp();
    if (lane == 0) {
        p.m[at] = high;
        p.l[at] = sum;
    }
    for (int x = lane; x < p.dim; x += 32) {
        const int64_t element = (row * p.heads + head) * p.dim + x;
        p.acc[element] = p.acc[element] * fa + p.otherAcc[element] * fb;
    }
}

__global__ void __launch_bounds__(kThreads) finishState(const StateParams p)
{
    int64_t row;
    int head;
    if (!rowOfWarp(p.rows, p.heads, row, head))
        return;
    const int lane = int(threadIdx.x & 31);
    const int64_t at = int64_t(head) * p.rows + row;
    const float held = p.l[at];
    const float sum = held == 0.0f || p.added == 0.0f ? held : held + p.added * exp2Fast(-p.m[at]);
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    if (lane == 0)
        p.lse[at] = sum == 0.0f ? negativeInfinity() : kLn2 * (p.m[at] + log2f(sum));
    for (int x = lane; x < p.dim; x += 32) {
        const float value = sum == 0.0f ? 0.0f : p.acc[(row * p.heads + head) * p.dim + x] * factor;
        const int64_t out = row * p.oRowStride + head * p.oHeadStride + x;
        if (p.oType == MegagraphCudaFloat)
            static_cast<float*>(p.o)[out] = value;
        else
            static_cast<uint16_t*>(p.o)[out] = uint16_t(packBf16(value, 0.0f));
    }
}

struct DeltaParams {
    const void *o, *dO;
    int64_t rows, oRowStride, oHeadStride, dORowStride, dOHeadStride;
    int32_t heads, dim, oType, dOType;
    float* delta;
};
__device__ __forceinline__ float typedValue(const void* data, int32_t type, int64_t at)
{
    return type == MegagraphCudaFloat ? readGlobal(static_cast<const float*>(data) + at)
                                      : bf16Value(readGlobal(static_cast<const uint16_t*>(data) + at));
}
__global__ void __launch_bounds__(kThreads) rowDeltas(const DeltaParams p)
{
    int64_t row;
    int head;
    if (!rowOfWarp(p.rows, p.heads, row, head))
        return;
    const int lane = int(threadIdx.x & 31);
    float sum = 0.0f;
    for (int x = lane; x < p.dim; x += 32)
        sum = fmaf(typedValue(p.o, p.oType, row * p.oRowStride + head * p.oHeadStride + x),
                   typedValue(p.dO, p.dOType, row * p.dORowStride + head * p.dOHeadStride + x), sum);
    for (int step = 16; step > 0; step /= 2)
        sum += shuffleXor(sum, step);
    if (lane == 0)
        p.delta[int64_t(head) * p.rows + row] = sum;
}

} // namespace megagraph::kernels::cuda
