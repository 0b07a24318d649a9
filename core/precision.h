// SPDX-License-Identifier: Apache-2.0
// Bytes per parameter: one table for planner and runtime (planner design 3.7).
#pragma once

#include "core/model_spec.h"
#include "core/plan.h"

namespace megagraph {

struct StateBytes { int64_t weight, gradient, optimizer; };
StateBytes stateBytes(Precision precision, OptimizerKind optimizer);
inline int64_t elementBytes(Precision precision) { return precision == Precision::Fp32 ? 4 : 2; }
/// Every CPU request counts as its size rounded up to 64 B.
constexpr int64_t roundedBytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace megagraph
