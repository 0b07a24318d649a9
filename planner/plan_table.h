// SPDX-License-Identifier: Apache-2.0
// The table of plans that studio and command line show (planner design, 5.4). Rows 0 to 4 are the baselines serial,
// data-parallel, zero-2, ulysses, materialised, always listed. Immutable once published.
#pragma once

#include "core/plan.h"
#include "planner/problem.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace megagraph::planner {

struct PlanRow {
    uint64_t id = 0;        // hash of the canonical plan; shown as 8 hex digits
    Plan plan;              // with prediction filled in
    std::string baseline;   // "" or one of the five names
    std::string whyNot;     // reason when illegal, not executable or infeasible
    bool legal = true, runnable = true, feasible = false, front = false;
    bool allowed = true;    // by the constraints
    bool fits = false;      // predicted peak and P(fit) against the usable budget; feasible = legal, runnable, allowed and fits
    bool predicted = false; // the numbers below are there
    int64_t stepNs = 0, stepLoNs = 0, stepHiNs = 0, peakBytes = 0, movedBytes = 0;
    int64_t budgetBytes = 0; // usable bytes of the worst rank's device: budget less what is kept free
    int64_t leastBudgetBytes = 0;  // smallest device budget at which this plan counts as fitting, rounded up to what prints exactly
    double leastPFit = 0;          // the P(fit) that was asked for
    double pFit = 0, imbalance = 1, keptEdges = 1, halo = 0;
    TimeNs terms{};          // critical rank; adds up to stepNs
    MemoryBytes worst{};     // categories of the worst rank; adds up to peakBytes
    int64_t worstRank = 0;
    std::array<float, 5> share{}; // of the step time, by provenance
    int mechanisms = 0;      // replicas > 1, context > 1, recompute, ... : for `simplest`
    std::string peakAction;  // "backward of block 3"
    int64_t tokensPerStep = 0, edgesPerStep = 0;
};

/// One column: stable name of the planner design 5.4, header words with unit, and how to read it from a row.
struct Column {
    std::string name, header, unit; // unit "" | "ms" | "GiB" | "%"
    bool numeric = true, stageKnob = false;
    double (*number)(const PlanRow&) = nullptr;
    std::string (*text)(const PlanRow&) = nullptr; // display text, also for numeric columns ("-" = no number)
};
const std::vector<Column>& planColumns();
const Column* findColumn(const std::string& name);

struct PlanTable {
    std::vector<PlanRow> rows;
    int64_t count = 0, feasible = 0;
    std::string certificate; // "Fastest of all 38 legal local plans ... "
    std::string binding;     // one sentence: what binds
    std::string profileNote; // match sentence: "profile 3f2a: exact" or which profile command to run
    int64_t picked = -1;     // row, -1 = none fits
};

/// Row filter of milestone 1: `column cmp number [unit]` or `column = word` joined by `and`; "" = all rows.
/// Usage error with the position and the nearest column name.
Result<std::vector<bool>> filterRows(const PlanTable& table, const std::string& filter);
/// Marks `front` on rows of feasible plans over (stepNs, peakBytes).
void markFront(std::vector<PlanRow>& rows);

/// All columns by name (null where a row has no prediction); stage knobs are lists with one value per stage. `withRanks` adds
/// "ranks": [{"rank","peak_bytes","categories"}].
Json rowToJson(const PlanRow& row, bool withRanks = false);
Json tableToJson(const PlanTable& table); // "megagraph.plan_table"
std::string tableToCsv(const PlanTable& table);

} // namespace megagraph::planner
