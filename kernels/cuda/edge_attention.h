// SPDX-License-Identifier: Apache-2.0
// Host side of sparse attention on the GPU: the functions of MegagraphCudaTable (api.h), which has their contract.
// Checks come before the first launch; device memory is never read here.
#pragma once

#include "kernels/cuda/api.h"

namespace megagraph::kernels::cuda {

int64_t edgeAttentionForwardWorkspace(const MegagraphCudaEdgeGraph* graph, int32_t heads, int32_t dim);
int64_t edgeAttentionBackwardWorkspace(const MegagraphCudaEdgeGraph* graph, int32_t heads, int32_t dim);
int32_t edgeAttentionForward(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                             const MegagraphCudaView* k, const MegagraphCudaView* v,
                             const MegagraphCudaDropout* dropout, const MegagraphCudaView* o, float* lse, void* s,
                             void* workspace, int64_t workspaceBytes, void* stream, MegagraphCudaError* error);
int32_t edgeAttentionPartial(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                             const MegagraphCudaView* k, const MegagraphCudaView* v,
                             const MegagraphCudaDropout* dropout, int32_t first, const MegagraphCudaState* state,
                             void* s, void* workspace, int64_t workspaceBytes, void* stream, MegagraphCudaError* error);
int32_t edgeAttentionBackward(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                              const MegagraphCudaView* k, const MegagraphCudaView* v, const MegagraphCudaView* dO,
                              const float* lse, const float* delta, const MegagraphCudaDropout* dropout, float* dq,
                              float* dk, float* dv, const MegagraphCudaEdgeBiasGradient* biasGradient, void* workspace,
                              int64_t workspaceBytes, void* stream, MegagraphCudaError* error);

} // namespace megagraph::kernels::cuda
