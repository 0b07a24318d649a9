// SPDX-License-Identifier: Apache-2.0
// The multi-source search and the three storages of distance classes against plain searches, on every graph of the models
// design, section 8, item 4.
#include "core/bias_storage.h"
#include "kernels/cpu/dispatch.h"
#include "tests/kernels/structure_cases.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

namespace megagraph::kernels::testing {
namespace {

constexpr int32_t kHops[] = {0, 1, 2, 5, 11, 12, 14, 27};

/// Lists (K up to 15), planes and strips of (rows x key intervals), each against the plain table.
void expectStorages(const Csr& graph, int32_t hops, int64_t q0, int64_t q1, const std::vector<int64_t>& cuts, const ParallelFor& parallel)
{
    const auto planes = buildTilePlanes(graph.view(), hops, q0, q1, cuts, {}, parallel, {});
    ASSERT_TRUE(planes.ok()) << planes.error().message;
    Result<std::vector<TileLists>> lists = std::vector<TileLists>{};
    if (hops <= kMostListHops)
        lists = buildTileLists(graph.view(), hops, q0, q1, cuts, parallel, {});
    ASSERT_TRUE(lists.ok());
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        const int64_t keys = cuts[c + 1] - cuts[c];
        const auto expected = plainTable(graph, hops, q0, q1, cuts[c], cuts[c + 1]);
        ASSERT_EQ(planesTable((*planes)[c].view(), hops, q1 - q0, keys), expected);
        EXPECT_EQ((*planes)[c].bytes(), planeBytes(q1 - q0, keys, hops));
        if (hops <= kMostListHops) {
            const TileLists& l = (*lists)[c];
            ASSERT_EQ(listsTable(l.view(), hops, q1 - q0, keys), expected);
            EXPECT_EQ(l.bytes(), listBytes(q1 - q0, keys, hops, {l.listPairs, l.listTiles, l.denseTiles, l.touchedTiles}));
        }
        auto strips = StripPlanes::create(graph.view(), hops, q0, q1, cuts[c], cuts[c + 1], parallel, {});
        ASSERT_TRUE(strips.ok());
        for (int64_t row = q0; row < q1; row += kStripRows) {
            const int64_t rows = std::min(kStripRows, q1 - row);
            const auto view = strips->stripPlanes((row - q0) / kStripRows);
            ASSERT_TRUE(view.ok());
            const auto begin = expected.begin() + (row - q0) * keys;
            ASSERT_EQ(planesTable(*view, hops, rows, keys), std::vector<uint8_t>(begin, begin + rows * keys));
        }
        EXPECT_EQ(strips->bytes(), stripBytes(graph.view().nodes, hops));
    }
}

TEST(Distances, ListsPlanesAndStripsDecodeToThePlainTableOnEveryGraph)
{
    for (const GraphCase& c : graphCases()) {
        const int64_t n = c.graph.view().nodes;
        for (const int32_t hops : kHops) {
            SCOPED_TRACE(c.name + ", K = " + std::to_string(hops));
            expectStorages(c.graph, hops, 0, n + 1, {0, n + 1}, SerialFor()); // a graph token behind the nodes
            expectStorages(c.graph, hops, n / 3, n, {0, n / 5, n / 5, n / 2 + 7 < n ? n / 2 + 7 : n, n}, ForkJoinFor(2)); // uneven, empty cuts
        }
    }
}

TEST(Distances, EveryInstructionSetGivesTheSameBytes)
{
    const Csr graph = communities(1300, 14);
    const int64_t cuts[] = {0, 600, 1300};
    std::vector<std::vector<uint64_t>> words;
    std::vector<std::vector<uint16_t>> entries;
    const std::string before = cpu::kernels().name;
    for (const cpu::CpuKernels* set : cpu::allKernels()) {
        if (!set->supported())
            continue;
        ASSERT_TRUE(cpu::forceKernels(set->name).ok());
        const auto planes = buildTilePlanes(graph.view(), 5, 3, 1290, cuts, {}, SerialFor(), {});
        words.emplace_back((*planes)[1].words.begin(), (*planes)[1].words.end());
        entries.push_back((*buildTileLists(graph.view(), 3, 3, 1290, cuts, SerialFor(), {}))[1].entries);
        EXPECT_EQ(words.back(), words.front()) << set->name;
        EXPECT_EQ(entries.back(), entries.front()) << set->name;
    }
    ASSERT_TRUE(cpu::forceKernels(before).ok());
}

TEST(Distances, AnyNumberOfSourcesAndThreadsAgrees)
{
    const Csr graph = communities(1100, 14);
    const int64_t n = graph.view().nodes;
    for (const int64_t sources : {1, 511, 512, 513}) {
        for (const int32_t threads : {1, 2, 7}) {
            SCOPED_TRACE(std::to_string(sources) + " sources, " + std::to_string(threads) + " threads");
            expectStorages(graph, 3, 400, 400 + sources, {0, 130, n}, ForkJoinFor(threads));
        }
    }
    std::vector<int32_t> some(512);
    for (size_t i = 0; i < some.size(); ++i)
        some[i] = int32_t(drawBelow(5, 1, i, uint64_t(n))); // in any order, some twice
    for (const int32_t hops : {0, 2, 4, 27}) {
        const auto one = multiSourceDistances(graph.view(), some, hops, SerialFor(), {});
        const auto seven = multiSourceDistances(graph.view(), some, hops, ForkJoinFor(7), {});
        ASSERT_TRUE(one.ok() && seven.ok());
        EXPECT_EQ(one->codes, seven->codes);
        std::vector<int64_t> histogram(size_t(hops) + 1, 0);
        for (size_t s = 0; s < some.size(); ++s) {
            const auto plain = plainDistances(graph.view(), some[s], hops);
            ASSERT_TRUE(std::equal(plain.begin(), plain.end(), one->codes.begin() + int64_t(s) * n)) << "source " << s;
            for (const uint8_t d : plain) {
                if (d <= hops)
                    ++histogram[d];
            }
        }
        EXPECT_EQ(one->histogram, histogram);
    }
}

TEST(Distances, SummaryCountsEveryKindAndHop)
{
    for (const GraphCase& c : graphCases()) {
        SCOPED_TRACE(c.name);
        const int64_t n = c.graph.view().nodes;
        const std::vector<int64_t> cuts{0, n / 3, n / 3, n};
        for (const int32_t hops : {1, 3, 15}) {
            const auto summary = summarizeTiles(c.graph.view(), hops, cuts, ForkJoinFor(2), {});
            ASSERT_TRUE(summary.ok());
            for (size_t i = 0; i < 3; ++i) {
                const auto lists = buildTileLists(c.graph.view(), hops, cuts[i], cuts[i + 1], cuts, SerialFor(), {});
                ASSERT_TRUE(lists.ok());
                for (size_t j = 0; j < 3; ++j) {
                    const TileSummary& s = (*summary)[i * 3 + j];
                    const TileLists& l = (*lists)[j];
                    EXPECT_EQ(std::tuple(s.nearPairs, s.touchedTiles, s.listTiles, s.listPairs, s.denseTiles, s.constTiles),
                              std::tuple(l.nearPairs, l.touchedTiles, l.listTiles, l.listPairs, l.denseTiles, l.constTiles));
                    EXPECT_EQ(l.bytes(), listBytes(cuts[i + 1] - cuts[i], cuts[j + 1] - cuts[j], hops, {s.listPairs, s.listTiles, s.denseTiles, s.touchedTiles}));
                    std::vector<double> pairs(size_t(hops) + 1, 0);
                    for (const uint8_t code : plainTable(c.graph, hops, cuts[i], cuts[i + 1], cuts[j], cuts[j + 1])) {
                        if (code != kBase)
                            ++pairs[code];
                    }
                    EXPECT_EQ(s.hopPairs, pairs);
                }
            }
        }
    }
}

TEST(Distances, EveryTileKindOccursSomewhere)
{
    int64_t list = 0, dense = 0, constant = 0, base = 0;
    for (const GraphCase& c : graphCases()) {
        const int64_t n = c.graph.view().nodes;
        const int64_t cuts[] = {0, n};
        const auto lists = buildTileLists(c.graph.view(), 2, 0, n, cuts, SerialFor(), {});
        ASSERT_TRUE(lists.ok());
        list += (*lists)[0].listTiles;
        dense += (*lists)[0].denseTiles;
        constant += (*lists)[0].constTiles;
        base += (*lists)[0].queryBlocks * (*lists)[0].keyBlocks - (*lists)[0].touchedTiles;
    }
    EXPECT_GT(std::min({list, dense, constant, base}), 0) << list << " " << dense << " " << constant << " " << base;
}

TEST(Distances, FarIsEmptyExactlyWhenEveryPairOfAComponentIsNear)
{
    // what the studio calls "exact distances": near pairs of the summary fill the components
    for (const GraphCase& c : graphCases()) {
        SCOPED_TRACE(c.name);
        const int64_t n = c.graph.view().nodes;
        const auto component = components(c.graph.view());
        for (const int32_t hops : {1, 2, 14, 27}) {
            const int64_t cuts[] = {0, n};
            const auto summary = summarizeTiles(c.graph.view(), hops, cuts, SerialFor(), {});
            ASSERT_TRUE(summary.ok());
            int64_t far = 0;
            for (int64_t v = 0; v < n; ++v) {
                const auto row = plainDistances(c.graph.view(), v, hops);
                for (int64_t u = 0; u < n; ++u)
                    far += row[size_t(u)] > hops && component[size_t(u)] == component[size_t(v)];
            }
            EXPECT_EQ(farPairs(component, (*summary)[0].nearPairs), far);
        }
    }
}

TEST(Distances, PacksStoreTheTilesOfTheirOwnGraphsOnly)
{
    std::vector<std::pair<int32_t, int32_t>> edges;
    std::vector<int32_t> segment;
    int32_t at = 0, graphs = 0;
    for (const int32_t size : {1, 20, 64, 130, 3, 200, 17, 90}) {
        for (int32_t i = 0; i + 1 < size; ++i)
            edges.push_back({at + i, at + i + 1});
        segment.insert(segment.end(), size_t(size), graphs++);
        at += size;
    }
    const Csr graph = fromEdges(at, edges);
    for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, at}, std::vector<int64_t>{0, 70, 70, 333, at}}) {
        const auto planes = buildTilePlanes(graph.view(), 20, 5, at, cuts, segment, ForkJoinFor(2), {});
        ASSERT_TRUE(planes.ok()) << planes.error().message;
        for (size_t c = 0; c + 1 < cuts.size(); ++c) {
            const TilePlanes& p = (*planes)[c];
            EXPECT_EQ(planesTable(p.view(), 20, at - 5, cuts[c + 1] - cuts[c]), plainTable(graph, 20, 5, at, cuts[c], cuts[c + 1]));
            const int64_t tiles = int64_t(p.words.size()) / (64 * p.planes);
            EXPECT_EQ(p.bytes(), packPlaneBytes(at - 5, 20, tiles));
            if (cuts[c + 1] - cuts[c] > 300) {
                EXPECT_LT(2 * tiles, p.queryBlocks * p.keyBlocks);
            }
        }
    }
    std::vector<int32_t> wrong = segment;
    wrong[30] = 0;
    const int64_t whole[] = {0, at};
    EXPECT_NE(buildTilePlanes(graph.view(), 20, 0, at, whole, wrong, SerialFor(), {}).error().message.find("token 30 falls"), std::string::npos);
}

TEST(Distances, WrongArgumentsAreRefusedWithTheirPlace)
{
    const Csr graph = communities(200, 6);
    const int64_t cuts[] = {0, 200}, beyond[] = {0, 202}, falling[] = {0, 90, 60};
    const auto says = [](const auto& result, const char* text) {
        ASSERT_FALSE(result.ok());
        EXPECT_EQ(result.error().code, ErrorCode::InvalidInput);
        EXPECT_NE(result.error().message.find(text), std::string::npos) << result.error().message;
    };
    const SerialFor serial;
    says(buildTilePlanes(graph.view(), 28, 0, 200, cuts, {}, serial, {}), "got 28, expected 0 to 27");
    says(buildTilePlanes(graph.view(), 2, 7, 202, cuts, {}, serial, {}), "query rows: got [7, 202)");
    says(buildTilePlanes(graph.view(), 2, 0, 200, falling, {}, serial, {}), "key cuts: got [90, 60)");
    says(StripPlanes::create(graph.view(), -1, 0, 200, 0, 200, serial, {}), "hops");
    says(StripPlanes::create(graph.view(), 2, 0, 200, 0, 202, serial, {}), "key cuts");
    auto strips = StripPlanes::create(graph.view(), 2, 0, 200, 0, 200, serial, {});
    ASSERT_TRUE(strips.ok());
    says(strips->stripPlanes(1), "strip: got 1, expected 0 to 0");
    says(buildTileLists(graph.view(), 16, 0, 200, cuts, serial, {}), "got 16, expected 0 to 15");
    says(summarizeTiles(graph.view(), 28, cuts, serial, {}), "got 28, expected 0 to 27");
    says(summarizeTiles(graph.view(), 2, beyond, serial, {}), "got [0, 202)");
    const int32_t outside[] = {3, 200};
    says(multiSourceDistances(graph.view(), outside, 2, serial, {}), "got node 200, expected 0 to 199");
    says(multiSourceDistances(graph.view(), std::vector<int32_t>(513, 0), 2, serial, {}), "got 513, expected at most 512");
}

/// Runs `work` until it is well under way, stops it, and measures how long it takes to come back. The whole work takes many
/// seconds, so a token that nobody reads fails the test; the time itself is printed only.
template <class Work> void expectStops(const char* what, Work&& work)
{
    std::stop_source source;
    std::atomic<bool> done{false};
    ErrorCode code{};
    std::thread worker([&] {
        code = work(source.get_token());
        done = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    EXPECT_FALSE(done.load()) << what << " ended before it could be stopped: make it larger";
    const auto begin = std::chrono::steady_clock::now();
    source.request_stop();
    worker.join();
    std::printf("%s: back %.1f ms after the stop\n", what, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    EXPECT_EQ(code, ErrorCode::Cancelled) << what;
}

TEST(Distances, StopTokensEndEverySearchSoon)
{
    const Csr graph = communities(60000, 14);
    const int64_t n = graph.view().nodes;
    const int64_t cuts[] = {0, n};
    const auto codeOf = [](const auto& result) { return result.ok() ? ErrorCode::Internal : result.error().code; };
    expectStops("lists", [&](std::stop_token stop) { return codeOf(buildTileLists(graph.view(), 3, 0, n, cuts, SerialFor(), stop)); });
    expectStops("counts", [&](std::stop_token stop) { return codeOf(summarizeTiles(graph.view(), 5, cuts, SerialFor(), stop)); });
    expectStops("planes", [&](std::stop_token stop) { return codeOf(buildTilePlanes(graph.view(), 5, 0, 30000, cuts, {}, SerialFor(), stop)); });
    expectStops("strips", [&](std::stop_token stop) {
        const SerialFor serial; // outlives the strips
        auto strips = StripPlanes::create(graph.view(), 5, 0, n, 0, n, serial, stop);
        for (int64_t s = 0; s * kStripRows < n; ++s) {
            if (auto view = strips->stripPlanes(s); !view.ok())
                return view.error().code;
        }
        return ErrorCode::Internal;
    });
}

} // namespace
} // namespace megagraph::kernels::testing
