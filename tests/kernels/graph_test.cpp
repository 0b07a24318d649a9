// SPDX-License-Identifier: Apache-2.0
// Reordering, components, the METIS guard and the distance lists, each against a plain oracle.
#include "core/random.h"
#include "kernels/graph/partition.h"
#include "kernels/graph/tiles.h"
#include "kernels/graph/token_order.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>

namespace megagraph::kernels {
namespace {

using Edges = std::vector<std::pair<int32_t, int32_t>>;

Csr graphOf(int64_t nodes, const Edges& edges, bool mirror = true)
{
    std::vector<std::vector<int32_t>> rows(static_cast<size_t>(nodes));
    for (const auto& [a, b] : edges) {
        rows[size_t(a)].push_back(b);
        if (mirror)
            rows[size_t(b)].push_back(a);
    }
    Csr out;
    out.indptr.push_back(0);
    for (auto& row : rows) {
        std::sort(row.begin(), row.end());
        out.indices.insert(out.indices.end(), row.begin(), row.end());
        out.indptr.push_back(int64_t(out.indices.size()));
    }
    return out;
}

Csr randomGraph(int64_t nodes, int64_t edges, uint64_t seed)
{
    std::set<std::pair<int32_t, int32_t>> kept;
    for (int64_t i = 0; i < edges; ++i) {
        const auto a = int32_t(drawBelow(seed, 1, uint64_t(2 * i), uint64_t(nodes)));
        const auto b = int32_t(drawBelow(seed, 1, uint64_t(2 * i + 1), uint64_t(nodes)));
        if (a != b)
            kept.insert({std::min(a, b), std::max(a, b)});
    }
    return graphOf(nodes, Edges(kept.begin(), kept.end()));
}

Csr ring(int64_t n)
{
    Edges edges;
    for (int32_t i = 0; i < n; ++i)
        edges.push_back({i, int32_t((i + 1) % n)});
    return graphOf(n, edges);
}

/// Class of each pair out of the lists: 255 where the pair has its base class.
std::vector<uint8_t> decode(const TileLists& lists, int32_t hops, int64_t rows, int64_t keys)
{
    const int32_t planes = planeCount(hops);
    std::vector<uint8_t> out(size_t(rows * keys), 255);
    const TileListsView view = lists.view();
    for (int64_t qb = 0; qb < view.queryBlocks; ++qb) {
        int64_t at = view.tileStart[size_t(qb)];
        for (int64_t kb = 0; kb < view.keyBlocks; ++kb) {
            if (kb % 256 == 0) {
                EXPECT_EQ(at - view.tileStart[size_t(qb)], view.rank[size_t(qb * view.rankStride + kb / 256)]);
            }
            const auto kind = TileKind(view.map[size_t(qb * view.mapStride + kb / 4)] >> (kb % 4 * 2) & 3);
            if (kind == TileKind::Base)
                continue;
            const uint32_t offset = view.offsets[size_t(at++)];
            const uint16_t* entries = view.entries.data() + view.blockStart[size_t(qb)] + (kind == TileKind::Const ? 0 : offset);
            const auto put = [&](int64_t r, int64_t c, uint8_t code) {
                if (qb * 64 + r < rows && kb * 64 + c < keys)
                    out[size_t((qb * 64 + r) * keys + kb * 64 + c)] = code;
            };
            if (kind == TileKind::List) {
                for (int i = 1; i <= entries[0]; ++i) {
                    if (i > 1) {
                        EXPECT_LT(entries[i - 1] >> 4, entries[i] >> 4) << "entries are sorted by (row, col)";
                    }
                    put(entries[i] >> 10, entries[i] >> 4 & 63, entries[i] & 15);
                }
            } else {
                for (int64_t at64 = 0; at64 < 64 * 64; ++at64) {
                    const int64_t r = at64 / 64, c = at64 % 64;
                    int code = kind == TileKind::Const ? int(offset) : 0;
                    for (int32_t p = 0; kind == TileKind::Dense && p < planes; ++p)
                        code |= (entries[p * 256 + r * 4 + c / 16] >> c % 16 & 1) << p;
                    put(r, c, code > hops ? uint8_t(255) : uint8_t(code));
                }
            }
        }
        EXPECT_EQ(at, view.tileStart[size_t(qb) + 1]);
    }
    return out;
}

void expectLists(const Csr& graph, int32_t hops, int64_t begin, int64_t end, const std::vector<int64_t>& cuts, int32_t slots)
{
    const auto lists = buildTileLists(graph.view(), hops, begin, end, cuts, ForkJoinFor(slots), {});
    ASSERT_TRUE(lists.ok());
    int64_t near = 0;
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        const int64_t keys = cuts[c + 1] - cuts[c];
        const auto decoded = decode((*lists)[c], hops, end - begin, keys);
        for (int64_t q = begin; q < end; ++q) {
            std::vector<uint8_t> expected(size_t(graph.view().nodes) + 1, uint8_t(hops + 1));
            if (q < graph.view().nodes) {
                const auto plain = plainDistances(graph.view(), q, hops);
                std::copy(plain.begin(), plain.end(), expected.begin());
            }
            for (int64_t k = 0; k < keys; ++k) {
                const uint8_t want = expected[size_t(cuts[c] + k)];
                ASSERT_EQ(decoded[size_t((q - begin) * keys + k)], want > hops ? 255 : want) << "pair " << q << ", " << cuts[c] + k;
                near += want <= hops;
            }
        }
    }
    int64_t counted = 0;
    for (const TileLists& part : *lists)
        counted += part.nearPairs;
    EXPECT_EQ(counted, near);
}

TEST(DistanceLists, EqualPlainSearchOnManyGraphsHopsAndCuts)
{
    const std::vector<Csr> graphs{graphOf(0, {}), graphOf(1, {}), graphOf(3, {}), graphOf(2, {{0, 1}}), ring(130), randomGraph(257, 400, 3),
                                  randomGraph(700, 3000, 4), graphOf(200, [] {
                                      Edges star;
                                      for (int32_t i = 1; i < 190; ++i)
                                          star.push_back({0, i});
                                      return star;
                                  }())};
    for (const Csr& graph : graphs) {
        const int64_t n = graph.view().nodes;
        for (const int32_t hops : {0, 1, 2, 3, 5, 14}) {
            expectLists(graph, hops, 0, n, {0, n}, 1);
            expectLists(graph, hops, n / 3, n, {0, n / 5, n / 5, n / 2, n}, 2);
        }
        expectLists(graph, 2, 0, n + 1, {0, n / 2, n + 1}, 2); // graph token last
    }
}

TEST(DistanceLists, HoldEveryTileKind)
{
    Edges clique;
    for (int32_t i = 0; i < 192; ++i)
        for (int32_t j = i + 1; j < 192; ++j)
            clique.push_back({i, j});
    const Csr graph = graphOf(320, clique); // 128 isolated nodes behind it
    const int64_t cuts[] = {0, 320};
    const auto lists = buildTileLists(graph.view(), 2, 0, 320, cuts, SerialFor(), {});
    ASSERT_TRUE(lists.ok());
    EXPECT_EQ((*lists)[0].constTiles, 6);  // off-diagonal tiles of the clique: all pairs at distance 1
    EXPECT_EQ((*lists)[0].denseTiles, 3);  // diagonal tiles: distances 0 and 1
    EXPECT_EQ((*lists)[0].touchedTiles, 11); // and two isolated diagonals as lists
    expectLists(graph, 2, 0, 320, {0, 320}, 2);
}

TEST(DistanceLists, SummaryCountsWhatTheListsHold)
{
    const Csr graph = randomGraph(600, 1500, 9);
    const int64_t cuts[] = {0, 250, 250, 600};
    const auto summary = summarizeTiles(graph.view(), 3, cuts, ForkJoinFor(2), {});
    ASSERT_TRUE(summary.ok());
    for (size_t i = 0; i < 3; ++i) {
        const auto lists = buildTileLists(graph.view(), 3, cuts[i], cuts[i + 1], cuts, SerialFor(), {});
        ASSERT_TRUE(lists.ok());
        for (size_t j = 0; j < 3; ++j) {
            EXPECT_EQ((*summary)[i * 3 + j].nearPairs, (*lists)[j].nearPairs);
            EXPECT_EQ((*summary)[i * 3 + j].touchedTiles, (*lists)[j].touchedTiles);
        }
    }
}

TEST(DistanceLists, AreTheSameBytesForAnyThreadCount)
{
    const Csr graph = randomGraph(1500, 6000, 5);
    const int64_t cuts[] = {0, 700, 1500};
    const auto one = buildTileLists(graph.view(), 3, 0, 1500, cuts, SerialFor(), {});
    const auto seven = buildTileLists(graph.view(), 3, 0, 1500, cuts, ForkJoinFor(7), {});
    ASSERT_TRUE(one.ok() && seven.ok());
    for (size_t c = 0; c < 2; ++c) {
        EXPECT_EQ((*one)[c].entries, (*seven)[c].entries);
        EXPECT_EQ((*one)[c].offsets, (*seven)[c].offsets);
        EXPECT_EQ((*one)[c].map, (*seven)[c].map);
    }
}

TEST(DistanceLists, RefuseWrongArgumentsAndStopWhenAsked)
{
    const Csr graph = ring(20);
    const int64_t cuts[] = {0, 20}, beyond[] = {0, 25};
    EXPECT_EQ(buildTileLists(graph.view(), 16, 0, 20, cuts, SerialFor(), {}).error().code, ErrorCode::InvalidInput);
    EXPECT_EQ(buildTileLists(graph.view(), 2, 5, 30, cuts, SerialFor(), {}).error().code, ErrorCode::InvalidInput);
    EXPECT_EQ(buildTileLists(graph.view(), 2, 0, 20, beyond, SerialFor(), {}).error().code, ErrorCode::InvalidInput);
    std::stop_source source;
    source.request_stop();
    EXPECT_EQ(buildTileLists(graph.view(), 2, 0, 20, cuts, SerialFor(), source.get_token()).error().code, ErrorCode::Cancelled);
}

TEST(Csr, PermutedAndInducedGraphsKeepTheirEdges)
{
    const Csr graph = randomGraph(90, 200, 1);
    std::vector<int32_t> order(90);
    for (int32_t i = 0; i < 90; ++i)
        order[size_t(i)] = (i * 37) % 90 == i ? i : int32_t((int64_t(i) * 37) % 90);
    ASSERT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), 90u);
    const Csr moved = permute(graph.view(), order);
    for (size_t t = 0; t < 90; ++t) {
        std::set<int32_t> expected, got;
        for (int64_t e = graph.indptr[size_t(order[t])]; e < graph.indptr[size_t(order[t]) + 1]; ++e)
            expected.insert(graph.indices[size_t(e)]);
        for (int64_t e = moved.indptr[t]; e < moved.indptr[t + 1]; ++e)
            got.insert(order[size_t(moved.indices[size_t(e)])]);
        EXPECT_EQ(expected, got);
    }
    const std::vector<int32_t> some{3, 40, 41, 80};
    const Csr part = induced(graph.view(), some);
    for (size_t i = 0; i < some.size(); ++i) {
        for (int64_t e = part.indptr[i]; e < part.indptr[i + 1]; ++e) {
            const int32_t other = some[size_t(part.indices[size_t(e)])];
            const auto first = graph.indices.begin() + graph.indptr[size_t(some[i])];
            const auto last = graph.indices.begin() + graph.indptr[size_t(some[i]) + 1];
            EXPECT_TRUE(std::binary_search(first, last, other));
        }
    }
    const Transposed back = transposed(moved.view(), 90);
    EXPECT_EQ(back.rows.size(), moved.indices.size());
    for (int64_t key = 0; key < 90; ++key)
        for (int64_t e = back.indptr[size_t(key)]; e < back.indptr[size_t(key) + 1]; ++e)
            EXPECT_EQ(moved.indices[size_t(back.entries[size_t(e)])], key);
}

TEST(Csr, SymmetrisedGraphHasNoLoopsAndNoRepeats)
{
    const Csr directed = graphOf(4, {{0, 1}, {0, 1}, {2, 2}, {3, 1}}, false);
    const Csr clean = symmetrised(directed.view());
    EXPECT_EQ(clean.indptr, (std::vector<int64_t>{0, 1, 3, 3, 4}));
    EXPECT_EQ(clean.indices, (std::vector<int32_t>{1, 0, 3, 1}));
    EXPECT_EQ(components(clean.view()), (std::vector<int32_t>{0, 0, 1, 0}));
}

/// The rows of the table of known METIS faults, each through the guard.
TEST(PartitionGuard, GivesUsablePartsWhereTheLibraryAloneDoesNot)
{
    struct Case { const char* what; Csr graph; int64_t parts; };
    const std::vector<Case> cases{
        {"one part", ring(60), 1},          {"ring of 60 in 59", ring(60), 59},   {"as many parts as nodes", ring(60), 60},
        {"path of 3 in 2", graphOf(3, {{0, 1}, {1, 2}}), 2}, {"no edges", graphOf(10, {}), 4}, {"one node", graphOf(1, {}), 1},
        {"loops and repeats", graphOf(60, [] {
             Edges edges;
             for (int32_t i = 0; i < 60; ++i)
                 for (int r = 0; r < 3; ++r)
                     edges.push_back({i, (i + 1) % 60});
             edges.push_back({5, 5});
             return edges;
         }()), 7},
        {"asymmetric", graphOf(500, [] {
             Edges edges;
             for (int32_t i = 0; i < 499; ++i)
                 edges.push_back({i, int32_t((i * 7 + 3) % 500)});
             return edges;
         }(), false), 100},
        {"mostly isolated", graphOf(50, {{0, 1}, {2, 3}}), 9},
        {"fewer connected nodes than parts", graphOf(40, {{0, 1}, {1, 2}}), 20},
    };
    for (const Case& c : cases) {
        PartitionOptions options;
        options.parts = c.parts;
        const auto result = partition(c.graph.view(), options);
        ASSERT_TRUE(result.ok()) << c.what;
        ASSERT_EQ(int64_t(result->part.size()), c.graph.view().nodes) << c.what;
        std::vector<int64_t> size(size_t(c.parts), 0);
        for (const int32_t p : result->part) {
            ASSERT_TRUE(p >= 0 && p < c.parts) << c.what;
            ++size[size_t(p)];
        }
        EXPECT_GT(*std::min_element(size.begin(), size.end()), 0) << c.what << ": an empty part";
        EXPECT_GE(result->cut, 0) << c.what;
    }
}

TEST(PartitionGuard, RefusesMorePartsThanNodesWithTheLargestUsableNumber)
{
    PartitionOptions options;
    options.parts = 35;
    const auto refused = partition(ring(34).view(), options);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("1 to 34"), std::string::npos) << refused.error().message;
}

TEST(PartitionGuard, CutsARingOfCliquesBetweenItsCliques)
{
    Edges edges;
    for (int32_t block = 0; block < 4; ++block) {
        for (int32_t i = 0; i < 20; ++i)
            for (int32_t j = i + 1; j < 20; ++j)
                edges.push_back({block * 20 + i, block * 20 + j});
        edges.push_back({block * 20, (block * 20 + 25) % 80});
    }
    PartitionOptions options;
    options.parts = 4;
    const auto result = partition(graphOf(80, edges).view(), options);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->cut, 4);
    options.method = "greedy";
    const auto greedy = partition(graphOf(80, edges).view(), options);
    ASSERT_TRUE(greedy.ok());
    EXPECT_EQ(greedy->method, "greedy");
}

TEST(TokenOrder, IsAPermutationWithComponentsTogetherAndIsolatedNodesLast)
{
    Edges edges;
    for (int32_t i = 10; i < 300; ++i)
        edges.push_back({i, int32_t(10 + (i * 13) % 290)});
    edges.push_back({2, 4});
    std::erase_if(edges, [](const auto& e) { return e.first == e.second; });
    const Csr graph = symmetrised(graphOf(320, edges).view());
    const auto order = buildTokenOrder(graph.view(), "metis", 1, {}, {});
    ASSERT_TRUE(order.ok());
    const std::set<int32_t> all(order->order.begin(), order->order.end());
    EXPECT_EQ(all.size(), 320u);
    std::set<int32_t> closed;
    int32_t current = -1;
    bool isolated = false;
    for (size_t t = 0; t < 320; ++t) {
        const int32_t node = order->order[t];
        EXPECT_EQ(order->position[size_t(node)], int32_t(t));
        const bool alone = graph.indptr[size_t(node)] == graph.indptr[size_t(node) + 1];
        EXPECT_FALSE(isolated && !alone) << "a connected node behind an isolated one";
        isolated = alone;
        if (order->component[t] != current) {
            EXPECT_TRUE(closed.insert(order->component[t]).second) << "a component in two pieces";
            current = order->component[t];
        }
    }
    const auto again = buildTokenOrder(graph.view(), "metis", 1, {}, {});
    EXPECT_EQ(order->order, again->order);
    const auto natural = buildTokenOrder(graph.view(), "natural", 1, {}, {});
    EXPECT_EQ(natural->order[17], 17);
}

TEST(TokenOrder, BringsNeighboursTogether)
{
    // a grid in random numbering: the order must put most edges within a few tiles
    constexpr int32_t side = 40;
    std::vector<int32_t> label(side * side);
    for (int32_t i = 0; i < side * side; ++i) // inside-out shuffle
    {
        const size_t j = drawBelow(11, 1, uint64_t(i), uint64_t(i) + 1);
        label[size_t(i)] = label[j];
        label[j] = i;
    }
    Edges edges;
    for (int32_t r = 0; r < side; ++r)
        for (int32_t c = 0; c < side; ++c) {
            if (c + 1 < side)
                edges.push_back({label[size_t(r * side + c)], label[size_t(r * side + c + 1)]});
            if (r + 1 < side)
                edges.push_back({label[size_t(r * side + c)], label[size_t((r + 1) * side + c)]});
        }
    const Csr graph = graphOf(side * side, edges);
    const int64_t cuts[] = {0, side * side};
    const auto order = buildTokenOrder(graph.view(), "metis", 1, {}, {});
    ASSERT_TRUE(order.ok());
    const auto before = summarizeTiles(graph.view(), 1, cuts, SerialFor(), {});
    const auto after = summarizeTiles(permute(graph.view(), order->order).view(), 1, cuts, SerialFor(), {});
    EXPECT_LT((*after)[0].touchedTiles * 3, (*before)[0].touchedTiles);
}

TEST(TokenOrder, ComesFromTheCacheAndSurvivesDamageToIt)
{
    const std::string home = testing::TempDir() + "token-order-cache";
    std::filesystem::remove_all(home);
    const Csr graph = randomGraph(500, 1200, 2);
    const auto first = cachedTokenOrder(home, "hash", graph.view(), "metis", 1, {}, {});
    ASSERT_TRUE(first.ok());
    std::filesystem::path file;
    for (const auto& entry : std::filesystem::directory_iterator(home + "/cache"))
        file = entry.path();
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
    const auto second = cachedTokenOrder(home, "hash", graph.view(), "metis", 1, {}, {});
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(first->order, second->order);
    const auto third = cachedTokenOrder(home, "hash", graph.view(), "metis", 1, {}, {});
    EXPECT_EQ(first->order, third->order);
    EXPECT_EQ(first->component, third->component);
    std::filesystem::remove_all(home);
}

TEST(Clusters, CoverEveryTokenOnceAndSayWhichEdgesTheyKeep)
{
    const Csr graph = randomGraph(900, 2500, 8);
    const auto clusters = buildClusters(graph.view(), 225, 1);
    ASSERT_TRUE(clusters.ok());
    ASSERT_EQ(clusters->sequences.size(), 4u);
    std::set<int32_t> seen;
    int64_t kept = 0;
    for (const auto& tokens : clusters->sequences) {
        EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
        seen.insert(tokens.begin(), tokens.end());
        kept += int64_t(induced(graph.view(), tokens).indices.size());
    }
    EXPECT_EQ(seen.size(), 900u);
    EXPECT_NEAR(clusters->keptEdges, double(kept) / double(graph.indices.size()), 1e-12);
}

} // namespace
} // namespace megagraph::kernels
