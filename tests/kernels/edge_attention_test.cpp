// SPDX-License-Identifier: Apache-2.0
// Sparse edge attention against the fp64 reference, in every set of kernels of this machine.
#include "kernels/edge_attention.h"
#include "tests/kernels/attention_cases.h"

#include <numeric>

namespace megagraph::kernels::testing {
namespace {

constexpr double kLimit = 2e-5;

struct EdgeProblem {
    reference::Edges edges; // q, k, v hold exact copies of the fp32 tensors
    std::vector<float> q, k, v, dO;
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
        return g;
    }
};

/// Rows with the given numbers of entries at random keys (so duplicates happen), tensors at random.
EdgeProblem makeEdges(const std::vector<int64_t>& degrees, int64_t keys, int32_t heads, int32_t dim, uint64_t seed)
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
    p.transposedIndptr.assign(size_t(keys) + 1, 0);
    for (int64_t key = 0; key < keys; ++key) {
        for (int64_t n = 0; n < p.edges.rows; ++n) {
            for (int64_t e = p.edges.indptr[size_t(n)]; e < p.edges.indptr[size_t(n) + 1]; ++e) {
                if (p.edges.indices[size_t(e)] != key)
                    continue;
                p.transposedRows.push_back(int32_t(n));
                p.transposedEntries.push_back(e);
            }
        }
        p.transposedIndptr[size_t(key) + 1] = int64_t(p.transposedRows.size());
    }
    const size_t width = size_t(heads * dim);
    p.q = randomFloats(degrees.size() * width, seed, 1, 2.0f);
    p.k = randomFloats(size_t(keys) * width, seed, 2, 2.0f);
    p.v = randomFloats(size_t(keys) * width, seed, 3);
    p.dO = randomFloats(degrees.size() * width, seed, 4);
    p.edges.q = widened(p.q);
    p.edges.k = widened(p.k);
    p.edges.v = widened(p.v);
    return p;
}

Fast runEdges(const EdgeProblem& p, const ParallelFor& parallel)
{
    const reference::Edges& e = p.edges;
    const auto view = [&](const std::vector<float>& x, int64_t rows) { return contiguousHeads(x.data(), rows, e.heads, e.dim); };
    Guarded<float> o(p.q.size()), lse(size_t(e.heads * e.rows)), dq(p.q.size()), dk(p.k.size()), dv(p.v.size());
    const auto forward = edgeAttentionForward(p.graph(), e.scale, view(p.q, e.rows), view(p.k, e.keys), view(p.v, e.keys), e.dropout,
                                              contiguousHeads(o.data(), e.rows, e.heads, e.dim), lse.data(), parallel);
    EXPECT_TRUE(forward.ok()) << (forward.ok() ? "" : forward.error().message);
    std::vector<float> delta(size_t(e.heads * e.rows));
    attentionDelta(contiguousHeads<const float>(o.data(), e.rows, e.heads, e.dim), view(p.dO, e.rows), delta.data());
    const auto backward =
        edgeAttentionBackward(p.graph(), e.scale, view(p.q, e.rows), view(p.k, e.keys), view(p.v, e.keys), view(p.dO, e.rows),
                              lse.data(), delta.data(), e.dropout, dq.data(), dk.data(), dv.data(), parallel);
    EXPECT_TRUE(backward.ok()) << (backward.ok() ? "" : backward.error().message);
    return {o.values(), lse.values(), dq.values(), dk.values(), dv.values(), {}, {}, {}};
}

void expectAgrees(const EdgeProblem& p)
{
    const Fast fast = runEdges(p, SerialFor());
    const reference::Output out = reference::edgeForward(p.edges);
    const reference::Gradients g = reference::edgeBackward(p.edges, widened(p.dO));
    EXPECT_LE(relativeError(fast.o, out.o), kLimit);
    EXPECT_LE(relativeError(fast.lse, out.lse), kLimit);
    EXPECT_LE(relativeError(fast.dq, g.dq, 1e-3), kLimit);
    EXPECT_LE(relativeError(fast.dk, g.dk, 1e-3), kLimit);
    EXPECT_LE(relativeError(fast.dv, g.dv), kLimit);
}

TEST(EdgeAttention, AgreesWithTheReferenceForEveryRowLength)
{
    forEachSet([] {
        const std::vector<int64_t> degrees{0, 1, 2, 15, 16, 17, 0, 511, 512, 513, 3, 1025, 5, 0};
        for (const bool self : {false, true}) {
            for (const int32_t heads : {2, 8}) { // entry by entry, and all heads of an entry at once
                EdgeProblem p = makeEdges(degrees, 40, heads, heads == 8 ? 8 : 16, 1);
                p.edges.selfKey = self;
                p.edges.selfOffset = 7;
                expectAgrees(p);
            }
        }
    });
}

TEST(EdgeAttention, AgreesWithTheReferenceForEveryWidthAndHeadCount)
{
    forEachSet([] {
        std::vector<int64_t> degrees;
        for (uint64_t i = 0; i < 50; ++i)
            degrees.push_back(int64_t(drawBelow(5, 1, i, 30)));
        for (const auto& [heads, dim] : std::vector<std::pair<int32_t, int32_t>>{
                 {8, 8}, {4, 8}, {16, 8}, {32, 8}, {1, 10}, {3, 10}, {4, 16}, {8, 16}, {1, 32}, {8, 32}, {1, 64},
                 {4, 64}, {8, 64}, {2, 24}, {1, 128}, {4, 128}, {33, 8}, {1, 1}}) {
            SCOPED_TRACE(std::to_string(heads) + " x " + std::to_string(dim));
            EdgeProblem p = makeEdges(degrees, 60, heads, dim, uint64_t(dim));
            p.edges.selfKey = true;
            expectAgrees(p);
        }
    });
}

TEST(EdgeAttention, DropoutUsesOneMaskForwardAndBackward)
{
    forEachSet([] {
        for (const int32_t heads : {3, 8}) {
            EdgeProblem p = makeEdges(std::vector<int64_t>(40, 19), 45, heads, heads == 8 ? 8 : 16, 2);
            p.edges.selfKey = true;
            p.edges.selfOffset = 3;
            p.edges.queryOffset = 1003;
            p.edges.keyOffset = 1000;
            p.edges.dropout = {0.4, 11, 5, 1, 2, kSiteAttention};
            expectAgrees(p);
        }
    });
}

TEST(EdgeAttention, CompleteGraphEqualsDenseAttentionWithTheSameMask)
{
    forEachSet([] {
        EdgeProblem p = makeEdges(std::vector<int64_t>(70, 0), 70, 2, 8, 3);
        for (int64_t n = 0; n < 70; ++n) {
            for (int32_t j = 0; j < 70; ++j)
                p.edges.indices.push_back(j);
            p.edges.indptr[size_t(n) + 1] = int64_t(p.edges.indices.size());
            for (int64_t j = 0; j < 70; ++j) {
                p.transposedRows.push_back(int32_t(j));
                p.transposedEntries.push_back(j * 70 + n);
            }
            p.transposedIndptr[size_t(n) + 1] = int64_t(p.transposedRows.size());
        }
        p.edges.dropout = {0.3, 1, 2, 0, 3, kSiteAttention};
        const World w = makeWorld(70, 2, 1, false, 1);
        Problem dense = makeProblem(w, 2, 8, false, 1);
        dense.q = p.q;
        dense.k = p.k;
        dense.v = p.v;
        dense.dO = p.dO;
        dense.dropout = p.edges.dropout;
        const Fast a = runEdges(p, SerialFor()), b = runFast(dense, {0, 70}, {0, 70}, SerialFor());
        EXPECT_LE(relativeError(a.o, b.o), 2e-6);
        EXPECT_LE(relativeError(a.dq, b.dq), 2e-6);
        EXPECT_LE(relativeError(a.dk, b.dk), 2e-6);
        EXPECT_LE(relativeError(a.dv, b.dv), 2e-6);
    });
}

TEST(EdgeAttention, RowsWithoutEntriesGiveZeroAndMinusInfinity)
{
    forEachSet([] {
        const EdgeProblem p = makeEdges({0, 0, 0}, 5, 2, 8, 4);
        const Fast fast = runEdges(p, SerialFor());
        for (const float x : fast.o)
            EXPECT_EQ(x, 0.0f);
        for (const float x : fast.lse)
            EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
        for (const auto& gradient : {fast.dq, fast.dk, fast.dv}) {
            for (const float x : gradient)
                EXPECT_EQ(x, 0.0f);
        }
    });
}

TEST(EdgeAttention, BitsDoNotDependOnThreads)
{
    forEachSet([] {
        std::vector<int64_t> degrees;
        for (uint64_t i = 0; i < 1200; ++i)
            degrees.push_back(int64_t(drawBelow(6, 1, i, 12)));
        EdgeProblem p = makeEdges(degrees, 1200, 2, 16, 6);
        p.edges.selfKey = true;
        const Fast one = runEdges(p, SerialFor());
        for (const int32_t threads : {1, 2, 3, 8}) {
            const Fast other = runEdges(p, ForkJoinFor(threads));
            EXPECT_EQ(one.o, other.o);
            EXPECT_EQ(one.lse, other.lse);
            EXPECT_EQ(one.dq, other.dq);
            EXPECT_EQ(one.dk, other.dk);
            EXPECT_EQ(one.dv, other.dv);
        }
    });
}

TEST(EdgeAttention, LargeScoresStayFinite)
{
    forEachSet([] {
        EdgeProblem p = makeEdges(std::vector<int64_t>(20, 600), 40, 1, 8, 7);
        for (float& x : p.q)
            x *= 5e3f;
        for (const float x : runEdges(p, SerialFor()).dk)
            ASSERT_TRUE(std::isfinite(x));
    });
}

TEST(EdgeAttention, RefusesBadGraphsBeforeWriting)
{
    const EdgeProblem p = makeEdges({3, 2}, 4, 1, 8, 8);
    const auto refuses = [&](const char* text, auto change) {
        EdgeProblem bad = p;
        EdgeGraph graph;
        change(bad);
        graph = bad.graph();
        std::vector<float> o(16, 7.0f), lse(2, 7.0f);
        const auto done = edgeAttentionForward(graph, 1.0, contiguousHeads<const float>(p.q.data(), 2, 1, 8),
                                               contiguousHeads<const float>(p.k.data(), 4, 1, 8),
                                               contiguousHeads<const float>(p.v.data(), 4, 1, 8), {}, contiguousHeads(o.data(), 2, 1, 8),
                                               lse.data(), SerialFor());
        ASSERT_FALSE(done.ok()) << text;
        EXPECT_EQ(done.error().code, ErrorCode::InvalidInput);
        EXPECT_NE(done.error().message.find(text), std::string::npos) << done.error().message;
        EXPECT_EQ(o, std::vector<float>(16, 7.0f));
    };
    refuses("indptr", [](EdgeProblem& b) { b.edges.indptr.pop_back(); });
    refuses("indptr", [](EdgeProblem& b) { b.edges.indptr[1] = 9; });
    refuses("indices", [](EdgeProblem& b) { b.edges.indices[0] = 4; });
    refuses("indices", [](EdgeProblem& b) { b.edges.indices[0] = -1; });
    refuses("self keys", [](EdgeProblem& b) { b.edges.selfKey = true, b.edges.selfOffset = 3; });
}

TEST(EdgeAttentionReference, GradientsAreCentralDifferences)
{
    EdgeProblem p = makeEdges({0, 3, 5, 1}, 6, 2, 4, 9);
    p.edges.selfKey = true;
    p.edges.dropout = {0.3, 1, 1, 0, 0, kSiteAttention};
    const std::vector<double> dO = widened(p.dO);
    const reference::Gradients g = reference::edgeBackward(p.edges, dO);
    const auto loss = [&] {
        const reference::Output out = reference::edgeForward(p.edges);
        return std::inner_product(out.o.begin(), out.o.end(), dO.begin(), 0.0);
    };
    const auto check = [&](std::vector<double>& x, const std::vector<double>& gradient) {
        for (size_t i = 0; i < x.size(); ++i) {
            const double kept = x[i], step = 1e-5;
            x[i] = kept + step;
            const double up = loss();
            x[i] = kept - step;
            const double down = loss();
            x[i] = kept;
            EXPECT_NEAR((up - down) / (2 * step), gradient[i], 1e-7) << "element " << i;
        }
    };
    check(p.edges.q, g.dq);
    check(p.edges.k, g.dk);
    check(p.edges.v, g.dv);
}

} // namespace
} // namespace megagraph::kernels::testing
