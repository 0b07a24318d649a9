// SPDX-License-Identifier: Apache-2.0
// Sparse GT (Platonov et al. 2023; models design, 1.4): attention over edges.
//   h0 = gelu(drop(W_x x + b));   h += drop(W_o m + b_o), m = attention over N(i) (+ i) of LN(h);
//   h += drop(W_2 gelu(drop(W_1 LN(h) + b_1)) + b_2);   logits = W_c LN(h) + b_c
// Without self loops ("sep") the output projection takes [own ; message].
#include "runtime/functions/support.h"

#include "runtime/models/base.h"

#include <fmt/format.h>

namespace megagraph::runtime {

namespace {

class GtSparse final : public ModelBase {
  public:
    using ModelBase::ModelBase;

    at::Tensor embed(const Sequence& sequence, const PassContext& pass) override
    {
        const MemoryScope scope(MemoryCategory::Activations, "embed", nullptr, 0);
        const TokenSequence& s = tokensOf(sequence);
        const at::Tensor h = project(s, "embed.feature.weight", "embed.feature.bias", {});
        return at::gelu(drop(h, model().inputDropout, kernels::kSiteInput, 0, s, pass));
    }

    at::Tensor block(int64_t index, const at::Tensor& h, const Sequence& sequence, const PassContext& pass) override
    {
        const TokenSequence& s = tokensOf(sequence);
        const std::string name = blockName(index);
        const int64_t layer = index + 1;
        const at::Tensor own = layerNorm(h, name + ".norm1");
        const auto [keys, values] = gatherPair(linear(own, name + ".attention.key"), linear(own, name + ".attention.value"),
                                               s.nodeRows, pass.context);
        at::Tensor m = edgeAttention(linear(own, name + ".attention.query"), keys, values, s.edges,
                                     attention(model().attentionDropout, layer, pass));
        if (!model().selfLoops)
            m = at::cat({own, m}, 1);
        at::Tensor x = h + drop(linear(m, name + ".attention.output"), model().residualDropout, kernels::kSiteResidual1, layer, s, pass);
        const at::Tensor f = drop(linear(layerNorm(x, name + ".norm2"), name + ".ffn.in"), model().ffnDropout, kernels::kSiteFfn, layer, s, pass);
        return x + drop(linear(at::gelu(f), name + ".ffn.out"), model().residualDropout, kernels::kSiteResidual2, layer, s, pass);
    }

    at::Tensor head(const at::Tensor& h, const Sequence&, const PassContext&) override
    {
        return linear(layerNorm(h, "head.norm"), "head.output");
    }
};

} // namespace

std::unique_ptr<GraphModel> makeGtSparse(const Plan& plan, std::vector<ParameterSpec> layout, uint64_t seed, int64_t threads)
{
    const StagePlan& stage = plan.stages[0];
    if (stage.ring * stage.ulysses > 1 && stage.exchange != Exchange::Gather)
        throw std::runtime_error(fmt::format("plan: exchange: {} is not built for edge attention, expected gather; plan again",
                                             exchangeName(stage.exchange)));
    return std::make_unique<GtSparse>(plan, std::move(layout), seed, threads);
}

} // namespace megagraph::runtime
