// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/attention_launch.h"

namespace megagraph::kernels::cuda {
namespace {

template <int D, Addend kAddend> const char* launchWarps(const DenseParams& p, Stream stream)
{
    constexpr int kBytes = ForwardShared<D, kAddend>::kBytes;
    if (const char* failure = allowShared(attentionForward80<D, kAddend>, kBytes))
        return failure;
    const int64_t tiles = (p.queries + 2 * kTile - 1) / (2 * kTile);
    MEGAGRAPH_LAUNCH((attentionForward80<D, kAddend>), tiles * p.heads, kThreads, kBytes, stream, p);
    return launchFailure();
}

template <Addend kAddend> const char* launchWarpsOfWidth(const DenseParams& p, Stream stream)
{
    const int32_t width = paddedWidth(p.dim);
    return width == 32   ? launchWarps<32, kAddend>(p, stream)
           : width == 64 ? launchWarps<64, kAddend>(p, stream)
                         : launchWarps<128, kAddend>(p, stream);
}

} // namespace

const char* launchForward80(const DenseParams& p, Addend addend, Stream stream)
{
    return addend == kNoBias      ? launchWarpsOfWidth<kNoBias>(p, stream)
           : addend == kClassBias ? launchWarpsOfWidth<kClassBias>(p, stream)
                                  : launchWarpsOfWidth<kEdgeBias>(p, stream);
}

} // namespace megagraph::kernels::cuda
