// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/attention_launch.h"

namespace megagraph::kernels::cuda {
namespace {

template <int D, bool kBiased> const char* launchGroups(const DenseParams& p, Stream stream)
{
    constexpr int kBytes = ForwardShared<D, kBiased>::kBytes;
    if (const char* failure = allowShared(attentionForward90<D, kBiased>, kBytes))
        return failure;
    const int64_t tiles = (p.queries + 2 * kTile - 1) / (2 * kTile);
    MEGAGRAPH_LAUNCH((attentionForward90<D, kBiased>), tiles * p.heads, kThreads, kBytes, stream, p);
    return launchFailure();
}

} // namespace

const char* launchForward90(const DenseParams& p, bool biased, Stream stream)
{
    if (p.dim <= 64)
        return biased ? launchGroups<64, true>(p, stream) : launchGroups<64, false>(p, stream);
    return biased ? launchGroups<128, true>(p, stream) : launchGroups<128, false>(p, stream);
}

} // namespace megagraph::kernels::cuda
