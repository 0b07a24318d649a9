// SPDX-License-Identifier: Apache-2.0
#include "planner/search.h"

#include "core/plan_check.h"
#include "core/units.h"
#include "planner/explain.h"
#include "planner/predict.h"
#include "planner/space.h"

#include <fmt/format.h>

#include <tuple>

namespace megagraph::planner {

namespace {

uint64_t rowId(const Plan& plan)
{
    const std::string hash = planHash(plan).substr(0, 16);
    return std::strtoull(hash.c_str(), nullptr, 16);
}

/// Up to the next value that three digits show exactly, so that the printed budget, typed back, is enough.
int64_t roundUpToText(int64_t bytes)
{
    double unit = 1024.0 * 1024.0;
    while (double(bytes) >= 999.5 * unit)
        unit *= 1024;
    const double value = double(bytes) / unit, step = value < 10 ? 0.01 : value < 100 ? 0.1 : 1;
    return int64_t(std::ceil((std::ceil(value / step) + (step < 1 ? 1 : 0)) * step * unit));
}

/// The device whose budget binds `row`: what it would have to be.
void fillBudget(const Problem& problem, int64_t device, PlanRow& row)
{
    row.leastPFit = problem.constraints.leastPFit;
    row.leastBudgetBytes = roundUpToText(budgetForUsable(problem, device, usableForFit(row.peakBytes, row.leastPFit)));
}

void fillPrediction(const Problem& problem, const CostModel& cost, const Prediction& prediction, PlanRow& row)
{
    const PlanPrediction& summary = prediction.summary;
    row.plan.prediction = summary;
    row.predicted = true;
    row.stepNs = summary.stepNs;
    row.stepLoNs = summary.stepLoNs;
    row.stepHiNs = summary.stepHiNs;
    row.terms = summary.terms;
    row.share = prediction.share;
    row.pFit = summary.pFit;
    double least = 1e300;
    for (const RankPrediction& rank : summary.ranks) { // the worst rank is the one with least room
        const int64_t device = row.plan.stages.front().devices[size_t(rank.rank)];
        const int64_t usable = usableBytes(problem, device);
        const double room = double(usable) / double(std::max<int64_t>(1, rank.peakBytes));
        if (room < least) {
            least = room;
            row.worstRank = rank.rank;
            row.peakBytes = rank.peakBytes;
            row.worst = rank.categories;
            row.budgetBytes = usable;
            fillBudget(problem, device, row);
            row.peakAction = prediction.peakAction[size_t(rank.rank)];
        }
    }
    row.movedBytes = movedBytes(problem, cost, row.plan);
    row.fits = row.peakBytes <= row.budgetBytes && row.pFit >= problem.constraints.leastPFit;
}

void fillGraphFacts(const Problem& problem, PlanRow& row)
{
    const auto sequences = planSequences(problem);
    int64_t largest = 0, sum = 0;
    for (const SequenceStats& sequence : sequences) {
        row.tokensPerStep += sequence.tokens;
        row.edgesPerStep += sequence.entries;
        for (const Shard& shard : shardsOf(problem, sequence, row.plan.stages.front())) {
            largest = std::max(largest, shard.rows);
            sum += shard.rows;
        }
    }
    const int64_t shards = int64_t(sequences.size()) * row.plan.stages.front().ring * row.plan.stages.front().ulysses;
    row.imbalance = sum > 0 ? double(largest) * double(shards) / double(sum) : 1;
    row.keptEdges = problem.model.sequenceMode == SequenceMode::Clusters ? problem.stats.keptEdges : 1;
    const auto context = problem.stats.contexts.find(row.plan.stages.front().ring);
    int64_t halo = 0;
    if (context != problem.stats.contexts.end() && problem.model.sequenceMode == SequenceMode::Full)
        for (int64_t rows : context->second.halo)
            halo += rows;
    row.halo = problem.dataset.nodes > 0 ? double(halo) / double(problem.dataset.nodes) : 0;
}

PlanRow makeRow(const Problem& problem, const CostModel& cost, const Candidate& candidate)
{
    PlanRow row;
    row.plan = candidate.plan;
    row.baseline = candidate.baseline;
    row.id = rowId(row.plan);
    row.mechanisms = mechanisms(row.plan);
    const int64_t ranks = int64_t(problem.cluster.devices().size());
    const bool needsPeers = row.baseline == "data-parallel" || row.baseline == "zero-2" || row.baseline == "ulysses";
    const auto checked = checkPlan(row.plan, problem.dataset);
    if (!checked.ok()) {
        row.legal = checked.error().code != ErrorCode::InvalidInput;
        row.runnable = false;
        row.whyNot = checked.error().message;
    } else if (needsPeers && ranks < 2) {
        row.legal = row.runnable = false;
        row.whyNot = "needs at least 2 ranks, the cluster has 1";
    }
    if (const std::string forbidden = forbiddenBy(problem.constraints, row.plan); !forbidden.empty()) {
        row.allowed = false;
        if (row.whyNot.empty())
            row.whyNot = forbidden;
    }
    if (!row.runnable)
        return row;
    const auto prediction = predictWith(problem, cost, row.plan);
    if (!prediction.ok()) {
        row.runnable = false;
        row.whyNot = prediction.error().message;
        return row;
    }
    fillPrediction(problem, cost, *prediction, row);
    fillGraphFacts(problem, row);
    row.feasible = row.allowed && row.fits;
    if (row.whyNot.empty() && !row.fits)
        row.whyNot = fmt::format("rank {}: {}", row.worstRank, roomText(row));
    return row;
}

/// The feasible row that `pick` names; without one the nearest that does not fit, if asked for.
int64_t pickRow(const std::vector<PlanRow>& rows, const SearchOptions& options)
{
    int64_t fastest = -1;
    for (size_t i = 0; i < rows.size(); ++i)
        if (rows[i].feasible && (fastest < 0 || rows[i].stepNs < rows[size_t(fastest)].stepNs))
            fastest = int64_t(i);
    if (fastest < 0 && options.evenInfeasible) {
        int64_t nearest = -1;
        for (size_t i = 0; i < rows.size(); ++i)
            if (rows[i].predicted && rows[i].allowed && (nearest < 0 || rows[i].peakBytes < rows[size_t(nearest)].peakBytes))
                nearest = int64_t(i);
        return nearest;
    }
    if (fastest < 0 || options.pick == "fastest")
        return fastest;
    const auto better = [&](const PlanRow& a, const PlanRow& b) {
        if (options.pick == "least-memory")
            return std::tuple(a.peakBytes, a.stepNs) < std::tuple(b.peakBytes, b.stepNs);
        if (options.pick == "simplest")
            return std::tuple(a.mechanisms, a.stepNs) < std::tuple(b.mechanisms, b.stepNs);
        return std::tuple(-a.pFit, a.peakBytes - a.budgetBytes) < std::tuple(-b.pFit, b.peakBytes - b.budgetBytes); // safest
    };
    int64_t best = -1;
    const double limit = options.pick == "least-memory" ? 1e300 : 1.25 * double(rows[size_t(fastest)].stepNs);
    for (size_t i = 0; i < rows.size(); ++i)
        if (rows[i].feasible && double(rows[i].stepNs) <= limit && (best < 0 || better(rows[i], rows[size_t(best)])))
            best = int64_t(i);
    return best;
}

} // namespace

Result<PlanTable> search(const Problem& problem, const SearchOptions& options,
                         const std::function<void(int64_t done, int64_t total)>& progress, std::stop_token stop)
{
    MEGAGRAPH_TRY(const CostModel cost, CostModel::build(problem));
    auto candidates = planCandidates(problem);
    for (const Plan& plan : options.userPlans)
        candidates.push_back({plan, ""});
    PlanTable table;
    for (size_t i = 0; i < candidates.size(); ++i) {
        if (stop.stop_requested())
            return Error{ErrorCode::Cancelled, fmt::format("search: stopped after {} of {} plans", i, candidates.size())};
        PlanRow row = makeRow(problem, cost, candidates[i]);
        if (row.allowed || !row.baseline.empty())
            table.rows.push_back(std::move(row));
        if (progress)
            progress(int64_t(i) + 1, int64_t(candidates.size()));
    }
    markFront(table.rows);
    table.count = int64_t(table.rows.size());
    for (const PlanRow& row : table.rows)
        table.feasible += row.feasible;
    table.picked = pickRow(table.rows, options);
    table.certificate = certificateText(problem, table, options.pick);
    table.binding = bindingText(table);
    table.profileNote = profileText(problem);
    return table;
}

} // namespace megagraph::planner
