// SPDX-License-Identifier: Apache-2.0
// Gradient of the bias table behind the backward pass: rows of one (head, key tile) each are added in key order in
// fp64, without atomics, so the bits never vary; the far bin is closed once, after all sums (rows of dS sum to zero).
#pragma once

#include "kernels/cuda/attention_params.cuh"

namespace megagraph::kernels::cuda {

/// sums [heads, classes] += rows [heads, tiles, classes] in tile order; one thread per (head, class).
__global__ void __launch_bounds__(kThreads)
    addTableRows(const float* rows, int64_t tiles, int heads, int classes, double* sums)
{
    const int index = int(blockIdx.x) * kThreads + int(threadIdx.x);
    if (index >= heads * classes)
        return;
    const int head = index / classes, code = index % classes;
    double sum = 0;
    for (int64_t tile = 0; tile < tiles; ++tile)
        sum += double(readGlobal(rows + (head * tiles + tile) * classes + code));
    sums[index] += sum;
}

/// db [heads, K + 4] from the summed bins; bin K + 1 becomes minus the sum of the others. One thread per head.
__global__ void __launch_bounds__(kThreads) closeFarBins(int heads, int hops, const double* sums, float* db)
{
    const int head = int(blockIdx.x) * kThreads + int(threadIdx.x), classes = hops + 4, far = hops + 1;
    if (head >= heads)
        return;
    double others = 0;
    for (int code = 0; code < classes; ++code) {
        if (code == far)
            continue;
        const double sum = readGlobal(sums + int64_t(head) * classes + code);
        others += sum;
        db[int64_t(head) * classes + code] = float(sum);
    }
    db[int64_t(head) * classes + far] = float(-others);
}

} // namespace megagraph::kernels::cuda
