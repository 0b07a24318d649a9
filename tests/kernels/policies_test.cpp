// SPDX-License-Identifier: Apache-2.0
// Attention under the storage policies of the bias: lists = planes = strips bit for bit; the reference beyond what lists can
// hold; damaged planes; b[far]; the choice between policies.
#include "core/bias_storage.h"
#include "kernels/strips.h"
#include "tests/kernels/attention_cases.h"
#include "tests/kernels/structure_cases.h"

namespace megagraph::kernels::testing {
namespace {

/// A graph, its tokens (perhaps with a graph token), and the three storages of all pairs.
struct Storages {
    Csr graph;
    World world; // classOf empty unless asked for
    std::vector<TileLists> lists;
    std::vector<TilePlanes> planes;
    int64_t tokens = 0;
};

Storages makeStorages(Csr graph, int32_t hops, bool token, bool table = false)
{
    Storages s;
    s.graph = std::move(graph);
    const int64_t nodes = s.graph.view().nodes;
    s.tokens = nodes + token;
    s.world.tokens = s.tokens;
    s.world.hops = hops;
    s.world.classes = hops + 4;
    s.world.component = components(s.graph.view());
    if (token)
        s.world.component.push_back(-1);
    const int64_t cuts[] = {0, s.tokens};
    if (hops <= kMostListHops)
        s.lists = std::move(*buildTileLists(s.graph.view(), hops, 0, s.tokens, cuts, SerialFor(), {}));
    s.planes = std::move(*buildTilePlanes(s.graph.view(), hops, 0, s.tokens, cuts, {}, SerialFor(), {}));
    if (table) {
        s.world.classOf = plainTable(s.graph, hops, 0, s.tokens, 0, s.tokens);
        for (int64_t i = 0; i < s.tokens * s.tokens; ++i) {
            const int32_t a = s.world.component[size_t(i / s.tokens)], b = s.world.component[size_t(i % s.tokens)];
            if (s.world.classOf[size_t(i)] == kBase)
                s.world.classOf[size_t(i)] = uint8_t(hops + (a < 0 || b < 0 ? 3 : a != b ? 2 : 1));
        }
    }
    return s;
}

enum class Policy { Lists, Planes, Strips };

/// Forward and backward of all tokens under one policy.
Fast runPolicy(const Problem& p, const Storages& s, Policy policy, const ParallelFor& parallel)
{
    const int64_t n = s.tokens, width = int64_t(p.heads) * p.dim;
    const AttentionShape shape = shapeOf(p, {0, n}, {0, n});
    const auto heads = [&](const std::vector<float>& x) { return contiguousHeads<const float>(x.data(), n, p.heads, p.dim); };
    const std::vector<float> table = p.shifted();
    Bias bias;
    bias.hops = p.world->hops;
    bias.classes = p.world->classes;
    bias.table = table.data();
    bias.queryComponent = bias.keyComponent = p.world->component;
    if (policy == Policy::Lists)
        bias.lists = s.lists[0].view();
    bias.storage = policy == Policy::Planes ? BiasStorage::Planes : BiasStorage::Lists;
    bias.planes = s.planes[0].view();
    auto strips = StripPlanes::create(s.graph.view(), bias.hops, 0, n, 0, n, parallel, {});
    EXPECT_TRUE(strips.ok());
    Guarded<float> o(size_t(n * width)), lse(size_t(p.heads * n)), dq(size_t(n * width), 0), dk(size_t(n * width), 0), dv(size_t(n * width), 0);
    Guarded<double> partials(size_t(p.heads) * size_t(p.kvSplits) * size_t(bias.classes), 0);
    std::vector<float> delta(size_t(p.heads * n));
    const int32_t slots = parallel.slots();
    const bool strip = policy == Policy::Strips;
    Workspace forward(strip ? attentionStripsForwardWorkspace(shape, slots) : attentionForwardWorkspace(shape, slots));
    Workspace backward(strip ? attentionStripsBackwardWorkspace(shape, slots) : attentionBackwardWorkspace(shape, slots));
    const auto out = contiguousHeads(o.data(), n, p.heads, p.dim);
    const auto done = strip ? attentionForwardStrips(shape, heads(p.q), heads(p.k), heads(p.v), bias, *strips, p.dropout, out, lse.data(), forward.get(), parallel)
                            : attentionForward(shape, heads(p.q), heads(p.k), heads(p.v), bias, p.dropout, out, lse.data(), forward.get(), parallel);
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    attentionDelta(contiguousHeads<const float>(o.data(), n, p.heads, p.dim), heads(p.dO), delta.data());
    const auto back = strip ? attentionBackwardStrips(shape, heads(p.q), heads(p.k), heads(p.v), heads(p.dO), lse.data(), delta.data(), bias, *strips,
                                                      p.dropout, dq.data(), dk.data(), dv.data(), partials.data(), backward.get(), parallel)
                            : attentionBackward(shape, heads(p.q), heads(p.k), heads(p.v), heads(p.dO), lse.data(), delta.data(), bias, p.dropout,
                                                dq.data(), dk.data(), dv.data(), partials.data(), backward.get(), parallel);
    EXPECT_TRUE(back.ok()) << (back.ok() ? "" : back.error().message);
    Fast fast{o.values(), lse.values(), dq.values(), dk.values(), dv.values(), {}, partials.values(), {}};
    std::vector<double> summed(size_t(p.heads) * size_t(bias.classes));
    tableGradient(p.heads, p.kvSplits, bias.classes, fast.summed.data(), summed.data());
    fast.table.resize(summed.size());
    closeFarBin(p.heads, bias.hops, summed.data(), fast.table.data());
    return fast;
}

void expectSame(const Fast& a, const Fast& b)
{
    EXPECT_EQ(a.o, b.o);
    EXPECT_EQ(a.lse, b.lse);
    EXPECT_EQ(a.dq, b.dq);
    EXPECT_EQ(a.dk, b.dk);
    EXPECT_EQ(a.dv, b.dv);
    EXPECT_EQ(a.summed, b.summed);
}

TEST(Policies, ListsPlanesAndStripsAgreeBitForBitForwardAndBackward)
{
    forEachSet([] {
        for (const int32_t hops : {1, 2, 4}) { // more rows than one strip, ragged
            SCOPED_TRACE(hops);
            const Storages s = makeStorages(communities(1090, 10), hops, hops != 2);
            Problem p = makeProblem(s.world, 1, 8, true, uint64_t(hops));
            p.kvSplits = hops == 4 ? 3 : 1;
            if (hops == 1)
                p.dropout = {0.3, 7, 2, 0, 1, kSiteAttention};
            const Fast lists = runPolicy(p, s, Policy::Lists, SerialFor());
            expectSame(lists, runPolicy(p, s, Policy::Planes, ForkJoinFor(2)));
            expectSame(lists, runPolicy(p, s, Policy::Strips, SerialFor()));
            expectSame(lists, runPolicy(p, s, Policy::Strips, ForkJoinFor(3)));
        }
    });
}

TEST(Policies, EveryTileKindTakesTheSamePathUnderEveryPolicy)
{
    for (const GraphCase& c : graphCases()) {
        for (const int32_t hops : {0, 1, 2, 14}) {
            for (const bool token : {false, true}) {
                SCOPED_TRACE(c.name + ", K = " + std::to_string(hops) + (token ? ", token" : ""));
                const Storages s = makeStorages(c.graph, hops, token);
                Problem p = makeProblem(s.world, 2, 8, true, uint64_t(hops + 1));
                p.table[0] = -std::numeric_limits<float>::infinity(); // one class masked
                const Fast lists = runPolicy(p, s, Policy::Lists, SerialFor());
                expectSame(lists, runPolicy(p, s, Policy::Planes, SerialFor()));
                expectSame(lists, runPolicy(p, s, Policy::Strips, SerialFor()));
            }
        }
    }
}

TEST(Policies, PlanesAgreeWithTheReferenceUpTo27Hops)
{
    forEachSet([] {
        for (const int32_t hops : {2, 16, 27}) {
            SCOPED_TRACE(hops);
            const Storages s = makeStorages(graphCases()[10].graph, hops, true, true); // the path
            ASSERT_EQ(graphCases()[10].name, "path longer than K");
            const Problem p = makeProblem(s.world, 2, 8, true, 3);
            const Fast fast = runPolicy(p, s, Policy::Planes, SerialFor());
            expectSame(fast, runPolicy(p, s, Policy::Strips, SerialFor()));
            const reference::Dense dense = referenceOf(p, {0, s.tokens}, {0, s.tokens});
            EXPECT_LE(relativeError(fast.o, reference::denseForward(dense).o), 2e-5);
            const reference::Gradients g = reference::denseBackward(dense, widened(p.dO));
            EXPECT_LE(relativeError(fast.dq, g.dq), 2e-5);
            EXPECT_LE(relativeError(fast.dk, g.dk), 2e-5);
            EXPECT_LE(relativeError(fast.table, g.table, 0.1), 2e-5);
        }
    });
}

TEST(Policies, RingStepsWithStripsEqualThoseWithLists)
{
    const Csr graph = communities(700, 10);
    const int64_t n = 700;
    const std::vector<int64_t> cuts{0, 130, 130, 700};
    const auto lists = buildTileLists(graph.view(), 2, 60, n, cuts, SerialFor(), {});
    ASSERT_TRUE(lists.ok());
    World w;
    w.tokens = n, w.hops = 2, w.classes = 6, w.component = components(graph.view());
    const Problem p = makeProblem(w, 2, 8, true, 8);
    const std::vector<float> table = p.shifted();
    std::vector<std::vector<float>> results;
    const SerialFor serial; // outlives the strips
    for (const bool strips : {false, true}) {
        const size_t rows = size_t(n - 60);
        Guarded<float> m(2 * rows), l(2 * rows), acc(rows * 16);
        for (size_t c = 0; c + 1 < cuts.size(); ++c) {
            const Range keys{cuts[c], cuts[c + 1]};
            const AttentionShape shape = shapeOf(p, {60, n}, keys);
            Bias bias;
            bias.hops = 2, bias.classes = 6, bias.table = table.data();
            bias.queryComponent = std::span(w.component).subspan(60);
            bias.keyComponent = std::span(w.component).subspan(size_t(keys.begin), size_t(keys.size()));
            bias.lists = (*lists)[c].view();
            const auto view = [&](const std::vector<float>& x, int64_t first, int64_t count) { return contiguousHeads(x.data() + first * 16, count, 2, 8); };
            Workspace space(std::max(attentionForwardWorkspace(shape, 1), attentionStripsForwardWorkspace(shape, 1)));
            const AttentionState state{m.data(), l.data(), acc.data()};
            auto source = StripPlanes::create(graph.view(), 2, 60, n, keys.begin, keys.end, serial, {});
            ASSERT_TRUE(source.ok());
            const auto q = view(p.q, 60, n - 60), k = view(p.k, keys.begin, keys.size()), v = view(p.v, keys.begin, keys.size());
            const auto done = strips ? attentionPartialStrips(shape, q, k, v, bias, *source, {}, c == 0, state, space.get(), SerialFor())
                                     : attentionPartial(shape, q, k, v, bias, {}, c == 0, state, space.get(), SerialFor());
            ASSERT_TRUE(done.ok()) << done.error().message;
        }
        for (auto* array : {&m, &l, &acc})
            results.push_back(array->values());
    }
    for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(results[i], results[i + 3]);
}

TEST(Policies, DamagedPlanesAreRefusedOrHarmless)
{
    const Storages s = makeStorages(communities(200, 8), 5, false);
    const Problem p = makeProblem(s.world, 1, 8, true, 4);
    const std::vector<float> table = p.shifted();
    std::vector<int64_t> first{0, 4, 8, 12};
    std::vector<int32_t> begin{0, 0, 0, 0}, end{4, 4, 4, 4};
    int refused = 0, ran = 0;
    for (uint64_t round = 0; round < 300; ++round) {
        std::vector<uint64_t> words(s.planes[0].words.begin(), s.planes[0].words.end());
        std::vector<int64_t> firsts = first;
        std::vector<int32_t> begins = begin, ends = end;
        TilePlanesView view{4, 4, 3, words, firsts, begins, ends};
        const auto flip = [&](auto& element) { element = std::remove_reference_t<decltype(element)>(uint64_t(element) ^ uint64_t(1) << drawBelow(round, 1, 1, 8 * sizeof(element))); };
        const size_t at = drawBelow(round, 1, 3, 4);
        switch (drawBelow(round, 1, 2, 8)) {
        case 0: flip(words[drawBelow(round, 1, 4, words.size())]); break; // any code is a class or base
        case 1: flip(firsts[at]); break;
        case 2: flip(begins[at]); break;
        case 3: flip(ends[at]); break;
        case 4: flip(view.queryBlocks); break;
        case 5: flip(view.planes); break;
        case 6: view.words = view.words.first(drawBelow(round, 1, 5, words.size())); break;
        default: view.keyBlockEnd = {}; break;
        }
        Bias bias;
        bias.hops = 5, bias.classes = 9, bias.table = table.data();
        bias.queryComponent = bias.keyComponent = s.world.component;
        bias.storage = BiasStorage::Planes;
        bias.planes = view;
        const AttentionShape shape = shapeOf(p, {0, 200}, {0, 200});
        Guarded<float> o(200 * 8), lse(200);
        Workspace space(attentionForwardWorkspace(shape, 1));
        const auto in = [&](const std::vector<float>& x) { return contiguousHeads<const float>(x.data(), 200, 1, 8); };
        const auto done = attentionForward(shape, in(p.q), in(p.k), in(p.v), bias, {}, contiguousHeads(o.data(), 200, 1, 8), lse.data(), space.get(), SerialFor());
        if (done.ok()) {
            ++ran;
            continue;
        }
        EXPECT_EQ(done.error().code, ErrorCode::InvalidInput);
        EXPECT_NE(done.error().message.find("planes"), std::string::npos) << done.error().message;
        for (const float x : o.values())
            ASSERT_TRUE(std::isnan(x)) << "written after a refusal";
        ++refused;
    }
    EXPECT_GT(refused, 100);
    EXPECT_GT(ran, 20);
}

TEST(Policies, TheFarBinIsSubtractedAndMustBeFinite)
{
    std::vector<float> table = randomFloats(2 * 6, 1, 1);
    table[0] = -std::numeric_limits<float>::infinity();
    std::vector<float> shifted(12, 7.0f);
    ASSERT_TRUE(subtractFar(2, 2, table.data(), shifted.data()).ok());
    for (size_t i = 0; i < 12; ++i)
        EXPECT_EQ(shifted[i], table[i] - table[i / 6 * 6 + 3]);
    EXPECT_EQ(shifted[3], 0.0f);
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")}) {
        std::vector<float> wrong = table, untouched(12, 7.0f);
        wrong[6 + 3] = bad;
        const auto done = subtractFar(2, 2, wrong.data(), untouched.data());
        ASSERT_FALSE(done.ok());
        EXPECT_EQ(done.error().code, ErrorCode::InvalidInput);
        EXPECT_NE(done.error().message.find("far entry of head 1"), std::string::npos) << done.error().message;
        EXPECT_EQ(untouched, std::vector<float>(12, 7.0f));
    }
}

TEST(Policies, AutoTakesListsForThinBiasThenPlanesThenStrips)
{
    BiasChoice c;
    c.rows = c.keys = 65536;
    c.hops = 2;
    c.nearPairs = 65536 * 562ll;
    c.touchedTiles = 1024 * 1024;
    c.budgetBytes = 1 << 20;
    EXPECT_EQ(chooseBiasPolicy(c), BiasPolicy::Lists) << "K <= 2 whatever the budget";
    c.hops = 3; // w = 3: lists up to 3 n N / 16 near pairs
    c.budgetBytes = int64_t(8) << 30;
    c.nearPairs = 3ll * 65536 / 16 * 65536 - 1;
    EXPECT_EQ(chooseBiasPolicy(c), BiasPolicy::Lists);
    ++c.nearPairs;
    EXPECT_EQ(chooseBiasPolicy(c), BiasPolicy::Planes);
    c.budgetBytes = planeBytes(65536, 65536, 3);
    EXPECT_EQ(chooseBiasPolicy(c), BiasPolicy::Planes);
    --c.budgetBytes;
    EXPECT_EQ(chooseBiasPolicy(c), BiasPolicy::Strips);
    c.nearPairs = 65536 * 562ll; // few, but the budget is smaller still
    c.budgetBytes = 1 << 20;
    EXPECT_EQ(chooseBiasPolicy(c), BiasPolicy::Strips);
    c.hops = 20;
    c.budgetBytes = int64_t(8) << 30;
    c.nearPairs = 100;
    EXPECT_EQ(chooseBiasPolicy(c), BiasPolicy::Planes) << "lists end at K = 15";
    c.packTiles = 40;
    c.budgetBytes = 0;
    EXPECT_EQ(chooseBiasPolicy(c), BiasPolicy::Planes) << "packs";
    for (const auto& [hops, planes] : {std::pair{0, 1}, {1, 2}, {2, 2}, {3, 3}, {6, 3}, {7, 4}, {14, 4}, {15, 5}, {27, 5}}) {
        EXPECT_EQ(planeCount(hops), planes);
        EXPECT_EQ(biasPlanes(hops), planes);
    }
}

} // namespace
} // namespace megagraph::kernels::testing
