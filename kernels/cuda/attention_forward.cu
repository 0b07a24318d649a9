// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/attention_launch.h"

namespace megagraph::kernels::cuda {
namespace {

template <int D, bool kBiased> const char* launchWarps(const DenseParams& p, Stream stream)
{
    constexpr int kBytes = ForwardShared<D, kBiased>::kBytes;
    if (const char* failure = allowShared(attentionForward80<D, kBiased>, kBytes))
        return failure;
    const int64_t tiles = (p.queries + 2 * kTile - 1) / (2 * kTile);
    MEGAGRAPH_LAUNCH((attentionForward80<D, kBiased>), tiles * p.heads, kThreads, kBytes, stream, p);
    return launchFailure();
}

} // namespace

const char* launchForward80(const DenseParams& p, bool biased, Stream stream)
{
    const int32_t width = paddedWidth(p.dim);
    if (biased)
        return width == 32   ? launchWarps<32, true>(p, stream)
               : width == 64 ? launchWarps<64, true>(p, stream)
                             : launchWarps<128, true>(p, stream);
    return width == 32   ? launchWarps<32, false>(p, stream)
           : width == 64 ? launchWarps<64, false>(p, stream)
                         : launchWarps<128, false>(p, stream);
}

} // namespace megagraph::kernels::cuda
