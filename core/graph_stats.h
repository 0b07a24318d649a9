// SPDX-License-Identifier: Apache-2.0
// What the planner knows of a graph (planner design, section 2): a plain struct, built by kernels/graph/graph_stats and
// kept in the library (graph_stats table) and cache. Values only.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace megagraph {

struct ContextStats {                   // for one number of context ranks C and one cut rule
    std::vector<int64_t> cuts;          // C + 1
    std::vector<int64_t> tokens;        // C
    std::vector<int64_t> edges;         // C: entries whose row lies in the interval
    std::vector<int64_t> nearPairs;     // C * C: ν_ij pairs within K hops, query interval i, key interval j
    std::vector<int64_t> touchedTiles;  // C * C: τ_ij
    std::vector<int64_t> halo;          // C * C: distinct remote keys that i needs from j
};

struct SequenceStats { int64_t tokens = 0, entries = 0, nearPairs = 0, touchedTiles = 0, labelled = 0; };

struct GraphStats {
    std::string datasetHash, structureHash, order = "metis";
    int64_t partitionSeed = 1, hops = 3;
    int64_t nodes = 0, entries = 0, components = 0, isolated = 0, largestDegree = 0;
    int64_t featureWidth = 0, featureNonzeros = 0, classes = 0, trainItems = 0, labelledItems = 0;
    bool featuresSparse = false;
    std::vector<int64_t> degreeHistogram;      // powers of two: [0], [1], [2,3], [4,7] ...
    std::vector<double> hopHistogram;          // pairs per source at distance 0..K, far, unreachable
    int64_t nearPairs = 0, touchedTiles = 0;   // whole sequence, all query rows
    int64_t denseTiles = 0, constTiles = 0;
    std::map<int64_t, ContextStats> contexts;  // by C
    std::vector<SequenceStats> sequences;      // `clusters`: one entry per sequence of an epoch
    int64_t clusterTokens = 0;                 // S of `sequences`
    double keptEdges = 1.0;                    // share of edges inside sequences
    bool sampled = false;                      // hop counts from a sample instead of all sources
};

Result<GraphStats> graphStatsFromJson(const Json& value, const std::string& file);
Json graphStatsToJson(const GraphStats& stats);

} // namespace megagraph
