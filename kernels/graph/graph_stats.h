// SPDX-License-Identifier: Apache-2.0
// Builds core/graph_stats for the planner; cached under `home`/cache. Deterministic.
#pragma once

#include "core/graph_stats.h"
#include "core/io/dataset.h"
#include "core/model_spec.h"
#include "kernels/graph/token_order.h"
#include "kernels/types.h"

namespace megagraph::kernels {

struct GraphStatsOptions {
    std::vector<int64_t> contexts{1, 2}; // every C of the grid
    std::string split;                    // "" = first
    int64_t partitionSeed = 1;
    std::string order = "metis";
};
Result<GraphStats> graphStats(const std::string& home, const Dataset& dataset, const ModelSpec& model,
                              const GraphStatsOptions& options, const ParallelFor& parallel, const Progress& progress,
                              std::stop_token stop);

} // namespace megagraph::kernels
