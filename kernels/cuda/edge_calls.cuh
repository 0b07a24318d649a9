// SPDX-License-Identifier: Apache-2.0
// Checks, plan and launches of sparse attention (edge_attention.h). Workspace: states of the pieces of long rows, two
// per kEdgeChunk entries, then the rows of the table gradient, one per warp.
#pragma once

#include "core/random.h"
#include "kernels/cuda/checks.h"
#include "kernels/cuda/edge_attention.cuh"
#include "kernels/cuda/edge_attention.h"

#include <cmath>

namespace megagraph::kernels::cuda {

constexpr int64_t kEdgeTableWarps = 4096;     // per head group: about 30 per multiprocessor of the largest GPUs
constexpr int64_t kEdgeSharedBins = 96 << 10; // of a block; more classes than fit: blocks of one warp
constexpr int32_t kEdgeMostClasses = 256;

inline int64_t edgeSlots(int64_t entries)
{
    return entries > kEdgeChunk ? (entries + kEdgeChunk - 1) / kEdgeChunk : 0;
}

/// How lanes are shared out; see edge_params.cuh.
inline void planLanes(EdgeParams& p, int32_t heads, int32_t dim)
{
    p.heads = heads;
    p.dim = dim;
    p.lanesPerHead = 1;
    while (p.lanesPerHead * kChannels < dim)
        p.lanesPerHead *= 2;
    p.headsPerWarp = 1;
    while (p.headsPerWarp < heads && p.headsPerWarp * p.lanesPerHead < 32)
        p.headsPerWarp *= 2;
    p.headGroups = (heads + p.headsPerWarp - 1) / p.headsPerWarp;
}

inline int32_t edgeWarpsPerBlock(const EdgeParams& p, bool table)
{
    const int64_t perWarp = int64_t(32 / p.lanesPerHead) * p.classes * 4;
    return table && perWarp * (kEdgeThreads / 32) > kEdgeSharedBins ? 1 : kEdgeThreads / 32;
}

inline int64_t edgeBlocks(int64_t items, int32_t warps, bool table)
{
    const int64_t blocks = (items + warps - 1) / warps;
    return table && blocks > kEdgeTableWarps / warps ? kEdgeTableWarps / warps : blocks;
}

inline int64_t roundUp256(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

int64_t edgeAttentionForwardWorkspace(const MegagraphCudaEdgeGraph* graph, int32_t heads, int32_t dim)
{
    return roundUp256(2 * edgeSlots(graph->entries) * int64_t(heads) * (2 + dim) * 4);
}

inline int64_t edgeStateBytes(const MegagraphCudaEdgeGraph* graph, int32_t heads, int32_t dim)
{
    return roundUp256(2 * edgeSlots(graph->entries) * int64_t(heads) * 2 * dim * 4);
}

int64_t edgeAttentionBackwardWorkspace(const MegagraphCudaEdgeGraph* graph, int32_t heads, int32_t dim)
{
    if (graph->entryClass == nullptr || heads == 0)
        return edgeStateBytes(graph, heads, dim);
    EdgeParams p{};
    planLanes(p, heads, dim);
    p.classes = graph->classes;
    const int32_t warps = edgeWarpsPerBlock(p, true);
    const int64_t rows = edgeBlocks(graph->rows + edgeSlots(graph->entries), warps, true) * warps;
    return edgeStateBytes(graph, heads, dim) + roundUp256(rows * heads * graph->classes * 4);
}

inline int32_t checkEdgeGraph(const char* op, const MegagraphCudaEdgeGraph& g, bool transposed,
                              MegagraphCudaError* error)
{
    if (g.rows < 0 || g.keys < 0 || g.entries < 0)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: graph: counts, got %lld rows, %lld keys, %lld entries, expected none negative.", op,
                      static_cast<long long>(g.rows), static_cast<long long>(g.keys),
                      static_cast<long long>(g.entries));
    if (g.rows > INT32_MAX || g.keys > INT32_MAX)
        return refuse(error, MegagraphCudaUnsupported,
                      "%s: graph: got %lld rows and %lld keys, expected at most 2^31 - 1 of each; split them.", op,
                      static_cast<long long>(g.rows), static_cast<long long>(g.keys));
    const bool bias = g.entryClass != nullptr || g.entryBias != nullptr || g.u != nullptr;
    const bool missing = (g.rows > 0 && g.indptr == nullptr) || (g.entries > 0 && g.indices == nullptr) ||
                         (transposed && ((g.keys > 0 && g.transposedIndptr == nullptr) ||
                                         (g.entries > 0 && g.transposedRows == nullptr) ||
                                         (g.entries > 0 && bias && g.transposedEntries == nullptr)));
    if (missing)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: graph: arrays, got a null pointer, expected indptr, indices%s; pass the whole graph.", op,
                      transposed ? " and the transposed arrays" : "");
    if (g.selfKey != 0 && (g.selfOffset < 0 || g.selfOffset + g.rows > g.keys))
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: self keys: got [%lld, %lld), expected inside the %lld keys.", op,
                      static_cast<long long>(g.selfOffset), static_cast<long long>(g.selfOffset + g.rows),
                      static_cast<long long>(g.keys));
    if ((g.entryClass != nullptr) != (g.table != nullptr))
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: bias: got entryClass or table alone, expected both or none.", op);
    if (g.entryClass != nullptr &&
        (g.classes < 1 || g.classes > kEdgeMostClasses || g.selfClass < -1 || g.selfClass >= g.classes))
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: bias: got %d classes and self class %d, expected 1..%d classes and a class or -1.", op,
                      g.classes, g.selfClass, kEdgeMostClasses);
    if (g.gt != 0 ? g.entryClass != nullptr || g.entryBias != nullptr : g.u != nullptr)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: bias: got %s, expected one form; set gt for GT's products alone.", op,
                      g.gt != 0 ? "gt with classes or values" : "u without gt");
    if (g.u != nullptr && g.selfKey != 0)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: self keys: got 1 with u, expected 0; store them as entries, which have a u.", op);
    return MegagraphCudaOk;
}

inline int32_t checkEdgeInputs(const char* op, const MegagraphCudaEdgeGraph* graph, const MegagraphCudaView* q,
                               const MegagraphCudaView* k, const MegagraphCudaView* v,
                               const MegagraphCudaDropout* dropout, bool transposed, int64_t workspaceBytes,
                               int64_t needed, const void* workspace, MegagraphCudaError* error)
{
    MEGAGRAPH_CUDA_CHECK(checkEdgeGraph(op, *graph, transposed, error));
    MEGAGRAPH_CUDA_CHECK(checkHeads(op, q->heads, q->dim, error));
    MEGAGRAPH_CUDA_CHECK(checkView(op, "q", q, graph->rows, q->heads, q->dim, error));
    MEGAGRAPH_CUDA_CHECK(checkView(op, "k", k, graph->keys, q->heads, q->dim, error));
    MEGAGRAPH_CUDA_CHECK(checkView(op, "v", v, graph->keys, q->heads, q->dim, error));
    if (k->type != q->type || v->type != q->type)
        return refuse(error, MegagraphCudaInvalidInput, "%s: types: got %d, %d, %d for q, k, v, expected one type.", op,
                      q->type, k->type, v->type);
    MEGAGRAPH_CUDA_CHECK(checkDropout(op, dropout, error));
    return needed == 0 ? int32_t(MegagraphCudaOk) : checkWorkspace(op, workspace, workspaceBytes, needed, error);
}

inline Mask edgeMask(const MegagraphCudaDropout* dropout)
{
    Mask mask{};
    const long threshold = dropout == nullptr ? 0 : std::lround(65536.0 * dropout->p);
    if (threshold == 0)
        return mask;
    const uint64_t key = splitmix64(splitmix64(dropout->seed) ^ dropout->step);
    mask.threshold = uint32_t(threshold);
    mask.key0 = uint32_t(key);
    mask.key1 = uint32_t(key >> 32);
    mask.item = dropout->item;
    mask.layerSite = dropout->layer << 20 | dropout->site;
    mask.keepScale = threshold >= 65536 ? 0.0f : float(65536.0 / double(65536 - threshold));
    return mask;
}

inline EdgeOperand edgeOperand(const MegagraphCudaView* x)
{
    return {x->data, x->rowStride, x->headStride};
}
inline bool isWide(const MegagraphCudaView* x)
{
    const int64_t bytes = x->type == MegagraphCudaBf16 ? 2 : 4;
    return x->dim % kChannels == 0 && reinterpret_cast<uintptr_t>(x->data) % 16 == 0 &&
           x->rowStride * bytes % 16 == 0 && x->headStride * bytes % 16 == 0;
}
inline bool isWide(const void* x, int32_t dim)
{
    return dim % kChannels == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
}
/// A contiguous [entries, heads, dim] array, or null.
inline EdgeOperand entryOperand(const void* x, const MegagraphCudaView& like)
{
    return {x, int64_t(like.heads) * like.dim, like.dim};
}

/// By row.
inline EdgeParams edgeParams(const MegagraphCudaEdgeGraph& g, double scale, const MegagraphCudaView* q,
                             const MegagraphCudaView* k, const MegagraphCudaView* v,
                             const MegagraphCudaDropout* dropout, void* workspace)
{
    EdgeParams p{};
    planLanes(p, q->heads, q->dim);
    p.rows = p.queries = g.rows;
    p.entries = g.entries;
    p.slots = edgeSlots(g.entries);
    p.start = g.indptr;
    p.other = g.indices;
    p.selfKey = g.selfKey;
    p.selfClass = g.selfClass;
    p.classes = g.entryClass == nullptr ? 0 : g.classes;
    p.headOffset = g.headOffset;
    p.selfOffset = g.selfOffset;
    p.selfRows = g.keys;
    p.queryOffset = g.queryOffset;
    p.keyOffset = g.keyOffset;
    p.keyNumbers = g.keyNumbers;
    p.entryClass = g.entryClass;
    p.table = g.table;
    p.entryBias = g.entryBias;
    p.scale = float(scale);
    p.scaleLog2 = float(scale * 1.4426950408889634);
    p.q = edgeOperand(q);
    p.k = edgeOperand(k);
    p.v = edgeOperand(v);
    p.wide = isWide(q) && isWide(k) && isWide(v);
    p.mask = edgeMask(dropout);
    p.gt = g.gt != 0;
    p.type = q->type;
    p.u = entryOperand(g.u, *q);
    p.wide = p.wide && isWide(g.u, q->dim);
    p.states = static_cast<float*>(workspace);
    return p;
}

/// Blocks of a launch over `items` warps per head group, 0 if they are too many for a grid.
inline int64_t edgeGrid(const EdgeParams& p, int64_t items, int32_t warps, bool table)
{
    const int64_t blocks = edgeBlocks(items, warps, table) * p.headGroups;
    return blocks <= INT32_MAX ? blocks : 0;
}

/// Runs `launch` as launch.template operator()<T, kGt>().
template <class Launch> int32_t withForm(const EdgeParams& p, Launch&& launch)
{
    if (p.type == MegagraphCudaBf16)
        return p.gt ? launch.template operator()<uint16_t, true>() : launch.template operator()<uint16_t, false>();
    return p.gt ? launch.template operator()<float, true>() : launch.template operator()<float, false>();
}

inline int32_t tooManyRows(const char* op, const MegagraphCudaEdgeGraph& g, MegagraphCudaError* error)
{
    return refuse(error, MegagraphCudaUnsupported,
                  "%s: graph: got %lld rows and %lld keys, more than one launch can take; split them.", op,
                  static_cast<long long>(g.rows), static_cast<long long>(g.keys));
}

/// Forward or one step of it, after the checks of inputs and outputs.
inline int32_t launchEdgeForward(const char* op, const MegagraphCudaEdgeGraph& graph, EdgeParams& p, void* s,
                                 void* stream, MegagraphCudaError* error)
{
    p.s = p.u.data == nullptr ? nullptr : s;
    p.entryWide = isWide(s, p.dim);
    const auto on = static_cast<Stream>(stream);
    const int64_t grid = edgeGrid(p, p.rows + p.slots, kEdgeThreads / 32, false),
                  longGrid = edgeGrid(p, p.slots, kEdgeThreads / 32, false);
    if (grid == 0)
        return tooManyRows(op, graph, error);
    withForm(p, [&]<class T, bool kGt>() {
        MEGAGRAPH_LAUNCH((edgeForward<T, kGt>), grid, kEdgeThreads, 0, on, p);
        return int32_t(MegagraphCudaOk);
    });
    if (longGrid > 0)
        MEGAGRAPH_LAUNCH(edgeForwardLong, longGrid, kEdgeThreads, 0, on, p);
    return finished(error, op, launchFailure());
}

int32_t edgeAttentionForward(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                             const MegagraphCudaView* k, const MegagraphCudaView* v,
                             const MegagraphCudaDropout* dropout, const MegagraphCudaView* o, float* lse, void* s,
                             void* workspace, int64_t workspaceBytes, void* stream, MegagraphCudaError* error)
{
    const char* op = "edgeAttentionForward";
    if (graph == nullptr || q == nullptr)
        return refuse(error, MegagraphCudaInvalidInput, "%s: graph and q: got null, expected both; pass them.", op);
    MEGAGRAPH_CUDA_CHECK(checkEdgeInputs(op, graph, q, k, v, dropout, false, workspaceBytes,
                                         edgeAttentionForwardWorkspace(graph, q->heads, q->dim), workspace, error));
    MEGAGRAPH_CUDA_CHECK(checkView(op, "o", o, graph->rows, q->heads, q->dim, error));
    if (graph->rows == 0 || q->heads == 0)
        return finished(error, op, nullptr);
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "lse", lse, graph->rows * q->heads, error));
    EdgeParams p = edgeParams(*graph, scale, q, k, v, dropout, workspace);
    p.o = o->data;
    p.oRowStride = o->rowStride;
    p.oHeadStride = o->headStride;
    p.oType = o->type;
    p.oWide = isWide(o);
    p.lse = lse;
    return launchEdgeForward(op, *graph, p, s, stream, error);
}

int32_t edgeAttentionPartial(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                             const MegagraphCudaView* k, const MegagraphCudaView* v,
                             const MegagraphCudaDropout* dropout, int32_t first, const MegagraphCudaState* state,
                             void* s, void* workspace, int64_t workspaceBytes, void* stream, MegagraphCudaError* error)
{
    const char* op = "edgeAttentionPartial";
    if (graph == nullptr || q == nullptr || state == nullptr)
        return refuse(error, MegagraphCudaInvalidInput,
                      "%s: graph, q and state: got null, expected all of them; pass them.", op);
    MEGAGRAPH_CUDA_CHECK(checkEdgeInputs(op, graph, q, k, v, dropout, false, workspaceBytes,
                                         edgeAttentionForwardWorkspace(graph, q->heads, q->dim), workspace, error));
    const int64_t rows = graph->rows * q->heads;
    if (rows == 0)
        return finished(error, op, nullptr);
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state m", state->m, rows, error));
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state l", state->l, rows, error));
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state acc", state->acc, rows * q->dim, error));
    EdgeParams p = edgeParams(*graph, scale, q, k, v, dropout, workspace);
    p.partial = true;
    p.first = first != 0;
    p.stateM = state->m;
    p.stateL = state->l;
    p.stateAcc = state->acc;
    return launchEdgeForward(op, *graph, p, s, stream, error);
}

/// dq and the gradients of the bias.
template <class T, bool kGt>
int32_t launchEdgeRows(const EdgeParams& rows, const MegagraphCudaEdgeBiasGradient& bias, float* tableRows, Stream on)
{
    EdgeParams p = rows;
    const bool table = bias.table != nullptr && p.classes > 0;
    p.dBias = bias.entryBias;
    p.du = p.u.data == nullptr ? nullptr : bias.u;
    p.entryWide = isWide(bias.u, p.dim);
    p.tableRows = table ? tableRows : nullptr;
    const int32_t warps = edgeWarpsPerBlock(p, table);
    const int64_t grid = edgeGrid(p, p.rows + p.slots, warps, table);
    const int64_t bins = table ? int64_t(warps) * (32 / p.lanesPerHead) * p.classes * 4 : 0;
    if (grid == 0 || (bins > (48 << 10) && allowShared(edgeBackwardRows<T, kGt>, bins) != nullptr))
        return MegagraphCudaUnsupported;
    MEGAGRAPH_LAUNCH((edgeBackwardRows<T, kGt>), grid, warps * 32, bins, on, p);
    if (const int64_t longGrid = edgeGrid(p, p.slots, kEdgeThreads / 32, false); longGrid > 0)
        MEGAGRAPH_LAUNCH(edgeSumLong, longGrid, kEdgeThreads, 0, on, p, 1, p.dq, static_cast<float*>(nullptr));
    if (table) {
        const int32_t sums = p.heads * p.classes;
        MEGAGRAPH_LAUNCH(edgeTableSum, (sums + 3) / 4, kEdgeThreads, 0, on, tableRows, grid / p.headGroups * warps,
                         sums, bias.table);
    }
    return MegagraphCudaOk;
}

/// dk, dv: the same parameters seen from the keys.
template <class T, bool kGt> int32_t launchEdgeKeys(const EdgeParams& rows, const MegagraphCudaEdgeGraph& g, Stream on)
{
    EdgeParams p = rows;
    p.rows = g.keys;
    p.start = g.transposedIndptr;
    p.other = g.transposedRows;
    const bool asked = p.table != nullptr || p.entryBias != nullptr || p.u.data != nullptr;
    p.entryNumber = asked ? g.transposedEntries : nullptr;
    p.selfRows = g.rows;
    const int64_t grid = edgeGrid(p, p.rows + p.slots, kEdgeThreads / 32, false);
    if (grid == 0)
        return MegagraphCudaUnsupported;
    MEGAGRAPH_LAUNCH((edgeBackwardKeys<T, kGt>), grid, kEdgeThreads, 0, on, p);
    if (const int64_t longGrid = edgeGrid(p, p.slots, kEdgeThreads / 32, false); longGrid > 0)
        MEGAGRAPH_LAUNCH(edgeSumLong, longGrid, kEdgeThreads, 0, on, p, 2, p.dk, p.dv);
    return MegagraphCudaOk;
}

template <class T, bool kGt>
int32_t launchEdgeBackward(const EdgeParams& p, const MegagraphCudaEdgeGraph& g,
                           const MegagraphCudaEdgeBiasGradient& bias, float* tableRows, Stream on)
{
    if (g.rows > 0) {
        if (const int32_t code = launchEdgeRows<T, kGt>(p, bias, tableRows, on); code != MegagraphCudaOk)
            return code;
    }
    return g.keys > 0 ? launchEdgeKeys<T, kGt>(p, g, on) : int32_t(MegagraphCudaOk);
}

int32_t edgeAttentionBackward(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                              const MegagraphCudaView* k, const MegagraphCudaView* v, const MegagraphCudaView* dO,
                              const float* lse, const float* delta, const MegagraphCudaDropout* dropout, float* dq,
                              float* dk, float* dv, const MegagraphCudaEdgeBiasGradient* biasGradient, void* workspace,
                              int64_t workspaceBytes, void* stream, MegagraphCudaError* error)
{
    const char* op = "edgeAttentionBackward";
    if (graph == nullptr || q == nullptr)
        return refuse(error, MegagraphCudaInvalidInput, "%s: graph and q: got null, expected both; pass them.", op);
    const int64_t stateBytes = edgeStateBytes(graph, q->heads, q->dim);
    MEGAGRAPH_CUDA_CHECK(checkEdgeInputs(op, graph, q, k, v, dropout, true, workspaceBytes,
                                         edgeAttentionBackwardWorkspace(graph, q->heads, q->dim), workspace, error));
    MEGAGRAPH_CUDA_CHECK(checkView(op, "dO", dO, graph->rows, q->heads, q->dim, error));
    if (dO->type != q->type)
        return refuse(error, MegagraphCudaInvalidInput, "%s: types: got %d for dO and %d for q, expected one type.", op,
                      dO->type, q->type);
    if (q->heads == 0)
        return finished(error, op, nullptr);
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "lse", lse, graph->rows, error));
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "delta", delta, graph->rows, error));
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "dq", dq, graph->rows, error));
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "dk", dk, graph->keys, error));
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "dv", dv, graph->keys, error));
    EdgeParams p = edgeParams(*graph, scale, q, k, v, dropout, workspace);
    p.dO = edgeOperand(dO);
    p.wide = p.wide && isWide(dO);
    p.oWide = isWide(dq, p.dim) && isWide(dk, p.dim) && isWide(dv, p.dim);
    p.lseIn = lse;
    p.delta = delta;
    p.dq = dq;
    p.dk = dk;
    p.dv = dv;
    const MegagraphCudaEdgeBiasGradient none{};
    const auto& bias = biasGradient == nullptr ? none : *biasGradient;
    if (p.u.data != nullptr) {
        p.ds = entryOperand(bias.ds, *q);
        p.wide = p.wide && isWide(bias.ds, p.dim);
    }
    auto* tableRows = reinterpret_cast<float*>(static_cast<unsigned char*>(workspace) + stateBytes);
    const auto on = static_cast<Stream>(stream);
    const int32_t code =
        withForm(p, [&]<class T, bool kGt>() { return launchEdgeBackward<T, kGt>(p, *graph, bias, tableRows, on); });
    if (code != MegagraphCudaOk)
        return tooManyRows(op, *graph, error);
    return finished(error, op, launchFailure());
}

} // namespace megagraph::kernels::cuda
