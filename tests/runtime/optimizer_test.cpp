// SPDX-License-Identifier: Apache-2.0
// AdamW and SGD against LibTorch's own optimizers; schedules against their closed forms.
#include "runtime/optimizer.h"

#include <ATen/ATen.h>
#include <cmath>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

namespace megagraph::runtime {
namespace {

ParameterSpec parameter(const std::string& name, std::vector<int64_t> shape, bool decayed, ParameterGroup group = ParameterGroup::Main)
{
    ParameterSpec spec;
    spec.name = name;
    spec.shape = std::move(shape);
    spec.decayed = decayed;
    spec.group = group;
    return spec;
}

struct Pair {
    std::vector<ParameterSpec> layout{parameter("w", {5, 7}, true), parameter("b", {7}, false),
                                      parameter("g", {3}, true, ParameterGroup::Gcn)};
    std::vector<at::Tensor> ours, theirs;
    Pair()
    {
        for (const ParameterSpec& spec : layout) {
            const at::Tensor values = at::arange(spec.elements(), at::kFloat).mul(0.37f).sin().reshape(spec.shape);
            ours.push_back(values.clone().requires_grad_(true));
            theirs.push_back(values.clone().requires_grad_(true));
        }
    }
    /// The same gradients in both, changing from step to step.
    void setGradients(FlatGradients& flat, int step)
    {
        for (size_t p = 0; p < layout.size(); ++p) {
            const at::Tensor g = at::arange(layout[p].elements(), at::kFloat).add(float(step)).mul(1.7f).cos().reshape(layout[p].shape);
            flat.slice(p).copy_(g.flatten());
            theirs[p].mutable_grad() = g;
        }
    }
    double largestDifference() const
    {
        double worst = 0;
        for (size_t p = 0; p < layout.size(); ++p)
            worst = std::max(worst, (ours[p] - theirs[p]).abs().max().item<double>());
        return worst;
    }
};

ModelSpec adamW()
{
    ModelSpec model;
    model.learningRate = 0.01;
    model.weightDecay = 0.3;
    model.weightDecayGcn = 0.05;
    return model;
}

TEST(Optimizer, AdamWWithDecoupledDecayEqualsLibTorch)
{
    Pair pair;
    const ModelSpec model = adamW();
    FlatGradients flat(pair.ours, 0);
    Optimizer optimizer(model, pair.layout, pair.ours);
    const auto group = [&](size_t p, double decay) {
        return torch::optim::OptimizerParamGroup({pair.theirs[p]},
                                                 std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(0.01).weight_decay(decay)));
    };
    torch::optim::AdamW reference({group(0, 0.3), group(1, 0.0), group(2, 0.05)}, torch::optim::AdamWOptions(0.01));
    for (int step = 0; step < 20; ++step) {
        pair.setGradients(flat, step);
        optimizer.step(flat, 0.01);
        reference.step();
    }
    EXPECT_LT(pair.largestDifference(), 2e-6);
    EXPECT_EQ(optimizer.updates(), 20);
}

TEST(Optimizer, L2AddsTheDecayToTheGradientAsAdamDoes)
{
    Pair pair;
    ModelSpec model = adamW();
    model.l2 = true;
    FlatGradients flat(pair.ours, 0);
    Optimizer optimizer(model, pair.layout, pair.ours);
    const auto group = [&](size_t p, double decay) {
        return torch::optim::OptimizerParamGroup({pair.theirs[p]},
                                                 std::make_unique<torch::optim::AdamOptions>(torch::optim::AdamOptions(0.01).weight_decay(decay)));
    };
    torch::optim::Adam reference({group(0, 0.3), group(1, 0.0), group(2, 0.05)}, torch::optim::AdamOptions(0.01));
    for (int step = 0; step < 20; ++step) {
        pair.setGradients(flat, step);
        optimizer.step(flat, 0.01);
        reference.step();
    }
    EXPECT_LT(pair.largestDifference(), 2e-6);
}

TEST(Optimizer, SgdKeepsNoMomentsAndStepsAgainstTheGradient)
{
    Pair pair;
    ModelSpec model = adamW();
    model.optimizerKind = OptimizerKind::Sgd;
    model.weightDecay = model.weightDecayGcn = 0;
    FlatGradients flat(pair.ours, 0);
    Optimizer optimizer(model, pair.layout, pair.ours);
    EXPECT_FALSE(optimizer.first(0).defined());
    pair.setGradients(flat, 3);
    const at::Tensor expected = pair.ours[0].detach() - 0.5 * pair.theirs[0].grad();
    optimizer.step(flat, 0.5);
    EXPECT_LT((pair.ours[0].detach() - expected).abs().max().item<double>(), 1e-6);
}

TEST(Optimizer, TheNormCountsEachElementOnceAndSeesNonFiniteGradients)
{
    Pair pair;
    FlatGradients flat(pair.ours, 4);
    pair.setGradients(flat, 1);
    double sum = 0;
    for (const at::Tensor& theirs : pair.theirs)
        sum += theirs.grad().to(at::kDouble).square().sum().item<double>();
    flat.extra()[0] = 1e9f; // step scalars are no gradients
    EXPECT_NEAR(flat.norm(), std::sqrt(sum), 1e-9);
    flat.scale(0.25);
    EXPECT_NEAR(flat.norm(), std::sqrt(sum) / 4, 1e-6);
    EXPECT_EQ(flat.extra()[0], 1e9f);
    flat.slice(1)[2] = std::nanf("");
    EXPECT_FALSE(std::isfinite(flat.norm()));
}

TEST(Optimizer, GradientsThatAutogradReplacedComeBackWithTheirValues)
{
    Pair pair;
    FlatGradients flat(pair.ours, 0);
    pair.ours[1].mutable_grad() = at::full({7}, 3.0f);
    flat.reattach(pair.ours);
    EXPECT_EQ(flat.slice(1).sum().item<float>(), 21.0f);
    EXPECT_EQ(pair.ours[1].grad().const_data_ptr(), flat.slice(1).const_data_ptr());
}

TEST(Schedule, WarmsUpLinearlyAndEndsAtTheSmallestRate)
{
    ModelSpec model;
    model.learningRate = 1.0;
    model.warmupSteps = 4;
    model.minLearningRate = 0.1;
    model.scheduleKind = ScheduleKind::Linear;
    EXPECT_DOUBLE_EQ(learningRateAt(model, 0, 14), 0.25);
    EXPECT_DOUBLE_EQ(learningRateAt(model, 3, 14), 1.0);
    EXPECT_DOUBLE_EQ(learningRateAt(model, 4, 14), 1.0);
    EXPECT_DOUBLE_EQ(learningRateAt(model, 9, 14), 0.55);
    EXPECT_DOUBLE_EQ(learningRateAt(model, 14, 14), 0.1);
    EXPECT_DOUBLE_EQ(learningRateAt(model, 99, 14), 0.1);
    model.scheduleKind = ScheduleKind::Cosine;
    EXPECT_NEAR(learningRateAt(model, 9, 14), 0.55, 1e-12);
    model.scheduleKind = ScheduleKind::Constant;
    EXPECT_DOUBLE_EQ(learningRateAt(model, 99, 14), 1.0);
}

TEST(Schedule, DecaySparesWhatTheLayoutMarks)
{
    const ModelSpec model = adamW();
    EXPECT_EQ(weightDecayOf(model, parameter("b", {1}, false)), 0.0);
    EXPECT_EQ(weightDecayOf(model, parameter("w", {1}, true)), 0.3);
    EXPECT_EQ(weightDecayOf(model, parameter("g", {1}, true, ParameterGroup::Gcn)), 0.05);
}

} // namespace
} // namespace megagraph::runtime
