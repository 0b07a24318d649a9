// SPDX-License-Identifier: Apache-2.0
// Graphormer, node level (Ying et al. 2021; models design, 1.2).
//   h0 = W_x x + b_x + Zin[deg] + Zout[deg];   h0_token = g;   s_hij = q_hi.k_hj / sqrt(d_h) + b[h, c(i,j)]
//   pre:  h' = h + drop(W_o attention(LN1 h) + b_o);  h'' = h' + drop(W_2 drop(gelu(W_1 LN2 h' + b_1)) + b_2);  LN before the output
//   post: h' = LN1(h + ..h..);                        h'' = LN2(h' + ..h'..)
#include "runtime/functions/support.h"

#include "runtime/models/base.h"

#include <fmt/format.h>

namespace megagraph::runtime {

namespace {

class Graphormer final : public ModelBase {
  public:
    using ModelBase::ModelBase;

    at::Tensor embed(const Sequence& sequence, const PassContext& pass) override
    {
        const MemoryScope scope(MemoryCategory::Activations, "embed", nullptr, 0);
        const TokenSequence& s = tokensOf(sequence);
        at::Tensor h = project(s, "embed.feature.weight", "embed.feature.bias", {});
        if (model().degreeEncoding)
            h = h + at::embedding(parameter("embed.degree_in.weight"), s.degrees) +
                at::embedding(parameter("embed.degree_out.weight"), s.degrees);
        if (model().graphToken) // ranks without the token take no row of it, so that its gradient is defined everywhere
            h = at::cat({h, parameter("embed.token").unsqueeze(0).narrow(0, 0, s.ownsToken() ? 1 : 0)});
        return drop(h, model().inputDropout, kernels::kSiteInput, 0, s, pass);
    }

    at::Tensor block(int64_t index, const at::Tensor& h, const Sequence& sequence, const PassContext& pass) override
    {
        const TokenSequence& s = tokensOf(sequence);
        const std::string name = blockName(index);
        const int64_t layer = index + 1;
        const bool pre = model().norm == NormPlace::Pre;
        at::Tensor o = linear(mix(pre ? layerNorm(h, name + ".norm1") : h, name, layer, s, pass), name + ".attention.output");
        at::Tensor x = h + drop(o, model().residualDropout, kernels::kSiteResidual1, layer, s, pass);
        if (!pre)
            x = layerNorm(x, name + ".norm1");
        at::Tensor f = at::gelu(linear(pre ? layerNorm(x, name + ".norm2") : x, name + ".ffn.in"));
        f = linear(drop(f, model().ffnDropout, kernels::kSiteFfn, layer, s, pass), name + ".ffn.out");
        x = x + drop(f, model().residualDropout, kernels::kSiteResidual2, layer, s, pass);
        return pre ? x : layerNorm(x, name + ".norm2");
    }

    at::Tensor head(const at::Tensor& h, const Sequence& sequence, const PassContext&) override
    {
        const at::Tensor nodes = h.narrow(0, 0, tokensOf(sequence).own());
        return linear(model().norm == NormPlace::Pre ? layerNorm(nodes, "head.norm") : nodes, "head.output");
    }

  private:
    at::Tensor mix(const at::Tensor& x, const std::string& name, int64_t layer, const TokenSequence& s, const PassContext& pass) const
    {
        const at::Tensor q = linear(x, name + ".attention.query"), k = linear(x, name + ".attention.key"),
                         v = linear(x, name + ".attention.value");
        const at::Tensor& table = parameter("bias_table");
        const AttentionOptions options = attention(model().attentionDropout, layer, pass);
        const bool alone = !pass.context || pass.context->size() == 1;
        if (!alone && exchange() == Exchange::Ring)
            return ringAttention(q, k, v, table, s.dense, options, *pass.context);
        const auto [keys, values] = gatherPair(k, v, s.tokenRows, pass.context);
        if (plan().attention == AttentionPath::Materialised)
            return materialisedAttention(q, keys, values, table, s.classes, s.begin(), options);
        return fusedAttention(q, keys, values, table, s.dense, options);
    }
};

} // namespace

std::unique_ptr<GraphModel> makeGraphormer(const Plan& plan, std::vector<ParameterSpec> layout, uint64_t seed, int64_t threads)
{
    const StagePlan& stage = plan.stages[0];
    const bool alone = stage.ring * stage.ulysses == 1;
    if (!alone && stage.exchange != Exchange::Gather && stage.exchange != Exchange::Ring)
        throw std::runtime_error(fmt::format("plan: exchange: {} is not built for dense attention, expected ring or gather; plan again",
                                             exchangeName(stage.exchange)));
    if (!alone && stage.exchange == Exchange::Ring && plan.attention == AttentionPath::Materialised)
        throw std::runtime_error("plan: attention: materialised cannot run around a ring, expected gather or one rank; plan again");
    return std::make_unique<Graphormer>(plan, std::move(layout), seed, threads);
}

} // namespace megagraph::runtime
