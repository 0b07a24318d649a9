// SPDX-License-Identifier: Apache-2.0
#include "runtime/pch.h"

#include "core/cuts.h"
#include "model_fixture.h"

#include <set>

namespace megagraph::test {
namespace {

const runtime::TokenSequence& first(const runtime::SequenceSet& set)
{
    return static_cast<const runtime::TokenSequence&>(*set.sequences.at(0));
}

TEST(Sequences, IntervalsOfContextRanksJoinToTheWholeOrder)
{
    const GraphHome home(false);
    const ModelSpec m = smallModel(Architecture::GtSparse);
    const auto whole = runtime::makeSequences(planOf(m), home.data(), home.path(), 0, 1);
    std::vector<int32_t> joined;
    int64_t entries = 0;
    for (int64_t r = 0; r < 3; ++r) {
        const auto set = runtime::makeSequences(planOf(m, 3, Exchange::Gather), home.data(), home.path(), r, 1);
        const runtime::TokenSequence& s = first(set);
        joined.insert(joined.end(), s.ids.begin(), s.ids.end());
        entries += int64_t(s.edges.indices.size());
        EXPECT_EQ(s.edges.selfOffset, s.begin());
        EXPECT_EQ(s.edges.keys, kNodes);
    }
    EXPECT_EQ(joined, first(whole).ids);
    EXPECT_EQ(entries, home.data().spec().entries);
    EXPECT_EQ(std::set<int32_t>(joined.begin(), joined.end()).size(), size_t(kNodes));
}

TEST(Sequences, CutsOfThePlanOrTheCostCutsAreUsed)
{
    const GraphHome home(false);
    const ModelSpec m = smallModel(Architecture::Graphormer);
    const auto given = runtime::makeSequences(planOf(m, 2, Exchange::Ring, {0, 11, kNodes}), home.data(), home.path(), 1, 1);
    EXPECT_EQ(first(given).begin(), 11);
    EXPECT_EQ(first(given).end(), kNodes);
    const auto chosen = runtime::makeSequences(planOf(m, 2, Exchange::Ring), home.data(), home.path(), 0, 1);
    EXPECT_EQ(first(chosen).cuts(), costCuts(tokenCost(true, kNodes, {}), 2));
}

TEST(Sequences, ScaledFeatureRowsSumToOneAndUnscaledOnesEqualTheData)
{
    const GraphHome home(false);
    ModelSpec m = smallModel(Architecture::GtSparse);
    for (const bool scaled : {false, true}) {
        m.scaleFeatures = scaled;
        const auto set = runtime::makeSequences(planOf(m), home.data(), home.path(), 0, 1);
        const runtime::TokenSequence& s = first(set);
        const float* values = s.featureValues.data_ptr<float>();
        for (size_t t = 0; t < s.ids.size(); ++t) {
            const auto from = size_t(home.data().featureIndptr()[size_t(s.ids[t])]);
            double sum = 0;
            for (int64_t e = s.features.indptr[t]; e < s.features.indptr[t + 1]; ++e) {
                sum += double(values[e]);
                if (!scaled) {
                    EXPECT_EQ(values[e], home.data().featureValues()[from + size_t(e - s.features.indptr[t])]);
                }
            }
            if (scaled && s.features.indptr[t + 1] > s.features.indptr[t]) {
                EXPECT_NEAR(sum, 1.0, 1e-6) << "token " << t;
            }
        }
    }
}

TEST(Sequences, ClustersHoldEveryNodeOnceWithTheEdgesInside)
{
    const GraphHome home(false);
    Plan plan = planOf(smallModel(Architecture::GtSparse));
    plan.mode = SequenceMode::Clusters;
    plan.tokens = 40;
    const auto set = runtime::makeSequences(plan, home.data(), home.path(), 0, 1);
    EXPECT_EQ(set.sequences.size(), 4u); // 151 / 40, rounded
    std::map<int32_t, size_t> owner;
    int64_t inside = 0, entries = 0;
    for (size_t c = 0; c < set.sequences.size(); ++c) {
        const auto& s = static_cast<const runtime::TokenSequence&>(*set.sequences[c]);
        EXPECT_EQ(s.tokens(), int64_t(s.ids.size()));
        for (const int32_t id : s.ids)
            EXPECT_TRUE(owner.emplace(id, c).second) << "node " << id << " is in two sequences";
        entries += int64_t(s.edges.indices.size());
    }
    EXPECT_EQ(owner.size(), size_t(kNodes));
    for (int64_t v = 0; v < kNodes; ++v)
        for (int64_t e = home.data().indptr()[size_t(v)]; e < home.data().indptr()[size_t(v) + 1]; ++e)
            inside += owner[int32_t(v)] == owner[home.data().indices()[size_t(e)]];
    EXPECT_EQ(entries, inside);
    EXPECT_DOUBLE_EQ(set.keptEdges, double(inside) / double(home.data().spec().entries));
    EXPECT_LT(set.keptEdges, 1.0);
}

TEST(Sequences, DegreesAreClampedTo511)
{
    const GraphHome home(false);
    kernels::Csr star; // hub 0 with 600 leaves
    star.indptr = {0, 600};
    for (int32_t leaf = 1; leaf <= 600; ++leaf)
        star.indices.push_back(leaf);
    for (int32_t leaf = 1; leaf <= 600; ++leaf) {
        star.indices.push_back(0);
        star.indptr.push_back(600 + leaf);
    }
    const Plan plan = planOf(smallModel(Architecture::GtSparse));
    const std::vector<int32_t> ids(601, 0); // features of node 0 for all
    const auto s = runtime::buildSequence({&plan, &home.data(), 0, 1, 1}, star.view(), ids, std::vector<int32_t>(601, 0), {});
    EXPECT_EQ(s->degrees[0].item<int64_t>(), 511);
    EXPECT_EQ(s->degrees[600].item<int64_t>(), 1);
}

TEST(Sequences, OnlyTheLastContextRankOwnsTheGraphToken)
{
    const GraphHome home(false);
    ModelSpec m = smallModel(Architecture::Graphormer);
    m.graphToken = true;
    for (int64_t r = 0; r < 2; ++r) {
        const auto set = runtime::makeSequences(planOf(m, 2, Exchange::Ring, {0, 70, kNodes}), home.data(), home.path(), r, 1);
        EXPECT_EQ(first(set).ownsToken(), r == 1);
        EXPECT_EQ(first(set).dense.cuts, (std::vector<int64_t>{0, 70, kNodes + 1}));
        EXPECT_EQ(first(set).components.back(), -1);
        EXPECT_EQ(first(set).dense.stores.size(), 2u);
    }
}

} // namespace
} // namespace megagraph::test
