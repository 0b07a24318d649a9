// SPDX-License-Identifier: Apache-2.0
#include "runtime/pch.h"

#include "core/exchange_volume.h"
#include "model_oracle.h"

namespace megagraph::test {
namespace {

constexpr double kLimit = 1e-5;
constexpr double kOracleGradients = 3e-5; // fp32 against fp64: gradients of W_q, W_k are small differences (measured 1e-5)

void againstOracle(const Plan& plan, const GraphHome& home, const std::string& what, bool training = true)
{
    expectSame(runSerial(plan, home, 2, training), Oracle(plan, home, training).run(), kLimit, kOracleGradients, what);
}

TEST(Models, GraphormerEqualsThePlainModel)
{
    const GraphHome home(false);
    ModelSpec m = smallModel(Architecture::Graphormer);
    againstOracle(planOf(m), home, "graphormer pre");
    againstOracle(planOf(m), home, "graphormer pre, evaluation", false);
    m.graphToken = true;
    againstOracle(planOf(m), home, "graphormer pre token");
    m.norm = NormPlace::Post;
    m.tableInit = TableInit::Normal;
    m.degreeEncoding = false;
    m.scaleFeatures = true;
    againstOracle(planOf(m), home, "graphormer post token normal scaled");
}

TEST(Models, MaterialisedGraphormerEqualsThePlainModelAndTheFusedOne)
{
    const GraphHome home(true);
    ModelSpec m = smallModel(Architecture::Graphormer);
    m.graphToken = true;
    Plan plan = planOf(m);
    const Outcome fused = runSerial(plan, home);
    plan.attention = AttentionPath::Materialised;
    againstOracle(plan, home, "graphormer materialised");
    expectSame(runSerial(plan, home), fused, kLimit, kLimit, "materialised against fused");
}

TEST(Models, SparseGtEqualsThePlainModel)
{
    const GraphHome home(true);
    ModelSpec m = smallModel(Architecture::GtSparse);
    againstOracle(planOf(m), home, "gt_sparse plain");
    m.selfLoops = false;
    againstOracle(planOf(m), home, "gt_sparse sep");
    m.neighbours = Neighbours::None;
    againstOracle(planOf(m), home, "gt_sparse sep without neighbours");
    m.selfLoops = true;
    againstOracle(planOf(m), home, "gt_sparse without neighbours");
}

TEST(Models, SgformerEqualsThePlainQuadraticModel)
{
    const GraphHome sparse(false), dense(true);
    ModelSpec m = smallModel(Architecture::Sgformer);
    againstOracle(planOf(m), sparse, "sgformer sparse features");
    againstOracle(planOf(m), dense, "sgformer dense features");
    m.heads = 2;
    m.gcnResidual = true;
    m.gcnLayers = 3;
    againstOracle(planOf(m), sparse, "sgformer two heads residual");
}

TEST(Models, ThreadsDoNotChangeResults)
{
    const GraphHome home(false);
    for (const Architecture kind : {Architecture::Graphormer, Architecture::GtSparse, Architecture::Sgformer}) {
        const Plan plan = planOf(smallModel(kind));
        const Outcome one = runSerial(plan, home, 1), three = runSerial(plan, home, 3);
        expectSame(three, one, 1e-6, 1e-6, "threads"); // LibTorch's own sums may differ in order
    }
}

TEST(Models, RecomputedBlocksGiveEqualBits)
{
    const GraphHome home(false);
    for (const Architecture kind : {Architecture::Graphormer, Architecture::GtSparse, Architecture::Sgformer}) {
        Plan plan = planOf(smallModel(kind));
        const Outcome kept = runSerial(plan, home);
        plan.stages[0].recompute = Recompute::Block;
        expectEqualBits(runSerial(plan, home), kept, architectureName(kind));
    }
}

TEST(Models, AnotherStepDrawsAnotherMaskAndEvaluationDrawsNone)
{
    const GraphHome home(false);
    const Plan plan = planOf(smallModel(Architecture::Graphormer));
    ModelSpec still = plan.model;
    still.inputDropout = still.attentionDropout = still.ffnDropout = still.residualDropout = 0;
    const Outcome evaluated = runSerial(plan, home, 1, false);
    expectEqualBits(evaluated, runSerial(planOf(still), home, 1, true), "evaluation equals no dropout");
    EXPECT_FALSE(at::equal(runSerial(plan, home).logits, evaluated.logits));
}

struct Split { int64_t ranks; Exchange exchange; std::vector<int64_t> cuts; bool token; Recompute recompute; AttentionPath attention; const char* name; };

void parity(Architecture kind, const std::vector<Split>& splits)
{
    const GraphHome home(false);
    for (const Split& split : splits) {
        ModelSpec m = smallModel(kind);
        m.graphToken = split.token;
        const Outcome serial = runSerial(planOf(m), home);
        Plan plan = planOf(m, split.ranks, split.exchange, split.cuts);
        plan.stages[0].recompute = split.recompute;
        plan.attention = split.attention;
        expectSame(summed(runRanks(plan, home)), serial, kLimit, kLimit, split.name);
    }
}

TEST(ContextParallel, GraphormerOverARingEqualsOneRank)
{
    parity(Architecture::Graphormer, {
        {2, Exchange::Ring, {}, false, Recompute::None, AttentionPath::Fused, "ring 2"},
        {2, Exchange::Ring, {0, 37, kNodes}, true, Recompute::None, AttentionPath::Fused, "ring 2 uneven token"},
        {3, Exchange::Ring, {0, 101, 102, kNodes}, false, Recompute::None, AttentionPath::Fused, "ring 3 uneven"},
        {3, Exchange::Ring, {0, 64, 64, kNodes}, true, Recompute::None, AttentionPath::Fused, "ring 3 with an empty shard, token"},
        {3, Exchange::Ring, {0, 80, kNodes, kNodes}, true, Recompute::Block, AttentionPath::Fused, "ring 3 token alone, recomputed"},
        {3, Exchange::Ring, {0, 0, kNodes, kNodes}, false, Recompute::None, AttentionPath::Fused, "ring 3 with two empty shards"},
    });
}

TEST(ContextParallel, GraphormerWithGatheredKeysEqualsOneRank)
{
    parity(Architecture::Graphormer, {
        {2, Exchange::Gather, {}, true, Recompute::None, AttentionPath::Fused, "gather 2 token"},
        {3, Exchange::Gather, {0, 0, 77, kNodes}, false, Recompute::Block, AttentionPath::Fused, "gather 3 empty shard, recomputed"},
        {2, Exchange::Gather, {0, 50, kNodes}, true, Recompute::None, AttentionPath::Materialised, "gather 2 materialised"},
    });
}

TEST(ContextParallel, SparseGtWithGatheredKeysEqualsOneRank)
{
    parity(Architecture::GtSparse, {
        {2, Exchange::Gather, {}, false, Recompute::None, AttentionPath::Fused, "sparse gather 2"},
        {3, Exchange::Gather, {0, 90, 90, kNodes}, false, Recompute::Block, AttentionPath::Fused, "sparse gather 3 empty, recomputed"},
    });
}

TEST(ContextParallel, SgformerWithReducedSumsEqualsOneRank)
{
    parity(Architecture::Sgformer, {
        {2, Exchange::Reduce, {}, false, Recompute::None, AttentionPath::Fused, "reduce 2"},
        {3, Exchange::Reduce, {0, 20, 20, kNodes}, false, Recompute::Block, AttentionPath::Fused, "reduce 3 empty shard, recomputed"},
    });
}

TEST(Models, BiasPoliciesGiveEqualBits)
{
    const GraphHome home(false);
    ModelSpec m = smallModel(Architecture::Graphormer);
    m.graphToken = true;
    for (const bool ring : {false, true}) {
        Plan plan = ring ? planOf(m, 3, Exchange::Ring, {0, 30, 100, kNodes}) : planOf(m);
        const auto run = [&](BiasPolicy bias) {
            plan.bias = bias;
            return ring ? summed(runRanks(plan, home)) : runSerial(plan, home);
        };
        const Outcome lists = run(BiasPolicy::Lists);
        expectEqualBits(run(BiasPolicy::Planes), lists, ring ? "planes, ring" : "planes");
        expectEqualBits(run(BiasPolicy::Strips), lists, ring ? "strips, ring" : "strips");
    }
}

TEST(Models, MoreHopsThanListsHoldEqualThePlainModel)
{
    const GraphHome home(false); // its ring of 40 nodes has distances up to 20
    ModelSpec m = smallModel(Architecture::Graphormer);
    m.hops = 20;
    for (const BiasPolicy bias : {BiasPolicy::Planes, BiasPolicy::Strips}) {
        Plan plan = planOf(m);
        plan.bias = bias;
        againstOracle(plan, home, biasPolicyName(bias));
    }
}

// The far bin is closed on every rank and in every block; closing is linear, so the sum over ranks is the closed sum.
TEST(ContextParallel, TableGradientSumsToZeroPerHeadAfterTheSumOverRanks)
{
    const GraphHome home(false);
    const ModelSpec m = smallModel(Architecture::Graphormer);
    const auto ranks = runRanks(planOf(m, 3, Exchange::Ring, {0, 40, 110, kNodes}), home);
    const at::Tensor sum = summed(ranks).gradients.at("bias_table").to(at::kDouble);
    EXPECT_LE(sum.sum(1).abs().max().item<double>(), 1e-4 * sum.abs().max().item<double>());
    Plan dense = planOf(m);
    dense.attention = AttentionPath::Materialised; // sums the far pairs themselves
    const at::Tensor direct = runSerial(dense, home).gradients.at("bias_table").to(at::kDouble);
    EXPECT_LE((sum - direct).norm().item<double>(), 1e-5 * direct.norm().item<double>());
}

TEST(ContextParallel, BytesSentEqualTheFormulaOfThePlanner)
{
    const GraphHome home(false);
    const ModelSpec m = smallModel(Architecture::Graphormer);
    const std::vector<int64_t> cuts{0, 30, 100, kNodes};
    for (const Exchange exchange : {Exchange::Ring, Exchange::Gather}) {
        const auto ranks = runRanks(planOf(m, 3, exchange, cuts), home);
        for (int64_t r = 0; r < 3; ++r) {
            const ExchangeBytes bytes = exchangeBytes(exchange, cuts, r, m.width, m.heads, headWidth(m), 4);
            EXPECT_EQ(ranks[size_t(r)].bytesSent, m.blocks * (bytes.forward + bytes.backward)) << exchangeName(exchange) << " rank " << r;
        }
    }
}

TEST(Models, RefusesWhatIsNotBuiltWithPlaceAndWayOut)
{
    const GraphHome home(false);
    const auto message = [&](const Plan& plan) -> std::string {
        try {
            runtime::makeModel(plan, home.data().spec(), 1, 1);
        } catch (const std::runtime_error& error) {
            return error.what();
        }
        return "";
    };
    Plan plan = planOf(smallModel(Architecture::Graphormer), 2, Exchange::Ring);
    plan.attention = AttentionPath::Materialised;
    EXPECT_NE(message(plan).find("materialised cannot run around a ring"), std::string::npos);
    EXPECT_NE(message(planOf(smallModel(Architecture::GtSparse), 2, Exchange::Halo)).find("halo is not built"), std::string::npos);
    EXPECT_NE(message(planOf(smallModel(Architecture::Sgformer), 2, Exchange::Ring)).find("expected reduce"), std::string::npos);
    const Plan wrong = planOf(smallModel(Architecture::GtSparse), 2, Exchange::Gather, {0, 10, 99});
    EXPECT_THROW(runtime::makeSequences(wrong, home.data(), home.path(), 0, 1), std::runtime_error);
}

} // namespace
} // namespace megagraph::test
