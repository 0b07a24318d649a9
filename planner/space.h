// SPDX-License-Identifier: Apache-2.0
// The plans of milestone 1: replicas x context ranks x exchange x recompute x attention on local devices, and the five baselines
// (planner design, 5.1). Pure, in canonical order.
#pragma once

#include "planner/problem.h"

#include <string>
#include <vector>

namespace megagraph::planner {

struct Candidate { Plan plan; std::string baseline; };

/// Rows 0 to 4 (serial, data-parallel, zero-2, ulysses, materialised), legal or not, then the grid without repeats of them.
std::vector<Candidate> planCandidates(const Problem& problem);
/// "" when the constraints allow every knob of the plan, else the sentence that says which one they do not.
std::string forbiddenBy(const ConstraintsSpec& constraints, const Plan& plan);
/// Value of a knob as documents write it: "replicas" "ring" "exchange" "recompute" "attention" ...; "" when unknown.
std::string knobValue(const Plan& plan, const std::string& knob);
/// Names of all plan and stage knobs.
const std::vector<std::string>& knobNames();
/// Knob distance (design, section 6): recompute, ZeRO, attention 1; exchange, replicas, ring, ulysses 2.
int knobDistance(const Plan& a, const Plan& b);
int mechanisms(const Plan& plan);

} // namespace megagraph::planner
