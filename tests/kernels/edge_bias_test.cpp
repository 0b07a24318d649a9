// SPDX-License-Identifier: Apache-2.0
// Edge attention with values per entry, classes with a table, and GT's products with an edge stream: against the fp64
// reference, which is itself held against central differences.
#include "tests/kernels/edge_cases.h"

#include <numeric>

namespace megagraph::kernels::testing {
namespace {

struct Variant {
    const char* name;
    void (*add)(EdgeProblem&);
};
const Variant kVariants[] = {
    {"values", [](EdgeProblem& p) { addValues(p, 3); }},
    {"classes", [](EdgeProblem& p) { addClasses(p, 6, p.edges.selfKey ? 2 : -1, 3); }},
    {"many classes", [](EdgeProblem& p) { addClasses(p, 256, -1, 3); }},
    {"gt", [](EdgeProblem& p) { addGt(p, true, 3); }},
    {"gt without edge stream", [](EdgeProblem& p) { addGt(p, false, 3); }},
};

template <class F> void forEachVariant(F&& body)
{
    for (const Variant& variant : kVariants) {
        SCOPED_TRACE(variant.name);
        body(variant);
    }
}

std::vector<int64_t> someDegrees(int64_t rows, int64_t below, uint64_t seed)
{
    std::vector<int64_t> degrees;
    for (int64_t i = 0; i < rows; ++i)
        degrees.push_back(int64_t(drawBelow(seed, 1, uint64_t(i), uint64_t(below))));
    return degrees;
}

TEST(EdgeBias, EveryVariantAgreesWithTheReferenceForEveryRowLength)
{
    forEachSet([] {
        forEachVariant([](const Variant& variant) {
            for (const auto& [heads, dim] : std::vector<std::pair<int32_t, int32_t>>{{1, 16}, {8, 8}, {3, 10}}) {
                SCOPED_TRACE(std::to_string(heads) + " x " + std::to_string(dim));
                EdgeProblem p = makeEdges({0, 1, 15, 16, 17, 0, 511, 512, 513, 2, 1100, 3}, 40, heads, dim, 1);
                variant.add(p);
                expectAgrees(p);
            }
        });
    });
}

TEST(EdgeBias, EveryVariantAgreesWithTheReferenceForEveryWidthAndHeadCount)
{
    forEachSet([] {
        forEachVariant([](const Variant& variant) {
            for (const auto& [heads, dim] : std::vector<std::pair<int32_t, int32_t>>{
                     {4, 16}, {16, 8}, {32, 8}, {12, 8}, {33, 8}, {1, 64}, {8, 64}, {2, 24}, {4, 128}, {1, 1}}) {
                SCOPED_TRACE(std::to_string(heads) + " x " + std::to_string(dim));
                EdgeProblem p = makeEdges(someDegrees(50, 30, 5), 60, heads, dim, uint64_t(dim));
                variant.add(p);
                expectAgrees(p);
            }
        });
    });
}

TEST(EdgeBias, SelfKeysHaveNoValueAndTheirOwnClass)
{
    forEachSet([] {
        for (const bool classes : {false, true}) {
            EdgeProblem p = makeEdges(someDegrees(30, 12, 6), 45, 8, 8, 6);
            p.edges.selfKey = true;
            p.edges.selfOffset = 11;
            if (classes)
                addClasses(p, 4, 3, 6);
            else
                addValues(p, 6);
            expectAgrees(p);
        }
        EdgeProblem gt = makeEdges(someDegrees(30, 12, 6), 45, 4, 16, 6);
        gt.edges.selfKey = true;
        addGt(gt, false, 6);
        expectAgrees(gt);
    });
}

TEST(EdgeBias, EveryVariantUsesOneDropoutMaskForwardAndBackward)
{
    forEachSet([] {
        forEachVariant([](const Variant& variant) {
            EdgeProblem p = makeEdges(std::vector<int64_t>(30, 19), 45, 8, 8, 2);
            variant.add(p);
            p.edges.queryOffset = 1003;
            p.edges.keyOffset = 1000;
            p.edges.headOffset = 5;
            p.edges.dropout = {0.4, 11, 5, 1, 2, kSiteAttention};
            expectAgrees(p);
        });
    });
}

TEST(EdgeBias, TheChunkOfLongRowsChangesOnlyRounding)
{
    forEachSet([] {
        forEachVariant([](const Variant& variant) {
            EdgeProblem p = makeEdges({700, 3, 64, 0, 33}, 90, 3, 16, 4);
            variant.add(p);
            for (const int32_t chunk : {1, 7, 64, 512}) {
                SCOPED_TRACE(chunk);
                expectAgrees(p, chunk);
            }
        });
    });
}

TEST(EdgeBias, BitsDoNotDependOnThreadsNorOnScratch)
{
    forEachSet([] {
        forEachVariant([](const Variant& variant) {
            EdgeProblem p = makeEdges(someDegrees(1200, 12, 6), 1200, 8, 8, 6);
            variant.add(p);
            const EdgeFast one = runEdges(p, SerialFor());
            for (const int32_t threads : {1, 2, 3, 8})
                EXPECT_TRUE(one == runEdges(p, ForkJoinFor(threads))) << threads << " threads";
            EXPECT_TRUE(one == runEdges(p, SerialFor(), 512, false));
        });
    });
}

TEST(EdgeBias, ClassesOnAGraphEqualDenseAttentionWithMinusInfinityElsewhere)
{
    forEachSet([] {
        const int64_t n = 90;
        const World w = makeWorld(n, 2, 2, false, 4);
        EdgeProblem p = makeEdges(std::vector<int64_t>(size_t(n), 0), n, 3, 16, 4);
        reference::Dense dense;
        dense.queries = dense.keys = n;
        dense.heads = 3;
        dense.dim = 16;
        dense.classCount = w.classes;
        dense.scale = p.edges.scale;
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < n; ++j) {
                const uint8_t c = w.classOf[size_t(i * n + j)];
                dense.classes.push_back(c <= w.hops ? c : reference::kMasked);
                if (c > w.hops)
                    continue;
                p.edges.indices.push_back(int32_t(j));
                p.edges.classes.push_back(c);
            }
            p.edges.indptr[size_t(i) + 1] = int64_t(p.edges.indices.size());
        }
        transpose(p);
        const std::vector<uint8_t> classes = p.edges.classes;
        addClasses(p, w.classes, -1, 4);
        p.edges.classes = classes;
        p.edges.dropout = dense.dropout = {0.3, 1, 2, 0, 3, kSiteAttention};
        dense.q = p.edges.q, dense.k = p.edges.k, dense.v = p.edges.v, dense.table = p.edges.table;
        const EdgeFast fast = runEdges(p, SerialFor());
        const reference::Output out = reference::denseForward(dense);
        const reference::Gradients g = reference::denseBackward(dense, widened(p.dO));
        EXPECT_LE(relativeError(fast.o, out.o), kEdgeLimit);
        EXPECT_LE(relativeError(fast.lse, out.lse), kEdgeLimit);
        EXPECT_LE(relativeError(fast.dq, g.dq), kEdgeLimit);
        EXPECT_LE(relativeError(fast.dk, g.dk), kEdgeLimit);
        EXPECT_LE(relativeError(fast.dv, g.dv), kEdgeLimit);
        EXPECT_LE(relativeError(fast.table, g.table), kEdgeLimit);
    });
}

TEST(EdgeBias, TableGradientSumsToZeroAndAConstantChangesNothing)
{
    forEachSet([] {
        EdgeProblem p = makeEdges(someDegrees(300, 20, 8), 300, 4, 16, 8);
        addClasses(p, 5, -1, 8);
        const EdgeFast before = runEdges(p, SerialFor());
        for (int32_t h = 0; h < 4; ++h) {
            double sum = 0, size = 0;
            for (int32_t c = 0; c < 5; ++c) {
                sum += before.table[size_t(h * 5 + c)];
                size += std::abs(before.table[size_t(h * 5 + c)]);
            }
            EXPECT_LE(std::abs(sum), 1e-5 * size);
        }
        for (float& b : p.table)
            b += 3.0f;
        const EdgeFast after = runEdges(p, SerialFor());
        EXPECT_LE(relativeError(after.o, before.o), 2e-6);
        EXPECT_LE(relativeError(after.table, before.table), 2e-5);
    });
}

TEST(EdgeBias, MinusInfinityMasksPairsAndWholeRows)
{
    forEachSet([] {
        const float none = -std::numeric_limits<float>::infinity();
        for (const bool classes : {false, true}) {
            EdgeProblem p = makeEdges({9, 4, 700}, 12, 8, 8, 9);
            if (classes) {
                addClasses(p, 3, -1, 9);
                for (int32_t h = 0; h < 8; ++h)
                    p.table[size_t(h * 3 + 1)] = none;
                for (int64_t e = 9; e < 13; ++e)
                    p.edges.classes[size_t(e)] = 1;
                p.edges.table = widened(p.table);
            } else {
                addValues(p, 9);
                for (int32_t h = 0; h < 8; ++h) {
                    for (int64_t e = 8; e < 13; ++e)
                        p.w[size_t(h * p.entries() + e)] = none;
                }
                p.edges.w = widened(p.w);
            }
            expectAgrees(p);
            const EdgeFast fast = runEdges(p, SerialFor());
            for (int32_t h = 0; h < 8; ++h)
                EXPECT_EQ(fast.lse[size_t(h * 3 + 1)], none);
            for (size_t x = 64; x < 128; ++x) {
                EXPECT_EQ(fast.o[x], 0.0f);
                EXPECT_EQ(fast.dq[x], 0.0f);
            }
        }
    });
}

TEST(EdgeBias, LargeValuesAndTablesStayFinite)
{
    forEachSet([] {
        for (const float size : {1e4f, -1e4f}) {
            EdgeProblem values = makeEdges(std::vector<int64_t>(8, 20), 30, 4, 16, 10), classes = values;
            addValues(values, 10);
            for (size_t i = 0; i < values.w.size(); i += 2)
                values.w[i] = size;
            values.edges.w = widened(values.w);
            addClasses(classes, 4, -1, 10);
            for (size_t i = 0; i < classes.table.size(); i += 3)
                classes.table[i] = size;
            classes.edges.table = widened(classes.table);
            for (const EdgeProblem* p : {&values, &classes}) {
                const EdgeFast fast = runEdges(*p, SerialFor());
                const reference::EdgeOutput out = reference::edgeForward(p->edges);
                EXPECT_LE(relativeError(fast.o, out.o), 1e-3); // fp32 at 1e4 resolves scores to 1e-3
                for (const auto& all : {fast.o, fast.lse, fast.dq, fast.dk, fast.dv, fast.dw}) {
                    for (const float x : all)
                        ASSERT_TRUE(std::isfinite(x));
                }
            }
        }
    });
}

TEST(EdgeBias, NotANumberReachesExactlyItsReaders)
{
    forEachSet([] {
        forEachVariant([](const Variant& variant) {
            const float nan = std::numeric_limits<float>::quiet_NaN();
            EdgeProblem p = makeEdges(someDegrees(40, 12, 12), 40, 8, 8, 12);
            variant.add(p);
            for (size_t x = 0; x < 64; ++x)
                p.v[17 * 64 + x] = nan; // key 17
            const EdgeFast fast = runEdges(p, SerialFor());
            for (int64_t n = 0; n < 40; ++n) {
                const auto begin = p.edges.indices.begin() + p.edges.indptr[size_t(n)],
                           end = p.edges.indices.begin() + p.edges.indptr[size_t(n) + 1];
                const bool reads = std::find(begin, end, 17) != end;
                for (size_t x = 0; x < 64; ++x)
                    ASSERT_EQ(std::isnan(fast.o[size_t(n) * 64 + x]), reads) << "row " << n;
            }
        });
    });
}

TEST(EdgeBias, AnUnusedTableEntryOfNaNDoesNotLeak)
{
    forEachSet([] {
        EdgeProblem p = makeEdges(someDegrees(40, 12, 13), 40, 4, 16, 13);
        addClasses(p, 4, -1, 13);
        for (uint8_t& c : p.edges.classes)
            c = c == 2 ? 1 : c;
        const EdgeFast before = runEdges(p, SerialFor());
        for (int32_t h = 0; h < 4; ++h)
            p.table[size_t(h * 4 + 2)] = std::numeric_limits<float>::quiet_NaN();
        EXPECT_TRUE(before == runEdges(p, SerialFor()));
    });
}

TEST(EdgeBias, GtClampsAndHasTheSmallTermInItsDenominator)
{
    forEachSet([] {
        EdgeProblem p = makeEdges({1, 1, 2}, 2, 1, 8, 11);
        p.edges.indices = {0, 1, 0, 1};
        transpose(p);
        p.edges.scale = 1.0;
        std::fill(p.q.begin(), p.q.end(), 1.0f);
        std::fill(p.k.begin(), p.k.begin() + 8, 1.0f); // score 8, clamped to 5
        std::fill(p.k.begin() + 8, p.k.end(), -1.0f);  // score -8, clamped to -5
        p.edges.q = widened(p.q);
        p.edges.k = widened(p.k);
        p.edges.kind = EdgeBiasKind::Gt;
        p.u.assign(4 * 8, 1.0f);
        p.ds.assign(4 * 8, 0.0f);
        p.edges.u = widened(p.u);
        const EdgeFast fast = runEdges(p, SerialFor());
        EXPECT_NEAR(fast.lse[0], std::log(std::exp(5.0) + 1e-6), 1e-6);
        EXPECT_NEAR(fast.lse[1], std::log(std::exp(-5.0) + 1e-6), 1e-6);
        const double small = std::exp(-5.0) / (std::exp(-5.0) + 1e-6); // 0.99985, not 1
        for (size_t x = 0; x < 8; ++x) {
            EXPECT_NEAR(fast.o[8 + x], small * double(p.v[8 + x]), 1e-6);
            EXPECT_EQ(fast.s[x], 1.0f);
            EXPECT_EQ(fast.dq[x], 0.0f); // flat beyond the clamp
        }
        expectAgrees(p);
    });
}

/// Rows over P key intervals, combined in order.
EdgeFast runIntervals(const EdgeProblem& p, const std::vector<int64_t>& cuts, bool resume)
{
    const reference::Edges& e = p.edges;
    const auto view = [&](const std::vector<float>& x, int64_t rows) {
        return contiguousHeads(x.data(), rows, e.heads, e.dim);
    };
    const size_t rowHeads = size_t(e.heads) * size_t(e.rows);
    Guarded<float> m(rowHeads), l(rowHeads), acc(p.q.size()), m2(rowHeads), l2(rowHeads), acc2(p.q.size()),
        o(p.q.size()), lse(rowHeads);
    const AttentionState whole{m.data(), l.data(), acc.data()}, part{m2.data(), l2.data(), acc2.data()};
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        EdgeProblem own;
        own.edges = e;
        own.edges.indptr = {0};
        own.edges.indices.clear();
        own.edges.classes.clear();
        own.edges.keys = cuts[i + 1] - cuts[i];
        own.edges.keyOffset = cuts[i];
        for (int64_t n = 0; n < e.rows; ++n) {
            for (int64_t x = e.indptr[size_t(n)]; x < e.indptr[size_t(n) + 1]; ++x) {
                const int64_t key = e.indices[size_t(x)];
                if (key < cuts[i] || key >= cuts[i + 1])
                    continue;
                own.edges.indices.push_back(int32_t(key - cuts[i]));
                if (!e.classes.empty())
                    own.edges.classes.push_back(e.classes[size_t(x)]);
            }
            own.edges.indptr.push_back(int64_t(own.edges.indices.size()));
        }
        own.table = p.table;
        const int64_t width = int64_t(p.width());
        const std::vector<float> k(p.k.begin() + cuts[i] * width, p.k.begin() + cuts[i + 1] * width),
            v(p.v.begin() + cuts[i] * width, p.v.begin() + cuts[i + 1] * width);
        const bool into = resume || i == 0;
        expectDone(edgeAttentionPartial(own.graph(), e.scale, view(p.q, e.rows), view(k, own.edges.keys),
                                        view(v, own.edges.keys), own.bias(), e.dropout, resume ? i == 0 : true,
                                        into ? whole : part, nullptr, SerialFor()));
        if (!into)
            attentionCombine(e.rows, e.heads, e.dim, whole, part);
    }
    edgeAttentionFinish(e.rows, e.heads, e.dim, e.kind, whole, contiguousHeads(o.data(), e.rows, e.heads, e.dim),
                        lse.data());
    EdgeFast out;
    out.o = o.values();
    out.lse = lse.values();
    return out;
}

TEST(EdgePartial, TokenRowsFromStatesOfKeyIntervalsEqualTheWhole)
{
    forEachSet([] {
        for (const int variant : {0, 1, 2}) {
            // two rows that read every key (graph token, hub), one short row, one without entries
            EdgeProblem p = makeEdges({0, 0, 0, 0}, 1300, 8, 8, 14);
            for (int32_t j = 0; j < 1300; ++j)
                p.edges.indices.push_back(j);
            for (int32_t j = 0; j < 1300; ++j)
                p.edges.indices.push_back(1299 - j);
            p.edges.indices.insert(p.edges.indices.end(), {3, 1200, 700});
            p.edges.indptr = {0, 1300, 2600, 2603, 2603};
            transpose(p);
            if (variant == 1)
                addClasses(p, 3, -1, 14);
            if (variant == 2)
                addGt(p, false, 14);
            p.edges.dropout = {0.2, 5, 1, 0, 1, kSiteAttention};
            const reference::EdgeOutput expected = reference::edgeForward(p.edges);
            for (const std::vector<int64_t>& cuts :
                 {std::vector<int64_t>{0, 1300}, {0, 600, 1300}, {0, 64, 64, 1100, 1299, 1300}}) {
                for (const bool resume : {false, true}) {
                    const EdgeFast got = runIntervals(p, cuts, resume);
                    EXPECT_LE(relativeError(got.o, expected.o), 2e-6);
                    EXPECT_LE(relativeError(got.lse, expected.lse), 2e-6);
                }
            }
            EdgeProblem wrong = p; // dropout with local in place of global columns must be noticed
            wrong.edges.keyOffset = 8;
            EXPECT_GT(
                relativeError(runIntervals(wrong, {0, 600, 1300}, false).o, reference::edgeForward(wrong.edges).o),
                1e-2);
        }
    });
}

/// Rows [begin, end) with their own keys first and the halo behind, renumbered.
struct Shard {
    EdgeProblem problem;
    std::vector<int32_t> globals; // of its keys
};

Shard shardOf(const EdgeProblem& p, int64_t begin, int64_t end)
{
    Shard s;
    const reference::Edges& e = p.edges;
    s.problem.edges = e;
    reference::Edges& own = s.problem.edges;
    std::vector<int32_t> local(size_t(e.keys), -1);
    const auto numbered = [&](int64_t key) {
        if (local[size_t(key)] < 0) {
            local[size_t(key)] = int32_t(s.globals.size());
            s.globals.push_back(int32_t(key));
        }
        return local[size_t(key)];
    };
    for (int64_t n = begin; n < end; ++n)
        numbered(n);
    own.rows = end - begin;
    own.indptr = {0};
    own.indices.clear();
    own.classes.clear();
    const int64_t width = int64_t(p.width());
    for (int64_t n = begin; n < end; ++n) {
        for (int64_t x = e.indptr[size_t(n)]; x < e.indptr[size_t(n) + 1]; ++x) {
            own.indices.push_back(numbered(e.indices[size_t(x)]));
            if (e.kind == EdgeBiasKind::Classes)
                own.classes.push_back(e.classes[size_t(x)]);
        }
        own.indptr.push_back(int64_t(own.indices.size()));
    }
    const int64_t first = e.indptr[size_t(begin)], last = e.indptr[size_t(end)];
    for (int32_t h = 0; h < e.heads && !p.w.empty(); ++h)
        s.problem.w.insert(s.problem.w.end(), p.w.begin() + h * p.entries() + first,
                           p.w.begin() + h * p.entries() + last);
    if (!p.u.empty()) {
        s.problem.u.assign(p.u.begin() + first * width, p.u.begin() + last * width);
        s.problem.ds.assign(p.ds.begin() + first * width, p.ds.begin() + last * width);
    }
    s.problem.table = p.table;
    own.keys = int64_t(s.globals.size());
    own.keyNumbers = s.globals;
    own.queryOffset = begin;
    own.selfOffset = 0;
    s.problem.q.assign(p.q.begin() + begin * width, p.q.begin() + end * width);
    s.problem.dO.assign(p.dO.begin() + begin * width, p.dO.begin() + end * width);
    for (const int32_t g : s.globals) {
        s.problem.k.insert(s.problem.k.end(), p.k.begin() + g * width, p.k.begin() + (g + 1) * width);
        s.problem.v.insert(s.problem.v.end(), p.v.begin() + g * width, p.v.begin() + (g + 1) * width);
    }
    transpose(s.problem);
    return s;
}

TEST(EdgeHalo, ShardsWithHaloKeysEqualTheWhole)
{
    forEachSet([] {
        for (int variant = -1; variant < 5; ++variant) {
            SCOPED_TRACE(variant);
            EdgeProblem p = makeEdges(someDegrees(160, 14, 15), 160, 8, 8, 15);
            p.edges.selfKey = variant < 1;
            if (variant >= 0)
                kVariants[variant].add(p);
            p.edges.dropout = {0.3, 2, 9, 0, 1, kSiteAttention};
            const EdgeFast whole = runEdges(p, SerialFor());
            const size_t width = p.width();
            std::vector<float> o, dq, du;
            std::vector<double> dk(p.k.size(), 0.0), dv(p.v.size(), 0.0), table(whole.table.size(), 0.0);
            for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 70}, {70, 70}, {70, 160}}) {
                const Shard shard = shardOf(p, begin, end);
                const EdgeFast part = runEdges(shard.problem, SerialFor());
                o.insert(o.end(), part.o.begin(), part.o.end());
                dq.insert(dq.end(), part.dq.begin(), part.dq.end());
                du.insert(du.end(), part.du.begin(), part.du.end());
                for (size_t i = 0; i < table.size(); ++i)
                    table[i] += part.table[i];
                for (size_t i = 0; i < part.dk.size(); ++i) {
                    const size_t at = size_t(shard.globals[i / width]) * width + i % width;
                    dk[at] += double(part.dk[i]);
                    dv[at] += double(part.dv[i]);
                }
            }
            EXPECT_EQ(o, whole.o); // a row's entries keep their order: the same bits
            EXPECT_EQ(dq, whole.dq);
            EXPECT_EQ(du, whole.du);
            EXPECT_LE(relativeError(whole.dk, dk), 2e-6);
            EXPECT_LE(relativeError(whole.dv, dv), 2e-6);
            EXPECT_LE(relativeError(whole.table, table), 2e-6);
        }
    });
}

TEST(EdgeBias, RefusesBadBiasesBeforeWriting)
{
    const auto refuses = [&](const char* text, auto change) {
        EdgeProblem p = makeEdges({3, 2}, 4, 1, 8, 8);
        addClasses(p, 3, -1, 8);
        EdgeGraph graph = p.graph();
        EdgeBias bias = p.bias();
        EdgeBiasGradients gradients;
        change(p, graph, bias, gradients);
        std::vector<float> o(16, 7.0f), lse(2, 7.0f), delta(2), dk(32);
        const auto view = [](const std::vector<float>& x, int64_t rows) {
            return contiguousHeads(x.data(), rows, 1, 8);
        };
        const auto done = edgeAttentionBackward(graph, 1.0, view(p.q, 2), view(p.k, 4), view(p.v, 4), view(p.dO, 2),
                                                lse.data(), delta.data(), bias, {}, o.data(), dk.data(), dk.data(),
                                                gradients, nullptr, SerialFor());
        ASSERT_FALSE(done.ok()) << text;
        EXPECT_EQ(done.error().code, ErrorCode::InvalidInput);
        EXPECT_NE(done.error().message.find(text), std::string::npos) << done.error().message;
        EXPECT_EQ(o, std::vector<float>(16, 7.0f));
    };
    using P = EdgeProblem;
    using G = EdgeGraph;
    using B = EdgeBias;
    using D = EdgeBiasGradients;
    static float some[1024];
    static double more[64];
    refuses("row chunk", [](P&, G& g, B&, D&) { g.rowChunk = 0; });
    refuses("row chunk", [](P&, G& g, B&, D&) { g.rowChunk = 513; });
    refuses("key numbers",
            [](P& p, G& g, B&, D&) { g.keyNumbers = std::span<const int32_t>(p.edges.indices).first(3); });
    refuses("bias: classes", [](P&, G&, B& b, D&) { b.classCount = 0; });
    refuses("bias: classes", [](P&, G&, B& b, D&) { b.classCount = 257; });
    refuses("class codes", [](P& p, G&, B& b, D&) { b.classes = std::span<const uint8_t>(p.edges.classes).first(4); });
    refuses("class codes", [](P& p, G&, B&, D&) { p.edges.classes[2] = 3; });
    refuses("class of self keys", [](P&, G&, B& b, D&) { b.selfClass = 3; });
    refuses("table", [](P&, G&, B& b, D&) { b.table = nullptr; });
    refuses("edge values", [](P&, G&, B& b, D&) { b.kind = EdgeBiasKind::Values; });
    refuses("self keys", [](P&, G& g, B& b, D&) { b.kind = EdgeBiasKind::Gt, b.u = some, g.selfKey = true; });
    refuses("ds", [](P&, G&, B&, D& d) { d.ds = some; });
    refuses("du", [](P&, G&, B& b, D& d) { b.kind = EdgeBiasKind::Gt, d.u = some; });
    refuses("dw", [](P&, G&, B&, D& d) { d.values = some; });
    refuses("table partials", [](P&, G&, B& b, D& d) { b.kind = EdgeBiasKind::None, d.tablePartials = more; });
    refuses("transposed entry numbers", [](P&, G& g, B&, D&) { g.transposedEntries = {}; });
    refuses("transposed entry numbers", [](P& p, G&, B&, D&) { p.transposedEntries[1] = 5; });
    refuses("kind", [](P&, G&, B& b, D&) { b.kind = EdgeBiasKind(9); });
}

TEST(EdgeReference, GradientsAreCentralDifferencesForEveryVariant)
{
    for (int variant = -1; variant < 5; ++variant) {
        SCOPED_TRACE(variant);
        EdgeProblem p = makeEdges({0, 3, 5, 1}, 6, 2, 4, 9);
        p.edges.selfKey = variant < 2;
        if (variant >= 0)
            kVariants[variant].add(p);
        if (variant == 2)
            p.edges.classCount = 256;
        p.edges.dropout = {0.3, 1, 1, 0, 0, kSiteAttention};
        const std::vector<double> dO = widened(p.dO), ds = widened(p.ds);
        const reference::EdgeGradients g = reference::edgeBackward(p.edges, dO, ds);
        const auto loss = [&] {
            const reference::EdgeOutput out = reference::edgeForward(p.edges);
            return std::inner_product(out.o.begin(), out.o.end(), dO.begin(),
                                      std::inner_product(ds.begin(), ds.end(), out.s.begin(), 0.0));
        };
        const auto check = [&](const char* name, std::vector<double>& x, const std::vector<double>& gradient) {
            ASSERT_EQ(x.size(), gradient.size());
            for (size_t i = 0; i < x.size(); ++i) {
                const double kept = x[i], step = 1e-5;
                x[i] = kept + step;
                const double up = loss();
                x[i] = kept - step;
                const double down = loss();
                x[i] = kept;
                EXPECT_NEAR((up - down) / (2 * step), gradient[i], 2e-7) << name << " element " << i;
            }
        };
        check("q", p.edges.q, g.dq);
        check("k", p.edges.k, g.dk);
        check("v", p.edges.v, g.dv);
        check("w", p.edges.w, g.dw);
        check("table", p.edges.table, g.table);
        check("u", p.edges.u, g.du);
    }
}

} // namespace
} // namespace megagraph::kernels::testing
