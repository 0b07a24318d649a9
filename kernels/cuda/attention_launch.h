// SPDX-License-Identifier: Apache-2.0
// Host side of the dense kernels: one function per source file of instances, so that they compile side by side. Each
// queues its kernel and returns null, or the text of a failed launch.
#pragma once

#include "kernels/cuda/attention_params.cuh"

namespace megagraph::kernels::cuda {

/// 32, 64 or 128: the padded d_h of a kernel instance.
inline int32_t paddedWidth(int32_t dim)
{
    return dim <= 32 ? 32 : dim <= 64 ? 64 : 128;
}

const char* launchForward80(const DenseParams& params, Addend addend, Stream stream);
/// d_h 33 to 128, on devices with wgmma.
const char* launchForward90(const DenseParams& params, Addend addend, Stream stream);
const char* launchBackward80(const DenseParams& params, Addend addend, Stream stream);
/// Keys of a block of the backward pass: rows of its table gradient.
inline int64_t backwardKeys80(int32_t dim)
{
    return dim > 64 ? 64 : 128;
}

} // namespace megagraph::kernels::cuda
