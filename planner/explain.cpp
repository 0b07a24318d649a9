// SPDX-License-Identifier: Apache-2.0
#include "planner/explain.h"

#include "core/units.h"
#include "planner/search.h"
#include "planner/space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <set>

namespace megagraph::planner {

namespace {

std::string title(const PlanRow& row)
{
    return row.baseline.empty() ? fmt::format("\"{}\"", row.plan.name) : fmt::format("\"{}\" ({})", row.plan.name, row.baseline);
}

bool couldRun(const PlanRow& row)
{
    return row.predicted && row.legal && row.runnable;
}

std::vector<std::pair<std::string, int64_t>> largestCategories(const MemoryBytes& bytes, size_t count)
{
    std::vector<std::pair<std::string, int64_t>> parts;
    for (int c = 0; c < kMemoryCategories; ++c)
        parts.emplace_back(memoryCategoryName(MemoryCategory(c)), bytes[size_t(c)]);
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    parts.resize(std::min(count, parts.size()));
    return parts;
}

std::string largestTerm(const PlanRow& row)
{
    size_t best = 0;
    for (size_t t = 0; t < row.terms.size(); ++t)
        if (row.terms[t] > row.terms[best])
            best = t;
    const double share = row.stepNs > 0 ? 100.0 * double(row.terms[best]) / double(row.stepNs) : 0;
    return fmt::format("{} takes {} of {} ({:.0f} %)", timeTermName(TimeTerm(best)), durationText(row.terms[best]), durationText(row.stepNs), share);
}

const PlanRow* fastestThat(const PlanTable& table, const auto& accept)
{
    const PlanRow* best = nullptr;
    for (const PlanRow& row : table.rows)
        if (accept(row) && (!best || row.stepNs < best->stepNs))
            best = &row;
    return best;
}

} // namespace

std::string changeText(const Plan& from, const Plan& to)
{
    std::vector<std::string> changes;
    for (const char* knob : {"replicas", "ring", "ulysses", "exchange", "zero", "recompute", "attention", "tokens"})
        if (knobValue(from, knob) != knobValue(to, knob))
            changes.push_back(fmt::format("{} {} instead of {}", knob, knobValue(to, knob), knobValue(from, knob)));
    return changes.empty() ? "no change" : fmt::format("{}", fmt::join(changes, ", "));
}

std::string certificateText(const Problem& problem, const PlanTable& table, const std::string& pick)
{
    int64_t legal = 0, memory = 0, forbidden = 0;
    for (const PlanRow& row : table.rows) {
        legal += couldRun(row) && row.allowed;
        memory += couldRun(row) && row.allowed && !row.fits;
        forbidden += couldRun(row) && !row.allowed;
    }
    std::string name = pick;
    if (!name.empty())
        name.front() = char(std::toupper(name.front()));
    std::string text = fmt::format("{} of all {} legal local plans on {} device{}: {} fit, {} excluded by memory.", name, legal,
                                   problem.cluster.devices().size(), problem.cluster.devices().size() == 1 ? "" : "s", table.feasible, memory);
    if (forbidden > 0)
        text += fmt::format(" {} baseline{} not allowed by the constraints.", forbidden, forbidden == 1 ? " is" : "s are");
    if (problem.model.sequenceMode == SequenceMode::Clusters)
        text += fmt::format(" {} sequences of about {} tokens keep {:.1f} % of the edges.", problem.stats.sequences.size(),
                            problem.model.sequenceTokens, 100 * problem.stats.keptEdges);
    return text;
}

std::string profileText(const Problem& problem)
{
    const auto ranks = int64_t(problem.cluster.devices().size());
    const std::string command = fmt::format("megagraph profile --quick --ranks {} --data {} --model {}", ranks, problem.dataset.name,
                                            problem.model.name);
    if (!problem.profile)
        return "No profile of this machine, model and data set: every number is assumed. Measure with: " + command;
    const std::string id = problem.profile->id.substr(0, 8);
    if (problem.match == "exact")
        return fmt::format("Profile {} of {} (exact match).", id, problem.profile->createdUtc);
    return fmt::format("Profile {} of {} ({} match): every number is transferred. Measure anew with: {}", id, problem.profile->createdUtc,
                       problem.match, command);
}

std::string bindingText(const PlanTable& table)
{
    if (table.picked < 0 || !table.rows[size_t(table.picked)].feasible) {
        const PlanRow* least = nullptr;
        for (const PlanRow& row : table.rows)
            if (couldRun(row) && row.allowed && (!least || row.peakBytes < least->peakBytes))
                least = &row;
        if (!least)
            return "Nothing that is allowed can run: see why_not of each row.";
        return fmt::format("Memory binds: no allowed plan fits; the smallest, {}, on rank {} {}; a budget of {} would do.", title(*least),
                           least->worstRank, roomText(*least), bytesText(least->leastBudgetBytes));
    }
    const PlanRow& picked = table.rows[size_t(table.picked)];
    const PlanRow* blocked = fastestThat(table, [&](const PlanRow& r) {
        return couldRun(r) && r.allowed && !r.fits && r.stepNs < picked.stepNs;
    });
    if (blocked)
        return fmt::format("Memory binds: {} would take {} instead of {} but on rank {} {}; a budget of {} would allow it.",
                           title(*blocked), durationText(blocked->stepNs), durationText(picked.stepNs), blocked->worstRank,
                           roomText(*blocked), bytesText(blocked->leastBudgetBytes));
    const PlanRow* forbidden = fastestThat(table, [&](const PlanRow& r) {
        return couldRun(r) && !r.allowed && r.fits && r.stepNs < picked.stepNs;
    });
    if (forbidden)
        return fmt::format("The constraints bind: {} would take {} instead of {} ({}).", title(*forbidden), durationText(forbidden->stepNs),
                           durationText(picked.stepNs), forbidden->whyNot);
    const PlanRow* faster = fastestThat(table, [&](const PlanRow& r) { return r.feasible && r.stepNs < picked.stepNs; });
    if (faster)
        return fmt::format("The choice binds, not the machine: {} fits and takes {} instead of {}.", title(*faster),
                           durationText(faster->stepNs), durationText(picked.stepNs));
    return fmt::format("Nothing binds: the fastest allowed plan fits with {} to spare per device; {}.",
                       bytesText(picked.budgetBytes - picked.peakBytes), largestTerm(picked));
}

std::string roomText(const PlanRow& row)
{
    const std::string need = fmt::format("needs {} of {} usable", bytesText(row.peakBytes), bytesText(row.budgetBytes));
    if (row.peakBytes > row.budgetBytes)
        return need + fmt::format(", {} too much", bytesText(row.peakBytes - row.budgetBytes));
    return need + fmt::format(" with P(fit) {:.0f} %, asked {:.0f} %", 100 * row.pFit, 100 * row.leastPFit);
}

std::string infeasibleText(const PlanTable& table, const PlanRow& row)
{
    if (!row.legal || !row.runnable)
        return row.whyNot;
    std::vector<std::string> parts;
    for (const auto& [name, bytes] : largestCategories(row.worst, 3))
        parts.push_back(name + " " + bytesText(bytes));
    std::string text = fmt::format("rank {}, {}: {}; {}", row.worstRank, row.peakAction, roomText(row), fmt::join(parts, ", "));
    const auto nearest = nearestFeasible(table, row.plan, 1.0, 1);
    if (!nearest.empty())
        text += fmt::format("; nearest that fits: {} ({}), {} a step, {} per rank", title(nearest.front()),
                            changeText(row.plan, nearest.front().plan), durationText(nearest.front().stepNs), bytesText(nearest.front().peakBytes));
    return text;
}

std::string nothingFitsText(const PlanTable& table, const PlanTable& all)
{
    const PlanRow* least = nullptr;
    for (const PlanRow& row : table.rows)
        if (couldRun(row) && row.allowed && (!least || row.peakBytes < least->peakBytes))
            least = &row;
    if (!least)
        return "plan: nothing that is allowed can run; loosen --allow (the rows name each reason in why_not)";
    std::string text = fmt::format("plan: nothing that is allowed fits: {}: {}", title(*least), infeasibleText(all, *least));
    if (nearestFeasible(all, least->plan, 1.0, 1).empty())
        text += fmt::format("; no plan on these devices fits: give each rank at least {}", bytesText(least->leastBudgetBytes));
    return text;
}

std::vector<PlanRow> nearestFeasible(const PlanTable& table, const Plan& plan, double measuredOverPredicted, int limit)
{
    std::vector<std::pair<std::pair<int, int64_t>, const PlanRow*>> found;
    const std::string own = planHash(plan);
    for (const PlanRow& row : table.rows) {
        if (!couldRun(row) || !row.fits || planHash(row.plan) == own)
            continue;
        const bool sameKind = row.plan.attention == plan.attention && !plan.stages.empty() &&
                              row.plan.stages.front().exchange == plan.stages.front().exchange;
        if (sameKind && measuredOverPredicted > 1 && double(row.peakBytes) * measuredOverPredicted > double(row.budgetBytes))
            continue;
        found.push_back({{knobDistance(plan, row.plan), row.stepNs}, &row});
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<PlanRow> rows;
    for (const auto& [order, row] : found)
        if (int(rows.size()) < limit)
            rows.push_back(*row);
    return rows;
}

std::vector<std::string> whyLines(const PlanTable& table, int64_t index)
{
    std::vector<std::string> lines;
    if (index < 0 || size_t(index) >= table.rows.size())
        return lines;
    const PlanRow& row = table.rows[size_t(index)];
    if (!row.predicted)
        return {row.whyNot};
    lines.push_back(fmt::format("{}: {} a step, of which {}.", title(row), durationText(row.stepNs), largestTerm(row)));
    std::vector<std::string> parts;
    for (const auto& [name, bytes] : largestCategories(row.worst, 3))
        parts.push_back(name + " " + bytesText(bytes));
    lines.push_back(fmt::format("Rank {} peaks in {} with {} of {} usable: {}.", row.worstRank, row.peakAction, bytesText(row.peakBytes),
                                bytesText(row.budgetBytes), fmt::join(parts, ", ")));
    lines.push_back(table.binding);
    for (const char* knob : {"exchange", "ring", "replicas", "recompute", "attention"}) {
        std::set<std::string> values;
        for (const PlanRow& other : table.rows)
            if (other.feasible)
                values.insert(knobValue(other.plan, knob));
        for (const std::string& value : values) {
            if (value == knobValue(row.plan, knob))
                continue;
            const PlanRow* best = fastestThat(table, [&](const PlanRow& r) { return r.feasible && knobValue(r.plan, knob) == value; });
            lines.push_back(fmt::format("Best with {} {}: {} a step ({}{}), {} per rank.", knob, value, durationText(best->stepNs),
                                        best->stepNs >= row.stepNs ? "+" : "-", durationText(std::abs(best->stepNs - row.stepNs)),
                                        bytesText(best->peakBytes)));
        }
    }
    if (!row.whyNot.empty())
        lines.push_back("Why not: " + row.whyNot);
    return lines;
}

} // namespace megagraph::planner
