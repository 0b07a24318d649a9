// SPDX-License-Identifier: Apache-2.0
// Sentences about a table of plans: what was searched, what binds and its price, which profile speaks. Pure.
#pragma once

#include "planner/plan_table.h"
#include "planner/problem.h"

#include <string>

namespace megagraph::planner {

std::string certificateText(const Problem& problem, const PlanTable& table, const std::string& pick);
/// One sentence: memory, the constraints, or nothing; with the bytes that the next faster plan lacks.
std::string bindingText(const PlanTable& table);
/// Which profile the numbers come from, or the command that makes one.
std::string profileText(const Problem& problem);
/// The sentence for an allowed set in which nothing fits: device, missing bytes, and the nearest change of `all` (a table
/// without constraints) that fits.
std::string nothingFitsText(const PlanTable& table, const PlanTable& all);
/// "needs 128 MiB of 132 MiB usable; P(fit) 65 %, asked 95 %": why a row does not count as fitting, with the rule.
std::string roomText(const PlanRow& row);
/// "ring 2, recompute block": the knobs that differ from `from`.
std::string changeText(const Plan& from, const Plan& to);

} // namespace megagraph::planner
