// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/graph_stats.h"

#include "core/cuts.h"
#include "kernels/graph/cache.h"
#include "kernels/graph/tiles.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <tuple>

namespace megagraph::kernels {
namespace {

constexpr const char* kStatsVersion = "graph-stats-1";

std::vector<int64_t> degrees(CsrView graph)
{
    std::vector<int64_t> out(size_t(graph.nodes));
    for (int64_t v = 0; v < graph.nodes; ++v)
        out[size_t(v)] = graph.indptr[size_t(v) + 1] - graph.indptr[size_t(v)];
    return out;
}

void countDegrees(std::span<const int64_t> degree, GraphStats& stats)
{
    for (const int64_t d : degree) {
        const size_t bucket = d == 0 ? 0 : size_t(std::bit_width(uint64_t(d)));
        if (stats.degreeHistogram.size() <= bucket)
            stats.degreeHistogram.resize(bucket + 1, 0);
        ++stats.degreeHistogram[bucket];
        stats.isolated += d == 0;
        stats.largestDegree = std::max(stats.largestDegree, d);
    }
}

void countSplit(const Dataset& dataset, std::span<const uint8_t> split, GraphStats& stats)
{
    stats.labelledItems = dataset.spec().labelledItems;
    for (size_t i = 0; i < split.size(); ++i) {
        const bool labelled = i >= dataset.classLabels().size() || dataset.classLabels()[i] >= 0;
        stats.trainItems += (split[i] & 1) != 0 && labelled;
    }
}

/// edges and halo of each context rank: one pass with a stamp per key.
void countEdges(CsrView graph, ContextStats& context)
{
    const int64_t parts = int64_t(context.cuts.size()) - 1;
    context.halo.assign(size_t(parts * parts), 0);
    std::vector<int32_t> owner(size_t(graph.nodes)), stamp(size_t(graph.nodes), -1);
    for (int64_t c = 0; c < parts; ++c) {
        std::fill(owner.begin() + context.cuts[size_t(c)], owner.begin() + context.cuts[size_t(c) + 1], int32_t(c));
        context.tokens.push_back(context.cuts[size_t(c) + 1] - context.cuts[size_t(c)]);
        context.edges.push_back(graph.indptr[size_t(context.cuts[size_t(c) + 1])] - graph.indptr[size_t(context.cuts[size_t(c)])]);
    }
    for (int64_t c = 0; c < parts; ++c) {
        for (int64_t e = graph.indptr[size_t(context.cuts[size_t(c)])]; e < graph.indptr[size_t(context.cuts[size_t(c) + 1])]; ++e) {
            const size_t key = size_t(graph.indices[size_t(e)]);
            if (owner[key] != c && stamp[key] != c) {
                stamp[key] = int32_t(c);
                ++context.halo[size_t(c * parts + owner[key])];
            }
        }
    }
}

Result<ContextStats> contextStats(CsrView graph, const ModelSpec& model, int64_t parts, std::span<const int64_t> degree,
                                  const ParallelFor& parallel, std::stop_token stop, std::vector<double>* hopPairs)
{
    const bool dense = attentionKind(model) == AttentionKind::Dense;
    ContextStats out;
    out.cuts = costCuts(tokenCost(dense, graph.nodes, degree), parts);
    countEdges(graph, out);
    out.nearPairs.assign(size_t(parts * parts), 0);
    out.touchedTiles.assign(size_t(parts * parts), 0);
    if (!dense)
        return out;
    MEGAGRAPH_TRY(const auto tiles, summarizeTiles(graph, int32_t(model.hops), out.cuts, parallel, stop));
    for (size_t i = 0; i < tiles.size(); ++i) {
        out.nearPairs[i] = tiles[i].nearPairs;
        out.touchedTiles[i] = tiles[i].touchedTiles;
        if (hopPairs != nullptr) {
            hopPairs->resize(tiles[i].hopPairs.size(), 0);
            for (size_t t = 0; t < tiles[i].hopPairs.size(); ++t)
                (*hopPairs)[t] += tiles[i].hopPairs[t];
        }
    }
    return out;
}

/// Mean pairs per source at distance 0..K, then far and unreachable.
void fillHops(const std::vector<double>& hopPairs, std::span<const int32_t> component, GraphStats& stats)
{
    if (stats.nodes == 0 || hopPairs.empty())
        return;
    std::vector<double> size;
    for (const int32_t c : component) {
        if (size.size() <= size_t(c))
            size.resize(size_t(c) + 1, 0);
        ++size[size_t(c)];
    }
    double reachable = 0, near = 0;
    for (const double s : size)
        reachable += s * s;
    for (const double pairs : hopPairs) {
        stats.hopHistogram.push_back(pairs / double(stats.nodes));
        near += pairs;
    }
    stats.hopHistogram.push_back((reachable - near) / double(stats.nodes));
    stats.hopHistogram.push_back(double(stats.nodes) - reachable / double(stats.nodes));
}

Result<Ok> sequenceStats(const std::string& home, const Dataset& dataset, CsrView graph, const TokenOrder& order,
                         std::span<const uint8_t> split, const ModelSpec& model, const GraphStatsOptions& options,
                         const ParallelFor& parallel, std::stop_token stop, GraphStats& stats)
{
    MEGAGRAPH_TRY(const auto clusters, cachedClusters(home, stats.structureHash, graph, options.order, model.sequenceTokens,
                                                      options.partitionSeed));
    stats.clusterTokens = model.sequenceTokens;
    stats.keptEdges = clusters.keptEdges;
    for (const auto& tokens : clusters.sequences) {
        const Csr local = induced(graph, tokens);
        SequenceStats sequence{int64_t(tokens.size()), int64_t(local.indices.size()), 0, 0, 0};
        for (const int32_t token : tokens) {
            const size_t item = size_t(order.order[size_t(token)]);
            const bool labelled = item >= dataset.classLabels().size() || dataset.classLabels()[item] >= 0;
            sequence.labelled += item < split.size() && (split[item] & 1) != 0 && labelled;
        }
        if (attentionKind(model) == AttentionKind::Dense) {
            const int64_t whole[] = {0, sequence.tokens};
            MEGAGRAPH_TRY(const auto tiles, summarizeTiles(symmetrised(local.view()).view(), int32_t(model.hops), whole, parallel, stop));
            sequence.nearPairs = tiles[0].nearPairs;
            sequence.touchedTiles = tiles[0].touchedTiles;
        }
        stats.sequences.push_back(sequence);
    }
    return Ok{};
}

std::string statsKey(const Dataset& dataset, const ModelSpec& model, const GraphStatsOptions& options)
{
    std::string contexts;
    for (const int64_t c : options.contexts)
        contexts += std::to_string(c) + ",";
    return fmt::format("{} {} {} {} {} {} {} {} {}", dataset.spec().contentHash, options.split, options.order, options.partitionSeed,
                       model.hops, int(model.kind), int(model.sequenceMode), model.sequenceTokens, contexts);
}

} // namespace

Result<GraphStats> graphStats(const std::string& home, const Dataset& dataset, const ModelSpec& model,
                              const GraphStatsOptions& options, const ParallelFor& parallel, const Progress& progress,
                              std::stop_token stop)
{
    const std::string path = cachePath(home, "graph-stats", {statsKey(dataset, model, options), kStatsVersion});
    if (const auto bytes = readCache(path)) {
        auto json = parseJson(*bytes, path);
        if (json) {
            auto stored = graphStatsFromJson(*json, path);
            if (stored)
                return stored;
        }
    }
    const DatasetSpec& spec = dataset.spec();
    GraphStats stats;
    stats.datasetHash = spec.contentHash;
    stats.structureHash = spec.structureHash;
    stats.order = options.order;
    stats.partitionSeed = options.partitionSeed;
    stats.hops = model.hops;
    stats.nodes = spec.nodes;
    stats.entries = spec.entries;
    stats.components = spec.components;
    stats.featureWidth = spec.featureWidth;
    stats.featuresSparse = spec.featureKind == "sparse";
    stats.featureNonzeros = stats.featuresSparse ? spec.featureNonzeros : spec.nodes * spec.featureWidth;
    stats.classes = int64_t(spec.classes.size());
    std::span<const uint8_t> split;
    if (!spec.splits.empty()) {
        MEGAGRAPH_TRY(split, dataset.split(options.split));
        countSplit(dataset, split, stats);
    }
    const CsrView raw{spec.nodes, dataset.indptr(), dataset.indices()};
    MEGAGRAPH_TRY(const TokenOrder order, cachedTokenOrder(home, spec.structureHash, raw, options.order, options.partitionSeed,
                                                           progress, stop));
    const Csr graph = symmetrised(permute(raw, order.order).view());
    const std::vector<int64_t> degree = degrees(graph.view());
    countDegrees(degree, stats);
    std::vector<double> hopPairs;
    for (size_t i = 0; i < options.contexts.size(); ++i) {
        if (progress)
            progress("graph statistics", int64_t(i), int64_t(options.contexts.size()));
        const int64_t parts = options.contexts[i];
        MEGAGRAPH_TRY(stats.contexts[parts], contextStats(graph.view(), model, parts, degree, parallel, stop, i == 0 ? &hopPairs : nullptr));
    }
    if (!stats.contexts.empty()) {
        const ContextStats& first = stats.contexts.begin()->second;
        for (size_t i = 0; i < first.nearPairs.size(); ++i) {
            stats.nearPairs += first.nearPairs[i];
            stats.touchedTiles += first.touchedTiles[i];
        }
    }
    fillHops(hopPairs, order.component, stats);
    if (model.sequenceMode == SequenceMode::Clusters) {
        MEGAGRAPH_TRY(std::ignore, sequenceStats(home, dataset, graph.view(), order, split, model, options, parallel, stop, stats));
    }
    MEGAGRAPH_TRY(std::ignore, writeCache(path, graphStatsToJson(stats).dump()));
    if (progress)
        progress("graph statistics", int64_t(options.contexts.size()), int64_t(options.contexts.size()));
    return stats;
}

} // namespace megagraph::kernels
