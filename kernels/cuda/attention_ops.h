// SPDX-License-Identifier: Apache-2.0
// The dense entries of the table of api.h, and those for the state of rows, under their names. Host code: checks, the
// carving of the workspace, launches.
#pragma once

#include "kernels/cuda/api.h"

namespace megagraph::kernels::cuda {

int64_t packedBytes(int64_t rows, int32_t heads, int32_t dim);
int32_t packHeads(const MegagraphCudaView* x, void* packed, void* stream, MegagraphCudaError* error);
int64_t attentionForwardWorkspace(const MegagraphCudaShape* shape);
int64_t attentionBackwardWorkspace(const MegagraphCudaShape* shape, int32_t classes);
int32_t attentionForward(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                         const MegagraphCudaView* v, const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout,
                         const MegagraphCudaView* o, float* lse, void* workspace, int64_t workspaceBytes, void* stream,
                         MegagraphCudaError* error);
int32_t attentionPartial(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                         const MegagraphCudaView* v, const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout,
                         int32_t first, const MegagraphCudaState* state, void* workspace, int64_t workspaceBytes,
                         void* stream, MegagraphCudaError* error);
int32_t attentionCombine(int64_t queries, int32_t heads, int32_t dim, const MegagraphCudaState* a,
                         const MegagraphCudaState* b, void* stream, MegagraphCudaError* error);
int32_t attentionFinish(const MegagraphCudaState* state, const MegagraphCudaView* o, float* lse, void* stream,
                        MegagraphCudaError* error);
int32_t edgeAttentionFinish(int32_t gt, const MegagraphCudaState* state, const MegagraphCudaView* o, float* lse,
                            void* stream, MegagraphCudaError* error);
int32_t attentionDelta(const MegagraphCudaView* o, const MegagraphCudaView* dO, float* delta, void* stream,
                       MegagraphCudaError* error);
int32_t attentionBackward(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                          const MegagraphCudaView* v, const MegagraphCudaView* dO, const float* lse, const float* delta,
                          const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout, float* dq, float* dk,
                          float* dv, double* tablePartials, void* workspace, int64_t workspaceBytes, void* stream,
                          MegagraphCudaError* error);
int32_t closeFarBin(int32_t heads, int32_t hops, const double* summed, float* db, void* stream,
                    MegagraphCudaError* error);
int32_t forceDensePath(int32_t path, MegagraphCudaError* error);

} // namespace megagraph::kernels::cuda
