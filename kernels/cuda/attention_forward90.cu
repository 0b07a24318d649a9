// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/attention_launch.h"

namespace megagraph::kernels::cuda {
namespace {

template <int D, Addend kAddend> const char* launchGroups(const DenseParams& p, Stream stream)
{
    constexpr int kBytes = ForwardShared<D, kAddend>::kBytes;
    if (const char* failure = allowShared(attentionForward90<D, kAddend>, kBytes))
        return failure;
    const int64_t tiles = (p.queries + 2 * kTile - 1) / (2 * kTile);
    MEGAGRAPH_LAUNCH((attentionForward90<D, kAddend>), tiles * p.heads, kThreads, kBytes, stream, p);
    return launchFailure();
}

template <Addend kAddend> const char* launchGroupsOfWidth(const DenseParams& p, Stream stream)
{
    return p.dim <= 64 ? launchGroups<64, kAddend>(p, stream) : launchGroups<128, kAddend>(p, stream);
}

} // namespace

const char* launchForward90(const DenseParams& p, Addend addend, Stream stream)
{
    return addend == kNoBias      ? launchGroupsOfWidth<kNoBias>(p, stream)
           : addend == kClassBias ? launchGroupsOfWidth<kClassBias>(p, stream)
                                  : launchGroupsOfWidth<kEdgeBias>(p, stream);
}

} // namespace megagraph::kernels::cuda
