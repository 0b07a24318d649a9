// SPDX-License-Identifier: Apache-2.0
// The legality table, cuts, exchange volumes, state bytes, and action lists with their proof.
#include "core/cuts.h"
#include "core/exchange_volume.h"
#include "core/plan_check.h"
#include "core/precision.h"
#include "core/schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace megagraph {
namespace {

DatasetSpec dataset(int64_t nodes = 100)
{
    DatasetSpec spec;
    spec.name = "d";
    spec.contentHash = "c0ffee00";
    spec.nodes = nodes;
    spec.entries = 4 * nodes;
    spec.featureKind = "dense";
    spec.featureWidth = 8;
    return spec;
}

Plan plan(int64_t devices = 4)
{
    Plan p;
    p.model.blocks = 2;
    p.model.width = 16;
    p.model.ffnWidth = 16;
    p.model.heads = 4;
    NodeSpec node;
    for (int64_t d = 0; d < devices; ++d) {
        DeviceSpec device;
        device.cores = {d};
        device.memoryBytes = 1 << 30;
        node.devices.push_back(device);
    }
    p.cluster.nodes = {node};
    p.tokens = 100;
    StagePlan stage;
    stage.lastLayer = 4;
    stage.devices = {0};
    p.stages = {stage};
    return p;
}

Plan ringPlan(int64_t ranks)
{
    Plan p = plan();
    p.stages[0].ring = ranks;
    p.stages[0].exchange = Exchange::Ring;
    p.stages[0].devices.resize(size_t(ranks));
    std::iota(p.stages[0].devices.begin(), p.stages[0].devices.end(), 0);
    return p;
}

Plan clusterPlan(int64_t replicas, int64_t microBatches)
{
    Plan p = plan();
    p.mode = SequenceMode::Clusters;
    p.tokens = 25;
    p.microBatches = microBatches;
    p.stages[0].replicas = replicas;
    p.stages[0].devices.resize(size_t(replicas));
    std::iota(p.stages[0].devices.begin(), p.stages[0].devices.end(), 0);
    return p;
}

struct Case {
    const char* name;
    std::function<Plan()> make;
    ErrorCode code;
    const char* says;
};

Plan changed(Plan base, const std::function<void(Plan&)>& change)
{
    change(base);
    return base;
}

TEST(PlanCheck, AcceptsWhatThisVersionRuns)
{
    EXPECT_TRUE(checkPlan(plan(), dataset()).ok());
    EXPECT_TRUE(checkPlan(ringPlan(3), dataset()).ok());
    EXPECT_TRUE(checkPlan(changed(ringPlan(3), [](Plan& p) { p.stages[0].cuts = {0, 10, 10, 100}; }), dataset()).ok());
    EXPECT_TRUE(checkPlan(changed(ringPlan(2), [](Plan& p) { p.stages[0].exchange = Exchange::Gather; }), dataset()).ok());
    EXPECT_TRUE(checkPlan(changed(ringPlan(2), [](Plan& p) {
                    p.stages[0].exchange = Exchange::Gather;
                    p.attention = AttentionPath::Materialised;
                }), dataset()).ok());
    EXPECT_TRUE(checkPlan(changed(ringPlan(2), [](Plan& p) {
                    p.model.kind = Architecture::GtSparse;
                    p.stages[0].exchange = Exchange::Gather;
                }), dataset()).ok());
    EXPECT_TRUE(checkPlan(changed(ringPlan(2), [](Plan& p) {
                    p.model.kind = Architecture::Sgformer;
                    p.stages[0].exchange = Exchange::Reduce;
                }), dataset()).ok());
    EXPECT_TRUE(checkPlan(clusterPlan(2, 4), dataset()).ok());
    EXPECT_TRUE(checkPlan(changed(plan(), [](Plan& p) { p.stages[0].recompute = Recompute::Block; }), dataset()).ok());
    EXPECT_TRUE(checkPlan(changed(plan(), [](Plan& p) { p.model.hops = 15; }), dataset()).ok());
    for (const BiasPolicy bias : {BiasPolicy::Planes, BiasPolicy::Strips})
        EXPECT_TRUE(checkPlan(changed(ringPlan(2), [bias](Plan& p) {
                        p.bias = bias;
                        p.model.hops = 27;
                    }), dataset()).ok());
}

TEST(PlanCheck, NamesTheRuleOfEveryRefusal)
{
    const std::vector<Case> cases{
        {"no stage", [] { return changed(plan(), [](Plan& p) { p.stages.clear(); }); }, ErrorCode::InvalidInput, "stages"},
        {"layers start late", [] { return changed(plan(), [](Plan& p) { p.stages[0].firstLayer = 1; }); }, ErrorCode::InvalidInput, "starts at 0"},
        {"layers end early", [] { return changed(plan(), [](Plan& p) { p.stages[0].lastLayer = 3; }); }, ErrorCode::InvalidInput, "end at layer 3"},
        {"device count", [] { return changed(plan(), [](Plan& p) { p.stages[0].devices = {0, 1}; }); }, ErrorCode::InvalidInput, "got 2, expected 1"},
        {"device unknown", [] { return changed(plan(), [](Plan& p) { p.stages[0].devices = {7}; }); }, ErrorCode::InvalidInput, "device 7"},
        {"device twice", [] { return changed(ringPlan(2), [](Plan& p) { p.stages[0].devices = {1, 1}; }); }, ErrorCode::InvalidInput, "used twice"},
        {"heads", [] { return changed(plan(), [](Plan& p) { p.model.heads = 3; }); }, ErrorCode::InvalidInput, "3 heads do not divide width 16"},
        {"ulysses on 4 heads", [] { return changed(ringPlan(3), [](Plan& p) {
             p.stages[0].ring = 1;
             p.stages[0].ulysses = 3;
             p.stages[0].exchange = Exchange::Ulysses;
         }); }, ErrorCode::InvalidInput, "U = 3 does not divide 4 heads"},
        {"exchange without peers", [] { return changed(plan(), [](Plan& p) { p.stages[0].exchange = Exchange::Ring; }); }, ErrorCode::InvalidInput, "use none"},
        {"peers without exchange", [] { return changed(ringPlan(2), [](Plan& p) { p.stages[0].exchange = Exchange::None; }); }, ErrorCode::InvalidInput, "none on 2"},
        {"ring on edges", [] { return changed(ringPlan(2), [](Plan& p) { p.model.kind = Architecture::GtSparse; }); }, ErrorCode::InvalidInput, "use gather or halo"},
        {"gather on linear", [] { return changed(ringPlan(2), [](Plan& p) {
             p.model.kind = Architecture::Sgformer;
             p.stages[0].exchange = Exchange::Gather;
         }); }, ErrorCode::InvalidInput, "use reduce"},
        {"many hops in lists", [] { return changed(plan(), [](Plan& p) { p.model.hops = 16; }); }, ErrorCode::InvalidInput, "at most 15 hops"},
        {"too many hops", [] { return changed(plan(), [](Plan& p) { p.model.hops = 28; }); }, ErrorCode::InvalidInput, "0 to 27"},
        {"materialised on edges", [] { return changed(plan(), [](Plan& p) {
             p.model.kind = Architecture::GtSparse;
             p.attention = AttentionPath::Materialised;
         }); }, ErrorCode::InvalidInput, "use fused"},
        {"replicas of a full graph", [] { return changed(clusterPlan(2, 1), [](Plan& p) {
             p.mode = SequenceMode::Full;
             p.tokens = 100;
         }); }, ErrorCode::InvalidInput, "sequence_mode=clusters"},
        {"replicas do not divide", [] { return clusterPlan(2, 3); }, ErrorCode::InvalidInput, "2 replicas do not divide 3"},
        {"full graph in parts", [] { return changed(plan(), [](Plan& p) { p.tokens = 50; }); }, ErrorCode::InvalidInput, "all 100 nodes"},
        {"full graph twice", [] { return changed(plan(), [](Plan& p) { p.microBatches = 2; }); }, ErrorCode::InvalidInput, "one micro-batch"},
        {"cuts too short", [] { return changed(ringPlan(2), [](Plan& p) { p.stages[0].cuts = {0, 100}; }); }, ErrorCode::InvalidInput, "expected 3 offsets"},
        {"cuts fall", [] { return changed(ringPlan(3), [](Plan& p) { p.stages[0].cuts = {0, 60, 40, 100}; }); }, ErrorCode::InvalidInput, "is below"},
        {"cuts in clusters", [] { return changed(clusterPlan(1, 4), [](Plan& p) { p.stages[0].cuts = {0, 25}; }); }, ErrorCode::InvalidInput, "mode full"},
        {"several graphs", [] { return plan(); }, ErrorCode::InvalidInput, "use packs"},
        {"two stages", [] { return changed(plan(), [](Plan& p) {
             p.stages.push_back(p.stages[0]);
             p.stages[0].lastLayer = 2;
             p.stages[1].firstLayer = 2;
             p.stages[1].devices = {1};
         }); }, ErrorCode::Unsupported, "one stage"},
        {"ulysses", [] { return changed(ringPlan(2), [](Plan& p) {
             p.stages[0].ring = 1;
             p.stages[0].ulysses = 2;
             p.stages[0].exchange = Exchange::Ulysses;
         }); }, ErrorCode::Unsupported, "no ulysses exchange yet"},
        {"halo", [] { return changed(ringPlan(2), [](Plan& p) {
             p.model.kind = Architecture::GtSparse;
             p.stages[0].exchange = Exchange::Halo;
         }); }, ErrorCode::Unsupported, "use gather"},
        {"zero 2", [] { return changed(clusterPlan(2, 4), [](Plan& p) { p.stages[0].zero = Zero::Z2; }); }, ErrorCode::Unsupported, "zero 2"},
        {"recompute attention", [] { return changed(plan(), [](Plan& p) { p.stages[0].recompute = Recompute::Attention; }); }, ErrorCode::Unsupported, "none or block"},
        {"materialised ring", [] { return changed(ringPlan(2), [](Plan& p) { p.attention = AttentionPath::Materialised; }); }, ErrorCode::Unsupported, "not under ring"},
        {"bf16", [] { return changed(plan(), [](Plan& p) { p.precision = Precision::Bf16; }); }, ErrorCode::Unsupported, "fp32 only"},
        {"gpu", [] { return changed(plan(), [](Plan& p) { p.cluster.nodes[0].devices[0].kind = "gpu"; }); }, ErrorCode::Unsupported, "CPU slots only"},
        {"edge encoding", [] { return changed(plan(), [](Plan& p) { p.model.edgeEncoding = EdgeEncoding::Hop1; }); }, ErrorCode::Unsupported, "edge_encoding"},
    };
    for (const Case& c : cases) {
        DatasetSpec data = dataset();
        if (std::string(c.name) == "several graphs")
            data.graphs = 5;
        const auto checked = checkPlan(c.make(), data);
        ASSERT_FALSE(checked.ok()) << c.name;
        EXPECT_EQ(checked.error().code, c.code) << c.name << ": " << checked.error().message;
        EXPECT_NE(checked.error().message.find(c.says), std::string::npos) << c.name << ": " << checked.error().message;
    }
}

TEST(Cuts, AreCostQuantilesAndCoverAllTokens)
{
    const std::vector<int64_t> equal(10, 1);
    EXPECT_EQ(costCuts(equal, 2), (std::vector<int64_t>{0, 5, 10}));
    EXPECT_EQ(costCuts(equal, 4), (std::vector<int64_t>{0, 2, 5, 7, 10})); // 2.5 and 7.5: ties go to the lower token
    const std::vector<int64_t> heavy{9, 1, 1, 1};
    EXPECT_EQ(costCuts(heavy, 2), (std::vector<int64_t>{0, 1, 4}));
    EXPECT_EQ(costCuts(std::vector<int64_t>{0, 0, 0, 0}, 2), (std::vector<int64_t>{0, 2, 4}));
    EXPECT_EQ(costCuts(std::vector<int64_t>{}, 3), (std::vector<int64_t>{0, 0, 0, 0}));
    const auto many = costCuts(std::vector<int64_t>{1, 1}, 5);
    EXPECT_EQ(many.size(), 6u);
    EXPECT_TRUE(std::is_sorted(many.begin(), many.end()));
    EXPECT_EQ(many.back(), 2);
    const std::vector<int64_t> degree{3, 0, 5};
    EXPECT_EQ(tokenCost(true, 3, degree), (std::vector<int64_t>{1, 1, 1}));
    EXPECT_EQ(tokenCost(false, 3, degree), (std::vector<int64_t>{4, 1, 6}));
}

TEST(ExchangeVolume, EqualsHandCounts)
{
    const std::vector<int64_t> cuts{0, 3, 5, 10}; // 3, 2 and 5 rows
    const int64_t d = 8;
    // ring, rank 0: sends its own block, then the one of rank 2; backward all three gradients
    const ExchangeBytes ring = exchangeBytes(Exchange::Ring, cuts, 0, d, 2, 4, 4);
    EXPECT_EQ(ring.forward, 2 * (3 + 5) * d * 4);
    EXPECT_EQ(ring.backward, ring.forward + 2 * 10 * d * 4);
    const ExchangeBytes gather = exchangeBytes(Exchange::Gather, cuts, 1, d, 2, 4, 4);
    EXPECT_EQ(gather.forward, 2 * 2 * d * 4 * 2);
    EXPECT_EQ(gather.backward, 2 * 8 * d * 4);
    const ExchangeBytes reduce = exchangeBytes(Exchange::Reduce, cuts, 1, d, 2, 4, 4);
    EXPECT_EQ(reduce.forward, 4 * (2 * 16 + 2 * 4 + 2));
    EXPECT_EQ(reduce.backward, 4 * (2 * 16 + 2 * 4));
    const ExchangeBytes rows = convolutionBytes(cuts, 2, d, 4);
    EXPECT_EQ(rows.forward, 5 * d * 4 * 2);
    EXPECT_EQ(rows.backward, 5 * d * 4);
    const std::vector<int64_t> alone{0, 10};
    EXPECT_EQ(exchangeBytes(Exchange::Ring, alone, 0, d, 2, 4, 4).forward, 0);
}

TEST(Precision, FollowsTheTableOfStateBytes)
{
    EXPECT_EQ(stateBytes(Precision::Fp32, OptimizerKind::AdamW).optimizer, 8);
    EXPECT_EQ(stateBytes(Precision::Fp32, OptimizerKind::Sgd).optimizer, 0);
    EXPECT_EQ(stateBytes(Precision::Bf16, OptimizerKind::AdamW).optimizer, 12);
    EXPECT_EQ(stateBytes(Precision::Bf16, OptimizerKind::AdamW).weight, 2);
    EXPECT_EQ(roundedBytes(1), 64);
    EXPECT_EQ(roundedBytes(64), 64);
}

Plan pipeline(const std::vector<std::pair<int64_t, int64_t>>& stages, int64_t microBatches, PipelineSchedule kind)
{
    Plan p = plan(0);
    p.schedule = kind;
    p.microBatches = microBatches;
    p.stages.clear();
    int64_t layer = 0;
    for (const auto& [replicas, context] : stages) {
        StagePlan stage;
        stage.firstLayer = layer;
        stage.lastLayer = ++layer;
        stage.replicas = replicas;
        stage.ring = context;
        p.stages.push_back(stage);
    }
    return p;
}

TEST(Schedule, OneStageAlternatesAndEndsWithReduceAndStep)
{
    const Plan p = clusterPlan(2, 4);
    const auto actions = rankActions(p, 1);
    ASSERT_TRUE(actions.ok());
    std::vector<std::pair<ActionKind, int64_t>> seen;
    for (const Action& a : *actions)
        seen.emplace_back(a.kind, a.microBatch);
    const std::vector<std::pair<ActionKind, int64_t>> expected{{ActionKind::Forward, 1}, {ActionKind::Backward, 1}, {ActionKind::Forward, 3},
                                                               {ActionKind::Backward, 3}, {ActionKind::Reduce, -1}, {ActionKind::Step, -1}};
    EXPECT_EQ(seen, expected);
    const auto serial = rankActions(plan(), 0);
    ASSERT_TRUE(serial.ok());
    EXPECT_EQ(serial->size(), 3u); // no reduce on one rank
    EXPECT_FALSE(rankActions(plan(), 1).ok());
}

TEST(Schedule, RolesAreReplicaMajorWithTheirDevices)
{
    Plan p = clusterPlan(2, 4);
    p.stages[0].ring = 2;
    p.stages[0].exchange = Exchange::Ring;
    p.stages[0].devices = {3, 1, 0, 2};
    const auto roles = rankRoles(p);
    ASSERT_EQ(roles.size(), 4u);
    EXPECT_EQ(roles[1].replica, 0);
    EXPECT_EQ(roles[1].context, 1);
    EXPECT_EQ(roles[1].device, 1);
    EXPECT_EQ(roles[2].replica, 1);
    EXPECT_EQ(roles[2].context, 0);
}

TEST(Schedule, OneForwardOneBackwardKeepsFewerInFlightThanGPipe)
{
    const auto inFlight = [](PipelineSchedule kind) {
        const Plan p = pipeline({{1, 1}, {1, 1}, {1, 1}}, 8, kind);
        const auto actions = rankActions(p, 1);
        int64_t live = 0, most = 0;
        for (const Action& a : *actions) {
            live += a.kind == ActionKind::Forward ? 1 : a.kind == ActionKind::Backward ? -1 : 0;
            most = std::max(most, live);
        }
        EXPECT_EQ(live, 0);
        return most;
    };
    EXPECT_EQ(inFlight(PipelineSchedule::OneF1B), 2);
    EXPECT_EQ(inFlight(PipelineSchedule::GPipe), 8);
}

TEST(Schedule, IsFreeOfDeadlockOnGeneratedPipelines)
{
    int proved = 0;
    for (const PipelineSchedule kind : {PipelineSchedule::GPipe, PipelineSchedule::OneF1B})
        for (int64_t stages = 1; stages <= 4; ++stages)
            for (int64_t code = 0; code < (int64_t(1) << (2 * stages)); ++code)
                for (const int64_t m : {2, 4, 6}) {
                    std::vector<std::pair<int64_t, int64_t>> shape;
                    for (int64_t s = 0; s < stages; ++s)
                        shape.emplace_back(((code >> (2 * s)) & 1) + 1, ((code >> (2 * s + 1)) & 1) + 1);
                    const Plan p = pipeline(shape, m, kind);
                    const auto free = proveNoDeadlock(p);
                    ASSERT_TRUE(free.ok()) << free.error().message << " stages " << stages << " code " << code << " m " << m;
                    ++proved;
                }
    EXPECT_EQ(proved, 2 * 3 * (4 + 16 + 64 + 256));
}

TEST(Schedule, EveryRankOfAStageMakesTheSamePasses)
{
    const Plan p = pipeline({{2, 1}, {1, 2}, {2, 2}}, 4, PipelineSchedule::OneF1B);
    const auto roles = rankRoles(p);
    for (size_t r = 0; r < roles.size(); ++r) {
        const auto actions = rankActions(p, int64_t(r));
        ASSERT_TRUE(actions.ok());
        int64_t forwards = 0, reduces = 0;
        for (const Action& a : *actions) {
            forwards += a.kind == ActionKind::Forward;
            reduces += a.kind == ActionKind::Reduce;
        }
        EXPECT_EQ(forwards, 4 / p.stages[size_t(roles[r].stage)].replicas);
        EXPECT_EQ(reduces, 1);
    }
}

} // namespace
} // namespace megagraph
