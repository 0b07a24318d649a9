// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/attention_launch.h"

namespace megagraph::kernels::cuda {
namespace {

template <int D, Addend kAddend> const char* launchBackward(const DenseParams& p, Stream stream)
{
    const int bytes = Backward<D>::template bytes<kAddend>(p.tableRows != nullptr ? p.codes.classes : 0);
    if (const char* failure = allowShared(attentionBackward80<D, kAddend>, bytes))
        return failure;
    const int64_t tiles = (p.keys + Backward<D>::kKeys - 1) / Backward<D>::kKeys;
    MEGAGRAPH_LAUNCH((attentionBackward80<D, kAddend>), tiles * p.heads, kThreads, bytes, stream, p);
    return launchFailure();
}

template <Addend kAddend> const char* launchBackwardOfWidth(const DenseParams& p, Stream stream)
{
    const int32_t width = paddedWidth(p.dim);
    return width == 32   ? launchBackward<32, kAddend>(p, stream)
           : width == 64 ? launchBackward<64, kAddend>(p, stream)
                         : launchBackward<128, kAddend>(p, stream);
}

} // namespace

const char* launchBackward80(const DenseParams& p, Addend addend, Stream stream)
{
    return addend == kNoBias      ? launchBackwardOfWidth<kNoBias>(p, stream)
           : addend == kClassBias ? launchBackwardOfWidth<kClassBias>(p, stream)
                                  : launchBackwardOfWidth<kEdgeBias>(p, stream);
}

} // namespace megagraph::kernels::cuda
