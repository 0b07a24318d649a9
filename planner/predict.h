// SPDX-License-Identifier: Apache-2.0
// Time and memory of one plan from the cost model: the rank's action list of core/schedule, layer by layer (planner design, 3.4 to
// 3.8). Pure; const access is thread-safe.
#pragma once

#include "planner/cost_model.h"
#include "planner/search.h"

namespace megagraph::planner {

/// Micro-batches of one step as the sequence mode makes them: the full graph, or the real sequences of an epoch.
std::vector<SequenceStats> planSequences(const Problem& problem);
/// Shards of one micro-batch over the context ranks of a stage.
std::vector<Shard> shardsOf(const Problem& problem, const SequenceStats& sequence, const StagePlan& stage);

/// Largest number of bytes that may be used on a device: budget (or the device's own memory) less what is kept free.
int64_t usableBytes(const Problem& problem, int64_t device);
/// P(peak <= usable) with an assumed spread of 8 % (design, section 4.4, fewer than 19 runs).
double fitProbability(int64_t peakBytes, int64_t usable);
/// The inverse: usable bytes at which a predicted peak fits with `leastPFit` (at least the peak itself).
int64_t usableForFit(int64_t peakBytes, double leastPFit);
/// The whole device budget that leaves `usable` bytes usable on this device; inverse of usableBytes.
int64_t budgetForUsable(const Problem& problem, int64_t device, int64_t usable);

Result<Prediction> predictWith(const Problem& problem, const CostModel& cost, const Plan& plan);
/// Bytes that all ranks send in one step: exchanges of every block, and the sum of gradients.
int64_t movedBytes(const Problem& problem, const CostModel& cost, const Plan& plan);

} // namespace megagraph::planner
