// SPDX-License-Identifier: Apache-2.0
// Prediction and search on a profile that can be added up by hand; honesty, sums, fronts, sentences.
#include "core/plan_check.h"
#include "core/random.h"
#include "core/units.h"
#include "planner/explain.h"
#include "planner/predict.h"
#include "planner/profiling.h"
#include "planner/space.h"
#include "tests/planner/support.h"

#include <cmath>
#include <numeric>

namespace megagraph::planner::testing {
namespace {

const PlanRow* rowWith(const PlanTable& table, int64_t ring, Exchange exchange, Recompute recompute, AttentionPath attention)
{
    for (const PlanRow& row : table.rows)
        if (row.runnable && row.plan.stages[0].ring == ring && row.plan.stages[0].exchange == exchange &&
            row.plan.stages[0].recompute == recompute && row.plan.attention == attention && row.plan.stages[0].replicas == 1)
            return &row;
    return nullptr;
}

TEST(Search, FindsTheHandComputedTimesAndOptimum)
{
    const Problem problem = profiledProblem(2);
    const PlanTable table = searched(problem);
    const auto step = [&](int64_t ring, Exchange exchange, Recompute recompute, AttentionPath attention = AttentionPath::Fused) {
        const PlanRow* row = rowWith(table, ring, exchange, recompute, attention);
        return row ? row->stepNs : -1;
    };
    EXPECT_EQ(step(1, Exchange::None, Recompute::None), 210 * kMs);
    EXPECT_EQ(step(1, Exchange::None, Recompute::Block), 290 * kMs);
    EXPECT_EQ(step(2, Exchange::Gather, Recompute::None), 119 * kMs);
    EXPECT_EQ(step(2, Exchange::Ring, Recompute::None), 139 * kMs);
    EXPECT_EQ(step(2, Exchange::Ring, Recompute::Block), 189 * kMs);
    EXPECT_EQ(step(1, Exchange::None, Recompute::None, AttentionPath::Materialised), 160 * kMs);
    ASSERT_GE(table.picked, 0);
    EXPECT_EQ(table.rows[size_t(table.picked)].stepNs, 119 * kMs);
    EXPECT_EQ(table.rows[size_t(table.picked)].plan.stages[0].exchange, Exchange::Gather);
    EXPECT_EQ(table.rows[size_t(table.picked)].plan.prediction.match, "exact");
    EXPECT_FLOAT_EQ(table.rows[size_t(table.picked)].share[0], 1.0f);
}

TEST(Search, AddsMemoryUpByHand)
{
    const Problem problem = profiledProblem(2);
    const PlanTable table = searched(problem);
    const PlanRow* row = rowWith(table, 1, Exchange::None, Recompute::None, AttentionPath::Fused);
    ASSERT_NE(row, nullptr);
    const auto category = [&](MemoryCategory c) { return row->worst[size_t(c)]; };
    // embed 10 + two blocks of 20 are live when the backward pass of the last block adds 8
    EXPECT_EQ(category(MemoryCategory::Activations), 50 * kMiB);
    EXPECT_EQ(category(MemoryCategory::Workspace), 8 * kMiB);
    EXPECT_EQ(category(MemoryCategory::Topology), 3 * kMiB);
    EXPECT_EQ(category(MemoryCategory::Base), 100 * kMiB);
    EXPECT_EQ(row->peakAction, "backward of block 1");
    const auto layout = modelLayout(problem.model, problem.dataset);
    EXPECT_GE(category(MemoryCategory::Optimizer), 8 * parameterCount(*layout));
    EXPECT_LE(category(MemoryCategory::Weights), 4 * parameterCount(*layout) + 64 * int64_t(layout->size()));
}

TEST(Search, PartsAddUpToTotalsOnEveryRank)
{
    for (const int64_t ranks : {1, 2, 3, 4})
        for (const SequenceMode mode : {SequenceMode::Full, SequenceMode::Clusters}) {
            Problem problem = problemFor(ranks, mode);
            if (ranks == 2 && mode == SequenceMode::Full)
                problem = profiledProblem(2);
            const PlanTable table = searched(problem);
            for (const PlanRow& row : table.rows) {
                if (!row.predicted)
                    continue;
                EXPECT_EQ(std::accumulate(row.terms.begin(), row.terms.end(), int64_t(0)), row.stepNs) << row.plan.name;
                EXPECT_EQ(std::accumulate(row.worst.begin(), row.worst.end(), int64_t(0)), row.peakBytes);
                EXPECT_NEAR(std::accumulate(row.share.begin(), row.share.end(), 0.0), 1.0, 1e-5);
                EXPECT_LE(row.stepLoNs, row.stepNs);
                EXPECT_GE(row.stepHiNs, row.stepNs);
                for (const RankPrediction& rank : row.plan.prediction.ranks)
                    EXPECT_EQ(std::accumulate(rank.categories.begin(), rank.categories.end(), int64_t(0)), rank.peakBytes);
                const auto detail = predict(problem, row.plan);
                ASSERT_TRUE(detail.ok());
                for (const TimeNs& terms : detail->rankTerms) {
                    EXPECT_EQ(std::accumulate(terms.begin(), terms.end(), int64_t(0)), row.stepNs);
                    EXPECT_GE(terms[size_t(TimeTerm::Bubble)], -1); // rounding of shares
                }
            }
        }
}

TEST(Search, BaselinesAreTheFirstFiveRowsAlways)
{
    for (const int64_t ranks : {1, 2, 3}) {
        const PlanTable table = searched(problemFor(ranks));
        ASSERT_GE(table.rows.size(), 5u);
        const char* names[] = {"serial", "data-parallel", "zero-2", "ulysses", "materialised"};
        for (size_t i = 0; i < 5; ++i) {
            EXPECT_EQ(table.rows[i].baseline, names[i]);
            EXPECT_EQ(table.rows[i].feasible, table.rows[i].whyNot.empty()) << names[i] << ": " << table.rows[i].whyNot;
        }
        EXPECT_FALSE(table.rows[1].whyNot.empty()); // a full graph has one micro-batch
        EXPECT_FALSE(table.rows[2].whyNot.empty());
        EXPECT_FALSE(table.rows[3].whyNot.empty());
        for (size_t i = 5; i < table.rows.size(); ++i)
            EXPECT_TRUE(table.rows[i].baseline.empty());
    }
    const PlanTable clusters = searched(problemFor(2, SequenceMode::Clusters));
    EXPECT_TRUE(clusters.rows[1].feasible) << clusters.rows[1].whyNot;
    EXPECT_NE(clusters.rows[2].whyNot.find("zero 2"), std::string::npos);
    const PlanTable full = searched(problemFor(2));
    EXPECT_NE(full.rows[1].whyNot.find("sequence_mode=clusters"), std::string::npos);
}

TEST(Search, ListsEveryLegalLocalPlanOnce)
{
    for (const int64_t ranks : {1, 2, 4}) {
        const Problem problem = problemFor(ranks, SequenceMode::Clusters);
        const PlanTable table = searched(problem);
        int64_t expected = 0; // brute force over the knobs, judged by plan_check alone
        const Plan base = planCandidates(problem).front().plan;
        for (int64_t replicas = 1; replicas <= ranks; ++replicas)
            for (int64_t ring = 1; replicas * ring <= ranks; ++ring)
                for (const Exchange exchange : {Exchange::None, Exchange::Ring, Exchange::Gather, Exchange::Reduce, Exchange::Halo})
                    for (const AttentionPath path : {AttentionPath::Fused, AttentionPath::Materialised})
                        for (const Recompute recompute : {Recompute::None, Recompute::Block}) {
                            Plan plan = base;
                            plan.attention = path;
                            StagePlan& stage = plan.stages[0];
                            stage.replicas = replicas;
                            stage.ring = ring;
                            stage.exchange = exchange;
                            stage.recompute = recompute;
                            stage.devices.clear();
                            for (int64_t d = 0; d < replicas * ring; ++d)
                                stage.devices.push_back(d);
                            expected += checkPlan(plan, problem.dataset).ok();
                        }
        int64_t runnable = 0;
        for (const PlanRow& row : table.rows)
            runnable += row.runnable && (row.baseline != "data-parallel" || ranks > 1);
        EXPECT_EQ(runnable, expected) << ranks;
    }
}

TEST(Search, FrontEqualsBruteForce)
{
    for (uint64_t seed = 0; seed < 200; ++seed) {
        std::vector<PlanRow> rows(1 + drawBelow(seed, 0, 0, 30));
        for (size_t i = 0; i < rows.size(); ++i) {
            rows[i].feasible = drawBelow(seed, 1, i, 5) > 0;
            rows[i].stepNs = int64_t(drawBelow(seed, 2, i, 12));
            rows[i].peakBytes = int64_t(drawBelow(seed, 3, i, 12));
        }
        markFront(rows);
        for (const PlanRow& a : rows) {
            bool dominated = false;
            for (const PlanRow& b : rows)
                dominated = dominated || (b.feasible && b.stepNs <= a.stepNs && b.peakBytes <= a.peakBytes &&
                                          (b.stepNs < a.stepNs || b.peakBytes < a.peakBytes));
            EXPECT_EQ(a.front, a.feasible && !dominated) << seed;
        }
    }
}

TEST(Search, PicksFollowTheirNames)
{
    const Problem problem = profiledProblem(2);
    SearchOptions options;
    options.pick = "least-memory";
    const PlanTable least = searched(problem, options);
    for (const PlanRow& row : least.rows)
        EXPECT_TRUE(!row.feasible || row.peakBytes >= least.rows[size_t(least.picked)].peakBytes);
    options.pick = "simplest";
    const PlanTable simplest = searched(problem, options);
    const PlanRow& simple = simplest.rows[size_t(simplest.picked)];
    EXPECT_LE(simple.stepNs, 119 * kMs * 5 / 4);
    EXPECT_EQ(simple.mechanisms, 1);
}

TEST(Search, ConstraintsExcludeAndTheBindingSentenceSaysSo)
{
    Problem problem = profiledProblem(2);
    ASSERT_TRUE(addAllowed(problem.constraints, "exchange=ring").ok());
    const PlanTable table = searched(problem);
    for (size_t i = 5; i < table.rows.size(); ++i)
        EXPECT_EQ(table.rows[i].plan.stages[0].exchange, Exchange::Ring);
    ASSERT_GE(table.picked, 0);
    EXPECT_EQ(table.rows[size_t(table.picked)].stepNs, 139 * kMs);
    EXPECT_FALSE(table.rows[0].feasible);
    EXPECT_NE(table.rows[0].whyNot.find("not allowed: exchange = none"), std::string::npos) << table.rows[0].whyNot;
    EXPECT_NE(table.binding.find("Nothing binds"), std::string::npos) << table.binding; // ring is faster than the listed baselines
    Problem memory = profiledProblem(2);
    memory.constraints.budgetBytes = 152 * kMiB; // room for recompute only
    const PlanTable tight = searched(memory);
    ASSERT_GE(tight.picked, 0) << tight.binding;
    EXPECT_EQ(tight.rows[size_t(tight.picked)].plan.stages[0].recompute, Recompute::Block);
    EXPECT_EQ(tight.binding.rfind("Memory binds", 0), 0u) << tight.binding;
    EXPECT_NE(tight.binding.find("119 ms"), std::string::npos) << tight.binding;
}

TEST(Search, AnswersWhenNothingFits)
{
    Problem problem = profiledProblem(2);
    problem.constraints.budgetBytes = 300 * kMiB;
    ASSERT_TRUE(addAllowed(problem.constraints, "attention=materialised").ok());
    ASSERT_TRUE(addAllowed(problem.constraints, "recompute=none").ok());
    const PlanTable table = searched(problem);
    EXPECT_EQ(table.picked, -1);
    EXPECT_EQ(table.feasible, 0);
    SearchOptions even;
    even.evenInfeasible = true;
    const PlanTable forced = searched(problem, even);
    ASSERT_GE(forced.picked, 0);
    const PlanRow& nearest = forced.rows[size_t(forced.picked)];
    EXPECT_FALSE(nearest.feasible);
    EXPECT_EQ(nearest.plan.attention, AttentionPath::Materialised);
    EXPECT_EQ(nearest.plan.stages[0].exchange, Exchange::Gather); // the one that lacks fewest bytes
    Problem open = problem;
    open.constraints.allow.clear();
    const PlanTable all = searched(open);
    const std::string text = nothingFitsText(table, all);
    EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
    EXPECT_NE(text.find("too much"), std::string::npos) << text;
    EXPECT_NE(text.find("attention fused instead of materialised"), std::string::npos) << text;
    const auto found = nearestFeasible(all, nearest.plan, 1.0, 3);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.front().plan.attention, AttentionPath::Fused);
    EXPECT_EQ(found.front().plan.stages[0].exchange, Exchange::Gather);
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [&](const PlanRow& a, const PlanRow& b) {
        return knobDistance(nearest.plan, a.plan) < knobDistance(nearest.plan, b.plan);
    }));
}

TEST(Search, WithoutAProfileEverythingIsAssumedAndSaysHowToMeasure)
{
    const PlanTable table = searched(problemFor(2));
    ASSERT_GE(table.picked, 0);
    for (const PlanRow& row : table.rows)
        if (row.predicted) {
            EXPECT_FLOAT_EQ(row.share[4], 1.0f);
            EXPECT_EQ(row.plan.prediction.match, "none");
        }
    EXPECT_NE(table.profileNote.find("megagraph profile --quick --ranks 2 --data made-up --model made-up-model"), std::string::npos);
}

TEST(Search, ARemovedPointNeverStaysMeasured)
{
    const Problem whole = profiledProblem(2);
    for (size_t gone = 0; gone < whole.profile->points.size(); ++gone) {
        if (whole.profile->points[gone].kind == "memory")
            continue;
        Problem holed = whole;
        holed.profile->points.erase(holed.profile->points.begin() + std::ptrdiff_t(gone));
        const PlanTable before = searched(whole), after = searched(holed);
        int changed = 0;
        for (size_t i = 0; i < before.rows.size(); ++i) {
            if (!before.rows[i].predicted)
                continue;
            EXPECT_NEAR(std::accumulate(after.rows[i].share.begin(), after.rows[i].share.end(), 0.0), 1.0, 1e-5);
            if (before.rows[i].share[0] > 0.9999f && after.rows[i].share[0] < 0.9999f)
                ++changed;
        }
        EXPECT_GT(changed, 0) << whole.profile->points[gone].kind << " " << gone;
    }
}

TEST(Search, AStaleProfileIsTransferredEverywhere)
{
    Problem problem = profiledProblem(2);
    problem.match = "stale";
    const PlanTable table = searched(problem);
    for (const PlanRow& row : table.rows)
        EXPECT_FLOAT_EQ(row.predicted ? row.share[0] : 0.0f, 0.0f) << row.plan.name;
}

TEST(Search, IsTheSameBytesEveryTime)
{
    const Problem problem = profiledProblem(2);
    EXPECT_EQ(tableToJson(searched(problem)).dump(), tableToJson(searched(problem)).dump());
    const Problem many = problemFor(4, SequenceMode::Clusters);
    EXPECT_EQ(tableToCsv(searched(many)), tableToCsv(searched(many)));
}

TEST(Search, MovesTheRightWay)
{
    const auto best = [](const Problem& problem, Exchange exchange) {
        const PlanTable table = searched(problem);
        const PlanRow* row = rowWith(table, 2, exchange, Recompute::None, AttentionPath::Fused);
        return row ? row->stepNs : int64_t(0);
    };
    Problem wide = problemFor(2);
    wide.model.width = 64;
    EXPECT_GT(best(wide, Exchange::Ring), best(problemFor(2), Exchange::Ring));
    Problem dense = problemFor(2);
    for (auto& [c, context] : dense.stats.contexts)
        for (int64_t& pairs : context.nearPairs)
            pairs *= 50;
    EXPECT_GT(best(dense, Exchange::Gather), best(problemFor(2), Exchange::Gather));
    // a second rank helps a large graph
    Problem large = problemFor(2);
    large.dataset.nodes = large.stats.nodes = 20000;
    for (auto& [c, context] : large.stats.contexts) {
        context.cuts = {0};
        for (int64_t i = 0; i < c; ++i) {
            context.cuts.push_back(20000 * (i + 1) / c);
            context.tokens[size_t(i)] = context.cuts[size_t(i) + 1] - context.cuts[size_t(i)];
        }
    }
    const PlanTable table = searched(large);
    EXPECT_LT(rowWith(table, 2, Exchange::Gather, Recompute::None, AttentionPath::Fused)->stepNs, table.rows[0].stepNs);
}

TEST(Search, ASlowerLinkNeverMakesAPlanFaster)
{
    Problem problem = profiledProblem(2);
    std::erase_if(problem.profile->points, [](const ProfilePoint& p) {
        const auto exchange = p.key.find("exchange");
        return p.kind == "layer" && exchange != p.key.end() && (exchange->second == "ring" || exchange->second == "gather");
    });
    const auto withLinks = [&](double factor) {
        Problem priced = problem;
        for (const char* op : {"all_gather", "reduce_scatter", "ring"})
            for (const double bytes : {1024.0, 65536.0, 1048576.0})
                addPoint(*priced.profile, op == std::string("ring") ? "p2p" : "collective", {{"op", op}, {"ranks", "2"}}, {{"bytes", bytes}},
                         int64_t(factor * (50000 + bytes)));
        const PlanTable table = searched(priced);
        return std::pair(rowWith(table, 2, Exchange::Gather, Recompute::None, AttentionPath::Fused)->stepNs,
                         rowWith(table, 2, Exchange::Ring, Recompute::None, AttentionPath::Fused)->stepNs);
    };
    const auto fast = withLinks(1), slow = withLinks(100);
    EXPECT_GT(slow.first, fast.first);
    EXPECT_GE(slow.second, fast.second);
}

TEST(Search, SequencesOfClustersAreSummedOverReplicas)
{
    Problem problem = problemFor(2, SequenceMode::Clusters);
    const PlanTable table = searched(problem);
    const PlanRow& serial = table.rows[0];
    const PlanRow& replicated = table.rows[1];
    ASSERT_TRUE(serial.predicted && replicated.predicted);
    EXPECT_EQ(serial.plan.microBatches, 4);
    EXPECT_LT(replicated.stepNs, serial.stepNs);
    EXPECT_GT(replicated.stepNs, serial.stepNs / 2); // the sum of gradients is not free
    EXPECT_EQ(serial.tokensPerStep, 1000);
}

TEST(Jobs, MeasureEverySizeThatThePlansUse)
{
    const Problem problem = problemFor(2);
    const auto jobs = quickProfileJobs(problem, 30);
    const auto has = [&](const std::string& kind, const std::map<std::string, std::string>& key, const std::map<std::string, double>& x) {
        for (const ProfileJob& job : jobs) {
            bool same = job.kind == kind;
            for (const auto& [name, value] : key)
                same = same && job.key.contains(name) && job.key.at(name) == value;
            for (const auto& [name, value] : x)
                same = same && job.x.contains(name) && job.x.at(name) == value;
            if (same)
                return true;
        }
        return false;
    };
    EXPECT_TRUE(has("layer", {{"layer", "block"}, {"attention", "fused"}, {"exchange", "ring"}, {"ranks", "2"}}, {{"n", 1000}}));
    EXPECT_TRUE(has("layer", {{"layer", "block"}, {"attention", "fused"}, {"exchange", "gather"}, {"ranks", "2"}}, {{"n", 1000}}));
    EXPECT_TRUE(has("layer", {{"layer", "block"}, {"attention", "materialised"}, {"exchange", "none"}, {"ranks", "1"}}, {{"n", 1000}}));
    EXPECT_TRUE(has("layer", {{"layer", "embed"}, {"exchange", "ring"}, {"ranks", "2"}}, {{"n", 1000}}));
    EXPECT_TRUE(has("collective", {{"op", "all_reduce"}, {"ranks", "2"}}, {}));
    EXPECT_TRUE(has("memory", {{"what", "base"}}, {}));
    EXPECT_TRUE(has("host", {{"ranks", "1"}}, {}));
    for (size_t i = 0; i < jobs.size(); ++i)
        for (size_t j = i + 1; j < jobs.size(); ++j)
            EXPECT_FALSE(jobs[i] == jobs[j]) << i << " " << j;
    // a profile that answers every job leaves no number assumed
    const auto holes = profileHoles(jobs, {});
    EXPECT_GT(holes.size(), jobs.size() / 2);
    EXPECT_EQ(holes.front().reason, "not reached");
}

TEST(Jobs, AnswersToAllJobsLeaveNothingAssumed)
{
    for (const Problem& open : {problemFor(2), problemFor(2, SequenceMode::Clusters), problemFor(1)}) {
        Problem problem = open;
        Profile profile;
        profile.id = "aa";
        profile.constants = {{"process_base_bytes", 1e8, "bytes", "measured"}};
        for (const ProfileJob& job : quickProfileJobs(problem, 30)) {
            if (job.kind != "layer") {
                addPoint(profile, job.kind, job.key, job.x, kMs, kMiB);
                continue;
            }
            for (const char* phase : {"forward", "backward"}) {
                auto key = job.key;
                key["phase"] = phase;
                addPoint(profile, job.kind, key, job.x, 5 * kMs, kMiB, kMiB);
            }
        }
        problem.profile = profile;
        problem.match = "exact";
        EXPECT_TRUE(profileHoles(quickProfileJobs(problem, 30), profile.points).empty());
        for (const PlanRow& row : searched(problem).rows)
            EXPECT_TRUE(!row.predicted || row.share[0] > 0.9999f) << row.plan.name << " " << row.share[0];
    }
}

TEST(Clusters, TokensAreChangedLeastForAMultipleOfSequences)
{
    const auto count = [](int64_t nodes, int64_t tokens) { return (nodes + tokens / 2) / tokens; };
    EXPECT_EQ(sequenceTokensFor(2708, 700, 2), 700); // four sequences already
    EXPECT_EQ(sequenceTokensFor(2708, 700, 1), 700);
    for (const int64_t replicas : {2, 3, 4, 5})
        for (const int64_t wanted : {100, 333, 700, 1500}) {
            const int64_t tokens = sequenceTokensFor(2708, wanted, replicas);
            EXPECT_EQ(count(2708, tokens) % replicas, 0) << wanted << " " << replicas;
            for (int64_t nearer = 1; nearer < std::abs(tokens - wanted); ++nearer)
                for (const int64_t t : {wanted - nearer, wanted + nearer})
                    EXPECT_FALSE(t > 0 && count(2708, t) > 0 && count(2708, t) % replicas == 0) << t;
        }
}

TEST(FitProbability, IsOneSidedWithAnAssumedSpread)
{
    EXPECT_NEAR(fitProbability(1000, 1000), 0.5, 1e-12);
    EXPECT_NEAR(fitProbability(1000, int64_t(1000 * std::exp(0.08 * 1.6448536))), 0.95, 0.002);
    EXPECT_EQ(fitProbability(1000, 0), 0);
    for (const double least : {0.5, 0.8, 0.95, 0.999}) {
        const int64_t usable = usableForFit(1'000'000, least);
        EXPECT_GE(fitProbability(1'000'000, usable), least);
        EXPECT_LT(fitProbability(1'000'000, usable - 2), least);
    }
    EXPECT_EQ(usableForFit(1000, 0.1), 1000); // never less than the prediction itself
}

TEST(Search, TheNamedBudgetIsEnoughAndNamesTheRule)
{
    Problem problem = profiledProblem(2);
    problem.constraints.budgetBytes = 130 * kMiB;
    const PlanTable tight = searched(problem);
    ASSERT_EQ(tight.picked, -1);
    const auto least = std::min_element(tight.rows.begin(), tight.rows.end(), [](const PlanRow& a, const PlanRow& b) {
        return std::make_pair(!a.predicted, a.peakBytes) < std::make_pair(!b.predicted, b.peakBytes);
    });
    EXPECT_NE(tight.binding.find(bytesText(least->leastBudgetBytes)), std::string::npos) << tight.binding;
    problem.constraints.budgetBytes = least->leastBudgetBytes;
    EXPECT_GE(searched(problem).picked, 0);
    problem.constraints.budgetBytes = least->leastBudgetBytes * 97 / 100;
    const PlanTable close = searched(problem);
    EXPECT_EQ(close.picked, -1) << "the named budget is far too large";
    EXPECT_NE(close.binding.find("asked 95 %"), std::string::npos) << close.binding;
}

} // namespace
} // namespace megagraph::planner::testing
