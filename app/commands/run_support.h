// SPDX-License-Identifier: Apache-2.0
// What the verbs that make or read runs share: finding a run by its name, rows of the library, the progress line.
#pragma once

#include "app/commands/command.h"
#include "core/follow.h"
#include "core/plan.h"
#include "core/run_spec.h"
#include "core/store/library.h"
#include "runtime/launch/supervisor.h"

#include <string>
#include <vector>

namespace megagraph::app {

/// Ids of all run directories of a home, newest first.
std::vector<std::string> runIds(const std::string& home);
/// A run id, its unique beginning, or "last". NotFound lists the nearest; Usage when the beginning is not unique.
Result<std::string> resolveRun(const std::string& home, const std::string& name);

/// One row of the library, read from a run directory (the truth).
Result<RunRow> runRowOf(const std::string& folder);
/// The library's view of a run: rows, prediction, observation. A failure is said once on stderr and never disturbs the run.
class RunRecorder {
  public:
    RunRecorder(std::string home, Plan plan) : home_(std::move(home)), plan_(std::move(plan)) {}
    void take(const Json& line); ///< step times
    void started(const std::string& id, const std::string& folder);
    void ended(const launch::RunOutcome& outcome);

  private:
    void note(const Error& error);
    void observe(Library& library, const launch::RunOutcome& outcome);

    std::string home_;
    Plan plan_;
    std::vector<double> stepS_;
    bool noted_ = false;
};

/// The progress line of a run in the foreground, on stderr: a line that is written over on a terminal; with --events each
/// recorded line as JSON; warnings of pre-flight and stops in words.
class RunProgress {
  public:
    RunProgress(const Invocation& invocation, std::string what, int64_t steps);
    void take(const Json& line);
    void end(); ///< clears the line

  private:
    void say(const std::string& text);
    void draw();

    const Invocation& invocation_;
    std::string what_;
    int64_t steps_, step_ = 0, firstStep_ = -1;
    double loss_ = 0, stepS_ = 0, firstAt_ = 0, drawnAt_ = 0;
    std::string metric_;
    bool terminal_, drawn_ = false;
};

/// Summary of result.json for people.
void printRunResult(const Json& result, const std::string& folder);
/// The worker program, or NotFound with what to do.
Result<std::string> workerProgram();
/// Answer after an out-of-memory: the three nearest plans that fit; the first is kept in the library for `train --plan`.
std::string nearestPlanText(const std::string& home, const Plan& plan, const Json& oom);

} // namespace megagraph::app
