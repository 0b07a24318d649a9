// SPDX-License-Identifier: Apache-2.0
// Profiling mode of a worker: executes the jobs of run.json in order, all ranks in step, and reports one profile_point per
// phase measured (planner design, 1.2 and 1.3; keys in core/profile.h). Out of memory is a status of its point, not an end.
#pragma once

#include "runtime/trainer.h"

namespace megagraph::runtime {

/// Runs run.profileJobs; returns the worker's exit code. `done` has been reported.
int runProfile(WorkerContext& context);

} // namespace megagraph::runtime
