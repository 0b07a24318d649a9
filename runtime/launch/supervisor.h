// SPDX-License-Identifier: Apache-2.0
// The supervisor of one run (runs design, sections 1 to 7): makes the run directory, spawns one worker per rank, watches
// pipes and pidfds in one epoll loop, writes the journal, metrics, status and result, commits checkpoints, runs the stop
// ladder, leaves no process behind. Blocks its caller until the run has ended. Knows neither Torch, Qt, planner nor kernels.
//
// Worker: `PROGRAM --run DIR --rank R`, descriptors 0 null, 1 and 2 log, 3 report pipe, 4 command pipe. Environment (nothing
// else passes): RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MEGAGRAPH_RUN (run directory), MEGAGRAPH_HOME, MEGAGRAPH_ATTEMPT
// (1, 2 ..), MEGAGRAPH_RESUME_STEP (step of the checkpoint to load, -1 = begin), OMP_NUM_THREADS, MEGAGRAPH_CPU_KERNELS, HOME,
// TMPDIR, LANG, LD_LIBRARY_PATH, CUDA_VISIBLE_DEVICES, SLURM_*, NCCL_*. Rendezvous file: DIR/store.aN with N = attempt.
//
// Signals TERM, INT, HUP: stop with checkpoint; a second one: stop at once; a third: kill. USR1: checkpoint now. They are blocked
// in the calling thread, so threads of the caller must not take them.
#pragma once

#include "core/dataset_spec.h"
#include "core/plan.h"
#include "core/result.h"
#include "core/run_spec.h"

#include <functional>
#include <string>
#include <vector>

namespace megagraph::launch {

struct SupervisorOptions {
    std::string home, workerProgram;
    std::string resumeRun;          // run id: next attempt of that run, from its newest committed checkpoint
    int64_t resumeStep = -1;        // -1 = newest
    bool riskOom = false;
    double stopGraceS = 60;
    /// Text of the nearest plans that fit, asked for after an out-of-memory (the launcher may not include the planner).
    std::function<std::string(const Json& oom)> nearestPlan;
    /// Called for every event and sample line as it is recorded (progress display, profile points).
    std::function<void(const Json& line)> onLine;
    /// Called once the directory and lock exist (ready line of --detach).
    std::function<void(const std::string& id, const std::string& folder)> onReady;
};

struct RunOutcome {
    std::string id, folder, state; // finished | stopped | failed
    Json result;                   // result.json ("megagraph.run_result")
    std::vector<Json> points;      // profile_point and profile_constant lines of a profile run
    int exitCode = 0;              // 0 finished, 10 stopped, 11 refused, 12 failed
    std::string message;           // failure sentence, "" otherwise
};

/// Starts and supervises a new run of `plan` on the data set, or resumes one (then spec and plan come from its directory).
Result<RunOutcome> supervise(const RunSpec& spec, const Plan& plan, const DatasetSpec& dataset, const SupervisorOptions& options);

/// New run id "YYYYMMDD-HHMMSS-xxxxxx".
std::string newRunId();

} // namespace megagraph::launch
