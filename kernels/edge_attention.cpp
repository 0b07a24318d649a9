// SPDX-License-Identifier: Apache-2.0
#include "kernels/edge_attention.h"

#include "kernels/checks.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/mask.h"

#include <cmath>
#include <tuple>

namespace megagraph::kernels {
namespace {

cpu::EdgeCall describe(const EdgeGraph& graph, double scale, const HeadView<const float>& q, const HeadView<const float>& k,
                       const HeadView<const float>& v, const Dropout& dropout)
{
    cpu::EdgeCall call{};
    call.rows = graph.rows;
    call.keys = graph.keys;
    call.indptr = graph.indptr.data();
    call.indices = graph.indices.data();
    call.transposedIndptr = graph.transposedIndptr.data();
    call.transposedRows = graph.transposedRows.data();
    call.selfKey = graph.selfKey;
    call.selfOffset = graph.selfOffset;
    call.queryOffset = graph.queryOffset;
    call.keyOffset = graph.keyOffset;
    call.heads = q.heads;
    call.dim = q.dim;
    call.scale = scale;
    call.q = {q.data, q.rowStride, q.headStride};
    call.k = {k.data, k.rowStride, k.headStride};
    call.v = {v.data, v.rowStride, v.headStride};
    call.mask = cpu::makeMask(dropout);
    return call;
}

Result<Ok> checkInputs(const char* op, const EdgeGraph& graph, double scale, const HeadView<const float>& q,
                       const HeadView<const float>& k, const HeadView<const float>& v, const Dropout& dropout, bool transposed)
{
    static const Result<Ok> forced = cpu::forcedKernels(); // a wrong name in the environment must not go unnoticed
    if (!forced.ok())
        return forced.error();
    MEGAGRAPH_TRY(std::ignore, checkGraph(op, graph, transposed));
    AttentionShape shape;
    shape.queries = graph.rows;
    shape.keys = graph.keys;
    shape.heads = q.heads;
    shape.dim = q.dim;
    shape.scale = scale;
    MEGAGRAPH_TRY(std::ignore, checkShape(op, shape));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "q", q, graph.rows, q.heads, q.dim));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "k", k, graph.keys, q.heads, q.dim));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "v", v, graph.keys, q.heads, q.dim));
    return checkDropout(op, dropout);
}

int64_t tasks(int64_t rows)
{
    return (rows + cpu::kEdgeRows - 1) / cpu::kEdgeRows;
}

} // namespace

Result<Ok> edgeAttentionForward(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                HeadView<const float> v, const Dropout& dropout, HeadView<float> o, float* lse,
                                const ParallelFor& parallel)
{
    const char* op = "edgeAttentionForward";
    MEGAGRAPH_TRY(std::ignore, checkInputs(op, graph, scale, q, k, v, dropout, false));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "o", o, graph.rows, q.heads, q.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "lse", lse, graph.rows * q.heads));
    cpu::EdgeCall call = describe(graph, scale, q, k, v, dropout);
    call.o = {o.data, o.rowStride, o.headStride};
    call.lse = lse;
    const cpu::CpuKernels& set = cpu::kernels();
    parallel.run(tasks(graph.rows), [&](int64_t task, int32_t) { set.edgeForward(call, task); });
    return Ok{};
}

Result<Ok> edgeAttentionBackward(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                 HeadView<const float> v, HeadView<const float> dO, const float* lse, const float* delta,
                                 const Dropout& dropout, float* dq, float* dk, float* dv, const ParallelFor& parallel)
{
    const char* op = "edgeAttentionBackward";
    MEGAGRAPH_TRY(std::ignore, checkInputs(op, graph, scale, q, k, v, dropout, true));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "dO", dO, graph.rows, q.heads, q.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "lse", lse, graph.rows * q.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "delta", delta, graph.rows * q.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dq", dq, graph.rows * q.heads * q.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dk", dk, graph.keys * q.heads * q.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dv", dv, graph.keys * q.heads * q.dim));
    cpu::EdgeCall call = describe(graph, scale, q, k, v, dropout);
    call.dO = {dO.data, dO.rowStride, dO.headStride};
    call.lseIn = lse;
    call.delta = delta;
    call.dq = dq;
    call.dk = dk;
    call.dv = dv;
    const cpu::CpuKernels& set = cpu::kernels();
    parallel.run(tasks(graph.rows), [&](int64_t task, int32_t) { set.edgeBackwardRows(call, task); });
    parallel.run(tasks(graph.keys), [&](int64_t task, int32_t) { set.edgeBackwardKeys(call, task); });
    return Ok{};
}

} // namespace megagraph::kernels
