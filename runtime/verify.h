// SPDX-License-Identifier: Apache-2.0
// Proof of sameness (parallelism design, section 6): the serial run writes each step's loss and summed gradients below
// gradients/ of its run folder; rank 0 of the plan's run compares. Training thread only.
#pragma once

#include "core/model_layout.h"
#include "runtime/trainer.h"

#include <memory>
#include <string>
#include <vector>

namespace megagraph::runtime {

/// ||a - b||_2 / max(||b||_2, floor) over one parameter; the floor is 1e-3 x the norm of the whole serial gradient, because
/// some gradients are zero in theory and rounding in practice.
double relativeDifference(const float* a, const float* b, int64_t count, double floorNorm);

/// The observer for run.verifyRole on this rank; nullptr where there is nothing to do (ranks > 0 of a plan).
/// InvalidInput: unknown role.
Result<std::unique_ptr<StepObserver>> makeVerifier(const RunSpec& run, const std::string& home, const std::string& runFolder,
                                                   int64_t rank, const std::vector<ParameterSpec>& layout, Reporter& reporter);

} // namespace megagraph::runtime
