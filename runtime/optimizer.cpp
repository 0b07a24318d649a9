// SPDX-License-Identifier: Apache-2.0
#include "runtime/optimizer.h"

#include "runtime/allocator.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>
#include <numbers>

namespace megagraph::runtime {
namespace {

constexpr int64_t kGrain = 1 << 15;

struct AdamStep {
    float keep, beta1, beta2, rate, correction2, epsilon, l2;
};

void adamRange(const AdamStep& s, int64_t begin, int64_t end, const float* gradient, float* w, float* m, float* v)
{
    for (int64_t i = begin; i < end; ++i) {
        const float g = gradient[i] + s.l2 * w[i];
        m[i] += (1.0f - s.beta1) * (g - m[i]);
        v[i] = s.beta2 * v[i] + (1.0f - s.beta2) * g * g;
        const float denominator = std::sqrt(v[i]) / s.correction2 + s.epsilon;
        w[i] = w[i] * s.keep - s.rate * (m[i] / denominator);
    }
}

void sgdRange(float rate, float keep, float l2, int64_t begin, int64_t end, const float* gradient, float* w)
{
    for (int64_t i = begin; i < end; ++i)
        w[i] = w[i] * keep - rate * (gradient[i] + l2 * w[i]);
}

double decayShape(ScheduleKind kind, double passed)
{
    switch (kind) {
    case ScheduleKind::Constant: return 1.0;
    case ScheduleKind::Linear: return 1.0 - passed;
    case ScheduleKind::Cosine: return 0.5 * (1.0 + std::cos(std::numbers::pi * passed));
    }
    return 1.0;
}

} // namespace

double learningRateAt(const ModelSpec& model, int64_t step, int64_t totalSteps)
{
    if (step < model.warmupSteps)
        return model.learningRate * double(step + 1) / double(model.warmupSteps);
    if (model.scheduleKind == ScheduleKind::Constant)
        return model.learningRate;
    const double length = double(std::max<int64_t>(1, totalSteps - model.warmupSteps));
    const double passed = std::clamp(double(step - model.warmupSteps) / length, 0.0, 1.0);
    return model.minLearningRate + (model.learningRate - model.minLearningRate) * decayShape(model.scheduleKind, passed);
}

double weightDecayOf(const ModelSpec& model, const ParameterSpec& parameter)
{
    if (!parameter.decayed)
        return 0;
    return parameter.group == ParameterGroup::Gcn ? model.weightDecayGcn : model.weightDecay;
}

FlatGradients::FlatGradients(std::vector<at::Tensor>& parameters, int64_t extra)
{
    offsets_.push_back(0);
    for (const at::Tensor& parameter : parameters)
        offsets_.push_back(offsets_.back() + parameter.numel());
    elements_ = offsets_.back();
    const MemoryScope scope(MemoryCategory::Gradients, "gradients", "flat gradients");
    flat_ = at::zeros({elements_ + extra}, at::kFloat);
    for (size_t p = 0; p < parameters.size(); ++p)
        parameters[p].mutable_grad() = slice(p).view(parameters[p].sizes());
}

float* FlatGradients::extra() { return flat_.mutable_data_ptr<float>() + elements_; }

at::Tensor FlatGradients::slice(size_t parameter) const
{
    return flat_.narrow(0, offsets_[parameter], offsets_[parameter + 1] - offsets_[parameter]);
}

at::Tensor FlatGradients::all() const { return flat_.narrow(0, 0, elements_); }

void FlatGradients::zero() { flat_.zero_(); }

void FlatGradients::reattach(std::vector<at::Tensor>& parameters)
{
    for (size_t p = 0; p < parameters.size(); ++p) {
        at::Tensor& grad = parameters[p].mutable_grad();
        const at::Tensor own = slice(p).view(parameters[p].sizes());
        if (grad.defined() && grad.const_data_ptr() == own.const_data_ptr())
            continue;
        if (grad.defined())
            own.copy_(grad); // autograd replaced the tensor instead of adding to it
        grad = own;
    }
}

double FlatGradients::norm() const
{
    const float* const g = flat_.const_data_ptr<float>();
    double lanes[8] = {}; // a fixed order of additions that still fills vector registers
    int64_t i = 0;
    for (; i + 8 <= elements_; i += 8)
        for (int lane = 0; lane < 8; ++lane)
            lanes[lane] += double(g[i + lane]) * double(g[i + lane]);
    for (; i < elements_; ++i)
        lanes[0] += double(g[i]) * double(g[i]);
    double sum = 0;
    for (const double lane : lanes)
        sum += lane;
    return std::sqrt(sum);
}

void FlatGradients::scale(double factor) { flat_.narrow(0, 0, elements_).mul_(factor); }

Optimizer::Optimizer(const ModelSpec& model, const std::vector<ParameterSpec>& layout, std::vector<at::Tensor>& parameters)
    : model_(model), layout_(layout), parameters_(parameters)
{
    if (model.optimizerKind != OptimizerKind::AdamW)
        return;
    const MemoryScope scope(MemoryCategory::Optimizer, "optimizer", "moments");
    for (const at::Tensor& parameter : parameters) {
        first_.push_back(at::zeros(parameter.sizes(), at::kFloat));
        second_.push_back(at::zeros(parameter.sizes(), at::kFloat));
    }
}

void Optimizer::step(const FlatGradients& gradients, double learningRate)
{
    ++updates_;
    const double correction1 = 1.0 - std::pow(model_.beta1, double(updates_));
    const double correction2 = std::sqrt(1.0 - std::pow(model_.beta2, double(updates_)));
    for (size_t p = 0; p < parameters_.size(); ++p) {
        const double decay = weightDecayOf(model_, layout_[p]);
        const float keep = model_.l2 ? 1.0f : float(1.0 - learningRate * decay);
        const float l2 = model_.l2 ? float(decay) : 0.0f;
        const float* const gradient = gradients.slice(p).const_data_ptr<float>();
        at::Tensor weights = parameters_[p].detach(); // shares the storage, outside of autograd
        float* const w = weights.mutable_data_ptr<float>();
        if (first_.empty()) {
            at::parallel_for(0, weights.numel(), kGrain,
                             [&](int64_t a, int64_t b) { sgdRange(float(learningRate), keep, l2, a, b, gradient, w); });
            continue;
        }
        const AdamStep s{keep, float(model_.beta1), float(model_.beta2), float(learningRate / correction1), float(correction2),
                         float(model_.epsilon), l2};
        float* const m = first_[p].mutable_data_ptr<float>();
        float* const v = second_[p].mutable_data_ptr<float>();
        at::parallel_for(0, weights.numel(), kGrain, [&](int64_t a, int64_t b) { adamRange(s, a, b, gradient, w, m, v); });
    }
}

} // namespace megagraph::runtime
