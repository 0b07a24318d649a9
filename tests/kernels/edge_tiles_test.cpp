// SPDX-License-Identifier: Apache-2.0
// Edge values in dense attention: tiles against the graph, values and gradients against the fp64 reference, the published edge
// encoding at distance 1, damaged tiles.
#include "core/bias_storage.h"
#include "kernels/graph/edge_tiles.h"
#include "kernels/strips.h"
#include "tests/kernels/attention_cases.h"
#include "tests/kernels/structure_cases.h"

#include <numeric>
#include <set>

namespace megagraph::kernels::testing {
namespace {

/// All pairs of a graph with learned bias, edge values, and one key interval or several.
struct EdgeProblem {
    Csr graph;
    World world;
    Problem p;
    std::vector<float> values; // [H, entries of the graph]
};

EdgeProblem makeEdgeProblem(Csr graph, int32_t hops, bool token, int32_t heads, int32_t dim, uint64_t seed)
{
    EdgeProblem e;
    e.graph = std::move(graph);
    const int64_t nodes = e.graph.view().nodes, n = nodes + token;
    e.world.tokens = n;
    e.world.hops = hops;
    e.world.classes = hops + 4;
    e.world.component = components(e.graph.view());
    if (token)
        e.world.component.push_back(-1);
    e.world.classOf = plainTable(e.graph, hops, 0, n, 0, n);
    for (int64_t i = 0; i < n * n; ++i) {
        const int32_t a = e.world.component[size_t(i / n)], b = e.world.component[size_t(i % n)];
        if (e.world.classOf[size_t(i)] == kBase)
            e.world.classOf[size_t(i)] = uint8_t(hops + (a < 0 || b < 0 ? 3 : a != b ? 2 : 1));
    }
    e.p = makeProblem(e.world, heads, dim, true, seed);
    e.values = randomFloats(size_t(heads) * e.graph.indices.size(), seed, 9, 1.5f);
    return e;
}

struct EdgeRun {
    Fast fast;
    std::vector<float> gradient; // [H, entries of the graph]
};

/// Forward (partial states over the intervals) and backward with edge values; `strips`: policy strips.
EdgeRun runEdges(const EdgeProblem& e, const std::vector<int64_t>& cuts, const ParallelFor& parallel, bool strips = false)
{
    const Problem& p = e.p;
    const int64_t n = e.world.tokens, width = int64_t(p.heads) * p.dim, entries = int64_t(e.graph.indices.size());
    const std::vector<float> table = p.shifted();
    const auto tiles = buildEdgeTiles(e.graph.view(), 0, n, cuts);
    const auto lists = buildTileLists(e.graph.view(), e.world.hops, 0, n, cuts, SerialFor(), {});
    EXPECT_TRUE(tiles.ok() && lists.ok());
    const auto view = [&](const std::vector<float>& x, int64_t first, int64_t count) { return contiguousHeads<const float>(x.data() + first * width, count, p.heads, p.dim); };
    Guarded<float> m(size_t(p.heads * n)), l(size_t(p.heads * n)), acc(size_t(n * width)), o(size_t(n * width)), lse(size_t(p.heads * n)), dq(size_t(n * width), 0);
    const AttentionState state{m.data(), l.data(), acc.data()};
    EdgeRun run;
    run.gradient.assign(size_t(p.heads * entries), std::numeric_limits<float>::quiet_NaN());
    run.fast.dk.assign(size_t(n * width), 0);
    run.fast.dv.assign(size_t(n * width), 0);
    std::vector<float> delta(size_t(p.heads * n));
    std::vector<double> partials(size_t(p.heads * p.kvSplits * e.world.classes), 0);
    for (const bool backward : {false, true}) {
        if (backward) {
            attentionFinish(n, p.heads, p.dim, state, contiguousHeads(o.data(), n, p.heads, p.dim), lse.data());
            attentionDelta(contiguousHeads<const float>(o.data(), n, p.heads, p.dim), view(p.dO, 0, n), delta.data());
        }
        for (size_t c = 0; c + 1 < cuts.size(); ++c) {
            const int64_t keys = cuts[c + 1] - cuts[c], count = int64_t((*tiles)[c].positions.size());
            std::vector<float> values(size_t(p.heads * count)), gradient(size_t(p.heads * count), 0);
            for (int32_t h = 0; h < p.heads; ++h) {
                for (int64_t i = 0; i < count; ++i)
                    values[size_t(h * count + i)] = e.values[size_t(h * entries + (*tiles)[c].entries[size_t(i)])];
            }
            Bias bias;
            bias.hops = e.world.hops, bias.classes = e.world.classes, bias.table = table.data();
            bias.queryComponent = e.world.component;
            bias.keyComponent = std::span(e.world.component).subspan(size_t(cuts[c]), size_t(keys));
            bias.lists = (*lists)[c].view();
            bias.edges = {(*tiles)[c].view(), values.data(), backward ? gradient.data() : nullptr};
            const AttentionShape shape = shapeOf(p, {0, n}, {cuts[c], cuts[c + 1]});
            auto source = StripPlanes::create(e.graph.view(), e.world.hops, 0, n, cuts[c], cuts[c + 1], parallel, {});
            const auto q = view(p.q, 0, n), k = view(p.k, cuts[c], keys), v = view(p.v, cuts[c], keys);
            const int32_t slots = parallel.slots();
            Workspace space(std::max({attentionForwardWorkspace(shape, slots), attentionBackwardWorkspace(shape, slots),
                                      attentionStripsForwardWorkspace(shape, slots), attentionStripsBackwardWorkspace(shape, slots)}));
            Result<Ok> done = Ok{};
            float *dk = run.fast.dk.data() + cuts[c] * width, *dv = run.fast.dv.data() + cuts[c] * width;
            if (!backward)
                done = strips ? attentionPartialStrips(shape, q, k, v, bias, *source, p.dropout, c == 0, state, space.get(), parallel)
                              : attentionPartial(shape, q, k, v, bias, p.dropout, c == 0, state, space.get(), parallel);
            else
                done = strips ? attentionBackwardStrips(shape, q, k, v, view(p.dO, 0, n), lse.data(), delta.data(), bias, *source, p.dropout, dq.data(), dk, dv,
                                                        partials.data(), space.get(), parallel)
                              : attentionBackward(shape, q, k, v, view(p.dO, 0, n), lse.data(), delta.data(), bias, p.dropout, dq.data(), dk, dv, partials.data(),
                                                  space.get(), parallel);
            EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
            for (int32_t h = 0; h < p.heads && backward; ++h) {
                for (int64_t i = 0; i < count; ++i)
                    run.gradient[size_t(h * entries + (*tiles)[c].entries[size_t(i)])] = gradient[size_t(h * count + i)];
            }
        }
    }
    run.fast.o = o.values(), run.fast.lse = lse.values(), run.fast.dq = dq.values();
    run.fast.summed.resize(size_t(p.heads * e.world.classes));
    tableGradient(p.heads, p.kvSplits, e.world.classes, partials.data(), run.fast.summed.data());
    run.fast.table.resize(run.fast.summed.size());
    closeFarBin(p.heads, e.world.hops, run.fast.summed.data(), run.fast.table.data());
    return run;
}

reference::Dense withEdges(const EdgeProblem& e)
{
    reference::Dense d = referenceOf(e.p, {0, e.world.tokens}, {0, e.world.tokens});
    for (int64_t v = 0; v < e.graph.view().nodes; ++v) {
        for (int64_t i = e.graph.indptr[size_t(v)]; i < e.graph.indptr[size_t(v) + 1]; ++i)
            d.pairs.push_back(v * d.keys + e.graph.indices[size_t(i)]);
    }
    d.pairValues = widened(e.values);
    return d;
}

void expectAgrees(const EdgeProblem& e, const EdgeRun& run)
{
    const reference::Dense d = withEdges(e);
    EXPECT_LE(relativeError(run.fast.o, reference::denseForward(d).o), 2e-5);
    const reference::Gradients g = reference::denseBackward(d, widened(e.p.dO));
    EXPECT_LE(relativeError(run.fast.dq, g.dq), 2e-5);
    EXPECT_LE(relativeError(run.fast.dk, g.dk), 2e-5);
    EXPECT_LE(relativeError(run.fast.dv, g.dv), 2e-5);
    EXPECT_LE(relativeError(run.fast.table, g.table, 0.1), 2e-5);
    EXPECT_LE(relativeError(run.gradient, g.pairValues), 2e-5);
}

TEST(EdgeTiles, HoldEveryEntryOnceInTheOrderOfTheTiles)
{
    for (const GraphCase& c : graphCases()) {
        SCOPED_TRACE(c.name);
        const int64_t n = c.graph.view().nodes;
        const std::vector<int64_t> cuts{0, n / 3, n / 3, n + 1};
        const int64_t begin = n / 4, end = n + 1;
        const auto tiles = buildEdgeTiles(c.graph.view(), begin, end, cuts);
        ASSERT_TRUE(tiles.ok());
        std::set<int64_t> seen;
        for (size_t i = 0; i < 3; ++i) {
            const EdgeTiles& t = (*tiles)[i];
            for (int64_t qb = 0; qb < t.queryBlocks; ++qb) {
                for (int64_t k = t.blockStart[size_t(qb)]; k < t.blockStart[size_t(qb) + 1]; ++k) {
                    const EdgeTile& tile = t.tiles[size_t(k)];
                    EXPECT_GT(tile.count, 0u);
                    for (int64_t at = tile.first; at < tile.first + tile.count; ++at) {
                        const int64_t row = begin + qb * 64 + (t.positions[size_t(at)] >> 6);
                        const int64_t key = cuts[i] + tile.keyBlock * 64 + (t.positions[size_t(at)] & 63);
                        const int64_t entry = t.entries[size_t(at)];
                        EXPECT_EQ(c.graph.indices[size_t(entry)], key);
                        EXPECT_TRUE(c.graph.indptr[size_t(row)] <= entry && entry < c.graph.indptr[size_t(row) + 1]);
                        EXPECT_TRUE(seen.insert(entry).second) << "an entry twice";
                    }
                }
            }
            EXPECT_EQ(t.bytes() + 4 * 3 * int64_t(t.positions.size()), edgeTileBytes(end - begin, int64_t(t.positions.size()), int64_t(t.tiles.size()), 3));
        }
        EXPECT_EQ(int64_t(seen.size()), c.graph.indptr.back() - c.graph.indptr[size_t(begin)]);
    }
}

TEST(EdgeTiles, ValuesAndGradientsAgreeWithTheReference)
{
    forEachSet([] {
        for (const bool token : {false, true}) {
            EdgeProblem e = makeEdgeProblem(communities(300, 10), 2, token, 2, 10, 5);
            e.p.kvSplits = token ? 3 : 1;
            if (token)
                e.p.dropout = {0.3, 4, 4, 0, 1, kSiteAttention};
            const int64_t n = e.world.tokens;
            expectAgrees(e, runEdges(e, {0, n}, SerialFor()));
            expectAgrees(e, runEdges(e, {0, 100, 100, n}, ForkJoinFor(2))); // ring steps, an empty one
        }
    });
}

TEST(EdgeTiles, ATileWithMoreThan255EdgesAgreesWithTheReference)
{
    forEachSet([] {
        for (const GraphCase& c : graphCases()) {
            if (c.name != "clique and isolated nodes" && c.name != "complete bipartite")
                continue;
            const EdgeProblem e = makeEdgeProblem(c.graph, 1, false, 2, 8, 6);
            const int64_t n = e.world.tokens;
            const int64_t cuts[] = {0, n};
            const auto tiles = buildEdgeTiles(e.graph.view(), 0, n, cuts);
            ASSERT_TRUE(tiles.ok());
            uint32_t most = 0;
            for (const EdgeTile& tile : (*tiles)[0].tiles)
                most = std::max(most, tile.count);
            EXPECT_GT(most, 1000u);
            expectAgrees(e, runEdges(e, {0, n}, SerialFor()));
        }
    });
}

TEST(EdgeTiles, BitsDoNotDependOnThreadsOrOnThePolicy)
{
    EdgeProblem e = makeEdgeProblem(communities(600, 8), 2, true, 2, 8, 7);
    e.p.kvSplits = 2;
    const int64_t n = e.world.tokens;
    const EdgeRun one = runEdges(e, {0, 250, n}, SerialFor());
    for (const int32_t threads : {2, 3, 8}) {
        for (const bool strips : {false, true}) {
            const EdgeRun other = runEdges(e, {0, 250, n}, ForkJoinFor(threads), strips);
            EXPECT_EQ(one.gradient, other.gradient);
            EXPECT_EQ(one.fast.o, other.fast.o);
            EXPECT_EQ(one.fast.dq, other.fast.dq);
            EXPECT_EQ(one.fast.dk, other.fast.dk);
            EXPECT_EQ(one.fast.summed, other.fast.summed);
        }
    }
}

/// Graphormer's edge encoding over one shortest path: mean over features of the embedded feature, times the matrix of its place,
/// summed over the path, divided by its length. At distance 1 the path is the edge, whatever else the published code does.
TEST(EdgeTiles, Hop1IsThePublishedEncodingAtDistanceOne)
{
    const int32_t heads = 4, features = 3, vocabulary = 7;
    EdgeProblem e = makeEdgeProblem(communities(150, 6), 2, true, heads, 8, 11);
    const int64_t n = e.world.tokens, entries = int64_t(e.graph.indices.size());
    const auto table = widened(randomFloats(size_t(features * vocabulary * heads), 11, 20)); // [F, V, H]
    const auto matrix = widened(randomFloats(size_t(heads * heads), 11, 21));                // of path position 0
    // data set order is not token order: features belong to data set entries
    std::vector<int32_t> order(size_t(n - 1));
    for (int64_t t = 0; t + 1 < n; ++t)
        order[size_t(t)] = int32_t((t * 49 + 3) % (n - 1)); // 49 and 150 share no factor
    std::vector<int32_t> back(order.size());
    for (size_t t = 0; t < order.size(); ++t)
        back[size_t(order[t])] = int32_t(t);
    const Csr data = permute(e.graph.view(), back); // node of the data set = order[token]
    ASSERT_EQ(permute(data.view(), order).indices, e.graph.indices);
    const auto feature = [&](int64_t entry, int32_t f) { return int64_t(drawBelow(11, 22, uint64_t(entry * features + f), uint64_t(vocabulary))); };
    const std::vector<int64_t> from = permutedEntries(data.view(), order); // token entry -> data set entry
    const auto encode = [&](int64_t entry, int32_t head) {
        double sum = 0;
        for (int32_t x = 0; x < heads; ++x) {
            double mean = 0;
            for (int32_t f = 0; f < features; ++f)
                mean += table[size_t((f * vocabulary + feature(entry, f)) * heads + x)] / features;
            sum += mean * matrix[size_t(x * heads + head)];
        }
        return sum;
    };
    for (int32_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < entries; ++i)
            e.values[size_t(h * entries + i)] = float(encode(from[size_t(i)], h));
    }
    const EdgeRun run = runEdges(e, {0, n}, SerialFor());
    // the published scores pair by pair: nothing of tiles or entries of the token order
    reference::Dense d = referenceOf(e.p, {0, n}, {0, n});
    for (int64_t i = 0; i + 1 < n; ++i) {
        for (int64_t j = 0; j + 1 < n; ++j) {
            if (e.world.classOf[size_t(i * n + j)] == 1)
                d.pairs.push_back(i * n + j);
        }
    }
    d.pairValues.resize(d.pairs.size() * size_t(heads));
    for (size_t pair = 0; pair < d.pairs.size(); ++pair) {
        const int32_t a = order[size_t(d.pairs[pair] / n)], b = order[size_t(d.pairs[pair] % n)];
        int64_t entry = data.indptr[size_t(a)];
        while (data.indices[size_t(entry)] != b)
            ++entry;
        for (int32_t h = 0; h < heads; ++h)
            d.pairValues[size_t(h) * d.pairs.size() + pair] = encode(entry, h) / 1; // length of the path
    }
    EXPECT_LE(relativeError(run.fast.o, reference::denseForward(d).o), 2e-5);
}

TEST(EdgeTiles, ReferenceGradientsAreCentralDifferences)
{
    const EdgeProblem e = makeEdgeProblem(communities(20, 4), 1, false, 2, 4, 13);
    reference::Dense d = withEdges(e);
    const std::vector<double> dO = widened(e.p.dO);
    const reference::Gradients g = reference::denseBackward(d, dO);
    const auto loss = [&] {
        const reference::Output out = reference::denseForward(d);
        return std::inner_product(out.o.begin(), out.o.end(), dO.begin(), 0.0);
    };
    for (size_t i = 0; i < d.pairValues.size(); i += 5) {
        const double kept = d.pairValues[i], step = 1e-5;
        d.pairValues[i] = kept + step;
        const double up = loss();
        d.pairValues[i] = kept - step;
        EXPECT_NEAR((up - loss()) / (2 * step), g.pairValues[i], 1e-7);
        d.pairValues[i] = kept;
    }
}

TEST(EdgeTiles, DamagedTilesAreRefusedOrHarmless)
{
    const EdgeProblem e = makeEdgeProblem(communities(200, 8), 1, false, 1, 8, 14);
    const int64_t cuts[] = {0, 200};
    const auto built = buildEdgeTiles(e.graph.view(), 0, 200, cuts);
    ASSERT_TRUE(built.ok());
    int refused = 0, ran = 0;
    for (uint64_t round = 0; round < 300; ++round) {
        EdgeTiles t = (*built)[0];
        const auto flip = [&](auto& element) { element = std::remove_reference_t<decltype(element)>(uint64_t(element) ^ uint64_t(1) << drawBelow(round, 1, 1, 8 * sizeof(element))); };
        EdgeTile& tile = t.tiles[drawBelow(round, 1, 3, t.tiles.size())];
        switch (drawBelow(round, 1, 2, 6)) {
        case 0: flip(t.blockStart[drawBelow(round, 1, 4, t.blockStart.size())]); break;
        case 1: flip(tile.keyBlock); break;
        case 2: flip(tile.count); break;
        case 3: flip(tile.first); break;
        case 4: flip(t.positions[drawBelow(round, 1, 5, t.positions.size())]); break;
        default: flip(t.keyBlocks); break;
        }
        std::vector<float> values(t.positions.size(), 0.5f), gradient(t.positions.size(), 0);
        Bias bias;
        bias.edges = {t.view(), values.data(), gradient.data()};
        const AttentionShape shape = shapeOf(e.p, {0, 200}, {0, 200});
        Guarded<float> o(200 * 8), lse(200), dq(200 * 8, 0), dk(200 * 8, 0), dv(200 * 8, 0);
        Workspace forward(attentionForwardWorkspace(shape, 1)), backward(attentionBackwardWorkspace(shape, 1));
        const auto in = [&](const std::vector<float>& x) { return contiguousHeads<const float>(x.data(), 200, 1, 8); };
        const auto done = attentionForward(shape, in(e.p.q), in(e.p.k), in(e.p.v), bias, {}, contiguousHeads(o.data(), 200, 1, 8), lse.data(), forward.get(), SerialFor());
        if (!done.ok()) {
            EXPECT_EQ(done.error().code, ErrorCode::InvalidInput);
            EXPECT_NE(done.error().message.find("edge tiles"), std::string::npos) << done.error().message;
            ++refused;
            continue;
        }
        ++ran;
        const std::vector<float> delta(200, 0.0f);
        EXPECT_TRUE(attentionBackward(shape, in(e.p.q), in(e.p.k), in(e.p.v), in(e.p.dO), lse.data(), delta.data(), bias, {}, dq.data(), dk.data(), dv.data(),
                                      nullptr, backward.get(), SerialFor())
                        .ok());
    }
    EXPECT_GT(refused, 200);
    EXPECT_GT(ran, 5);
}

TEST(EdgeTiles, RefuseUnsortedRowsAndWrongIntervals)
{
    const int64_t cuts[] = {0, 3}, wrong[] = {0, 5};
    const Csr unsorted{{0, 2, 3, 4}, {2, 1, 0, 0}};
    EXPECT_NE(buildEdgeTiles(unsorted.view(), 0, 3, cuts).error().message.find("row 0: got 2 before 1"), std::string::npos);
    const Csr fine{{0, 2, 3, 4}, {1, 2, 0, 0}};
    EXPECT_NE(buildEdgeTiles(fine.view(), 0, 3, wrong).error().message.find("key cuts"), std::string::npos);
    EXPECT_NE(buildEdgeTiles(fine.view(), 2, 1, cuts).error().message.find("query rows"), std::string::npos);
}

} // namespace
} // namespace megagraph::kernels::testing
