// SPDX-License-Identifier: Apache-2.0
// SGFormer (Wu et al. 2023; models design, 1.5): linear global attention beside a GCN branch.
//   z0 = drop(relu(LN(W_x x + b)));   z = drop(LN(0.5 attention(z) + 0.5 z)) per block;
//   g = L_g convolutions with A^ = D^-1/2 (A + I) D^-1/2 on the same x, all but the last: relu, drop;
//   residual form: x <- x + drop(relu(W A^ x)), A^ = D^-1/2 A D^-1/2;   logits = W_c (gamma g + (1 - gamma) z) + b_c
// Input dropout acts on the raw features, with one mask for both branches. The GCN branch belongs to the head.
#include "runtime/functions/support.h"

#include "runtime/functions/linear_attention.h"
#include "runtime/models/base.h"

#include <fmt/format.h>

namespace megagraph::runtime {

namespace {

class Sgformer final : public ModelBase {
  public:
    using ModelBase::ModelBase;

    at::Tensor embed(const Sequence& sequence, const PassContext& pass) override
    {
        const MemoryScope scope(MemoryCategory::Activations, "embed", nullptr, 0);
        const TokenSequence& s = tokensOf(sequence);
        const at::Tensor h = project(s, "embed.feature.weight", "embed.feature.bias", inputMask(pass));
        return drop(at::relu(layerNorm(h, "embed.norm")), model().attentionDropout, kernels::kSiteResidual1, 0, s, pass);
    }

    at::Tensor block(int64_t index, const at::Tensor& z, const Sequence& sequence, const PassContext& pass) override
    {
        const TokenSequence& s = tokensOf(sequence);
        const std::string name = blockName(index);
        const at::Tensor att = linearAttention(linear(z, name + ".attention.query"), linear(z, name + ".attention.key"),
                                               linear(z, name + ".attention.value"), model().heads, s.tokens(), pass.context,
                                               pass.attentionSeconds);
        return drop(layerNorm(0.5 * att + 0.5 * z, name + ".norm"), model().attentionDropout, kernels::kSiteResidual1, index + 1, s, pass);
    }

    at::Tensor head(const at::Tensor& z, const Sequence& sequence, const PassContext& pass) override
    {
        const at::Tensor g = graphBranch(tokensOf(sequence), pass);
        const double gamma = model().gcnWeight;
        return linear(gamma * g + (1.0 - gamma) * z, "head.output");
    }

  private:
    kernels::Dropout inputMask(const PassContext& pass) const { return site(model().inputDropout, kernels::kSiteInput, 0, pass); }

    /// A^ x for own rows: node rows of all context ranks are gathered, gradients summed back to their owners.
    at::Tensor spread(const at::Tensor& x, const TokenSequence& s, const PassContext& pass) const
    {
        return sparseProduct(s.convolution, s.convolutionValues, gatherRows(x, s.nodeRows, pass.context), threads());
    }

    at::Tensor graphBranch(const TokenSequence& s, const PassContext& pass) const
    {
        const int64_t first = model().blocks + 1;
        const auto dropped = [&](const at::Tensor& x, int64_t i) {
            return drop(at::relu(x), model().gcnDropout, kernels::kSiteGcn, first + i, s, pass);
        };
        if (model().gcnResidual) {
            at::Tensor x = dropped(project(s, "head.gcn.input.weight", "head.gcn.input.bias", inputMask(pass)), 0);
            for (int64_t i = 0; i < model().gcnLayers; ++i)
                x = x + dropped(linear(spread(x, s, pass), fmt::format("head.gcn{}", i)), i + 1);
            return x;
        }
        at::Tensor x;
        for (int64_t i = 0; i < model().gcnLayers; ++i) {
            const std::string name = fmt::format("head.gcn{}", i);
            const at::Tensor y = i == 0 ? project(s, name + ".weight", "", inputMask(pass)) : at::linear(x, parameter(name + ".weight"));
            x = spread(y, s, pass) + parameter(name + ".bias");
            if (i + 1 < model().gcnLayers)
                x = dropped(x, i);
        }
        return x;
    }
};

} // namespace

std::unique_ptr<GraphModel> makeSgformer(const Plan& plan, std::vector<ParameterSpec> layout, uint64_t seed, int64_t threads)
{
    const StagePlan& stage = plan.stages[0];
    if (stage.ring * stage.ulysses > 1 && stage.exchange != Exchange::Reduce)
        throw std::runtime_error(fmt::format("plan: exchange: {} is not built for linear attention, expected reduce; plan again",
                                             exchangeName(stage.exchange)));
    if (plan.model.gcnNorm != GcnNorm::None)
        throw std::runtime_error("model: gcn_norm: batch is not built yet, expected none; set gcn_norm=none");
    return std::make_unique<Sgformer>(plan, std::move(layout), seed, threads);
}

} // namespace megagraph::runtime
