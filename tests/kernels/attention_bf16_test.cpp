// SPDX-License-Identifier: Apache-2.0
// Dense attention on bf16 tensors against the fp64 reference of the same rounded tensors, in every set of this machine: with
// products of bf16 pairs where the set has them, widened elsewhere.
#include "tests/kernels/attention_cases.h"

namespace megagraph::kernels::testing {
namespace {

constexpr double kValues = 1e-2, kGradients = 2e-2;

/// Tensors rounded to bf16, so that the reference sees what the kernels see.
Problem rounded(Problem p)
{
    for (std::vector<float>* x : {&p.q, &p.k, &p.v, &p.dO})
        *x = asFloats(asElements<Bfloat16>(*x));
    return p;
}

/// Every set against the reference.
void expectAgrees(const Problem& p, Range rows, Range keys)
{
    const reference::Dense dense = referenceOf(p, rows, keys);
    reference::Output out = reference::denseForward(dense);
    for (size_t i = 0; i < out.lse.size() && !p.table.empty(); ++i) // kernels see b' = b - b[far]
        out.lse[i] -= p.table[i / size_t(rows.size()) * size_t(p.world->classes) + size_t(p.world->hops + 1)];
    const reference::Gradients g = reference::denseBackward(dense, widened(slice(p.dO, rows, int64_t(p.heads) * p.dim)));
    // delta comes from a rounded o: an error of each row of dS that stays when the pairs of a bin cancel
    const double binFloor = 0.1 * std::sqrt(double(p.heads) * double(rows.size()));
    forEachBf16Set([&] {
        const Fast fast = runFast<Bfloat16>(p, rows, keys, SerialFor());
        EXPECT_LE(relativeError(fast.o, out.o), kValues);
        EXPECT_LE(relativeError(fast.lse, out.lse), 1e-4) << "fp32 in both";
        EXPECT_LE(relativeError(fast.dq, g.dq, 1e-2), kGradients); // may vanish: one key
        EXPECT_LE(relativeError(fast.dk, g.dk, 1e-2), kGradients);
        EXPECT_LE(relativeError(fast.dv, g.dv), kGradients);
        if (!p.table.empty()) {
            EXPECT_LE(relativeError(fast.table, g.table, binFloor), kGradients);
        }
    });
}

TEST(AttentionBf16, RoundsToTheNearestEvenNumber)
{
    EXPECT_EQ(toBfloat16(1.0f).bits, 0x3F80);
    EXPECT_EQ(toBfloat16(std::bit_cast<float>(0x3F808000u)).bits, 0x3F80) << "tie to even, down";
    EXPECT_EQ(toBfloat16(std::bit_cast<float>(0x3F818000u)).bits, 0x3F82) << "tie to even, up";
    EXPECT_EQ(toBfloat16(std::bit_cast<float>(0x3F808001u)).bits, 0x3F81);
    EXPECT_EQ(toBfloat16(-std::numeric_limits<float>::infinity()).bits, 0xFF80);
    EXPECT_EQ(toBfloat16(std::numeric_limits<float>::max()).bits, 0x7F80) << "overflow";
    EXPECT_TRUE(std::isnan(toFloat(toBfloat16(std::bit_cast<float>(0x7F800001u))))) << "a NaN with low bits only";
    EXPECT_EQ(toFloat(toBfloat16(-0.15625f)), -0.15625f);
}

TEST(AttentionBf16, AgreesWithTheReferenceAtEveryRaggedLength)
{
    for (const int64_t n : {1, 2, 7, 31, 63, 64, 65, 127, 129, 192, 257}) {
        SCOPED_TRACE(n);
        const World w = makeWorld(n, 2, n > 100 ? 3 : 1, n % 2 == 1 && n > 1, uint64_t(n));
        expectAgrees(rounded(makeProblem(w, 3, 16, true, uint64_t(n))), {0, n}, {0, n});
    }
}

TEST(AttentionBf16, AgreesWithTheReferenceForEveryHeadWidth)
{
    const World w = makeWorld(129, 3, 2, true, 5);
    for (const int32_t dim : {1, 8, 10, 15, 16, 24, 32, 33, 64, 96, 128}) {
        SCOPED_TRACE(dim);
        expectAgrees(rounded(makeProblem(w, 1, dim, true, uint64_t(dim))), {0, 129}, {0, 129});
    }
}

TEST(AttentionBf16, AgreesWithTheReferenceForManyHeadsAndALongSequence)
{
    const World w = makeWorld(70, 1, 1, false, 6);
    expectAgrees(rounded(makeProblem(w, 8, 8, true, 61)), {0, 70}, {0, 70});
    expectAgrees(rounded(makeProblem(w, 32, 10, true, 62)), {0, 70}, {0, 70});
    const World longer = makeWorld(1000, 2, 2, true, 63);
    expectAgrees(rounded(makeProblem(longer, 1, 64, true, 63)), {0, 1000}, {0, 1000});
}

TEST(AttentionBf16, AgreesWithTheReferenceForOtherRowsThanKeysAndWithoutBias)
{
    const World w = makeWorld(257, 2, 3, true, 9);
    for (const bool bias : {false, true}) {
        const Problem p = rounded(makeProblem(w, 2, 16, bias, 9));
        expectAgrees(p, {10, 77}, {64, 257});
        expectAgrees(p, {0, 200}, {250, 257});
        expectAgrees(p, {256, 257}, {0, 256});
    }
}

TEST(AttentionBf16, EveryTileKindOccursAndAgrees)
{
    const World thin = makeWorld(257, 1, 1, false, 10, 0.0);
    for (const int64_t denseAbove : {0, 40, 5000}) {
        Problem p = rounded(makeProblem(thin, 2, 16, true, 10));
        p.denseAbove = denseAbove;
        expectAgrees(p, {0, 257}, {0, 257});
    }
    World pack = makeWorld(300, 2, 1, false, 12);
    cutIntoSegments(pack, {1, 20, 64, 130, 131, 300});
    const Problem p = rounded(makeProblem(pack, 2, 10, true, 12));
    expectAgrees(p, {0, 300}, {0, 300});
    expectAgrees(p, {0, 20}, {64, 300}); // no key allowed at all
}

TEST(AttentionBf16, AnyScaleAgrees)
{
    const World w = makeWorld(100, 2, 1, false, 14);
    for (const double scale : {1.0, -0.3, 0.0, 1e-7}) {
        SCOPED_TRACE(scale);
        Problem p = rounded(makeProblem(w, 2, 16, true, 14));
        p.scale = scale;
        expectAgrees(p, {0, 100}, {0, 100});
    }
}

TEST(AttentionBf16, DropoutUsesTheMaskOfFp32)
{
    const World w = makeWorld(129, 2, 2, true, 24);
    for (const double rate : {0.1, 0.5, 0.9}) {
        Problem p = rounded(makeProblem(w, 3, 16, true, 24));
        p.dropout = {rate, 42, 7, 2, 3, kSiteAttention};
        expectAgrees(p, {0, 129}, {0, 129});
        expectAgrees(p, {13, 100}, {5, 129}); // offsets that are no multiples of 8
    }
}

TEST(AttentionBf16, SplitsOfTheKeysAgreeWithTheReference)
{
    const World w = makeWorld(257, 2, 2, true, 22);
    for (const int32_t splits : {2, 3, 7}) { // 7 > key blocks: empty splits
        Problem p = rounded(makeProblem(w, 2, 8, true, 22));
        p.kvSplits = splits;
        expectAgrees(p, {0, 257}, {0, 257});
    }
}

/// Tasks in another order, spread over `slots` scratch places.
class Backwards final : public ParallelFor {
  public:
    int32_t slots() const override { return 3; }
    void runRaw(int64_t count, Body body, void* context) const override
    {
        for (int64_t i = 0; i < count; ++i)
            body(context, count - 1 - i, int32_t(i % 3));
    }
};

TEST(AttentionBf16, BitsDoNotDependOnThreadsOrTaskOrder)
{
    const World w = makeWorld(257, 2, 2, true, 21);
    Problem p = rounded(makeProblem(w, 3, 16, true, 21));
    p.dropout = {0.3, 9, 4, 0, 1, kSiteAttention};
    p.kvSplits = 3;
    forEachBf16Set([&] {
        const Fast one = runFast<Bfloat16>(p, {0, 257}, {0, 257}, SerialFor());
        const auto same = [&](const ParallelFor& parallel) {
            const Fast other = runFast<Bfloat16>(p, {0, 257}, {0, 257}, parallel);
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
        same(Backwards());
    });
}

/// Forward over key intervals with the state kept in fp32, finished as bf16; backward over the same intervals.
Fast runRing(const Problem& p, Range rows, const std::vector<Range>& intervals)
{
    const size_t heads = size_t(p.heads), qn = size_t(rows.size()), width = size_t(p.heads * p.dim), bins = heads * size_t(p.world->classes);
    Guarded<float> m(heads * qn), l(heads * qn), acc(qn * width), lse(heads * qn), dq(qn * width, 0);
    Guarded<Bfloat16> o(qn * width, toBfloat16(std::numeric_limits<float>::quiet_NaN()));
    const AttentionState state{m.data(), l.data(), acc.data()};
    bool first = true;
    for (const Range keys : intervals) {
        const auto b = blockOf(p, rows, keys);
        const Tensors<Bfloat16> t(p, rows, keys);
        Workspace space(attentionForwardWorkspace(b->shape, 1, Element::Bf16));
        EXPECT_TRUE(attentionPartial(b->shape, t.rows(t.q), t.columns(t.k), t.columns(t.v), b->bias, p.dropout, first, state, space.get(),
                                     SerialFor())
                        .ok());
        first = false;
    }
    attentionFinish(rows.size(), p.heads, p.dim, state, contiguousHeads(o.data(), rows.size(), p.heads, p.dim), lse.data());
    Fast out;
    out.o = asFloats(o.values());
    out.lse = lse.values();
    std::vector<float> delta(heads * qn);
    std::vector<double> partials(bins, 0.0);
    out.dk.assign(p.k.size(), 0.0f);
    out.dv.assign(p.v.size(), 0.0f);
    for (const Range keys : intervals) {
        const auto b = blockOf(p, rows, keys);
        const Tensors<Bfloat16> t(p, rows, keys);
        attentionDelta(contiguousHeads<const Bfloat16>(o.data(), rows.size(), p.heads, p.dim), t.rows(t.dO), delta.data());
        Workspace space(attentionBackwardWorkspace(b->shape, 1, Element::Bf16));
        EXPECT_TRUE(attentionBackward(b->shape, t.rows(t.q), t.columns(t.k), t.columns(t.v), t.rows(t.dO), lse.data(), delta.data(), b->bias,
                                      p.dropout, dq.data(), out.dk.data() + size_t(keys.begin) * width,
                                      out.dv.data() + size_t(keys.begin) * width, partials.data(), space.get(), SerialFor())
                        .ok());
    }
    out.dq = dq.values();
    out.table.resize(bins);
    closeFarBin(p.heads, p.world->hops, partials.data(), out.table.data());
    return out;
}

TEST(AttentionBf16, RingStepsInAnyOrderEqualOnePass)
{
    const World w = makeWorld(257, 2, 2, true, 25);
    Problem p = rounded(makeProblem(w, 3, 16, true, 25));
    p.dropout = {0.25, 3, 1, 0, 2, kSiteAttention};
    const Range rows{40, 171};
    forEachBf16Set([&] {
        const Fast one = runFast<Bfloat16>(p, rows, {0, 257}, SerialFor());
        const std::vector<std::vector<Range>> cuts{{{0, 257}},
                                                   {{101, 257}, {0, 101}},
                                                   {{200, 257}, {0, 0}, {7, 200}, {0, 7}, {257, 257}}};
        for (const auto& intervals : cuts) { // o may differ by one rounding, P by one where a maximum comes late
            const Fast ring = runRing(p, rows, intervals);
            EXPECT_LE(relativeError(ring.o, one.o), 4e-3);
            EXPECT_LE(relativeError(ring.lse, one.lse), 1e-5);
            EXPECT_LE(relativeError(ring.dq, one.dq), 5e-3);
            EXPECT_LE(relativeError(ring.dk, one.dk), 5e-3);
            EXPECT_LE(relativeError(ring.dv, one.dv), 5e-3);
        }
    });
}

TEST(AttentionBf16, RoundingDoesNotGrowWithTheNumberOfRingSteps)
{
    const World w = makeWorld(257, 2, 2, true, 26);
    const Problem p = rounded(makeProblem(w, 2, 32, true, 26));
    const reference::Output exact = reference::denseForward(referenceOf(p, {0, 257}, {0, 257}));
    forEachBf16Set([&] {
        std::vector<Range> steps;
        for (int64_t k = 0; k < 257; k += 16)
            steps.push_back({k, std::min<int64_t>(k + 16, 257)});
        const double many = relativeError(runRing(p, {0, 257}, steps).o, exact.o);
        const double one = relativeError(runFast<Bfloat16>(p, {0, 257}, {0, 257}, SerialFor(), false).o, exact.o);
        EXPECT_LE(many, 1.5 * one);
    });
}

TEST(AttentionBf16, StridedHeadSlicesEqualTheWhole)
{
    const World w = makeWorld(100, 2, 1, true, 27);
    Problem p = rounded(makeProblem(w, 4, 10, true, 27));
    p.dropout = {0.4, 5, 6, 0, 1, kSiteAttention};
    forEachBf16Set([&] {
        const Fast whole = runFast<Bfloat16>(p, {0, 100}, {0, 100}, SerialFor(), false);
        const auto b = blockOf(p, {0, 100}, {0, 100});
        const Tensors<Bfloat16> t(p, {0, 100}, {0, 100});
        b->shape.heads = 2;
        b->shape.headOffset = 2;
        b->bias.table += 2 * w.classes;
        const auto part = [&](const std::vector<Bfloat16>& x) { return HeadView<const Bfloat16>{x.data() + 20, 100, 2, 10, 40, 10}; };
        Guarded<Bfloat16> o(100 * 20, toBfloat16(std::numeric_limits<float>::quiet_NaN()));
        Guarded<float> lse(2 * 100);
        Workspace space(attentionForwardWorkspace(b->shape, 1, Element::Bf16));
        ASSERT_TRUE(attentionForward(b->shape, part(t.q), part(t.k), part(t.v), b->bias, p.dropout, contiguousHeads(o.data(), 100, 2, 10),
                                     lse.data(), space.get(), SerialFor())
                        .ok());
        const std::vector<float> sliced = asFloats(o.values());
        for (size_t i = 0; i < 100; ++i) {
            for (size_t x = 0; x < 20; ++x)
                ASSERT_EQ(sliced[i * 20 + x], whole.o[i * 40 + 20 + x]);
        }
    });
}

TEST(AttentionBf16, ExtremesStayFiniteAndEmptyRowsAreZero)
{
    const World w = makeWorld(129, 2, 2, true, 15);
    Problem steep = rounded(makeProblem(w, 2, 16, true, 15));
    for (size_t c = 0; c < steep.table.size(); ++c)
        steep.table[c] = c % 3 == 0 ? 1e4f : c % 3 == 1 ? -1e4f : 0.5f;
    Problem hot = makeProblem(w, 1, 8, false, 16);
    for (float& x : hot.q)
        x *= 5e3f;
    hot = rounded(hot);
    Problem masked = rounded(makeProblem(w, 2, 16, true, 17));
    masked.table[0] = masked.table[1] = -std::numeric_limits<float>::infinity();
    forEachBf16Set([&] {
        for (const Problem* p : {&steep, &hot, &masked}) {
            const Fast fast = runFast<Bfloat16>(*p, {0, 129}, {0, 129}, SerialFor());
            for (const std::vector<float>* values : {&fast.o, &fast.dq, &fast.dk, &fast.dv, &fast.table}) {
                for (const float x : *values)
                    ASSERT_TRUE(std::isfinite(x));
            }
        }
        const Fast none = runFast<Bfloat16>(masked, {0, 129}, {3, 3}, SerialFor());
        for (const float x : none.o)
            EXPECT_EQ(x, 0.0f);
        for (const float x : none.lse)
            EXPECT_EQ(x, -std::numeric_limits<float>::infinity());
    });
    expectAgrees(masked, {0, 129}, {0, 129});
}

TEST(AttentionBf16, NotANumberReachesExactlyItsReaders)
{
    World w = makeWorld(192, 2, 1, false, 18);
    cutIntoSegments(w, {64, 192});
    Problem p = makeProblem(w, 1, 8, true, 18);
    p.k[100 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();
    forEachBf16Set([&] {
        const Fast fast = runFast<Bfloat16>(p, {0, 192}, {0, 192}, SerialFor(), false);
        for (int64_t i = 0; i < 192; ++i)
            EXPECT_EQ(std::isnan(fast.o[size_t(i * 8)]), i >= 64) << "row " << i;
    });
}

TEST(AttentionBf16, NotANumberStaysWithItsReadersInsideATile)
{
    forEachBf16Set([&] { expectNotANumberStaysWithItsReaders<Bfloat16>(2e-2); });
}

} // namespace
} // namespace megagraph::kernels::testing
