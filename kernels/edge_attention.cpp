// SPDX-License-Identifier: Apache-2.0
#include "kernels/edge_attention.h"

#include "kernels/checks.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/mask.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

namespace megagraph::kernels {
namespace {

Error invalid(const char* op, const std::string& text)
{
    return {ErrorCode::InvalidInput, std::string(op) + ": " + text};
}

int64_t tasks(int64_t rows)
{
    return (rows + cpu::kEdgeRows - 1) / cpu::kEdgeRows;
}

/// One call: what every op of this file is given.
struct Inputs {
    const EdgeGraph& graph;
    double scale;
    HeadView<const float> q, k, v;
    const EdgeBias& bias;
    const Dropout& dropout;

    int64_t entries() const { return int64_t(graph.indices.size()); }
};

cpu::EdgeCall describe(const Inputs& in)
{
    const EdgeGraph& graph = in.graph;
    cpu::EdgeCall call{};
    call.rows = graph.rows;
    call.keys = graph.keys;
    call.entries = in.entries();
    call.indptr = graph.indptr.data();
    call.indices = graph.indices.data();
    call.transposedIndptr = graph.transposedIndptr.data();
    call.transposedRows = graph.transposedRows.data();
    call.transposedEntries = graph.transposedEntries.data();
    call.selfKey = graph.selfKey;
    call.selfOffset = graph.selfOffset;
    call.queryOffset = graph.queryOffset;
    call.keyOffset = graph.keyOffset;
    call.keyNumbers = graph.keyNumbers.empty() ? nullptr : graph.keyNumbers.data();
    call.heads = in.q.heads;
    call.dim = in.q.dim;
    call.headOffset = graph.headOffset;
    call.rowChunk = graph.rowChunk;
    call.scale = in.scale;
    call.q = {in.q.data, in.q.rowStride, in.q.headStride};
    call.k = {in.k.data, in.k.rowStride, in.k.headStride};
    call.v = {in.v.data, in.v.rowStride, in.v.headStride};
    call.mask = cpu::makeMask(in.dropout);
    call.kind = cpu::EdgeKind(in.bias.kind);
    call.values = in.bias.values;
    call.classes = in.bias.classes.data();
    call.table = in.bias.table;
    call.classCount = in.bias.classCount;
    call.selfClass = in.bias.selfClass;
    call.u = in.bias.kind == EdgeBiasKind::Gt ? in.bias.u : nullptr;
    return call;
}

Result<Ok> checkClasses(const char* op, const Inputs& in)
{
    const EdgeBias& bias = in.bias;
    if (bias.classCount < 1 || bias.classCount > 256)
        return invalid(op, "bias: classes, got " + std::to_string(bias.classCount) + ", expected 1..256.");
    if (int64_t(bias.classes.size()) != in.entries())
        return invalid(op, "bias: class codes, got " + std::to_string(bias.classes.size()) + ", expected " +
                               std::to_string(in.entries()) + "; one per stored entry.");
    uint8_t high = 0;
    for (const uint8_t c : bias.classes)
        high = std::max(high, c);
    if (!bias.classes.empty() && high >= bias.classCount)
        return invalid(op, "bias: class codes, got " + std::to_string(high) + ", expected 0.." +
                               std::to_string(bias.classCount - 1) + "; leave masked pairs out of the graph.");
    if (bias.selfClass < -1 || bias.selfClass >= bias.classCount)
        return invalid(op, "bias: class of self keys, got " + std::to_string(bias.selfClass) + ", expected -1.." +
                               std::to_string(bias.classCount - 1) + ".");
    return checkPointer(op, "table", bias.table, int64_t(in.q.heads) * bias.classCount);
}

Result<Ok> checkEdgeBias(const char* op, const Inputs& in)
{
    switch (in.bias.kind) {
    case EdgeBiasKind::None: return Ok{};
    case EdgeBiasKind::Values: return checkPointer(op, "edge values", in.bias.values, in.entries() * in.q.heads);
    case EdgeBiasKind::Classes: return checkClasses(op, in);
    case EdgeBiasKind::Gt:
        if (in.bias.u != nullptr && in.graph.selfKey)
            return invalid(
                op,
                "bias: edge stream with self keys, got no entry for them; store the loops as entries of the graph.");
        return Ok{};
    }
    return invalid(op, "bias: kind, got " + std::to_string(int(in.bias.kind)) + ", expected 0..3.");
}

Result<Ok> checkInputs(const char* op, const Inputs& in, bool transposed)
{
    static const Result<Ok> forced = cpu::forcedKernels(); // a wrong name in the environment must not go unnoticed
    if (!forced.ok())
        return forced.error();
    const EdgeGraph& graph = in.graph;
    MEGAGRAPH_TRY(std::ignore, checkGraph(op, graph, transposed));
    if (graph.rowChunk < 1 || graph.rowChunk > 512)
        return invalid(op, "graph: row chunk, got " + std::to_string(graph.rowChunk) + ", expected 1..512.");
    if (!graph.keyNumbers.empty() && int64_t(graph.keyNumbers.size()) != graph.keys)
        return invalid(op, "graph: key numbers, got " + std::to_string(graph.keyNumbers.size()) + ", expected 0 or " +
                               std::to_string(graph.keys) + "; one per key.");
    AttentionShape shape;
    shape.queries = graph.rows;
    shape.keys = graph.keys;
    shape.heads = in.q.heads;
    shape.dim = in.q.dim;
    shape.scale = in.scale;
    MEGAGRAPH_TRY(std::ignore, checkShape(op, shape));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "q", in.q, graph.rows, in.q.heads, in.q.dim));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "k", in.k, graph.keys, in.q.heads, in.q.dim));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "v", in.v, graph.keys, in.q.heads, in.q.dim));
    MEGAGRAPH_TRY(std::ignore, checkEdgeBias(op, in));
    return checkDropout(op, in.dropout);
}

Result<Ok> checkStream(const char* op, const Inputs& in, const char* name, const void* pointer)
{
    if (pointer != nullptr && (in.bias.kind != EdgeBiasKind::Gt || in.bias.u == nullptr))
        return invalid(op, std::string(name) +
                               ": got an array, expected null without an edge stream u; pass both or none.");
    return Ok{};
}

Result<Ok> checkGradients(const char* op, const Inputs& in, const EdgeBiasGradients& gradients)
{
    MEGAGRAPH_TRY(std::ignore, checkStream(op, in, "ds", gradients.ds));
    MEGAGRAPH_TRY(std::ignore, checkStream(op, in, "du", gradients.u));
    if (gradients.values != nullptr && in.bias.kind != EdgeBiasKind::Values)
        return invalid(op, "dw: got an array, expected null without edge values.");
    if (gradients.tablePartials != nullptr && in.bias.kind != EdgeBiasKind::Classes)
        return invalid(op, "table partials: got an array, expected null without classes.");
    const int64_t named = int64_t(in.graph.transposedEntries.size());
    if (in.bias.kind != EdgeBiasKind::None && named != in.entries())
        return invalid(op, "graph: transposed entry numbers, got " + std::to_string(named) + ", expected " +
                               std::to_string(in.entries()) + "; a bias needs them.");
    uint64_t high = 0;
    for (const int64_t e : in.graph.transposedEntries)
        high = std::max(high, uint64_t(e));
    if (in.bias.kind != EdgeBiasKind::None && named > 0 && high >= uint64_t(in.entries()))
        return invalid(op, "graph: transposed entry numbers, got " + std::to_string(int64_t(high)) + ", expected 0.." +
                               std::to_string(in.entries() - 1) + ".");
    return Ok{};
}

void run(const cpu::EdgeCall& call, const ParallelFor& parallel)
{
    const cpu::CpuKernels& set = cpu::kernels();
    parallel.run(tasks(call.rows), [&](int64_t task, int32_t) { set.edgeForward(call, task); });
}

} // namespace

Result<Ok> edgeAttentionForward(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                HeadView<const float> v, const EdgeBias& bias, const Dropout& dropout,
                                HeadView<float> o, float* lse, float* s, const ParallelFor& parallel)
{
    const char* op = "edgeAttentionForward";
    const Inputs in{graph, scale, q, k, v, bias, dropout};
    MEGAGRAPH_TRY(std::ignore, checkInputs(op, in, false));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "o", o, graph.rows, q.heads, q.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "lse", lse, graph.rows * q.heads));
    MEGAGRAPH_TRY(std::ignore, checkStream(op, in, "s", s));
    cpu::EdgeCall call = describe(in);
    call.o = {o.data, o.rowStride, o.headStride};
    call.lse = lse;
    call.s = s;
    run(call, parallel);
    return Ok{};
}

Result<Ok> edgeAttentionPartial(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                HeadView<const float> v, const EdgeBias& bias, const Dropout& dropout, bool first,
                                AttentionState state, float* s, const ParallelFor& parallel)
{
    const char* op = "edgeAttentionPartial";
    const Inputs in{graph, scale, q, k, v, bias, dropout};
    MEGAGRAPH_TRY(std::ignore, checkInputs(op, in, false));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state m", state.m, graph.rows * q.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state l", state.l, graph.rows * q.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state acc", state.acc, graph.rows * q.heads * q.dim));
    MEGAGRAPH_TRY(std::ignore, checkStream(op, in, "s", s));
    cpu::EdgeCall call = describe(in);
    call.o = {state.acc, int64_t(q.heads) * q.dim, q.dim};
    call.s = s;
    call.partial = true;
    call.first = first;
    call.stateM = state.m;
    call.stateL = state.l;
    run(call, parallel);
    return Ok{};
}

void edgeAttentionFinish(int64_t rows, int32_t heads, int32_t dim, EdgeBiasKind kind, AttentionState state,
                         HeadView<float> o, float* lse)
{
    for (int32_t h = 0; h < heads; ++h) {
        for (int64_t n = 0; n < rows; ++n) {
            const float m = state.m[h * rows + n];
            float l = state.l[h * rows + n];
            if (kind == EdgeBiasKind::Gt && l != 0.0f)
                l += 1e-6f * std::exp2(-m);
            const bool empty = l == 0.0f;
            lse[h * rows + n] =
                empty ? -std::numeric_limits<float>::infinity() : 0.693147180559945309f * (m + std::log2(l));
            const float factor = empty ? 0.0f : 1.0f / l;
            const float* acc = state.acc + (n * heads + h) * dim;
            for (int32_t x = 0; x < dim; ++x)
                o.row(n, h)[x] = empty ? 0.0f : acc[x] * factor;
        }
    }
}

int64_t edgeAttentionBackwardWorkspace(int64_t rows, int32_t heads)
{
    return rows * heads * 2 * int64_t(sizeof(float));
}

Result<Ok> edgeAttentionBackward(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                 HeadView<const float> v, HeadView<const float> dO, const float* lse,
                                 const float* delta, const EdgeBias& bias, const Dropout& dropout, float* dq, float* dk,
                                 float* dv, const EdgeBiasGradients& gradients, void* workspace,
                                 const ParallelFor& parallel)
{
    const char* op = "edgeAttentionBackward";
    const Inputs in{graph, scale, q, k, v, bias, dropout};
    MEGAGRAPH_TRY(std::ignore, checkInputs(op, in, true));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "dO", dO, graph.rows, q.heads, q.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "lse", lse, graph.rows * q.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "delta", delta, graph.rows * q.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dq", dq, graph.rows * q.heads * q.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dk", dk, graph.keys * q.heads * q.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dv", dv, graph.keys * q.heads * q.dim));
    MEGAGRAPH_TRY(std::ignore, checkGradients(op, in, gradients));
    cpu::EdgeCall call = describe(in);
    call.dO = {dO.data, dO.rowStride, dO.headStride};
    call.lseIn = lse;
    call.delta = delta;
    call.stats = static_cast<float*>(workspace);
    call.dq = dq;
    call.dk = dk;
    call.dv = dv;
    call.dValues = gradients.values;
    call.tablePartials = gradients.tablePartials;
    call.ds = gradients.ds;
    call.du = gradients.u;
    const cpu::CpuKernels& set = cpu::kernels();
    parallel.run(tasks(graph.rows), [&](int64_t task, int32_t) { set.edgeBackwardRows(call, task); });
    parallel.run(tasks(graph.keys), [&](int64_t task, int32_t) { set.edgeBackwardKeys(call, task); });
    return Ok{};
}

int64_t edgeTablePartials(int64_t rows, int32_t heads, int32_t classes)
{
    return tasks(rows) * heads * classes;
}

void edgeTableGradient(int64_t rows, int32_t heads, int32_t classes, const double* partials, double* summed)
{
    const int64_t width = int64_t(heads) * classes;
    std::fill(summed, summed + width, 0.0);
    for (int64_t task = 0; task < tasks(rows); ++task) {
        for (int64_t i = 0; i < width; ++i)
            summed[i] += partials[task * width + i];
    }
}

} // namespace megagraph::kernels
