// SPDX-License-Identifier: Apache-2.0
// Evaluation over all sequences: forward passes without gradients, parts of the metrics summed or gathered over all ranks, so
// the value does not depend on the plan. Collective over all ranks; every rank gets the same numbers.
#pragma once

#include "core/model_spec.h"
#include "runtime/comm.h"
#include "runtime/model.h"
#include "runtime/work_set.h"

#include <cstdint>

namespace megagraph::runtime {

struct SplitScore { double value = 0, loss = 0; int64_t items = 0; };
struct Evaluation { SplitScore valid, test; };

/// Sequence j is computed by replica j mod D, as in training.
Evaluation evaluate(GraphModel& model, const ModelSpec& spec, const WorkSet& work, const Groups& groups, PassContext pass);

} // namespace megagraph::runtime
