// SPDX-License-Identifier: Apache-2.0
#include "core/graph_stats.h"

#include <fmt/format.h>
#include <tuple>

namespace megagraph {

namespace {

constexpr int64_t kMost = int64_t(1) << 62; // pairs of N = 2^31 nodes

void checkSize(ObjectReader& reader, const char* key, size_t got, int64_t expected)
{
    if (got != static_cast<size_t>(expected))
        reader.fail(key, fmt::format("wrong length, got {} values, expected {}", got, expected));
}

void checkCounts(ObjectReader& reader, const char* key, const std::vector<int64_t>& values)
{
    for (const int64_t value : values)
        if (value < 0)
            reader.fail(key, fmt::format("out of range, got {}, expected counts of at least 0", value));
}

void readContexts(ObjectReader& root, GraphStats& stats)
{
    for (ObjectReader& item : root.children("contexts")) {
        int64_t count = 0;
        item.get("ranks", count, 1, 4096);
        ContextStats context;
        const std::pair<const char*, std::pair<std::vector<int64_t>*, int64_t>> lists[] = {
            {"cuts", {&context.cuts, count + 1}},
            {"tokens", {&context.tokens, count}},
            {"edges", {&context.edges, count}},
            {"near_pairs", {&context.nearPairs, count * count}},
            {"touched_tiles", {&context.touchedTiles, count * count}},
            {"halo", {&context.halo, count * count}}};
        for (const auto& [key, list] : lists) {
            item.get(key, *list.first);
            if (!list.first->empty() || list.first == &context.cuts)
                checkSize(item, key, list.first->size(), list.second);
            checkCounts(item, key, *list.first);
        }
        stats.contexts[count] = std::move(context);
    }
}

void readSequences(ObjectReader& root, GraphStats& stats)
{
    root.get("cluster_tokens", stats.clusterTokens, 0, kMost);
    for (ObjectReader& item : root.children("sequences")) {
        SequenceStats sequence;
        item.get("tokens", sequence.tokens, 0, kMost);
        item.get("entries", sequence.entries, 0, kMost);
        item.get("near_pairs", sequence.nearPairs, 0, kMost);
        item.get("touched_tiles", sequence.touchedTiles, 0, kMost);
        item.get("labelled", sequence.labelled, 0, kMost);
        stats.sequences.push_back(sequence);
    }
    root.get("kept_edges", stats.keptEdges, 0, 1);
}

} // namespace

Result<GraphStats> graphStatsFromJson(const Json& value, const std::string& file)
{
    GraphStats stats;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.graph_stats", 1);
    reader.get("dataset_hash", stats.datasetHash);
    reader.get("structure_hash", stats.structureHash);
    reader.get("order", stats.order);
    reader.get("partition_seed", stats.partitionSeed, 0, INT64_MAX);
    reader.get("hops", stats.hops, 0, 4096);
    reader.get("nodes", stats.nodes, 0, kMost);
    reader.get("entries", stats.entries, 0, kMost);
    reader.get("components", stats.components, 0, kMost);
    reader.get("isolated", stats.isolated, 0, kMost);
    reader.get("largest_degree", stats.largestDegree, 0, kMost);
    reader.get("feature_width", stats.featureWidth, 0, kMost);
    reader.get("feature_nonzeros", stats.featureNonzeros, 0, kMost);
    reader.get("features_sparse", stats.featuresSparse);
    reader.get("classes", stats.classes, 0, kMost);
    reader.get("train_items", stats.trainItems, 0, kMost);
    reader.get("labelled_items", stats.labelledItems, 0, kMost);
    reader.get("degree_histogram", stats.degreeHistogram);
    checkCounts(reader, "degree_histogram", stats.degreeHistogram);
    reader.get("hop_histogram", stats.hopHistogram);
    reader.get("near_pairs", stats.nearPairs, 0, kMost);
    reader.get("touched_tiles", stats.touchedTiles, 0, kMost);
    reader.get("dense_tiles", stats.denseTiles, 0, kMost);
    reader.get("const_tiles", stats.constTiles, 0, kMost);
    readContexts(reader, stats);
    readSequences(reader, stats);
    reader.get("sampled", stats.sampled);
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return stats;
}

Json graphStatsToJson(const GraphStats& s)
{
    Json root{{"format", "megagraph.graph_stats"}, {"version", 1},
              {"dataset_hash", s.datasetHash},     {"structure_hash", s.structureHash},
              {"order", s.order},                  {"partition_seed", s.partitionSeed},
              {"hops", s.hops},                    {"nodes", s.nodes},
              {"entries", s.entries},              {"components", s.components},
              {"isolated", s.isolated},            {"largest_degree", s.largestDegree},
              {"feature_width", s.featureWidth},   {"feature_nonzeros", s.featureNonzeros},
              {"features_sparse", s.featuresSparse}, {"classes", s.classes},
              {"train_items", s.trainItems},       {"labelled_items", s.labelledItems},
              {"degree_histogram", s.degreeHistogram}, {"hop_histogram", s.hopHistogram},
              {"near_pairs", s.nearPairs},         {"touched_tiles", s.touchedTiles},
              {"dense_tiles", s.denseTiles},       {"const_tiles", s.constTiles}};
    Json contexts = Json::array();
    for (const auto& [ranks, c] : s.contexts)
        contexts.push_back({{"ranks", ranks}, {"cuts", c.cuts}, {"tokens", c.tokens}, {"edges", c.edges},
                            {"near_pairs", c.nearPairs}, {"touched_tiles", c.touchedTiles}, {"halo", c.halo}});
    root["contexts"] = contexts;
    root["cluster_tokens"] = s.clusterTokens;
    Json sequences = Json::array();
    for (const SequenceStats& q : s.sequences)
        sequences.push_back({{"tokens", q.tokens}, {"entries", q.entries}, {"near_pairs", q.nearPairs},
                             {"touched_tiles", q.touchedTiles}, {"labelled", q.labelled}});
    root["sequences"] = sequences;
    root["kept_edges"] = s.keptEdges;
    root["sampled"] = s.sampled;
    return root;
}

} // namespace megagraph
