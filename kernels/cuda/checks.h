// SPDX-License-Identifier: Apache-2.0
// Argument checks of the CUDA table, all before the first launch. Host code, pure functions. Each returns
// MegagraphCudaOk or fills `error`: "op: place: what is wrong, got X, expected Y; what to do."
#pragma once

#include "kernels/cuda/api.h"

#include <cstdio>

namespace megagraph::kernels::cuda {

constexpr int32_t kMaxHeadDim = 128, kMaxHeads = 4096, kMaxHops = 27;

/// Bits of a code 0..K or base.
constexpr int32_t planeCount(int32_t hops)
{
    int32_t planes = 1;
    while ((1 << planes) < hops + 2)
        ++planes;
    return planes;
}

template <class... Values>
int32_t refuse(MegagraphCudaError* error, MegagraphCudaCode code, const char* format, Values... values)
{
    if (error != nullptr) {
        error->code = code;
        std::snprintf(error->text, sizeof error->text, format, values...);
    }
    return code;
}
/// The end of every op: `failure` is null or CUDA's text.
inline int32_t finished(MegagraphCudaError* error, const char* op, const char* failure)
{
    if (failure != nullptr)
        return refuse(error, MegagraphCudaInternal, "%s: launch: %s.", op, failure);
    if (error != nullptr) {
        error->code = MegagraphCudaOk;
        error->text[0] = '\0';
    }
    return MegagraphCudaOk;
}

inline int32_t checkHeads(const char* op, int32_t heads, int32_t dim, MegagraphCudaError* error)
{
    if (heads < 0 || heads > kMaxHeads)
        return refuse(error, MegagraphCudaUnsupported, "%s: heads: got %d, expected 0 to %d; split the heads.", op,
                      heads, kMaxHeads);
    if (dim < 1 || dim > kMaxHeadDim)
        return refuse(error, MegagraphCudaUnsupported, "%s: head width: got %d, expected 1 to %d; use more heads.", op,
                      dim, kMaxHeadDim);
    return MegagraphCudaOk;
}

inline int32_t checkView(const char* op, const char* name, const MegagraphCudaView* view, int64_t rows, int32_t heads,
                         int32_t dim, MegagraphCudaError* error)
{
    if (view == nullptr)
        return refuse(error, MegagraphCudaInvalidInput, "%s: %s: got null, expected a view; pass the tensor.", op,
                      name);
    if (view->rows != rows || view->heads != heads || view->dim != dim)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: %s: shape, got [%lld, %d, %d], expected [%lld, %d, %d]; pass matching views.", op, name,
                      static_cast<long long>(view->rows), view->heads, view->dim, static_cast<long long>(rows), heads,
                      dim);
    if (view->type != MegagraphCudaFloat && view->type != MegagraphCudaBf16)
        return refuse(error, MegagraphCudaUnsupported,
                      "%s: %s: type, got %d, expected 0 (fp32) or 1 (bf16); convert it.", op, name, view->type);
    if (rows == 0 || heads == 0)
        return MegagraphCudaOk;
    if (view->data == nullptr)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: %s: pointer, got null, expected %lld rows; pass the tensor.", op, name,
                      static_cast<long long>(rows));
    if ((rows > 1 && view->rowStride < dim) || (heads > 1 && view->headStride < dim))
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: %s: strides, got row %lld and head %lld, expected at least %d; heads must not overlap.", op,
                      name, static_cast<long long>(view->rowStride), static_cast<long long>(view->headStride), dim);
    return MegagraphCudaOk;
}

inline int32_t checkShape(const char* op, const MegagraphCudaShape* shape, MegagraphCudaError* error)
{
    if (shape == nullptr)
        return refuse(error, MegagraphCudaInvalidInput, "%s: shape: got null, expected a shape; pass it.", op);
    if (shape->queries < 0 || shape->keys < 0 || shape->queryOffset < 0 || shape->keyOffset < 0)
        return refuse(
            error, MegagraphCudaInvalidInput,
            "%s: shape: got %lld queries from %lld and %lld keys from %lld, expected no negative number; pass counts.",
            op, static_cast<long long>(shape->queries), static_cast<long long>(shape->queryOffset),
            static_cast<long long>(shape->keys), static_cast<long long>(shape->keyOffset));
    constexpr int64_t kMost = int64_t(1) << 36; // block numbers are 32 bits wide
    if (shape->queries >= kMost || shape->keys >= kMost)
        return refuse(error, MegagraphCudaUnsupported,
                      "%s: shape: got %lld queries and %lld keys, expected fewer than 2^36; split them.", op,
                      static_cast<long long>(shape->queries), static_cast<long long>(shape->keys));
    return checkHeads(op, shape->heads, shape->dim, error);
}

inline int32_t checkEdgeValues(const char* op, const MegagraphCudaShape* shape, const MegagraphCudaEdgeValues& edges,
                               MegagraphCudaError* error)
{
    if (edges.values == nullptr)
        return MegagraphCudaOk;
    const int64_t queryBlocks = (shape->queries + 63) / 64, keyBlocks = (shape->keys + 63) / 64;
    if (edges.queryBlocks != queryBlocks || edges.keyBlocks != keyBlocks)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: edge tiles: got %lld x %lld blocks, expected %lld x %lld; build them for this block.", op,
                      static_cast<long long>(edges.queryBlocks), static_cast<long long>(edges.keyBlocks),
                      static_cast<long long>(queryBlocks), static_cast<long long>(keyBlocks));
    if (edges.edges < 0 || (queryBlocks > 0 && edges.blockStart == nullptr) ||
        (edges.edges > 0 && (edges.tiles == nullptr || edges.positions == nullptr)))
        return refuse(
            error, MegagraphCudaInvalidInput,
            "%s: edge tiles: got %lld edges and a null pointer, expected blockStart, tiles and positions; pass "
            "all of them.",
            op, static_cast<long long>(edges.edges));
    return MegagraphCudaOk;
}

inline int32_t checkBias(const char* op, const MegagraphCudaShape* shape, const MegagraphCudaBias* bias,
                         MegagraphCudaError* error)
{
    if (bias == nullptr)
        return MegagraphCudaOk;
    if ((bias->querySegment == nullptr) != (bias->keySegment == nullptr) && shape->queries > 0 && shape->keys > 0)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: bias segments: got one side, expected both or none; pass both.", op);
    if (const int32_t refused = checkEdgeValues(op, shape, bias->edges, error))
        return refused;
    if (bias->table == nullptr)
        return MegagraphCudaOk;
    if (bias->hops < 0 || bias->hops > kMaxHops)
        return refuse(error, MegagraphCudaUnsupported, "%s: bias hops: got %d, expected 0 to %d; cut the distances.",
                      op, bias->hops, kMaxHops);
    if (bias->classes != bias->hops + 4)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: bias classes: got %d, expected hops + 4 = %d; pass the whole table.", op, bias->classes,
                      bias->hops + 4);
    if ((bias->queryComponent == nullptr) != (bias->keyComponent == nullptr) && shape->queries > 0 && shape->keys > 0)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: bias components: got one side, expected both or none; pass both.", op);
    const int64_t blocks = (shape->keys + 63) / 64;
    const int32_t planes = planeCount(bias->hops);
    if (bias->policy == MegagraphCudaPlanes && (bias->planes.planes != planes || bias->planes.keyBlocks != blocks))
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: bias planes: got %d planes over %lld key blocks, expected %d over %lld; build "
                      "them for this block.",
                      op, bias->planes.planes, static_cast<long long>(bias->planes.keyBlocks), planes,
                      static_cast<long long>(blocks));
    if (bias->policy == MegagraphCudaLists &&
        (bias->lists.keyBlocks != blocks || bias->lists.queryBlocks != (shape->queries + 63) / 64))
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: bias lists: got %lld x %lld blocks, expected %lld x %lld; build them for "
                      "this block.",
                      op, static_cast<long long>(bias->lists.queryBlocks),
                      static_cast<long long>(bias->lists.keyBlocks), static_cast<long long>((shape->queries + 63) / 64),
                      static_cast<long long>(blocks));
    if (bias->policy == MegagraphCudaLists && bias->hops > 15)
        return refuse(error, MegagraphCudaUnsupported, "%s: bias lists: got %d hops, expected at most 15; use planes.",
                      op, bias->hops);
    if (bias->policy < MegagraphCudaNoTiles || bias->policy > MegagraphCudaLists)
        return refuse(error, MegagraphCudaInvalidInput, "%s: bias policy: got %d, expected 0 to 2; name one.", op,
                      bias->policy);
    return MegagraphCudaOk;
}

inline int32_t checkDropout(const char* op, const MegagraphCudaDropout* dropout, MegagraphCudaError* error)
{
    if (dropout == nullptr)
        return MegagraphCudaOk;
    if (!(dropout->p >= 0 && dropout->p <= 1))
        return refuse(error, MegagraphCudaInvalidInput, "%s: dropout p: got %g, expected 0 to 1; pass a probability.",
                      op, dropout->p);
    if (dropout->layer >= 4096 || dropout->site >= 256)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: dropout: got layer %u, site %u, expected below 4096 and 256; number them from 0.", op,
                      dropout->layer, dropout->site);
    return MegagraphCudaOk;
}

inline int32_t checkPointer(const char* op, const char* name, const void* pointer, int64_t elements,
                            MegagraphCudaError* error)
{
    if (elements > 0 && pointer == nullptr)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: %s: pointer, got null, expected %lld elements; pass the tensor.", op, name,
                      static_cast<long long>(elements));
    return MegagraphCudaOk;
}

inline int32_t checkWorkspace(const char* op, const void* workspace, int64_t got, int64_t expected,
                              MegagraphCudaError* error)
{
    if (workspace == nullptr || got < expected)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: workspace: got %lld bytes, expected %lld; ask for its size first.", op,
                      static_cast<long long>(workspace == nullptr ? 0 : got), static_cast<long long>(expected));
    if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: workspace: alignment, got %d, expected 256 bytes; align it.", op,
                      int(reinterpret_cast<uintptr_t>(workspace) % 256));
    return MegagraphCudaOk;
}

} // namespace megagraph::kernels::cuda

/// Leaves the function with the code of the first check that refuses.
#define MEGAGRAPH_CUDA_CHECK(check)                                                                                    \
    if (const int32_t refused = (check))                                                                               \
        return refused;
