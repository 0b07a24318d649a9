// SPDX-License-Identifier: Apache-2.0
#include "core/cluster_spec.h"
#include "core/machine.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sched.h>
#include <set>

using namespace megagraph;

namespace {

/// Restricts this process to its first CPU for the length of a test.
class OneCore {
  public:
    OneCore()
    {
        ::sched_getaffinity(0, sizeof before_, &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<size_t>(usableCores().front().cpu), &one);
        ::sched_setaffinity(0, sizeof one, &one);
    }
    ~OneCore() { ::sched_setaffinity(0, sizeof before_, &before_); }

  private:
    cpu_set_t before_;
};

} // namespace

TEST(LocalCluster, DealsEachCoreOutOnce)
{
    const auto count = static_cast<int64_t>(usableCores().size());
    for (int64_t ranks = 1; ranks <= count; ++ranks) {
        const auto cluster = localCluster(ranks, int64_t(1) << 30);
        ASSERT_TRUE(cluster.ok()) << cluster.error().message;
        std::set<int64_t> cores;
        int64_t least = count, most = 0;
        for (const DeviceSpec& device : cluster->devices()) {
            EXPECT_EQ(device.threads, static_cast<int64_t>(device.cores.size()));
            EXPECT_EQ(device.memoryBytes, int64_t(1) << 30);
            cores.insert(device.cores.begin(), device.cores.end());
            least = std::min(least, device.threads);
            most = std::max(most, device.threads);
        }
        EXPECT_EQ(static_cast<int64_t>(cluster->devices().size()), ranks);
        EXPECT_EQ(static_cast<int64_t>(cores.size()), count);
        EXPECT_LE(most - least, 1);
        EXPECT_FALSE(cluster->nodes[0].shared);
    }
}

TEST(LocalCluster, MoreRanksThanCoresShareWithOneThreadEach)
{
    const auto ranks = static_cast<int64_t>(usableCores().size()) * 2 + 1;
    const auto cluster = localCluster(ranks, int64_t(1) << 30);
    ASSERT_TRUE(cluster.ok());
    EXPECT_TRUE(cluster->nodes[0].shared);
    for (const DeviceSpec& device : cluster->devices()) {
        EXPECT_EQ(device.threads, 1);
        EXPECT_EQ(device.cores.size(), 1u);
    }
    EXPECT_TRUE(clusterFromJson(clusterToJson(*cluster), "cluster.json").ok()) << "shared cores are legal when the file says so";
}

TEST(LocalCluster, ZeroRanksMeansAtMostTwoAndFollowsTheAffinityMask)
{
    EXPECT_EQ(localCluster(0, 0)->devices().size(), std::min<size_t>(2, usableCores().size()));
    const OneCore restricted;
    EXPECT_EQ(usableCores().size(), 1u);
    EXPECT_EQ(localCluster(0, 0)->devices().size(), 1u);
    EXPECT_TRUE(localCluster(2, 0)->nodes[0].shared);
}

TEST(LocalCluster, WithoutBudgetFourFifthsOfMemoryAreShared)
{
    const auto cluster = localCluster(2, 0);
    ASSERT_TRUE(cluster.ok());
    const auto total = static_cast<double>(cluster->devices()[0].memoryBytes) * 2;
    EXPECT_NEAR(total / static_cast<double>(availableMemoryBytes()), 0.8, 0.1); // memory in use moves a little between the calls
}

TEST(LocalCluster, BadArgumentsNameTheOption)
{
    EXPECT_NE(localCluster(-1, 0).error().message.find("--ranks"), std::string::npos);
    EXPECT_NE(localCluster(2, 100).error().message.find("--budget"), std::string::npos);
    EXPECT_EQ(localCluster(1 << 30, 0).error().code, ErrorCode::InvalidInput);
}

TEST(Allow, ValuesAddUpWithoutRepeats)
{
    ConstraintsSpec spec;
    ASSERT_TRUE(addAllowed(spec, "exchange=ring,gather").ok());
    ASSERT_TRUE(addAllowed(spec, "exchange=gather").ok());
    ASSERT_TRUE(addAllowed(spec, "ring=2").ok());
    EXPECT_EQ(spec.allow["exchange"], (std::vector<std::string>{"ring", "gather"}));
    EXPECT_EQ(spec.allow["ring"], std::vector<std::string>{"2"});
    EXPECT_TRUE(constraintsFromJson(constraintsToJson(spec), "constraints.json").ok());
}

TEST(Allow, EveryKnobIsKnownAndOthersAreUsageErrors)
{
    for (const char* text : {"replicas=2", "ulysses=1", "ring=4", "exchange=halo", "zero=hsdp", "recompute=block", "attention=materialised",
                             "precision=bf16", "bias=planes", "order=natural", "schedule=1f1b", "stages=2", "micro_batches=16", "mode=packs"}) {
        ConstraintsSpec spec;
        EXPECT_TRUE(addAllowed(spec, text).ok()) << text;
    }
    const std::pair<const char*, const char*> rows[] = {{"exchnge=ring", "did you mean \"exchange\""}, {"exchange=rong", "one of none, ring"},
                                                        {"ring=0", "a positive integer"},            {"ring=", "a positive integer"},
                                                        {"ring=2,", "a positive integer"},           {"ring", "KNOB=VALUE"}};
    for (const auto& [text, rule] : rows) {
        ConstraintsSpec spec;
        const auto added = addAllowed(spec, text);
        ASSERT_FALSE(added.ok()) << text;
        EXPECT_EQ(exitCode(added.error().code), 2);
        EXPECT_NE(added.error().message.find(rule), std::string::npos) << added.error().message;
        EXPECT_TRUE(spec.allow.empty()) << "a refused assignment changes nothing";
    }
}

TEST(Machine, FactsAreSane)
{
    EXPECT_GT(availableMemoryBytes(), 0);
    EXPECT_GE(numaNodeCount(), 1);
    const std::set<std::string> levels{"avx512bf16", "avx512", "avx2", "portable"};
    EXPECT_TRUE(levels.contains(instructionLevel()));
}
