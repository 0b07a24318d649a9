// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/api.h"
#include "kernels/cuda/attention_ops.h"
#include "kernels/cuda/edge_attention.h"

namespace megagraph::kernels::cuda {
namespace {

const MegagraphCudaTable kTable = {
    MegagraphCudaVersion,
    int32_t(sizeof(MegagraphCudaTable)),
    packedBytes,
    packHeads,
    attentionForwardWorkspace,
    attentionBackwardWorkspace,
    attentionForward,
    attentionPartial,
    attentionCombine,
    attentionFinish,
    attentionDelta,
    attentionBackward,
    closeFarBin,
    edgeAttentionForwardWorkspace,
    edgeAttentionBackwardWorkspace,
    edgeAttentionForward,
    edgeAttentionPartial,
    edgeAttentionFinish,
    edgeAttentionBackward,
    forceDensePath,
};

} // namespace
} // namespace megagraph::kernels::cuda

extern "C" const MegagraphCudaTable* megagraphCudaTable(int32_t version)
{
    return version == MegagraphCudaVersion ? &megagraph::kernels::cuda::kTable : nullptr;
}
