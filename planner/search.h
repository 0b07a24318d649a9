// SPDX-License-Identifier: Apache-2.0
// Prediction of one plan, and the exhaustive search over the local grid: replicas x context ranks x exchange x recompute
// {none, block} x attention {fused, materialised} (x sequence as the model says). Pure; results do not depend on threads.
#pragma once

#include "planner/plan_table.h"
#include "planner/problem.h"

#include <functional>
#include <stop_token>

namespace megagraph::planner {

struct Prediction {
    PlanPrediction summary;
    std::vector<TimeNs> rankTerms;       // per rank
    std::vector<std::string> peakAction; // per rank
    std::vector<std::string> notes;      // formula with numbers, per term, for details views
    std::array<float, 5> share{};
};
Result<Prediction> predict(const Problem& problem, const Plan& plan);

/// What a picked row names: "fastest" "safest" "least-memory" "simplest".
struct SearchOptions { std::string pick = "fastest"; bool evenInfeasible = false; std::vector<Plan> userPlans; };

Result<PlanTable> search(const Problem& problem, const SearchOptions& options,
                         const std::function<void(int64_t done, int64_t total)>& progress, std::stop_token stop);

/// Nearest feasible plans to `plan` (knob distance, then time); `measuredOverPredicted` scales the memory of `plan`'s kind
/// after an out-of-memory. At most `limit`.
std::vector<PlanRow> nearestFeasible(const PlanTable& table, const Plan& plan, double measuredOverPredicted, int limit);
/// "rank 3, backward of block 7: needs 27.4 of 24.0 GiB; activations 11.2 GiB ...; nearest: ..."
std::string infeasibleText(const PlanTable& table, const PlanRow& row);
/// Lines of "why this plan": bottleneck term, what binds and its price, runner-up per knob.
std::vector<std::string> whyLines(const PlanTable& table, int64_t row);

/// Sequence facts, contexts and problem assembled in one place for command line and studio: opens the data set, builds or
/// reads graph statistics, finds the matching profile unless `profile` is given.
struct ProblemRequest {
    std::string home, resources, dataset; // data set name
    ModelSpec model;
    ClusterSpec cluster;
    ConstraintsSpec constraints;
    std::optional<Profile> profile;
    std::string match = "none";
};
Result<Problem> assembleProblem(const ProblemRequest& request, const std::function<void(const std::string&, int64_t, int64_t)>& progress,
                                std::stop_token stop);

/// Jobs of `profile --quick` for this problem: what the grid needs, most useful first.
std::vector<ProfileJob> quickProfileJobs(const Problem& problem, double seconds);

} // namespace megagraph::planner
