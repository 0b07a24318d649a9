// SPDX-License-Identifier: Apache-2.0
// Dense attention against the fp64 reference, in every set of kernels of this machine.
#include "tests/kernels/attention_cases.h"

#include <cstdlib>
#include <numeric>
#include <sys/mman.h>

namespace megagraph::kernels::testing {
namespace {

constexpr double kLimit = 2e-5;

void expectAgrees(const Problem& p, Range rows, Range keys, bool backward = true)
{
    const Fast fast = runFast(p, rows, keys, SerialFor(), backward);
    const reference::Dense dense = referenceOf(p, rows, keys);
    reference::Output out = reference::denseForward(dense);
    for (size_t i = 0; i < out.lse.size() && !p.table.empty(); ++i) // kernels see b' = b - b[far]
        out.lse[i] -= p.table[i / size_t(rows.size()) * size_t(p.world->classes) + size_t(p.world->hops + 1)];
    EXPECT_LE(relativeError(fast.o, out.o), kLimit);
    EXPECT_LE(relativeError(fast.lse, out.lse), kLimit);
    if (!backward)
        return;
    const int64_t width = int64_t(p.heads) * p.dim;
    const reference::Gradients g = reference::denseBackward(dense, widened(slice(p.dO, rows, width)));
    EXPECT_LE(relativeError(fast.dq, g.dq), kLimit);
    EXPECT_LE(relativeError(fast.dk, g.dk), kLimit);
    EXPECT_LE(relativeError(fast.dv, g.dv), kLimit);
    if (!p.table.empty()) {
        // dS of many pairs cancel in a bin (wholly, if a row has one class only): not below the size of a single dS
        EXPECT_LE(relativeError(fast.table, g.table, 0.1), kLimit);
    }
}

TEST(Attention, AgreesWithTheReferenceAtEveryRaggedLength)
{
    forEachSet([] {
        for (const int64_t n : {1, 2, 7, 31, 63, 64, 65, 127, 129, 192, 257}) {
            SCOPED_TRACE(n);
            const World w = makeWorld(n, 2, n > 100 ? 3 : 1, n % 2 == 1 && n > 1, uint64_t(n));
            expectAgrees(makeProblem(w, 3, 16, true, uint64_t(n)), {0, n}, {0, n});
        }
    });
}

TEST(Attention, AgreesWithTheReferenceForEveryHeadWidth)
{
    forEachSet([] {
        const World w = makeWorld(129, 3, 2, true, 5);
        for (const int32_t dim : {1, 8, 10, 16, 24, 32, 64, 96, 128}) {
            SCOPED_TRACE(dim);
            expectAgrees(makeProblem(w, 1, dim, true, uint64_t(dim)), {0, 129}, {0, 129});
        }
    });
}

TEST(Attention, AgreesWithTheReferenceForManyHeads)
{
    forEachSet([] {
        const World w = makeWorld(70, 1, 1, false, 6);
        expectAgrees(makeProblem(w, 8, 8, true, 61), {0, 70}, {0, 70});
        expectAgrees(makeProblem(w, 32, 10, true, 62), {0, 70}, {0, 70});
    });
}

TEST(Attention, AgreesWithTheReferenceForEveryNumberOfHops)
{
    forEachSet([] {
        for (const int32_t hops : {0, 1, 2, 3, 11, 15}) {
            SCOPED_TRACE(hops);
            const World w = makeWorld(200, hops, 2, true, 7, 0.1);
            expectAgrees(makeProblem(w, 2, 8, true, uint64_t(70 + hops)), {0, 200}, {0, 200});
        }
    });
}

TEST(Attention, AgreesWithTheReferenceWithoutBias)
{
    forEachSet([] {
        const World w = makeWorld(150, 2, 2, false, 8);
        expectAgrees(makeProblem(w, 2, 32, false, 8), {0, 150}, {0, 150});
    });
}

TEST(Attention, AgreesWithTheReferenceForOtherRowsThanKeys)
{
    forEachSet([] {
        const World w = makeWorld(257, 2, 3, true, 9);
        for (const bool bias : {false, true}) {
            const Problem p = makeProblem(w, 2, 16, bias, 9);
            expectAgrees(p, {10, 77}, {64, 257});
            expectAgrees(p, {0, 200}, {250, 257});
            expectAgrees(p, {256, 257}, {0, 256});
        }
    });
}

TEST(Attention, EveryTileKindOccursAndAgrees)
{
    forEachSet([] {
        const World thin = makeWorld(257, 1, 1, false, 10, 0.0);
        for (const int64_t denseAbove : {0, 40, 5000}) {
            Problem p = makeProblem(thin, 2, 16, true, 10);
            p.denseAbove = denseAbove;
            expectAgrees(p, {0, 257}, {0, 257});
        }
        // a clique: off-diagonal tiles hold one class only
        World clique = makeWorld(192, 1, 1, false, 11, 0.0);
        for (int64_t i = 0; i < 192 * 192; ++i)
            clique.classOf[size_t(i)] = i / 192 == i % 192 ? 0 : 1;
        std::fill(clique.component.begin(), clique.component.end(), 0);
        const auto lists = buildLists(clique, 0, 192, 0, 192, 512);
        EXPECT_EQ(lists->kinds[int(TileKind::Const)], 6);
        EXPECT_EQ(lists->kinds[int(TileKind::Dense)], 3);
        const Problem p = makeProblem(clique, 2, 16, true, 11);
        expectAgrees(p, {0, 192}, {0, 192});
    });
}

TEST(Attention, PacksDoNotSeeOtherGraphs)
{
    forEachSet([] {
        World w = makeWorld(300, 2, 1, false, 12);
        cutIntoSegments(w, {1, 20, 64, 130, 131, 300});
        for (const bool bias : {false, true}) {
            const Problem p = makeProblem(w, 2, 10, bias, 12);
            expectAgrees(p, {0, 300}, {0, 300});
            expectAgrees(p, {0, 20}, {64, 300}); // no key allowed at all
        }
    });
}

TEST(Attention, RowsWithoutKeysGiveZeroAndMinusInfinity)
{
    forEachSet([] {
        const World w = makeWorld(70, 2, 1, false, 13);
        const Problem p = makeProblem(w, 2, 8, true, 13);
        const Fast fast = runFast(p, {0, 70}, {3, 3}, SerialFor());
        for (const float x : fast.o)
            EXPECT_EQ(x, 0.0f);
        for (const float x : fast.lse)
            EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
        for (const float x : fast.dq)
            EXPECT_EQ(x, 0.0f);
        const Fast none = runFast(p, {5, 5}, {0, 70}, SerialFor());
        for (const float x : none.dk)
            EXPECT_EQ(x, 0.0f);
    });
}

TEST(Attention, TableEntriesOfMinusInfinityMaskTheirPairs)
{
    forEachSet([] {
        const World w = makeWorld(150, 2, 2, true, 14);
        for (const int32_t c : {0, 1, 2, 4, 5}) { // all but far
            Problem p = makeProblem(w, 2, 16, true, 14);
            p.table[size_t(c)] = -std::numeric_limits<float>::infinity();
            expectAgrees(p, {0, 150}, {0, 150});
        }
    });
}

TEST(Attention, LargeTablesAndScoresStayFinite)
{
    forEachSet([] {
        const World w = makeWorld(129, 2, 2, true, 15);
        Problem p = makeProblem(w, 2, 16, true, 15);
        for (size_t c = 0; c < p.table.size(); ++c)
            p.table[c] = c % 3 == 0 ? 1e4f : c % 3 == 1 ? -1e4f : 0.5f;
        const Fast fast = runFast(p, {0, 129}, {0, 129}, SerialFor());
        for (const float x : fast.o)
            ASSERT_TRUE(std::isfinite(x));
        EXPECT_LE(relativeError(fast.o, reference::denseForward(referenceOf(p, {0, 129}, {0, 129})).o), 1e-3); // fp32 of 1e4
        Problem large = makeProblem(w, 1, 8, false, 16);
        for (float& x : large.q)
            x *= 5e3f;
        const Fast hot = runFast(large, {0, 129}, {0, 129}, SerialFor());
        for (const float x : hot.o)
            ASSERT_TRUE(std::isfinite(x));
        for (const float x : hot.dk)
            ASSERT_TRUE(std::isfinite(x));
    });
}

TEST(Attention, ZeroQueriesAverageTheValues)
{
    forEachSet([] {
        const World w = makeWorld(100, 2, 1, false, 17);
        Problem p = makeProblem(w, 1, 8, false, 17);
        std::fill(p.q.begin(), p.q.end(), 0.0f);
        std::fill(p.v.begin(), p.v.end(), 3.0f);
        for (const float x : runFast(p, {0, 100}, {0, 100}, SerialFor(), false).o)
            EXPECT_NEAR(x, 3.0f, 1e-5f);
    });
}

TEST(Attention, NotANumberReachesExactlyItsReaders)
{
    forEachSet([] {
        World w = makeWorld(192, 2, 1, false, 18);
        cutIntoSegments(w, {64, 192});
        Problem p = makeProblem(w, 1, 8, true, 18);
        p.k[100 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
        const Fast fast = runFast(p, {0, 192}, {0, 192}, SerialFor(), false);
        for (int64_t i = 0; i < 192; ++i)
            EXPECT_EQ(std::isnan(fast.o[size_t(i * 8)]), i >= 64) << "row " << i;
        // an unused table entry
        Problem unused = makeProblem(w, 1, 8, true, 19);
        unused.table[size_t(w.hops + 3)] = std::numeric_limits<float>::quiet_NaN(); // there is no token
        for (const float x : runFast(unused, {0, 192}, {0, 192}, SerialFor()).dq)
            ASSERT_TRUE(std::isfinite(x));
    });
}

TEST(Attention, NotANumberStaysWithItsReadersInsideATile)
{
    forEachSet([] { expectNotANumberStaysWithItsReaders<float>(2e-5); });
}

TEST(Attention, StridedViewsEqualContiguousTensors)
{
    forEachSet([] {
        const World w = makeWorld(130, 2, 2, true, 20);
        const Problem p = makeProblem(w, 3, 10, true, 20);
        const auto b = blockOf(p, {0, 130}, {0, 130});
        std::vector<float> fused(130 * 3 * 30, std::numeric_limits<float>::quiet_NaN()); // [N, 3, H, d_h]
        for (int64_t i = 0; i < 130; ++i) {
            std::copy_n(p.q.begin() + i * 30, 30, fused.begin() + i * 90);
            std::copy_n(p.k.begin() + i * 30, 30, fused.begin() + i * 90 + 30);
            std::copy_n(p.v.begin() + i * 30, 30, fused.begin() + i * 90 + 60);
        }
        const auto view = [&](int64_t part) { return HeadView<const float>{fused.data() + part * 30, 130, 3, 10, 90, 10}; };
        Guarded<float> o(130 * 30), lse(3 * 130);
        Workspace space(attentionForwardWorkspace(b->shape, 1));
        ASSERT_TRUE(attentionForward(b->shape, view(0), view(1), view(2), b->bias, {}, contiguousHeads(o.data(), 130, 3, 10),
                                     lse.data(), space.get(), SerialFor())
                        .ok());
        EXPECT_EQ(o.values(), runFast(p, {0, 130}, {0, 130}, SerialFor(), false).o);
    });
}

/// Tasks in another order, spread over `slots` scratch places.
class Shuffled final : public ParallelFor {
  public:
    explicit Shuffled(int32_t slots) : slots_(slots) {}
    int32_t slots() const override { return slots_; }
    void runRaw(int64_t count, Body body, void* context) const override
    {
        for (int64_t i = 0; i < count; ++i)
            body(context, count - 1 - i, int32_t(i % slots_));
    }

  private:
    int32_t slots_;
};

TEST(Attention, BitsDoNotDependOnThreadsOrTaskOrder)
{
    forEachSet([] {
        const World w = makeWorld(257, 2, 2, true, 21);
        Problem p = makeProblem(w, 3, 16, true, 21);
        p.dropout = {0.3, 9, 4, 0, 1, kSiteAttention};
        p.kvSplits = 3;
        const Fast one = runFast(p, {0, 257}, {0, 257}, SerialFor());
        const auto same = [&](const ParallelFor& parallel) {
            const Fast other = runFast(p, {0, 257}, {0, 257}, parallel);
            EXPECT_EQ(one.o, other.o);
            EXPECT_EQ(one.lse, other.lse);
            EXPECT_EQ(one.dq, other.dq);
            EXPECT_EQ(one.dk, other.dk);
            EXPECT_EQ(one.dv, other.dv);
            EXPECT_EQ(one.summed, other.summed);
        };
        same(ForkJoinFor(1));
        same(ForkJoinFor(2));
        same(ForkJoinFor(3));
        same(ForkJoinFor(8));
        same(Shuffled(3));
    });
}

TEST(Attention, SplitsOfTheKeysAgreeWithTheReference)
{
    forEachSet([] {
        const World w = makeWorld(257, 2, 2, true, 22);
        for (const int32_t splits : {2, 3, 7}) { // 7 > key blocks: empty splits
            Problem p = makeProblem(w, 2, 8, true, 22);
            p.kvSplits = splits;
            expectAgrees(p, {0, 257}, {0, 257});
        }
    });
}

TEST(Attention, TableGradientSumsToZeroAndAConstantChangesNothing)
{
    forEachSet([] {
        const World w = makeWorld(200, 3, 2, true, 23);
        Problem p = makeProblem(w, 3, 16, true, 23);
        p.dropout = {0.2, 1, 2, 3, 4, kSiteAttention};
        // the far bin by brute force, not by the identity
        const reference::Gradients g = reference::denseBackward(referenceOf(p, {0, 200}, {0, 200}), widened(p.dO));
        for (int32_t h = 0; h < 3; ++h) {
            const auto row = g.table.begin() + h * w.classes;
            EXPECT_NEAR(std::accumulate(row, row + w.classes, 0.0), 0.0, 1e-9);
        }
        const Fast fast = runFast(p, {0, 200}, {0, 200}, SerialFor());
        EXPECT_LE(relativeError(fast.table, g.table), kLimit);
        Problem lifted = p;
        for (size_t c = 0; c < size_t(w.classes); ++c)
            lifted.table[c] += 3.0f;
        const Fast again = runFast(lifted, {0, 200}, {0, 200}, SerialFor());
        EXPECT_LE(relativeError(again.o, fast.o), 1e-5);
        EXPECT_LE(relativeError(again.dq, fast.dq), 1e-5);
    });
}

TEST(Attention, DropoutUsesOneMaskForwardAndBackward)
{
    forEachSet([] {
        const World w = makeWorld(129, 2, 2, true, 24);
        for (const double rate : {0.1, 0.5, 0.9}) {
            Problem p = makeProblem(w, 3, 16, true, 24);
            p.dropout = {rate, 42, 7, 2, 3, kSiteAttention};
            expectAgrees(p, {0, 129}, {0, 129});
            expectAgrees(p, {13, 100}, {5, 129}); // offsets that are no multiples of 8
        }
    });
}

/// m, l, acc over key intervals in the given order.
Fast runRing(const Problem& p, Range rows, const std::vector<Range>& intervals, bool backward, int64_t wrongOffset = 0)
{
    const size_t heads = size_t(p.heads), qn = size_t(rows.size()), width = size_t(p.heads * p.dim);
    Guarded<float> m(heads * qn), l(heads * qn), acc(qn * width), o(qn * width), lse(heads * qn);
    const AttentionState state{m.data(), l.data(), acc.data()};
    bool first = true;
    for (const Range keys : intervals) {
        const auto b = blockOf(p, rows, keys);
        b->shape.keyOffset += wrongOffset;
        Workspace space(attentionForwardWorkspace(b->shape, 1));
        EXPECT_TRUE(attentionPartial(b->shape, b->q, b->k, b->v, b->bias, p.dropout, first, state, space.get(), SerialFor()).ok());
        first = false;
    }
    attentionFinish(rows.size(), p.heads, p.dim, state, contiguousHeads(o.data(), rows.size(), p.heads, p.dim), lse.data());
    Fast out;
    out.o = o.values();
    out.lse = lse.values();
    if (!backward)
        return out;
    std::vector<float> delta(heads * qn);
    const size_t bins = heads * size_t(p.world->classes);
    std::vector<double> partials(bins, 0.0);
    Guarded<float> dq(qn * width, 0);
    out.dk.assign(p.k.size(), 0.0f);
    out.dv.assign(p.v.size(), 0.0f);
    for (const Range keys : intervals) {
        const auto b = blockOf(p, rows, keys);
        attentionDelta(contiguousHeads<const float>(o.data(), rows.size(), p.heads, p.dim), b->dO, delta.data());
        Workspace space(attentionBackwardWorkspace(b->shape, 1));
        EXPECT_TRUE(attentionBackward(b->shape, b->q, b->k, b->v, b->dO, lse.data(), delta.data(), b->bias, p.dropout, dq.data(),
                                      out.dk.data() + size_t(keys.begin) * width, out.dv.data() + size_t(keys.begin) * width,
                                      partials.data(), space.get(), SerialFor())
                        .ok());
    }
    out.dq = dq.values();
    out.table.resize(bins);
    closeFarBin(p.heads, p.world->hops, partials.data(), out.table.data());
    return out;
}

TEST(Attention, RingStepsInAnyOrderEqualOnePass)
{
    forEachSet([] {
        const World w = makeWorld(257, 2, 2, true, 25);
        Problem p = makeProblem(w, 3, 16, true, 25);
        p.dropout = {0.25, 3, 1, 0, 2, kSiteAttention};
        const Range rows{40, 171};
        const Fast one = runFast(p, rows, {0, 257}, SerialFor());
        const std::vector<std::vector<Range>> cuts{{{0, 257}},
                                                   {{0, 100}, {100, 257}},
                                                   {{101, 257}, {0, 101}},
                                                   {{200, 257}, {0, 0}, {7, 200}, {0, 7}, {257, 257}},
                                                   {{0, 0}, {0, 64}, {64, 65}, {65, 200}, {200, 257}}};
        for (const auto& intervals : cuts) {
            const Fast ring = runRing(p, rows, intervals, true);
            EXPECT_LE(relativeError(ring.o, one.o), 1e-6);
            EXPECT_LE(relativeError(ring.lse, one.lse), 1e-6);
            EXPECT_LE(relativeError(ring.dq, one.dq), 2e-6);
            EXPECT_LE(relativeError(ring.dk, one.dk), 2e-6);
            EXPECT_LE(relativeError(ring.dv, one.dv), 2e-6);
            EXPECT_LE(relativeError(ring.table, one.table), 1e-5);
        }
        EXPECT_GT(relativeError(runRing(p, rows, {{0, 257}}, false, 8).o, one.o), 1e-2) << "a wrong key offset went unnoticed";
    });
}

TEST(Attention, CombinedStatesEqualOnePass)
{
    const World w = makeWorld(150, 2, 2, true, 26);
    const Problem p = makeProblem(w, 2, 8, true, 26);
    const Range rows{0, 150};
    const size_t qn = 150, width = 16, heads = 2;
    std::vector<std::vector<float>> m, l, acc;
    const std::vector<Range> intervals{{0, 0}, {0, 30}, {30, 150}};
    for (const Range keys : intervals) {
        m.emplace_back(heads * qn);
        l.emplace_back(heads * qn);
        acc.emplace_back(qn * width);
        const auto b = blockOf(p, rows, keys);
        Workspace space(attentionForwardWorkspace(b->shape, 1));
        ASSERT_TRUE(attentionPartial(b->shape, b->q, b->k, b->v, b->bias, {}, true, {m.back().data(), l.back().data(), acc.back().data()},
                                     space.get(), SerialFor())
                        .ok());
    }
    const auto state = [&](size_t i) { return AttentionState{m[i].data(), l[i].data(), acc[i].data()}; };
    attentionCombine(150, 2, 8, state(0), state(1));
    attentionCombine(150, 2, 8, state(0), state(2));
    Guarded<float> o(qn * width), lse(heads * qn);
    attentionFinish(150, 2, 8, state(0), contiguousHeads(o.data(), 150, 2, 8), lse.data());
    const Fast one = runFast(p, rows, {0, 150}, SerialFor(), false);
    EXPECT_LE(relativeError(o.values(), one.o), 1e-6);
    EXPECT_LE(relativeError(lse.values(), one.lse), 1e-6);
}

TEST(Attention, HeadSlicesEqualTheWhole)
{
    forEachSet([] {
        const World w = makeWorld(100, 2, 1, true, 27);
        Problem p = makeProblem(w, 4, 8, true, 27);
        p.dropout = {0.4, 5, 6, 0, 1, kSiteAttention};
        const Fast whole = runFast(p, {0, 100}, {0, 100}, SerialFor(), false);
        const auto b = blockOf(p, {0, 100}, {0, 100});
        b->shape.heads = 2;
        b->shape.headOffset = 2;
        b->bias.table += 2 * w.classes;
        const auto part = [&](const std::vector<float>& x) { return HeadView<const float>{x.data() + 16, 100, 2, 8, 32, 8}; };
        Guarded<float> o(100 * 16), lse(2 * 100);
        Workspace space(attentionForwardWorkspace(b->shape, 1));
        ASSERT_TRUE(attentionForward(b->shape, part(p.q), part(p.k), part(p.v), b->bias, p.dropout, contiguousHeads(o.data(), 100, 2, 8),
                                     lse.data(), space.get(), SerialFor())
                        .ok());
        for (size_t i = 0; i < 100; ++i) {
            for (size_t x = 0; x < 16; ++x)
                ASSERT_EQ(o.values()[i * 16 + x], whole.o[i * 32 + 16 + x]);
        }
    });
}

TEST(Attention, GlobalPositionsPast32BitsChangeTheMaskOnly)
{
    const World w = makeWorld(70, 1, 1, false, 28);
    Problem p = makeProblem(w, 1, 8, false, 28);
    p.dropout = {0.5, 1, 1, 0, 0, kSiteAttention};
    const auto b = blockOf(p, {0, 70}, {0, 70});
    reference::Dense dense = referenceOf(p, {0, 70}, {0, 70});
    for (const int64_t offset : {(int64_t(1) << 31) + 5, (int64_t(1) << 32) + 3}) {
        b->shape.queryOffset = dense.queryOffset = offset;
        b->shape.keyOffset = dense.keyOffset = offset + 1;
        Guarded<float> o(70 * 8), lse(70);
        Workspace space(attentionForwardWorkspace(b->shape, 1));
        ASSERT_TRUE(attentionForward(b->shape, b->q, b->k, b->v, b->bias, p.dropout, contiguousHeads(o.data(), 70, 1, 8), lse.data(),
                                     space.get(), SerialFor())
                        .ok());
        EXPECT_LE(relativeError(o.values(), reference::denseForward(dense).o), kLimit);
    }
}

TEST(Attention, PermutedTokensGivePermutedOutputs)
{
    const World w = makeWorld(150, 2, 2, true, 29);
    const Problem p = makeProblem(w, 2, 8, true, 29);
    World reversed = w;
    Problem q = p;
    for (int64_t i = 0; i < 150; ++i) {
        reversed.component[size_t(149 - i)] = w.component[size_t(i)];
        for (int64_t j = 0; j < 150; ++j)
            reversed.classOf[size_t((149 - i) * 150 + 149 - j)] = w.classOf[size_t(i * 150 + j)];
        for (int64_t x = 0; x < 16; ++x) {
            q.q[size_t((149 - i) * 16 + x)] = p.q[size_t(i * 16 + x)];
            q.k[size_t((149 - i) * 16 + x)] = p.k[size_t(i * 16 + x)];
            q.v[size_t((149 - i) * 16 + x)] = p.v[size_t(i * 16 + x)];
        }
    }
    q.world = &reversed;
    const Fast a = runFast(p, {0, 150}, {0, 150}, SerialFor(), false), b = runFast(q, {0, 150}, {0, 150}, SerialFor(), false);
    for (int64_t i = 0; i < 150; ++i) {
        for (int64_t x = 0; x < 16; ++x)
            ASSERT_NEAR(a.o[size_t(i * 16 + x)], b.o[size_t((149 - i) * 16 + x)], 1e-5);
    }
}

TEST(AttentionReference, GradientsAreCentralDifferences)
{
    const World w = makeWorld(24, 2, 2, true, 30);
    Problem p = makeProblem(w, 2, 8, true, 30);
    p.dropout = {0.3, 8, 8, 0, 1, kSiteAttention};
    reference::Dense dense = referenceOf(p, {0, 24}, {0, 24});
    const std::vector<double> dO = widened(p.dO);
    const reference::Gradients g = reference::denseBackward(dense, dO);
    const auto loss = [&] {
        const reference::Output out = reference::denseForward(dense);
        return std::inner_product(out.o.begin(), out.o.end(), dO.begin(), 0.0);
    };
    const auto check = [&](std::vector<double>& x, const std::vector<double>& gradient) {
        for (size_t i = 0; i < x.size(); i += x.size() > 50 ? 7 : 1) {
            const double kept = x[i], step = 1e-5;
            x[i] = kept + step;
            const double up = loss();
            x[i] = kept - step;
            const double down = loss();
            x[i] = kept;
            EXPECT_NEAR((up - down) / (2 * step), gradient[i], 1e-7) << "element " << i;
        }
    };
    check(dense.q, g.dq);
    check(dense.k, g.dk);
    check(dense.v, g.dv);
    check(dense.table, g.table);
}

TEST(Attention, RefusesBadArgumentsBeforeWriting)
{
    const World w = makeWorld(70, 2, 1, false, 31);
    const Problem p = makeProblem(w, 2, 8, true, 31);
    const auto refuses = [&](const char* text, ErrorCode code, auto change) {
        const auto b = blockOf(p, {0, 70}, {0, 70});
        Dropout dropout;
        std::vector<float> o(70 * 16, 7.0f), lse(140, 7.0f);
        Workspace space(attentionForwardWorkspace(b->shape, 1));
        change(*b, dropout);
        const auto done = attentionForward(b->shape, b->q, b->k, b->v, b->bias, dropout, contiguousHeads(o.data(), 70, 2, 8), lse.data(),
                                           space.get(), SerialFor());
        ASSERT_FALSE(done.ok()) << text;
        EXPECT_EQ(done.error().code, code) << text;
        EXPECT_NE(done.error().message.find(text), std::string::npos) << done.error().message;
        EXPECT_EQ(o, std::vector<float>(70 * 16, 7.0f)) << text;
        EXPECT_EQ(lse, std::vector<float>(140, 7.0f)) << text;
    };
    using enum ErrorCode;
    refuses("q: shape", InvalidInput, [](Block& b, Dropout&) { b.q.rows = 69; });
    refuses("k: pointer", InvalidInput, [](Block& b, Dropout&) { b.k.data = nullptr; });
    refuses("v: strides", InvalidInput, [](Block& b, Dropout&) { b.v.rowStride = 3; });
    refuses("head width", Unsupported, [](Block& b, Dropout&) { b.shape.dim = 129; });
    refuses("kvSplits", InvalidInput, [](Block& b, Dropout&) { b.shape.kvSplits = 0; });
    refuses("scale", InvalidInput, [](Block& b, Dropout&) { b.shape.scale = std::nan(""); });
    refuses("dropout: p", InvalidInput, [](Block&, Dropout& d) { d.p = 1.0; });
    refuses("classes", InvalidInput, [](Block& b, Dropout&) { b.bias.classes = 7; });
    refuses("K", Unsupported, [](Block& b, Dropout&) { b.bias.hops = 16, b.bias.classes = 20; });
    refuses("far entry", InvalidInput, [](Block& b, Dropout&) { b.table[3] = std::numeric_limits<float>::infinity(); });
    refuses("query components: size", InvalidInput, [](Block& b, Dropout&) { b.bias.queryComponent = b.bias.queryComponent.first(3); });
    refuses("lists: blocks", InvalidInput, [](Block& b, Dropout&) { b.bias.lists.queryBlocks = 1; });
    refuses("headers", InvalidInput, [](Block& b, Dropout&) { b.bias.lists.map = b.bias.lists.map.first(0); });
    refuses("start", InvalidInput, [](Block& b, Dropout&) { b.lists->blockStart[1] = 1 << 30; });
    refuses("touched tiles", InvalidInput, [](Block& b, Dropout&) { b.lists->map[0] = 0; });
    refuses("offset", InvalidInput, [](Block& b, Dropout&) { b.lists->offsets[0] = 1 << 30; });
    refuses("rank", InvalidInput, [](Block& b, Dropout&) { b.lists->rank[0] = 5; });
}

TEST(AttentionDeathTest, UnknownForcedSetIsRefused)
{
    // in a child: the environment is read once per process
    const auto child = [] {
        setenv("MEGAGRAPH_CPU_KERNELS", "sse9", 1);
        AttentionShape shape;
        shape.dim = 8;
        const HeadView<const float> none{nullptr, 0, 0, 8, 0, 0};
        const auto done = attentionForward(shape, none, none, none, {}, {}, HeadView<float>{nullptr, 0, 0, 8, 0, 0}, nullptr, nullptr,
                                           SerialFor());
        std::fputs(done.ok() ? "ran" : done.error().message.c_str(), stderr);
        std::_Exit(done.ok() ? 0 : 3);
    };
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(child(), ::testing::ExitedWithCode(3), "MEGAGRAPH_CPU_KERNELS.*sse9.*portable");
}

TEST(Attention, DamagedListsAreRefusedOrHarmless)
{
    const World w = makeWorld(257, 2, 2, true, 32);
    Problem p = makeProblem(w, 1, 8, true, 32);
    p.denseAbove = 150; // lists and dense tiles
    int refused = 0, ran = 0;
    for (uint64_t round = 0; round < 400; ++round) {
        const auto b = blockOf(p, {0, 257}, {0, 257});
        ListStorage& s = *b->lists;
        const auto damage = [&](auto& array) { // a random bit of a random element
            auto& element = array[drawBelow(round, 1, 0, array.size())];
            element = std::remove_reference_t<decltype(element)>(uint64_t(element) ^ uint64_t(1) << drawBelow(round, 1, 1, 8 * sizeof(element)));
        };
        switch (drawBelow(round, 1, 2, 6)) {
        case 0: damage(s.map); break;
        case 1: damage(s.rank); break;
        case 2: damage(s.offsets); break;
        case 3: damage(s.tileStart); break;
        case 4: damage(s.blockStart); break;
        default: damage(s.entries); break;
        }
        Guarded<float> o(257 * 8), lse(257), dq(257 * 8, 0), dk(257 * 8, 0), dv(257 * 8, 0);
        Guarded<double> partials(size_t(w.classes), 0);
        Workspace forward(attentionForwardWorkspace(b->shape, 1)), backward(attentionBackwardWorkspace(b->shape, 1));
        const auto done = attentionForward(b->shape, b->q, b->k, b->v, b->bias, {}, contiguousHeads(o.data(), 257, 1, 8), lse.data(),
                                           forward.get(), SerialFor());
        if (!done.ok()) {
            EXPECT_EQ(done.error().code, ErrorCode::InvalidInput);
            ++refused;
            continue;
        }
        ++ran;
        const std::vector<float> delta(257, 0.0f);
        EXPECT_TRUE(attentionBackward(b->shape, b->q, b->k, b->v, b->dO, lse.data(), delta.data(), b->bias, {}, dq.data(), dk.data(),
                                      dv.data(), partials.data(), backward.get(), SerialFor())
                        .ok());
    }
    EXPECT_GT(refused, 100);
    EXPECT_GT(ran, 20);
}

/// Bytes of both workspaces: `heads` of 64, two threads, kvSplits as the plan would choose them.
std::pair<int64_t, int64_t> workspaces(int64_t tokens, int32_t heads, Element element)
{
    AttentionShape s;
    s.queries = s.keys = tokens;
    s.heads = heads;
    s.dim = 64;
    s.kvSplits = heads >= 4 ? 1 : 4 / heads;
    return {attentionForwardWorkspace(s, 2, element), attentionBackwardWorkspace(s, 2, element)};
}

TEST(Attention, WorkspaceGrowsLinearlyWithTheTokens)
{
    for (const Element element : {Element::Fp32, Element::Bf16}) {
        for (const int32_t heads : {1, 8}) {
            const auto [forward, backward] = workspaces(2048, heads, element);
            for (const int64_t factor : {2, 4, 8, 16, 32}) { // to 65,536
                const auto [f, b] = workspaces(2048 * factor, heads, element);
                EXPECT_LE(f, factor * forward);
                EXPECT_LE(b, factor * backward);
                EXPECT_GT(b, factor * backward * 9 / 10) << "what does not grow is small";
            }
            EXPECT_LE(workspaces(16384, heads, element).first, int64_t(16384) * heads * 64 * 8 * 11 / 10) << "8 N d: K and V packed";
        }
    }
}

TEST(Attention, WorkspaceIsUnderAHundredthOfTheMaterialisedPath)
{
    const int64_t tokens = 16384, map = tokens * tokens * 4; // one head, fp32
    for (const Element element : {Element::Fp32, Element::Bf16}) {
        const auto [forward, backward] = workspaces(tokens, 1, element);
        EXPECT_LE(forward, map / 100) << "forward: the bias alone is one map";
        EXPECT_LE(backward, 5 * map / 100) << "backward with learned bias: bias, scores, P, dP and dS = gradient of the bias";
    }
}

TEST(Attention, AgreesWithTheReferenceOnALongSequenceOfManyClasses)
{
    const World w = makeWorld(1000, 3, 4, true, 33);
    const Problem p = makeProblem(w, 1, 24, true, 33);
    const reference::Dense dense = referenceOf(p, {0, 1000}, {0, 1000});
    const reference::Output out = reference::denseForward(dense);
    const reference::Gradients g = reference::denseBackward(dense, widened(p.dO));
    forEachSet([&] {
        const Fast fast = runFast(p, {0, 1000}, {0, 1000}, SerialFor());
        EXPECT_LE(relativeError(fast.o, out.o), kLimit);
        EXPECT_LE(relativeError(fast.dq, g.dq), kLimit);
        EXPECT_LE(relativeError(fast.dk, g.dk), kLimit);
        EXPECT_LE(relativeError(fast.dv, g.dv), kLimit);
        EXPECT_LE(relativeError(fast.table, g.table, 1.0), kLimit);
    });
}

TEST(Attention, PacksOfManySmallGraphsAgree)
{
    forEachSet([] {
        for (const int graphs : {1, 7, 40}) {
            SCOPED_TRACE(graphs);
            std::vector<int64_t> ends;
            for (int g = 0; g < graphs; ++g)
                ends.push_back((ends.empty() ? 0 : ends.back()) + 1 + int64_t(drawBelow(34, uint64_t(graphs), uint64_t(g), graphs == 40 ? 12 : 70)));
            World w = makeWorld(ends.back(), 2, 1, false, 34);
            cutIntoSegments(w, ends);
            expectAgrees(makeProblem(w, 2, 10, true, 34), {0, w.tokens}, {0, w.tokens});
        }
    });
}

TEST(Attention, ConstantValuesComeBackWhateverTheScores)
{
    forEachSet([] { // rows of P sum to one
        const World w = makeWorld(150, 2, 2, true, 35);
        Problem p = makeProblem(w, 2, 16, true, 35);
        std::fill(p.v.begin(), p.v.end(), -2.5f);
        for (const float x : runFast(p, {0, 150}, {0, 150}, SerialFor(), false).o)
            ASSERT_NEAR(x, -2.5f, 1e-5f);
    });
}

TEST(Attention, MaximaThatRiseSlowlyOrLateAgree)
{
    forEachSet([] { // rows whose origin stays behind the maximum, and one that jumps at the last key
        const World w = makeWorld(257, 2, 1, false, 36);
        for (const float step : {0.02f, 0.2f, 2.0f}) {
            Problem p = makeProblem(w, 1, 8, false, 36);
            for (int64_t i = 0; i < 257; ++i) {
                p.q[size_t(i * 8)] = 1;
                p.k[size_t(i * 8)] = step * float(i) + (i == 256 ? 40.0f : 0.0f);
            }
            expectAgrees(p, {0, 257}, {0, 257}, false); // P is near one key: its gradients cancel wholly
        }
    });
}

/// Floats far apart in address space that is reserved but hardly touched.
class Reserved {
  public:
    explicit Reserved(size_t bytes) : bytes_(bytes)
    {
        void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        data_ = at == MAP_FAILED ? nullptr : static_cast<float*>(at);
    }
    Reserved(const Reserved&) = delete;
    Reserved& operator=(const Reserved&) = delete;
    ~Reserved()
    {
        if (data_ != nullptr)
            munmap(data_, bytes_);
    }
    float* get() const { return data_; }

  private:
    size_t bytes_;
    float* data_ = nullptr;
};

TEST(Attention, ElementOffsetsPast32BitsReachTheirRows)
{
    const World w = makeWorld(3, 1, 1, false, 37);
    const Problem p = makeProblem(w, 1, 8, false, 37);
    const Fast expected = runFast(p, {0, 3}, {0, 3}, SerialFor(), false);
    const int64_t stride = (int64_t(1) << 31) + 16; // the third row starts past 2^32 elements
    const Reserved keys(size_t(2 * stride + 8) * sizeof(float)), values(size_t(2 * stride + 8) * sizeof(float));
    if (keys.get() == nullptr || values.get() == nullptr)
        GTEST_SKIP() << "no address space for 16 GiB views";
    for (int64_t i = 0; i < 3; ++i) {
        std::copy_n(p.k.begin() + i * 8, 8, keys.get() + i * stride);
        std::copy_n(p.v.begin() + i * 8, 8, values.get() + i * stride);
    }
    forEachSet([&] {
        const auto b = blockOf(p, {0, 3}, {0, 3});
        Guarded<float> o(24), lse(3);
        Workspace space(attentionForwardWorkspace(b->shape, 1));
        ASSERT_TRUE(attentionForward(b->shape, b->q, {keys.get(), 3, 1, 8, stride, 8}, {values.get(), 3, 1, 8, stride, 8}, b->bias, {},
                                     contiguousHeads(o.data(), 3, 1, 8), lse.data(), space.get(), SerialFor())
                        .ok());
        EXPECT_LE(relativeError(o.values(), expected.o), 1e-6);
    });
}

} // namespace
} // namespace megagraph::kernels::testing
