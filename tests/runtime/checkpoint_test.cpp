// SPDX-License-Identifier: Apache-2.0
// Checkpoints of real workers: written at 0 and as asked, resumed bit-identically, refused when they do not belong.
#include "tests/runtime/worker_fixture.h"

namespace megagraph::test {
namespace {

TEST(WorkerCheckpoint, ResumeOnTheSamePlanRepeatsTheBitsOfTheUnbrokenRun)
{
    const WorkerHome home;
    for (const int64_t world : {1, 2}) {
        const std::string id = "run" + std::to_string(world);
        RunSpec run = home.run(12, world);
        run.checkpointEverySteps = 5;
        home.write(id, run, home.plan(WorkerHome::model(), 1, world, Exchange::Ring));
        ASSERT_EQ(home.runAll(id, world), std::vector<int>(size_t(world), 0));
        const auto unbroken = home.losses(id);
        home.commit(id, world, 5);
        ASSERT_EQ(home.runAll(id, world, 2, 5), std::vector<int>(size_t(world), 0));
        const auto resumed = home.losses(id, 2);
        ASSERT_EQ(resumed.size(), 7u);
        for (const auto& [step, loss] : resumed)
            EXPECT_EQ(loss, unbroken.at(step)) << "world " << world << " step " << step;
        const Json first = home.lines(id, 0, "done").at(0), second = home.lines(id, 0, "done", 2).at(0);
        EXPECT_EQ(first["best_step"], second["best_step"]);
        EXPECT_EQ(first["result"]["test"], second["result"]["test"]);
    }
}

TEST(WorkerCheckpoint, IsWrittenBeforeTheFirstStepAndAtTheEndByEveryRank)
{
    const WorkerHome home;
    home.write("a", home.run(3, 2), home.plan(WorkerHome::model(), 1, 2, Exchange::Gather));
    ASSERT_EQ(home.runAll("a", 2), (std::vector<int>{0, 0}));
    for (int64_t rank = 0; rank < 2; ++rank) {
        const auto shards = home.lines("a", rank, "checkpoint.shard");
        ASSERT_EQ(shards.size(), 2u);
        EXPECT_EQ(shards[0]["step"], 0);
        EXPECT_EQ(shards[1]["step"], 3);
    }
    EXPECT_EQ(home.lines("a", 0, "checkpoint.begin").size(), 2u);
    home.commit("a", 2, 3);
    auto reader = CheckpointReader::open(home.folder("a") + "/checkpoints/" + checkpointName(3));
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    EXPECT_TRUE(reader->has("bias_table/w"));
    EXPECT_TRUE(reader->has("bias_table/m"));
    EXPECT_TRUE(reader->has("bias_table/v"));
}

TEST(WorkerCheckpoint, OfAnotherOptimizerOrShapeIsRefusedBeforeTraining)
{
    const WorkerHome home;
    ModelSpec model = WorkerHome::model();
    home.write("a", home.run(2, 1), home.plan(model, 1, 1, Exchange::None));
    ASSERT_EQ(home.runAll("a", 1), std::vector<int>{0});
    home.commit("a", 1, 2);
    model.optimizerKind = OptimizerKind::Sgd;
    home.write("a", home.run(4, 1), home.plan(model, 1, 1, Exchange::None));
    EXPECT_EQ(home.runAll("a", 1, 2, 2), std::vector<int>{25});
    EXPECT_NE(home.lines("a", 0, "error", 2).at(0)["message"].get<std::string>().find("optimizer is adamw"), std::string::npos);
    model = WorkerHome::model();
    model.ffnWidth = 24;
    home.write("a", home.run(4, 1), home.plan(model, 1, 1, Exchange::None));
    EXPECT_EQ(home.runAll("a", 1, 3, 2), std::vector<int>{25});
    EXPECT_NE(home.lines("a", 0, "error", 3).at(0)["message"].get<std::string>().find("shape"), std::string::npos);
}

} // namespace
} // namespace megagraph::test
