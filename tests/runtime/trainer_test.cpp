// SPDX-License-Identifier: Apache-2.0
// Real workers train a generated graph: events, sameness of plans, stop, lifeline, faults and exit codes.
#include "tests/runtime/worker_fixture.h"

#include "core/exchange_volume.h"
#include "core/model_layout.h"

#include <cmath>
#include <sys/stat.h>

namespace megagraph::test {
namespace {

double largestRelativeDifference(const std::map<int64_t, double>& a, const std::map<int64_t, double>& b)
{
    double worst = a.size() == b.size() && !a.empty() ? 0 : 1;
    for (const auto& [step, loss] : a)
        worst = std::max(worst, b.count(step) != 0 ? std::abs(loss - b.at(step)) / std::abs(loss) : 1.0);
    return worst;
}

TEST(Worker, TrainsSeriallyToTheEndAndReportsEveryKindOfLine)
{
    const WorkerHome home;
    home.write("a", home.run(12, 1), home.plan(WorkerHome::model(), 1, 1, Exchange::None));
    ASSERT_EQ(home.runAll("a", 1), std::vector<int>{0});
    EXPECT_EQ(home.lines("a", 0, "error").size(), 0u);
    const Json ready = home.lines("a", 0, "rank.ready").at(0);
    EXPECT_EQ(ready["torch"], "2.11.0");
    EXPECT_GT(ready["base_bytes"].get<int64_t>(), 10 << 20);
    const auto losses = home.losses("a");
    ASSERT_EQ(losses.size(), 12u);
    EXPECT_LT(losses.at(11), losses.at(0));
    EXPECT_EQ(home.lines("a", 0, "eval").size(), 13u); // valid each step, test at the last
    const Json done = home.lines("a", 0, "done").at(0);
    EXPECT_EQ(done["reason"], "steps");
    EXPECT_EQ(done["steps"], 12);
    EXPECT_GE(done["best_step"].get<int64_t>(), 1);
    EXPECT_EQ(done["result"]["valid"]["metric"], "accuracy");
    EXPECT_GT(done["result"]["test"]["value"].get<double>(), 0.2);
    EXPECT_GT(done["result"]["step_ms"].get<double>(), 0.0);
    const Json& categories = done["categories"];
    int64_t sum = 0;
    for (const auto& [name, bytes] : categories.items())
        sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, done["peak_bytes"].get<int64_t>());
    for (const char* name : {"weights", "gradients", "optimizer", "activations", "topology", "base"})
        EXPECT_GT(categories[name].get<int64_t>(), 0) << name;
}

TEST(Worker, TheSameSeedGivesTheSameBitsAndAnotherSeedDoesNot)
{
    const WorkerHome home;
    const Plan plan = home.plan(WorkerHome::model(), 1, 1, Exchange::None);
    RunSpec run = home.run(4, 1);
    home.write("a", run, plan);
    home.write("b", run, plan);
    run.seed = 2;
    home.write("c", run, plan);
    for (const char* id : {"a", "b", "c"})
        ASSERT_EQ(home.runAll(id, 1), std::vector<int>{0});
    EXPECT_EQ(home.losses("a"), home.losses("b"));
    EXPECT_NE(home.losses("a"), home.losses("c"));
}

TEST(Worker, TwoAndThreeContextRanksFollowTheSerialLossAndScores)
{
    const WorkerHome home;
    const ModelSpec model = WorkerHome::model();
    home.write("serial", home.run(10, 1), home.plan(model, 1, 1, Exchange::None));
    ASSERT_EQ(home.runAll("serial", 1), std::vector<int>{0});
    const auto serial = home.losses("serial");
    struct Case { const char* id; int64_t contexts; Exchange exchange; };
    for (const Case& c : {Case{"ring2", 2, Exchange::Ring}, Case{"ring3", 3, Exchange::Ring}, Case{"gather2", 2, Exchange::Gather}}) {
        home.write(c.id, home.run(10, c.contexts), home.plan(model, 1, c.contexts, c.exchange));
        ASSERT_EQ(home.runAll(c.id, c.contexts), std::vector<int>(size_t(c.contexts), 0)) << c.id;
        EXPECT_LT(largestRelativeDifference(serial, home.losses(c.id)), 1e-5) << c.id;
        const auto evaluations = home.lines(c.id, 0, "eval"), expected = home.lines("serial", 0, "eval");
        ASSERT_EQ(evaluations.size(), expected.size());
        EXPECT_NEAR(evaluations.back()["value"].get<double>(), expected.back()["value"].get<double>(), 0.03) << c.id;
        EXPECT_EQ(evaluations.back()["item_count"], expected.back()["item_count"]);
    }
}

TEST(Worker, EachRankSendsExactlyTheBytesThatThePlannerCounts)
{
    const WorkerHome home;
    const ModelSpec model = WorkerHome::model();
    const auto layout = modelLayout(model, home.dataset());
    ASSERT_TRUE(layout.ok());
    const int64_t steps = 3, scalars = 4, reduced = 4 * (parameterCount(*layout) + scalars);
    for (const Exchange exchange : {Exchange::Ring, Exchange::Gather}) {
        Plan plan = home.plan(model, 1, 3, exchange);
        plan.stages[0].cuts = {0, 50, 120, home.dataset().nodes};
        RunSpec run = home.run(steps, 3, "verify"); // no evaluation in between
        run.verifyRole = "serial";
        const std::string id = exchangeName(exchange);
        home.write(id, run, plan);
        ASSERT_EQ(home.runAll(id, 3), (std::vector<int>{0, 0, 0}));
        for (int64_t rank = 0; rank < 3; ++rank) {
            const ExchangeBytes block = exchangeBytes(exchange, plan.stages[0].cuts, rank, model.width, model.heads, headWidth(model), 4);
            int64_t sent = 0;
            for (const Json& line : home.lines(id, rank, "rank"))
                sent += line["comm_bytes"].get<int64_t>();
            EXPECT_EQ(sent, steps * (model.blocks * (block.forward + block.backward) + reduced)) << id << " rank " << rank;
        }
    }
}

TEST(Worker, TwoReplicasOverClustersFollowTheSerialLoss)
{
    const WorkerHome home;
    ModelSpec model = WorkerHome::model();
    model.sequenceMode = SequenceMode::Clusters;
    model.sequenceTokens = 52; // four sequences
    Plan serial = home.plan(model, 1, 1, Exchange::None), parallel = home.plan(model, 2, 1, Exchange::None);
    serial.microBatches = parallel.microBatches = 2;
    home.write("serial", home.run(8, 1), serial);
    home.write("replicas", home.run(8, 2), parallel);
    ASSERT_EQ(home.runAll("serial", 1), std::vector<int>{0});
    ASSERT_EQ(home.runAll("replicas", 2), (std::vector<int>{0, 0}));
    EXPECT_LT(largestRelativeDifference(home.losses("serial"), home.losses("replicas")), 1e-5);
    EXPECT_EQ(home.lines("serial", 0, "eval").back()["item_count"], home.lines("replicas", 0, "eval").back()["item_count"]);
}

TEST(Worker, EndsEarlyWhenTheValidationMetricStopsImproving)
{
    const WorkerHome home;
    ModelSpec model = WorkerHome::model();
    model.learningRate = 0; // never better than the first evaluation
    RunSpec run = home.run(50, 1);
    run.patience = 3;
    home.write("a", run, home.plan(model, 1, 1, Exchange::None));
    ASSERT_EQ(home.runAll("a", 1), std::vector<int>{0});
    const Json done = home.lines("a", 0, "done").at(0);
    EXPECT_EQ(done["reason"], "patience");
    EXPECT_EQ(done["steps"], 4);
    EXPECT_EQ(done["best_step"], 1);
}

TEST(Worker, AllRanksStopAtTheSameStepOnAnOrderToRankZeroWithACheckpoint)
{
    const WorkerHome home;
    RunSpec run = home.run(1000000, 2);
    run.evalEvery = 1000000;
    home.write("a", run, home.plan(WorkerHome::model(), 1, 2, Exchange::Gather));
    const Rank zero = home.start("a", 0, 1, -1, true), one = home.start("a", 1);
    std::string text;
    char buffer[4096];
    bool ordered = false;
    for (ssize_t n; (n = ::read(zero.report, buffer, sizeof buffer)) > 0;) {
        text.append(buffer, size_t(n));
        if (!ordered && text.find("\"kind\":\"step\"") != std::string::npos) {
            ordered = true;
            const std::string order = "{\"do\":\"stop\"}\n";
            ASSERT_EQ(::write(zero.command, order.data(), order.size()), ssize_t(order.size()));
        }
    }
    EXPECT_EQ(WorkerHome::wait(zero), 10);
    EXPECT_EQ(WorkerHome::wait(one), 10);
    EXPECT_NE(text.find("\"reason\":\"stopped\""), std::string::npos);
    const Json done = home.lines("a", 1, "done").at(0);
    const Json shard = home.lines("a", 1, "checkpoint.shard").back();
    EXPECT_EQ(shard["step"], done["steps"]);
    EXPECT_NE(text.find("\"steps\":" + done["steps"].dump()), std::string::npos);
}

TEST(Worker, EndsAtOnceWhenItsCommandPipeEnds)
{
    const WorkerHome home;
    home.write("a", home.run(1000000, 1), home.plan(WorkerHome::model(), 1, 1, Exchange::None));
    const Rank rank = home.start("a", 0, 1, -1, true);
    char buffer[1];
    ASSERT_EQ(::read(rank.report, buffer, 1), 1); // it lives
    ::close(rank.command);
    EXPECT_EQ(WorkerHome::wait(rank), 86);
}

TEST(Worker, APeerThatDiesMakesTheOthersEndAsAConsequence)
{
    const WorkerHome home;
    home.write("a", home.run(1000000, 2), home.plan(WorkerHome::model(), 1, 2, Exchange::Gather));
    const Rank zero = home.start("a", 0, 1, -1, true), one = home.start("a", 1);
    std::string text;
    char buffer[4096];
    while (text.find("\"kind\":\"step\"") == std::string::npos) {
        const ssize_t n = ::read(zero.report, buffer, sizeof buffer);
        ASSERT_GT(n, 0) << text;
        text.append(buffer, size_t(n));
    }
    ::kill(one.process, SIGKILL);
    EXPECT_EQ(WorkerHome::wait(one), 1000 + SIGKILL);
    while (::read(zero.report, buffer, sizeof buffer) > 0) {
    }
    EXPECT_EQ(WorkerHome::wait(zero), 20);
}

TEST(Worker, ABudgetThatIsTooSmallEndsInOneOutOfMemoryReport)
{
    const WorkerHome home;
    ModelSpec model = WorkerHome::model();
    model.width = model.ffnWidth = 256; // some 14 MB counted: the base of two processes differs by up to 1 MB
    home.write("probe", home.run(1, 1), home.plan(model, 1, 1, Exchange::None));
    ASSERT_EQ(home.runAll("probe", 1), std::vector<int>{0});
    const Json done = home.lines("probe", 0, "done").at(0);
    const int64_t needed = done["peak_bytes"].get<int64_t>(), base = done["categories"]["base"].get<int64_t>();
    ASSERT_GT(needed - base, int64_t(8) << 20);
    home.write("small", home.run(1, 1), home.plan(model, 1, 1, Exchange::None, base + (needed - base) / 2));
    ASSERT_EQ(home.runAll("small", 1), std::vector<int>{23});
    const Json oom = home.lines("small", 0, "oom").at(0);
    EXPECT_GT(oom["requested_bytes"].get<int64_t>(), 0);
    EXPECT_GT(oom["in_use_bytes"].get<int64_t>() + oom["requested_bytes"].get<int64_t>(), oom["budget_bytes"].get<int64_t>());
    EXPECT_FALSE(oom["category"].get<std::string>().empty());
    EXPECT_EQ(home.lines("small", 0, "error").at(0)["exit_code"], 23);
}

TEST(Worker, ANonFiniteLossStopsTheRunAndNamesAParameter)
{
    const WorkerHome home;
    ModelSpec model = WorkerHome::model();
    model.learningRate = model.weightDecay = 1000; // each update multiplies the weights by -1e6
    home.write("a", home.run(12, 1), home.plan(model, 1, 1, Exchange::None));
    ASSERT_EQ(home.runAll("a", 1), std::vector<int>{24});
    EXPECT_EQ(home.lines("a", 0, "nonfinite").size(), 1u);
    EXPECT_FALSE(home.lines("a", 0, "nonfinite").at(0)["tensor"].get<std::string>().empty());
    EXPECT_EQ(home.lines("a", 0, "done").size(), 0u);
}

TEST(Worker, RefusesDataThatChangedSinceThePlan)
{
    const WorkerHome home;
    Plan plan = home.plan(WorkerHome::model(), 1, 1, Exchange::None);
    plan.datasetHash = std::string(64, '0');
    home.write("a", home.run(1, 1), plan);
    EXPECT_EQ(home.runAll("a", 1), std::vector<int>{21});
    EXPECT_NE(home.lines("a", 0, "error").at(0)["message"].get<std::string>().find("content hash"), std::string::npos);
}

TEST(Worker, RefusesAnUnknownSplitWithItsName)
{
    const WorkerHome home;
    RunSpec run = home.run(1, 1);
    run.split = "planetoid";
    home.write("a", run, home.plan(WorkerHome::model(), 1, 1, Exchange::None));
    EXPECT_EQ(home.runAll("a", 1), std::vector<int>{22});
    EXPECT_NE(home.lines("a", 0, "error").at(0)["message"].get<std::string>().find("planetoid"), std::string::npos);
}

TEST(Worker, VerifyComparesGradientsOfAPlanWithTheSerialOnes)
{
    const WorkerHome home;
    RunSpec run = home.run(5, 1, "verify");
    run.verifyRole = "serial";
    home.write("serial", run, home.plan(WorkerHome::model(), 1, 1, Exchange::None));
    ASSERT_EQ(home.runAll("serial", 1), std::vector<int>{0});
    run.world = 2;
    run.verifyRole = "plan";
    run.verifyReferenceRun = "serial";
    home.write("plan", run, home.plan(WorkerHome::model(), 1, 2, Exchange::Ring));
    ASSERT_EQ(home.runAll("plan", 2), (std::vector<int>{0, 0}));
    ASSERT_EQ(home.lines("plan", 0, "verify.step").size(), 5u);
    const Json result = home.lines("plan", 0, "done").at(0)["result"];
    EXPECT_LT(result["loss_rel_max"].get<double>(), 1e-5);
    EXPECT_LT(result["gradient_rel_max"].get<double>(), 1e-4);
    EXPECT_GT(result["gradient_rel_max"].get<double>(), 0.0); // it did compare
    run.seed = 2; // another seed is another training: the comparison must notice
    home.write("other", run, home.plan(WorkerHome::model(), 1, 2, Exchange::Ring));
    ASSERT_EQ(home.runAll("other", 2), (std::vector<int>{0, 0}));
    EXPECT_GT(home.lines("other", 0, "done").at(0)["result"]["gradient_rel_max"].get<double>(), 1e-2);
}

} // namespace
} // namespace megagraph::test
