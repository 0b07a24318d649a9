// SPDX-License-Identifier: Apache-2.0
#include "runtime/functions/support.h"

#include "runtime/initial_values.h"
#include "runtime/models/base.h"

#include <fmt/format.h>

namespace megagraph::runtime {

std::string blockName(int64_t index) { return fmt::format("block{}", index); }

ModelBase::ModelBase(const Plan& plan, std::vector<ParameterSpec> layout, uint64_t seed, int64_t threads)
    : plan_(plan), threads_(threads), layout_(std::move(layout))
{
    const MemoryScope scope(MemoryCategory::Weights, "model", "parameters");
    for (const ParameterSpec& spec : layout_) {
        at::Tensor value = at::empty(spec.shape, at::kFloat);
        initialValues(spec, seed, 0, {value.data_ptr<float>(), size_t(value.numel())});
        index_[spec.name] = parameters_.size();
        parameters_.push_back(value.requires_grad_(true));
    }
}

at::Tensor ModelBase::linear(const at::Tensor& x, const std::string& name) const
{
    return at::linear(x, parameter(name + ".weight"), parameter(name + ".bias"));
}

at::Tensor ModelBase::layerNorm(const at::Tensor& x, const std::string& name) const
{
    return at::layer_norm(x, {x.size(1)}, parameter(name + ".weight"), parameter(name + ".bias"), 1e-5);
}

kernels::Dropout ModelBase::site(double p, uint32_t site, int64_t layer, const PassContext& pass) const
{
    return {pass.training ? p : 0.0, pass.seed, pass.step, pass.item, uint32_t(layer), site};
}

at::Tensor ModelBase::drop(const at::Tensor& x, double p, uint32_t place, int64_t layer, const TokenSequence& sequence,
                           const PassContext& pass) const
{
    return dropout(x, site(p, place, layer, pass), sequence.begin(), threads_);
}

at::Tensor ModelBase::project(const TokenSequence& s, const std::string& weight, const std::string& bias,
                              const kernels::Dropout& mask) const
{
    const at::Tensor offset = bias.empty() ? at::Tensor() : parameter(bias);
    if (s.featureValues.defined()) {
        const at::Tensor values = dropoutEntries(s.features, s.featureValues, mask, s.begin());
        const at::Tensor y = sparseProduct(s.features, values, parameter(weight).t(), threads_);
        return offset.defined() ? y + offset : y;
    }
    if (s.denseFeatures.defined())
        return at::linear(dropout(s.denseFeatures, mask, s.begin(), threads_), parameter(weight), offset);
    return offset.unsqueeze(0).expand({s.own(), offset.size(0)}); // no features: one learned vector for all nodes
}

AttentionOptions ModelBase::attention(double p, int64_t layer, const PassContext& pass) const
{
    return {int32_t(model().heads), site(p, kernels::kSiteAttention, layer, pass), threads_, pass.attentionSeconds};
}

at::Tensor ModelBase::forward(const Sequence& sequence, const PassContext& pass)
{
    at::Tensor h = embed(sequence, pass);
    for (int64_t i = 0; i < model().blocks; ++i) {
        const auto run = [this, i, &sequence, pass](const at::Tensor& x) {
            const MemoryScope scope(MemoryCategory::Activations, "block", nullptr, i + 1);
            return block(i, x, sequence, pass);
        };
        if (plan_.stages[0].recompute == Recompute::None || !at::GradMode::is_enabled()) {
            h = run(h);
            continue;
        }
        std::vector<at::Tensor> used;
        for (size_t p = 0; p < layout_.size(); ++p)
            if (layout_[p].tied || layout_[p].layer == i + 1)
                used.push_back(parameters_[p]);
        h = recomputed(run, h, used);
    }
    const MemoryScope scope(MemoryCategory::Activations, "head", nullptr, model().blocks + 1);
    return head(h, sequence, pass);
}

std::unique_ptr<GraphModel> makeModel(const Plan& plan, const DatasetSpec& dataset, uint64_t seed, int64_t threads)
{
    std::vector<ParameterSpec> layout = require(modelLayout(plan.model, dataset));
    if (plan.stages.size() != 1)
        throw std::runtime_error(fmt::format("plan: stages: got {}, expected 1; pipelines are not built yet, plan without them",
                                             plan.stages.size()));
    if (plan.precision != Precision::Fp32)
        throw std::runtime_error("plan: precision: got bf16, expected fp32; bf16 is not built yet, plan with precision fp32");
    if (plan.stages[0].recompute == Recompute::Attention)
        throw std::runtime_error("plan: recompute: attention is not built yet, expected none or block; plan again");
    switch (plan.model.kind) {
    case Architecture::Graphormer: return makeGraphormer(plan, std::move(layout), seed, threads);
    case Architecture::GtSparse: return makeGtSparse(plan, std::move(layout), seed, threads);
    case Architecture::Sgformer: return makeSgformer(plan, std::move(layout), seed, threads);
    }
    throw std::runtime_error("plan: model: unknown architecture");
}

} // namespace megagraph::runtime
