// SPDX-License-Identifier: Apache-2.0
// Cases of the edge attention tests: random graphs and tensors, the fast path with guarded and poisoned outputs, and
// the comparison with the fp64 reference.
#pragma once

#include "kernels/edge_attention.h"
#include "kernels/reference/edge_attention.h"
#include "tests/kernels/attention_cases.h"

namespace megagraph::kernels::testing {

constexpr double kEdgeLimit = 2e-5;

struct EdgeProblem {
    reference::Edges edges; // q, k, v and the bias hold exact copies of the fp32 tensors
    std::vector<float> q, k, v, dO, w, table, u, ds;
    std::vector<int64_t> transposedIndptr, transposedEntries;
    std::vector<int32_t> transposedRows;

    EdgeGraph graph() const
    {
        EdgeGraph g;
        g.rows = edges.rows;
        g.keys = edges.keys;
        g.indptr = edges.indptr;
        g.indices = edges.indices;
        g.transposedIndptr = transposedIndptr;
        g.transposedRows = transposedRows;
        g.transposedEntries = transposedEntries;
        g.selfKey = edges.selfKey;
        g.selfOffset = edges.selfOffset;
        g.queryOffset = edges.queryOffset;
        g.keyOffset = edges.keyOffset;
        g.keyNumbers = edges.keyNumbers;
        g.headOffset = edges.headOffset;
        return g;
    }
    EdgeBias bias() const
    {
        EdgeBias b;
        b.kind = edges.kind;
        b.values = edges.kind == EdgeBiasKind::Values ? w.data() : nullptr;
        if (edges.kind == EdgeBiasKind::Classes)
            b.classes = edges.classes;
        b.table = table.data();
        b.classCount = edges.classCount;
        b.selfClass = edges.selfClass;
        b.u = u.empty() ? nullptr : u.data();
        return b;
    }
    int64_t entries() const { return int64_t(edges.indices.size()); }
    size_t width() const { return size_t(edges.heads) * size_t(edges.dim); }
};

/// Rows of transposedRows and transposedEntries from the CSR, in entry order.
inline void transpose(EdgeProblem& p)
{
    std::vector<std::vector<int64_t>> of(static_cast<size_t>(p.edges.keys));
    std::vector<int32_t> rowOf;
    for (int64_t n = 0; n < p.edges.rows; ++n) {
        for (int64_t e = p.edges.indptr[size_t(n)]; e < p.edges.indptr[size_t(n) + 1]; ++e) {
            of[size_t(p.edges.indices[size_t(e)])].push_back(e);
            rowOf.push_back(int32_t(n));
        }
    }
    p.transposedIndptr.assign(1, 0);
    p.transposedRows.clear();
    p.transposedEntries.clear();
    for (const auto& list : of) {
        for (const int64_t e : list) {
            p.transposedRows.push_back(rowOf[size_t(e)]);
            p.transposedEntries.push_back(e);
        }
        p.transposedIndptr.push_back(int64_t(p.transposedEntries.size()));
    }
}

/// Tensors at random for the graph of p.
inline void fill(EdgeProblem& p, uint64_t seed)
{
    p.q = randomFloats(size_t(p.edges.rows) * p.width(), seed, 1, 2.0f);
    p.k = randomFloats(size_t(p.edges.keys) * p.width(), seed, 2, 2.0f);
    p.v = randomFloats(size_t(p.edges.keys) * p.width(), seed, 3);
    p.dO = randomFloats(size_t(p.edges.rows) * p.width(), seed, 4);
    p.edges.q = widened(p.q);
    p.edges.k = widened(p.k);
    p.edges.v = widened(p.v);
}

/// Rows with the given numbers of entries at random keys (so duplicates happen).
inline EdgeProblem makeEdges(const std::vector<int64_t>& degrees, int64_t keys, int32_t heads, int32_t dim,
                             uint64_t seed)
{
    EdgeProblem p;
    p.edges.rows = int64_t(degrees.size());
    p.edges.keys = keys;
    p.edges.heads = heads;
    p.edges.dim = dim;
    p.edges.scale = 1.0 / std::sqrt(double(dim));
    p.edges.indptr = {0};
    for (const int64_t degree : degrees) {
        for (int64_t e = 0; e < degree; ++e)
            p.edges.indices.push_back(int32_t(drawBelow(seed, 9, p.edges.indices.size(), uint64_t(keys))));
        p.edges.indptr.push_back(int64_t(p.edges.indices.size()));
    }
    transpose(p);
    fill(p, seed);
    return p;
}

inline void addValues(EdgeProblem& p, uint64_t seed)
{
    p.edges.kind = EdgeBiasKind::Values;
    p.w = randomFloats(size_t(p.edges.heads) * size_t(p.entries()), seed, 5, 2.0f);
    p.edges.w = widened(p.w);
}
inline void addClasses(EdgeProblem& p, int32_t classCount, int32_t selfClass, uint64_t seed)
{
    p.edges.kind = EdgeBiasKind::Classes;
    p.edges.classCount = classCount;
    p.edges.selfClass = selfClass;
    p.table = randomFloats(size_t(p.edges.heads) * size_t(classCount), seed, 6, 2.0f);
    p.edges.table = widened(p.table);
    for (int64_t e = 0; e < p.entries(); ++e)
        p.edges.classes.push_back(uint8_t(drawBelow(seed, 7, uint64_t(e), uint64_t(classCount))));
}
/// Scores spread so that some are beyond the clamp.
inline void addGt(EdgeProblem& p, bool stream, uint64_t seed)
{
    p.edges.kind = EdgeBiasKind::Gt;
    for (float& x : p.q)
        x *= 3.0f;
    p.edges.q = widened(p.q);
    if (!stream)
        return;
    p.u = randomFloats(size_t(p.entries()) * p.width(), seed, 8, 2.0f);
    p.ds = randomFloats(size_t(p.entries()) * p.width(), seed, 10, 0.3f);
    p.edges.u = widened(p.u);
}

struct EdgeFast {
    std::vector<float> o, lse, s, dq, dk, dv, dw, du;
    std::vector<double> table;

    bool operator==(const EdgeFast&) const = default;
};

inline void expectDone(const Result<Ok>& done)
{
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
}

template <class T> T* orNull(Guarded<T>& buffer)
{
    return buffer.size() == 0 ? nullptr : buffer.data();
}

inline EdgeFast runEdges(const EdgeProblem& p, const ParallelFor& parallel, int32_t rowChunk = 512, bool scratch = true)
{
    const reference::Edges& e = p.edges;
    const auto view = [&](const std::vector<float>& x, int64_t rows) {
        return contiguousHeads(x.data(), rows, e.heads, e.dim);
    };
    EdgeGraph graph = p.graph();
    graph.rowChunk = rowChunk;
    const size_t rowHeads = size_t(e.heads) * size_t(e.rows);
    Guarded<float> o(p.q.size()), lse(rowHeads), s(p.u.size()), dq(p.q.size()), dk(p.k.size()), dv(p.v.size()),
        dw(p.w.size()), du(p.u.size());
    expectDone(edgeAttentionForward(graph, e.scale, view(p.q, e.rows), view(p.k, e.keys), view(p.v, e.keys), p.bias(),
                                    e.dropout, contiguousHeads(o.data(), e.rows, e.heads, e.dim), lse.data(), orNull(s),
                                    parallel));
    std::vector<float> delta(rowHeads);
    attentionDelta(contiguousHeads<const float>(o.data(), e.rows, e.heads, e.dim), view(p.dO, e.rows), delta.data());
    const bool classes = e.kind == EdgeBiasKind::Classes;
    Guarded<double> partials(classes ? size_t(edgeTablePartials(e.rows, e.heads, e.classCount)) : 0);
    Workspace space(edgeAttentionBackwardWorkspace(e.rows, e.heads));
    const EdgeBiasGradients gradients{orNull(dw), orNull(partials), p.ds.empty() ? nullptr : p.ds.data(), orNull(du)};
    expectDone(edgeAttentionBackward(graph, e.scale, view(p.q, e.rows), view(p.k, e.keys), view(p.v, e.keys),
                                     view(p.dO, e.rows), lse.data(), delta.data(), p.bias(), e.dropout, dq.data(),
                                     dk.data(), dv.data(), gradients, scratch ? space.get() : nullptr, parallel));
    std::vector<double> table(classes ? size_t(e.heads * e.classCount) : 0);
    if (classes)
        edgeTableGradient(e.rows, e.heads, e.classCount, partials.data(), table.data());
    return {o.values(),  lse.values(), s.values(),  dq.values(), dk.values(),
            dv.values(), dw.values(),  du.values(), table};
}

inline void expectAgrees(const EdgeProblem& p, int32_t rowChunk = 512)
{
    const EdgeFast fast = runEdges(p, SerialFor(), rowChunk);
    const reference::EdgeOutput out = reference::edgeForward(p.edges);
    const reference::EdgeGradients g = reference::edgeBackward(p.edges, widened(p.dO), widened(p.ds));
    EXPECT_LE(relativeError(fast.o, out.o), kEdgeLimit);
    EXPECT_LE(relativeError(fast.lse, out.lse), kEdgeLimit);
    EXPECT_LE(relativeError(fast.s, out.s), kEdgeLimit);
    EXPECT_LE(relativeError(fast.dq, g.dq, 1e-3), kEdgeLimit);
    EXPECT_LE(relativeError(fast.dk, g.dk, 1e-3), kEdgeLimit);
    EXPECT_LE(relativeError(fast.dv, g.dv), kEdgeLimit);
    EXPECT_LE(relativeError(fast.dw, g.dw, 1e-3), kEdgeLimit);
    EXPECT_LE(relativeError(fast.table, g.table, 1e-3), kEdgeLimit);
    EXPECT_LE(relativeError(fast.du, g.du, 1e-3), kEdgeLimit);
}

} // namespace megagraph::kernels::testing
