// SPDX-License-Identifier: Apache-2.0
// A training state as checkpoint shards and back (runs design, section 7): weights and moments in fp32, scalars in the
// manifest's state object. Synchronous. Training thread only.
#pragma once

#include "core/checkpoint.h"
#include "core/result.h"
#include "runtime/model.h"
#include "runtime/optimizer.h"

#include <cstdint>
#include <limits>
#include <string>

namespace megagraph::runtime {

/// Scalars that resume needs; everything else follows from (seed, step).
struct TrainingScalars {
    int64_t step = 0;      // updates applied
    int64_t bestStep = -1; // -1: no evaluation yet
    double bestValid = std::numeric_limits<double>::quiet_NaN();
    double bestTest = std::numeric_limits<double>::quiet_NaN();
    double bestTrainLoss = std::numeric_limits<double>::quiet_NaN();
    double lastLoss = std::numeric_limits<double>::quiet_NaN();
};
Json scalarsToJson(const TrainingScalars& scalars, const std::string& optimizerKind, int64_t updates);
Result<TrainingScalars> scalarsFromJson(const Json& state, const std::string& file);

/// Writes this rank's shard to checkpoints/<temporary name> of the run. Under ZeRO-0 all parameters are replicated: rank 0
/// writes them, the others an empty shard.
Result<ShardReport> saveTrainingState(const std::string& runFolder, int64_t rank, int64_t attempt, const TrainingScalars& scalars,
                                      GraphModel& model, const Optimizer& optimizer, const std::string& optimizerKind);
/// Fills parameters and moments from a committed checkpoint folder. Corrupt, or InvalidInput when shapes or optimizer differ;
/// nothing is used before all names and shapes have been compared.
Result<TrainingScalars> loadTrainingState(const std::string& folder, GraphModel& model, Optimizer& optimizer,
                                          const std::string& optimizerKind);

} // namespace megagraph::runtime
