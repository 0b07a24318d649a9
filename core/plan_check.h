// SPDX-License-Identifier: Apache-2.0
// The single judge of legality; planner, launcher and studio all call it. Pure.
#pragma once

#include "core/dataset_spec.h"
#include "core/plan.h"

namespace megagraph {

/// Illegal by definition (divisibility, device use, exchange against attention kind, cuts, counts of collectives):
/// InvalidInput. Legal, but not executable by this version's runtime (several stages, ulysses, halo, ZeRO > 0, bf16 ...):
/// Unsupported, whose message is the row's `why_not`. `dataset` supplies N, graphs and splits.
Result<Ok> checkPlan(const Plan& plan, const DatasetSpec& dataset);

} // namespace megagraph
