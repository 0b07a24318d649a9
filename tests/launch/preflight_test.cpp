// SPDX-License-Identifier: Apache-2.0
// Each check before a start, with stated facts about the host.
#include "runtime/launch/preflight.h"
#include "tests/launch/run_fixture.h"

#include <gtest/gtest.h>

namespace megagraph::launch {
namespace {

class Preflight : public testing::Test {
  protected:
    Preflight()
    {
        spec_.world = 2;
        host_ = {int64_t(8) << 30, 2, 1024};
        std::filesystem::create_directories(run_);
    }
    CheckResult check(const std::string& id) const
    {
        for (const CheckResult& result : preflight(spec_, plan_, testDataset(), home_.path(), run_, host_))
            if (result.check == id)
                return result;
        ADD_FAILURE() << "no check " << id;
        return {};
    }
    void expect(const std::string& id, const std::string& verdict, const std::string& part) const
    {
        const CheckResult result = check(id);
        EXPECT_EQ(result.verdict, verdict) << result.sentence();
        EXPECT_NE(result.sentence().find(part), std::string::npos) << result.sentence();
        if (verdict != "ok") {
            EXPECT_FALSE(result.hint.empty()) << id << " does not say what to do";
        }
    }

    TestHome home_;
    std::string run_ = home_.path() + "/runs/x";
    RunSpec spec_ = testRun(10);
    Plan plan_ = testPlan(2);
    HostFacts host_;
};

TEST_F(Preflight, AllChecksPassForALegalPlanThatFits)
{
    for (const char* id : {"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8"})
        expect(id, "ok", id);
    EXPECT_TRUE(std::filesystem::is_empty(run_)) << "probe files were left";
}

TEST_F(Preflight, C1IllegalAndUnsupportedPlansAreRefused)
{
    plan_.stages[0].cuts = {0, 3, 7};
    expect("C1", "refuse", "cuts");
    plan_ = testPlan(2);
    plan_.stages[0].zero = Zero::Z2;
    expect("C1", "refuse", "zero");
}

TEST_F(Preflight, C2OtherContentMissingAndUntouchedData)
{
    plan_.datasetHash = std::string(64, 'f');
    expect("C2", "refuse", "ffffffffffff as in the plan");
    plan_ = testPlan(2);
    std::filesystem::last_write_time(home_.path() + "/datasets/tiny/indptr.npy", std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
    expect("C2", "warn", "was written after the import");
    std::filesystem::remove(home_.path() + "/datasets/tiny/indptr.npy");
    expect("C2", "refuse", "indptr.npy is missing");
    std::filesystem::remove_all(home_.path() + "/datasets/tiny");
    expect("C2", "refuse", "megagraph import");
}

TEST_F(Preflight, C3NoDeviceFallsBackInSilence)
{
    plan_.cluster.nodes[0].devices[1].kind = "gpu";
    expect("C3", "refuse", "device 1 is a gpu");
    plan_ = testPlan(2);
    plan_.stages[0].devices = {0, 0};
    expect("C3", "refuse", "named twice");
    plan_.stages[0].devices = {0, 5};
    expect("C3", "refuse", "device 5");
}

TEST_F(Preflight, C4BudgetAgainstPrediction)
{
    plan_.prediction.ranks[0].peakBytes = (int64_t(1) << 30) + 1;
    expect("C4", "refuse", "predicted peak of rank 0");
    spec_.riskOom = true;
    expect("C4", "warn", "--risk-oom");
    plan_.prediction.ranks.clear();
    expect("C4", "warn", "no memory prediction");
}

TEST_F(Preflight, C5HostMemoryCountsTheSmallerOfPredictionAndBudget)
{
    plan_.prediction.ranks[0].peakBytes = plan_.prediction.ranks[1].peakBytes = int64_t(1) << 30;
    host_.availableBytes = (int64_t(2) << 30) - 1;
    expect("C5", "refuse", "2.00 GiB");
    host_.availableBytes = (int64_t(2) << 30) * 10 / 9;
    expect("C5", "warn", "80 %");
    host_.availableBytes = int64_t(3) << 30;
    expect("C5", "ok", "C5");
    plan_.prediction.ranks[0].peakBytes = int64_t(100) << 30; // never more than its budget
    expect("C5", "ok", "C5");
}

TEST_F(Preflight, C6MoreThreadsThanCoresIsAWarning)
{
    spec_.threadsPerRank = 2;
    expect("C6", "warn", "2 ranks x 2 threads");
}

TEST_F(Preflight, C7FolderThatCannotBeWrittenIsRefused)
{
    std::filesystem::remove_all(run_);
    expect("C7", "refuse", run_);
}

TEST_F(Preflight, C8P13TooFewOpenFilesAreNamedWithTheLimit)
{
    host_.openFiles = 90;
    expect("C8", "refuse", "open files limit is 90, expected at least 96");
}

TEST_F(Preflight, HostFactsAreThoseOfThisMachine)
{
    const HostFacts facts = readHostFacts();
    EXPECT_GT(facts.availableBytes, 1 << 20);
    EXPECT_GE(facts.cores, 1);
}

} // namespace
} // namespace megagraph::launch
