// SPDX-License-Identifier: Apache-2.0
// Short forms of the milestone's accuracy and sameness claims on the real Cora: one seed each, five steps of verify. The full
// forms (three seeds, 50 steps) are commands in the documentation. Skipped when the shared data are not there.
#include "tests/runtime/worker_fixture.h"

namespace megagraph::test {
namespace {

std::string coraSource()
{
    const char* const shared = std::getenv("MEGAGRAPH_SHARED_DATA");
    return (shared != nullptr ? std::string(shared) : std::string(MEGAGRAPH_SOURCE_DIR) + "/../shared/data") + "/cora-ogb";
}

class Cora : public testing::Test {
  protected:
    void SetUp() override
    {
        if (!std::filesystem::exists(coraSource()))
            GTEST_SKIP() << "no Cora at " << coraSource() << "; set MEGAGRAPH_SHARED_DATA";
        home_ = std::make_unique<WorkerHome>(coraSource());
    }
    static ModelSpec preset(const std::string& name)
    {
        auto model = loadModel(name, std::string(MEGAGRAPH_SOURCE_DIR) + "/resources");
        EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().message);
        return *model;
    }
    double testAccuracy(const ModelSpec& model, int64_t contexts, Exchange exchange)
    {
        RunSpec run = home_->run(model.steps, contexts);
        run.evalEvery = model.evalEvery;
        run.patience = model.patience;
        home_->write("train", run, home_->plan(model, 1, contexts, exchange));
        EXPECT_EQ(home_->runAll("train", contexts), std::vector<int>(size_t(contexts), 0));
        const auto done = home_->lines("train", 0, "done");
        return done.empty() ? 0 : done.at(0)["result"]["test"]["value"].get<double>();
    }
    /// Serial reference, then the plan; checks the two limits.
    void expectSame(const ModelSpec& model, int64_t replicas, int64_t contexts, Exchange exchange, std::vector<int64_t> cuts = {})
    {
        RunSpec run = home_->run(5, 1, "verify");
        Plan serial = home_->plan(model, 1, 1, Exchange::None);
        Plan parallel = home_->plan(model, replicas, contexts, exchange);
        serial.microBatches = parallel.microBatches = replicas;
        parallel.stages[0].cuts = std::move(cuts);
        run.verifyRole = "serial";
        home_->write("serial", run, serial);
        ASSERT_EQ(home_->runAll("serial", 1), std::vector<int>{0});
        run.world = replicas * contexts;
        run.verifyRole = "plan";
        run.verifyReferenceRun = "serial";
        const std::string id = "plan-" + std::to_string(++plans_);
        home_->write(id, run, parallel);
        ASSERT_EQ(home_->runAll(id, run.world), std::vector<int>(size_t(run.world), 0));
        const Json result = home_->lines(id, 0, "done").at(0)["result"];
        EXPECT_LE(numberOf(result["loss_rel_max"]), 1e-5) << planName(parallel);
        EXPECT_LE(numberOf(result["gradient_rel_max"]), 1e-4) << planName(parallel) << " " << result["parameter"];
    }
    static ModelSpec clusters(ModelSpec model)
    {
        model.sequenceMode = SequenceMode::Clusters;
        model.sequenceTokens = 680; // four sequences
        return model;
    }
    static ModelSpec sparse()
    {
        ModelSpec model = preset("gt-sparse-minesweeper-small");
        model.loss = Loss::CrossEntropy;
        model.metric = Metric::Accuracy;
        return model;
    }
    std::unique_ptr<WorkerHome> home_;
    int plans_ = 0;
};

TEST_F(Cora, SgformerReachesItsBandOnTwoRanks) { EXPECT_GE(testAccuracy(preset("sgformer-cora"), 2, Exchange::Reduce), 0.79); }
TEST_F(Cora, GraphormerReachesItsBandOnTwoRanks) { EXPECT_GE(testAccuracy(preset("graphormer-cora"), 2, Exchange::Gather), 0.72); }
TEST_F(Cora, GraphormerIsTheSameAroundARingOfTwo) { expectSame(preset("graphormer-cora"), 1, 2, Exchange::Ring); }
TEST_F(Cora, GraphormerIsTheSameAroundARingOfThreeUnevenRanks)
{
    expectSame(preset("graphormer-cora"), 1, 3, Exchange::Ring, {0, 700, 1900, 2708});
}
TEST_F(Cora, GraphormerIsTheSameWithGatheredKeys) { expectSame(preset("graphormer-cora"), 1, 2, Exchange::Gather); }
TEST_F(Cora, GraphormerIsTheSameOnTwoReplicas) { expectSame(clusters(preset("graphormer-cora")), 2, 1, Exchange::None); }
TEST_F(Cora, SparseTransformerIsTheSameWithGatheredKeys) { expectSame(sparse(), 1, 2, Exchange::Gather); }
TEST_F(Cora, SparseTransformerIsTheSameOnTwoReplicas) { expectSame(clusters(sparse()), 2, 1, Exchange::None); }
TEST_F(Cora, SgformerIsTheSameUnderReduce) { expectSame(preset("sgformer-cora"), 1, 2, Exchange::Reduce); }

} // namespace
} // namespace megagraph::test
