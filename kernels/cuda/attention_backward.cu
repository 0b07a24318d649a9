// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/attention_launch.h"

namespace megagraph::kernels::cuda {
namespace {

template <int D, bool kBiased> const char* launchBackward(const DenseParams& p, Stream stream)
{
    const int bytes = Backward<D>::bytes(p.tableRows != nullptr ? p.codes.classes : 0);
    if (const char* failure = allowShared(attentionBackward80<D, kBiased>, bytes))
        return failure;
    const int64_t tiles = (p.keys + Backward<D>::kKeys - 1) / Backward<D>::kKeys;
    MEGAGRAPH_LAUNCH((attentionBackward80<D, kBiased>), tiles * p.heads, kThreads, bytes, stream, p);
    return launchFailure();
}

} // namespace

const char* launchBackward80(const DenseParams& p, bool biased, Stream stream)
{
    const int32_t width = paddedWidth(p.dim);
    if (biased)
        return width == 32   ? launchBackward<32, true>(p, stream)
               : width == 64 ? launchBackward<64, true>(p, stream)
                             : launchBackward<128, true>(p, stream);
    return width == 32   ? launchBackward<32, false>(p, stream)
           : width == 64 ? launchBackward<64, false>(p, stream)
                         : launchBackward<128, false>(p, stream);
}

} // namespace megagraph::kernels::cuda
