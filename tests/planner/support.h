// SPDX-License-Identifier: Apache-2.0
// A small made-up problem and a profile whose numbers are easy to add up by hand.
#pragma once

#include "planner/problem.h"
#include "core/model_layout.h"
#include "planner/search.h"

#include <gtest/gtest.h>

#include <string>

namespace megagraph::planner::testing {

constexpr int64_t kNodes = 1000;
constexpr int64_t kMs = 1000000;
constexpr int64_t kMiB = 1 << 20;

inline Problem problemFor(int64_t ranks, SequenceMode mode = SequenceMode::Full)
{
    Problem problem;
    problem.resources = std::string(MEGAGRAPH_SOURCE_DIR) + "/resources";
    problem.dataset.name = "made-up";
    problem.dataset.contentHash = "0123456789abcdef";
    problem.dataset.nodes = kNodes;
    problem.dataset.entries = 4000;
    problem.dataset.featureKind = "dense";
    problem.dataset.featureWidth = 32;
    problem.dataset.taskKind = "classification";
    problem.dataset.classes = {"a", "b", "c"};
    problem.dataset.tasks = 1;
    problem.dataset.splits = {{"s", "splits/s.npy", 100, 100, 100, 700}};
    problem.model.name = "made-up-model";
    problem.model.blocks = 2;
    problem.model.width = 16;
    problem.model.ffnWidth = 16;
    problem.model.heads = 4;
    problem.model.sequenceMode = mode;
    NodeSpec node;
    node.name = "local";
    for (int64_t r = 0; r < ranks; ++r) {
        DeviceSpec device;
        device.name = "slot " + std::to_string(r);
        device.cores = {r};
        device.memoryBytes = 1024 * kMiB;
        node.devices.push_back(device);
    }
    problem.cluster.nodes = {node};
    GraphStats& stats = problem.stats;
    stats.datasetHash = problem.dataset.contentHash;
    stats.nodes = kNodes;
    stats.entries = 4000;
    stats.featureWidth = 32;
    stats.nearPairs = 20000;
    stats.touchedTiles = 200;
    for (int64_t c = 1; c <= ranks; ++c) {
        ContextStats context;
        context.cuts = {0};
        for (int64_t i = 0; i < c; ++i) {
            context.cuts.push_back(kNodes * (i + 1) / c);
            context.tokens.push_back(context.cuts[size_t(i) + 1] - context.cuts[size_t(i)]);
            context.edges.push_back(4000 / c);
        }
        context.nearPairs.assign(size_t(c * c), 20000 / (c * c));
        context.touchedTiles.assign(size_t(c * c), 200 / (c * c));
        context.halo.assign(size_t(c * c), 10);
        stats.contexts[c] = context;
    }
    if (mode == SequenceMode::Clusters) {
        problem.model.sequenceTokens = 250;
        stats.clusterTokens = 250;
        stats.keptEdges = 0.8;
        for (int i = 0; i < 4; ++i)
            stats.sequences.push_back({250, 800, 4000, 40, 25});
    }
    return problem;
}

inline void addPoint(Profile& profile, const std::string& kind, std::map<std::string, std::string> key, std::map<std::string, double> x,
                     int64_t ns, int64_t saved = 0, int64_t peak = 0)
{
    ProfilePoint point;
    point.kind = kind;
    point.key = std::move(key);
    point.x = std::move(x);
    point.medianNs = ns;
    point.repeats = {ns, ns, ns, ns, ns};
    point.savedBytes = saved;
    point.peakBytes = peak;
    profile.points.push_back(point);
}

inline void addLayer(Profile& profile, const std::string& layer, const std::string& attention, const std::string& exchange,
                     const std::string& recompute, int64_t ranks, int64_t n, int64_t forwardMs, int64_t backwardMs, int64_t savedMiB,
                     int64_t peakMiB)
{
    std::map<std::string, std::string> key{{"layer", layer}, {"exchange", exchange}, {"ranks", std::to_string(ranks)}};
    if (layer == "block") {
        key["attention"] = attention;
        key["recompute"] = recompute;
    }
    key["phase"] = "forward";
    std::map<std::string, double> x{{"n", double(n)}};
    if (layer == "block")
        x["attention_ns"] = double(forwardMs * kMs) / 2;
    addPoint(profile, "layer", key, x, forwardMs * kMs, savedMiB * kMiB, peakMiB * kMiB / 2);
    key["phase"] = "backward";
    if (layer == "block")
        x["attention_ns"] = double(backwardMs * kMs) / 2;
    addPoint(profile, "layer", key, x, backwardMs * kMs, 0, peakMiB * kMiB);
}

/// Everything that the plans of two ranks on the full graph need, measured at exactly their sizes:
///   serial fused        embed 2+3, block 40+60, head 1+2, update 1, host 1       = 2 (100) + 10 = 210 ms
///   gather 2            embed 1+2, block 22+33, head 1+1, reduce 2, update 1, host 1 = 2 (55) + 9 = 119 ms
///   ring 2              the same with block 25+40                                 = 139 ms
///   materialised serial block 30+45                                               = 160 ms but 400 MiB per block
inline Profile profileFor(const Problem& problem)
{
    Profile profile;
    profile.id = "feedbeef";
    profile.createdUtc = "2026-01-05T10:11:12.345Z";
    profile.constants = {{"process_base_bytes", double(100 * kMiB), "bytes", "measured"}};
    addLayer(profile, "embed", "", "none", "", 1, 1000, 2, 3, 10, 2);
    addLayer(profile, "head", "", "none", "", 1, 1000, 1, 2, 4, 2);
    for (const char* exchange : {"ring", "gather"}) {
        addLayer(profile, "embed", "", exchange, "", 2, 1000, 1, 2, 5, 1);
        addLayer(profile, "head", "", exchange, "", 2, 1000, 1, 1, 2, 1);
    }
    addLayer(profile, "block", "fused", "none", "none", 1, 1000, 40, 60, 20, 8);
    addLayer(profile, "block", "fused", "none", "block", 1, 1000, 40, 100, 1, 28);
    addLayer(profile, "block", "materialised", "none", "none", 1, 1000, 30, 45, 400, 50);
    addLayer(profile, "block", "materialised", "none", "block", 1, 1000, 30, 75, 1, 450);
    addLayer(profile, "block", "fused", "ring", "none", 2, 1000, 25, 40, 10, 6);
    addLayer(profile, "block", "fused", "ring", "block", 2, 1000, 25, 65, 1, 16);
    addLayer(profile, "block", "fused", "gather", "none", 2, 1000, 22, 33, 12, 6);
    addLayer(profile, "block", "fused", "gather", "block", 2, 1000, 22, 55, 1, 18);
    addLayer(profile, "block", "materialised", "gather", "none", 2, 1000, 60, 90, 210, 30);
    addLayer(profile, "block", "materialised", "gather", "block", 2, 1000, 60, 150, 1, 240);
    const auto layout = modelLayout(problem.model, problem.dataset);
    const double parameters = double(parameterCount(*layout));
    addPoint(profile, "collective", {{"op", "all_reduce"}, {"ranks", "2"}}, {{"bytes", 4 * parameters}}, 2 * kMs);
    for (const char* ranks : {"1", "2"}) {
        addPoint(profile, "optimizer", {{"ranks", ranks}}, {{"parameters", parameters}}, kMs);
        addPoint(profile, "host", {{"ranks", ranks}}, {}, kMs);
    }
    for (const char* attention : {"fused", "materialised"}) {
        addPoint(profile, "memory", {{"what", "sequence"}, {"attention", attention}, {"exchange", "none"}, {"ranks", "1"}}, {{"n", 1000}}, 0, 3 * kMiB);
        for (const char* exchange : {"ring", "gather"})
            addPoint(profile, "memory", {{"what", "sequence"}, {"attention", attention}, {"exchange", exchange}, {"ranks", "2"}}, {{"n", 1000}}, 0, 2 * kMiB);
    }
    return profile;
}

inline Problem profiledProblem(int64_t ranks)
{
    Problem problem = problemFor(ranks);
    problem.profile = profileFor(problem);
    problem.match = "exact";
    return problem;
}

inline PlanTable searched(const Problem& problem, const SearchOptions& options = {})
{
    auto table = search(problem, options, {}, {});
    EXPECT_TRUE(table.ok()) << (table.ok() ? "" : table.error().message);
    return table.ok() ? std::move(table).value() : PlanTable{};
}

} // namespace megagraph::planner::testing
