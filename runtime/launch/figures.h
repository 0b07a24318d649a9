// SPDX-License-Identifier: Apache-2.0
// The numbers of a run as they come in: for status.json, result.json and the progress line. One thread.
#pragma once

#include "core/json.h"
#include "core/plan.h"
#include "core/run_spec.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace megagraph::launch {

struct Evaluation { std::string metric; double value = 0; int64_t step = 0; bool known = false; };

class Figures {
  public:
    /// A recorded event or sample line (with attempt, kind and rank); `now` in monotonic seconds.
    void take(const Json& line, double now);
    void startAttempt(int64_t resumeStep);

    int64_t step() const { return step_; }
    double loss() const { return loss_; }
    double stepSeconds() const { return lastStepS_; }
    double etaSeconds(int64_t steps, double now) const; ///< -1 = not known yet
    double medianStepSeconds() const;                   ///< of the attempt, without its first 5 steps; 0 = none
    const Evaluation& evaluation(const std::string& split) const;

    int64_t lastCommit = -1, attempts = 1;
    double wallS = 0;

    /// "megagraph.run_result": numbers of the `done` line where there is one, else the last that were seen.
    Json result(const RunSpec& spec, const Plan& plan, const std::string& state, const std::string& message) const;

  private:
    void takeStep(const Json& line, double now);

    int64_t step_ = 0, bestStep_ = -1;
    double loss_ = 0, lastStepS_ = 0;
    bool lossKnown_ = false;
    double firstStepAt_ = -1;
    int64_t firstStep_ = 0;
    std::vector<float> stepS_;
    std::map<std::string, Evaluation> evaluations_; // by split, newest
    Json best_, done_;                              // `best` line; `result` of rank 0's done line
    std::map<int64_t, int64_t> peak_;               // by rank
};

} // namespace megagraph::launch
