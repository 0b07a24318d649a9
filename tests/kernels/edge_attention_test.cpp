// SPDX-License-Identifier: Apache-2.0
// Sparse edge attention against the fp64 reference, in every set of kernels of this machine.
#include "tests/kernels/edge_cases.h"

#include <numeric>

namespace megagraph::kernels::testing {
namespace {

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

TEST(EdgeAttention, AgreesWithTheReferenceForHubsThatReadEveryKey)
{
    forEachSet([] {
        for (const int32_t heads : {1, 8}) {
            EdgeProblem p = makeEdges({0, 4097, 4096, 3}, 4500, heads, 8, 17);
            for (int32_t j = 0; j < 4500; ++j) // a row of N entries
                p.edges.indices.push_back(j);
            p.edges.indptr.push_back(int64_t(p.edges.indices.size()));
            p.edges.rows = 5;
            transpose(p);
            fill(p, 17);
            expectAgrees(p);
        }
    });
}

TEST(EdgeAttention, AgreesWithTheReferenceForEveryWidthAndHeadCount)
{
    forEachSet([] {
        std::vector<int64_t> degrees;
        for (uint64_t i = 0; i < 50; ++i)
            degrees.push_back(int64_t(drawBelow(5, 1, i, 30)));
        for (const auto& [heads, dim] : std::vector<std::pair<int32_t, int32_t>>{{8, 8},
                                                                                 {4, 8},
                                                                                 {16, 8},
                                                                                 {32, 8},
                                                                                 {1, 10},
                                                                                 {3, 10},
                                                                                 {4, 16},
                                                                                 {8, 16},
                                                                                 {1, 32},
                                                                                 {8, 32},
                                                                                 {1, 64},
                                                                                 {4, 64},
                                                                                 {8, 64},
                                                                                 {2, 24},
                                                                                 {1, 128},
                                                                                 {4, 128},
                                                                                 {33, 8},
                                                                                 {1, 1}}) {
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
        }
        transpose(p);
        p.edges.dropout = {0.3, 1, 2, 0, 3, kSiteAttention};
        const World w = makeWorld(70, 2, 1, false, 1);
        Problem dense = makeProblem(w, 2, 8, false, 1);
        dense.q = p.q;
        dense.k = p.k;
        dense.v = p.v;
        dense.dO = p.dO;
        dense.dropout = p.edges.dropout;
        const EdgeFast a = runEdges(p, SerialFor());
        const Fast b = runFast(dense, {0, 70}, {0, 70}, SerialFor());
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
        const EdgeFast fast = runEdges(p, SerialFor());
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
        const EdgeFast one = runEdges(p, SerialFor());
        for (const int32_t threads : {1, 2, 3, 8}) {
            const EdgeFast other = runEdges(p, ForkJoinFor(threads));
            EXPECT_TRUE(one == other) << threads << " threads";
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
                                               contiguousHeads<const float>(p.v.data(), 4, 1, 8), {},
                                               contiguousHeads(o.data(), 2, 1, 8), lse.data(), SerialFor());
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

} // namespace
} // namespace megagraph::kernels::testing
