// SPDX-License-Identifier: Apache-2.0
// Options that say what to plan for, shared by `profile`, `plan`, `train` and `verify`: data set, model, devices, constraints, profile.
#pragma once

#include "app/commands/command.h"
#include "core/run_spec.h"
#include "planner/search.h"

#include <string>
#include <vector>

namespace megagraph::app {

struct PlanningOptions {
    std::string data, model;             // data set of the library; preset or model.json
    int64_t ranks = 0;                   // 0 = min(2, cores)
    std::string budget;                  // "1GiB" per rank; "" = 80 % of available memory / ranks
    std::string cluster, constraints;    // files; "" = this machine, no constraints
    std::vector<std::string> allow, set; // KNOB=V,..  KEY=VALUE
    std::string profile;                 // id or file; "" = the newest that matches
    bool acceptStale = false;
};
/// Adds --data --model --ranks --budget --cluster --set, and with `constraints` also --constraints --allow --profile --accept-stale.
void addPlanningOptions(CLI::App& app, PlanningOptions& options, bool constraints);
/// Reads model, cluster and constraints. Usage, NotFound, InvalidInput, Refused (stale or foreign profile).
Result<planner::ProblemRequest> planningRequest(const PlanningOptions& options);
/// planningRequest and assembleProblem with progress of this invocation.
Result<planner::Problem> planningProblem(const PlanningOptions& options, const Invocation& invocation);
/// Reads a model preset or file and applies `--set`.
Result<ModelSpec> modelWithSettings(const std::string& model, const std::vector<std::string>& settings);

} // namespace megagraph::app
