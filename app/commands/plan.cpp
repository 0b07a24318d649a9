// SPDX-License-Identifier: Apache-2.0
// `plan`: searches all legal local plans for a data set, a model and devices, and picks one.
#include "app/commands/planning.h"

#include "core/json.h"
#include "core/places.h"
#include "core/store/library.h"
#include "core/units.h"
#include "planner/explain.h"
#include "planner/plan_table.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <unistd.h>

namespace megagraph::app {
namespace {

struct PlanOptions {
    PlanningOptions planning;
    std::string pick = "fastest", out, table, where;
    bool evenInfeasible = false, csv = false;
};

std::string mark(const planner::PlanTable& table, size_t row)
{
    const bool picked = table.picked == int64_t(row);
    return std::string(picked ? ">" : " ") + (table.rows[row].front ? "*" : " ");
}

std::string contextText(const planner::PlanRow& row)
{
    const StagePlan& stage = row.plan.stages.front();
    const int64_t contexts = stage.ring * stage.ulysses;
    return contexts == 1 ? "-" : fmt::format("{} {}", exchangeName(stage.exchange), contexts);
}

void printRow(const planner::PlanTable& table, size_t i)
{
    const planner::PlanRow& row = table.rows[i];
    const StagePlan& stage = row.plan.stages.front();
    const std::string step = row.predicted ? durationText(row.stepNs) : "-", peak = row.predicted ? bytesText(row.peakBytes) : "-";
    const std::string fit = row.predicted ? fmt::format("{:.0f} %", 100 * row.pFit) : "-";
    fmt::print("{} {:<14} {:>8} {:>10} {:<12} {:<9} {:>9} {:>9} {:>6}  {}\n", mark(table, i), row.baseline, stage.replicas, contextText(row),
               attentionPathName(row.plan.attention), recomputeName(stage.recompute), step, peak, fit,
               row.feasible ? "" : row.whyNot);
}

void printTable(const planner::PlanTable& table, const std::vector<bool>& shown)
{
    fmt::print("   {:<14} {:>8} {:>10} {:<12} {:<9} {:>9} {:>9} {:>6}  {}\n", "baseline", "replicas", "context", "attention", "recompute",
               "step", "peak", "P(fit)", "why not");
    for (size_t i = 0; i < table.rows.size(); ++i)
        if (shown[i])
            printRow(table, i);
    fmt::print("\n  * on the front of step time and memory, > picked\n");
    fmt::print("  {}\n  {}\n  {}\n", table.certificate, table.binding, table.profileNote);
    if (table.picked >= 0) {
        const planner::PlanRow& row = table.rows[size_t(table.picked)];
        fmt::print("\nPicked \"{}\": {} a step ({} to {})\n", row.plan.name, durationText(row.stepNs), durationText(row.stepLoNs), durationText(row.stepHiNs));
        for (const RankPrediction& rank : row.plan.prediction.ranks)
            fmt::print("  rank {}: {}\n", rank.rank, bytesText(rank.peakBytes));
    }
}

Result<Ok> writePicked(const PlanOptions& options, const planner::PlanTable& table)
{
    if (table.picked < 0)
        return Ok{};
    const Plan& plan = table.rows[size_t(table.picked)].plan;
    if (!options.out.empty()) {
        MEGAGRAPH_TRY(std::ignore, writeFileAtomically(options.out, planToJson(plan).dump(2) + "\n"));
    }
    MEGAGRAPH_TRY(Library library, Library::open(homeFolder()));
    return library.savePlan(plan);
}

/// The answer when nothing that is allowed fits: the nearest change is looked for without the constraints.
Result<std::string> answerText(const planner::Problem& problem, const planner::PlanTable& table)
{
    planner::Problem open = problem;
    open.constraints.allow.clear();
    MEGAGRAPH_TRY(const planner::PlanTable all, planner::search(open, {}, {}, {}));
    return planner::nothingFitsText(table, all);
}

Result<int> plan(const PlanOptions& options, const Invocation& invocation)
{
    MEGAGRAPH_TRY(const planner::Problem problem, planningProblem(options.planning, invocation));
    planner::SearchOptions search;
    search.pick = options.pick;
    search.evenInfeasible = options.evenInfeasible;
    MEGAGRAPH_TRY(const planner::PlanTable table, planner::search(problem, search, [&](int64_t done, int64_t total) {
        progress(invocation, "plans", done, total);
    }, invocation.stop));
    MEGAGRAPH_TRY(const std::vector<bool> shown, planner::filterRows(table, options.where));
    MEGAGRAPH_TRY(std::ignore, writePicked(options, table));
    const std::string document = planner::tableToJson(table).dump(2) + "\n";
    if (!options.table.empty()) {
        const bool csv = options.table.size() > 4 && options.table.substr(options.table.size() - 4) == ".csv";
        MEGAGRAPH_TRY(std::ignore, writeFileAtomically(options.table, csv ? planner::tableToCsv(table) : document));
    }
    const bool fits = table.picked >= 0 && table.rows[size_t(table.picked)].feasible;
    if (invocation.json)
        fmt::print("{}", document);
    else if (options.csv)
        fmt::print("{}", planner::tableToCsv(table));
    else
        printTable(table, shown);
    if (fits)
        return 0;
    MEGAGRAPH_TRY(const std::string answer, answerText(problem, table));
    std::fflush(stdout);
    fmt::print(stderr, "megagraph: {}\n", answer);
    return exitCode(ErrorCode::Infeasible);
}

} // namespace

Verb addPlan(CLI::App& root, Invocation& invocation)
{
    auto options = std::make_shared<PlanOptions>();
    CLI::App* app = root.add_subcommand("plan", "Search all legal plans and pick one");
    addPlanningOptions(*app, options->planning, true);
    app->add_option("--pick", options->pick, "fastest, safest, least-memory or simplest")
        ->check(CLI::IsMember({"fastest", "safest", "least-memory", "simplest"}));
    app->add_option("--out", options->out, "Write the picked plan to this file");
    app->add_option("--table", options->table, "Write all rows to this file (.json or .csv)");
    app->add_option("--where", options->where, "Show only rows that hold, e.g. \"peak_gib < 1 and exchange = ring\"");
    app->add_flag("--even-infeasible", options->evenInfeasible, "If nothing that is allowed fits, write the nearest plan all the same");
    app->add_flag("--json", invocation.json, "Print one JSON document");
    app->add_flag("--csv", options->csv, "Print all rows as CSV");
    app->add_flag("--events", invocation.events, "Progress as JSON lines on stderr");
    app->footer("Example: megagraph plan --data cora --model graphormer-cora --ranks 2 --budget 1GiB --out plan.json");
    return {app, [options, &invocation] {
                const auto code = plan(*options, invocation);
                return code.ok() ? *code : report(code.error(), invocation.json);
            }};
}

} // namespace megagraph::app
