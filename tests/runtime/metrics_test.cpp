// SPDX-License-Identifier: Apache-2.0
#include "runtime/loss_metrics.h"
#include "runtime/profiler_measure.h"
#include "runtime/verify.h"
#include "runtime/work_set.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>

namespace megagraph::runtime {
namespace {

const float kMissing = std::numeric_limits<float>::quiet_NaN();

// The definition: chance that a positive scores above a negative, ties count half.
double aucByPairs(const std::vector<float>& scores, const std::vector<float>& labels)
{
    double wins = 0, pairs = 0;
    for (size_t i = 0; i < scores.size(); ++i)
        for (size_t j = 0; j < scores.size(); ++j)
            if (labels[i] == 1 && labels[j] == 0) {
                pairs += 1;
                wins += scores[i] > scores[j] ? 1.0 : scores[i] == scores[j] ? 0.5 : 0.0;
            }
    return wins / pairs;
}

TEST(Auc, EqualsTheCountOverAllPairsWithTies)
{
    std::vector<float> scores, labels;
    for (int i = 0; i < 200; ++i) {
        scores.push_back(std::floor(10 * std::sin(float(i) * 1.3f))); // many ties
        labels.push_back(i % 3 == 0 ? 1.0f : 0.0f);
    }
    EXPECT_NEAR(rocAuc(scores, labels), aucByPairs(scores, labels), 1e-12);
}

TEST(Auc, LeavesMissingLabelsOutAndNeedsBothClasses)
{
    const std::vector<float> scores{0.1f, 0.9f, 0.5f, 0.7f}, labels{0, 1, kMissing, 0};
    EXPECT_DOUBLE_EQ(rocAuc(scores, labels), 1.0);
    const std::vector<float> oneClass{1, 1, 1, 1};
    EXPECT_TRUE(std::isnan(rocAuc(scores, oneClass)));
    const std::vector<float> broken{kMissing, 0.9f, 0.5f, 0.7f};
    EXPECT_TRUE(std::isnan(rocAuc(broken, labels)));
}

ItemSet classItems(std::vector<int64_t> rows, std::vector<int64_t> classes)
{
    ItemSet items;
    items.count = int64_t(rows.size());
    items.rows = at::tensor(rows, at::kLong);
    items.classes = at::tensor(classes, at::kLong);
    return items;
}

TEST(Loss, IsASumOverItemsSoPartsAddUpToTheWhole)
{
    const at::Tensor logits = at::arange(30, at::kFloat).sin().reshape({10, 3});
    const ItemSet all = classItems({0, 2, 5, 9}, {0, 1, 2, 1});
    const double whole = lossSum(Loss::CrossEntropy, logits, all).item<double>();
    const double parts = lossSum(Loss::CrossEntropy, logits, classItems({0, 2}, {0, 1})).item<double>() +
                         lossSum(Loss::CrossEntropy, logits, classItems({5, 9}, {2, 1})).item<double>();
    EXPECT_NEAR(whole, parts, 1e-5);
    EXPECT_EQ(lossSum(Loss::CrossEntropy, logits, classItems({}, {})).item<double>(), 0.0);
}

TEST(Loss, WithoutItemsStillReachesTheLogitsInTheBackwardPass)
{
    at::Tensor logits = at::ones({4, 3}, at::kFloat).requires_grad_(true);
    lossSum(Loss::CrossEntropy, logits, classItems({}, {})).backward();
    ASSERT_TRUE(logits.grad().defined());
    EXPECT_EQ(logits.grad().abs().sum().item<float>(), 0.0f);
}

TEST(Loss, SkipsMissingValuesInBceL1AndMse)
{
    const at::Tensor logits = at::tensor({0.5f, -1.0f, 2.0f, 0.0f}, at::kFloat).reshape({2, 2});
    ItemSet items;
    items.rows = at::tensor({0, 1}, at::kLong);
    items.values = at::tensor({1.0f, kMissing, 0.0f, 1.0f}, at::kFloat).reshape({2, 2});
    items.count = 3;
    EXPECT_NEAR(lossSum(Loss::Bce, logits, items).item<double>(),
                std::log1p(std::exp(-0.5)) + std::log1p(std::exp(2.0)) + std::log(2.0), 1e-6);
    EXPECT_NEAR(lossSum(Loss::L1, logits, items).item<double>(), 0.5 + 2.0 + 1.0, 1e-6);
    EXPECT_NEAR(lossSum(Loss::Mse, logits, items).item<double>(), 0.25 + 4.0 + 1.0, 1e-6);
}

TEST(Metric, JoinsPartsOfRanksToTheValueOfTheWhole)
{
    const at::Tensor logits = at::arange(40, at::kFloat).mul(1.9f).sin().reshape({20, 2});
    std::vector<int64_t> rows, classes;
    for (int64_t i = 0; i < 20; ++i) {
        rows.push_back(i);
        classes.push_back(i % 2);
    }
    for (const Metric metric : {Metric::Accuracy, Metric::Auc}) {
        const double whole = metricValue(metric, metricParts(metric, Loss::CrossEntropy, logits, classItems(rows, classes)));
        MetricParts joined;
        for (const auto& [a, b] : {std::pair(0, 7), std::pair(7, 7), std::pair(7, 20)})
            append(joined, metricParts(metric, Loss::CrossEntropy, logits,
                                       classItems({rows.begin() + a, rows.begin() + b}, {classes.begin() + a, classes.begin() + b})));
        EXPECT_DOUBLE_EQ(metricValue(metric, joined), whole);
        EXPECT_GT(whole, 0.0);
    }
    EXPECT_TRUE(std::isnan(metricValue(Metric::Accuracy, {})));
}

TEST(Metric, OneOutputUnderBceCountsAsClassOneAboveZero)
{
    const at::Tensor logits = at::tensor({1.5f, -0.5f, 0.1f}, at::kFloat).reshape({3, 1});
    const MetricParts parts = metricParts(Metric::Accuracy, Loss::Bce, logits, classItems({0, 1, 2}, {1, 0, 0}));
    EXPECT_DOUBLE_EQ(metricValue(Metric::Accuracy, parts), 2.0 / 3);
}

TEST(DataOrder, IsAPermutationThatDependsOnSeedAndEpochOnly)
{
    const std::vector<int64_t> order = epochOrder(1, 0, 50);
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 50u);
    EXPECT_EQ(order, epochOrder(1, 0, 50));
    EXPECT_NE(order, epochOrder(1, 1, 50));
    EXPECT_NE(order, epochOrder(2, 0, 50));
}

TEST(GradientDifference, UsesTheFloorForGradientsThatAreZeroInTheory)
{
    const std::vector<float> serial{3, 4}, close{3, 4.0005f}, rounding{1e-9f, 0}, zero{0, 0};
    EXPECT_NEAR(relativeDifference(close.data(), serial.data(), 2, 1e-3), 0.0005 / 5, 1e-7);
    EXPECT_NEAR(relativeDifference(rounding.data(), zero.data(), 2, 1e-3), 1e-6, 1e-12);
    EXPECT_EQ(relativeDifference(serial.data(), serial.data(), 2, 0), 0.0);
}

TEST(Spread, IsMedianAndMedianAbsoluteDeviation)
{
    const Spread odd = spreadOf({5, 1, 100, 3, 4});
    EXPECT_EQ(odd.median, 4);
    EXPECT_EQ(odd.mad, 1);
    const Spread even = spreadOf({10, 20});
    EXPECT_EQ(even.median, 15);
    EXPECT_EQ(even.mad, 5);
}

} // namespace
} // namespace megagraph::runtime
