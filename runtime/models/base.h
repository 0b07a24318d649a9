// SPDX-License-Identifier: Apache-2.0
// What all models share: parameters by name with counter-based initial values, Linear, LayerNorm and dropout on them, the
// feature projection, and the order embed, blocks, head with recomputation. Training thread only.
#pragma once

#include "runtime/sequence.h"

#include <map>

namespace megagraph::runtime {

class ModelBase : public GraphModel {
  public:
    /// Allocates and fills all parameters. `layout` = modelLayout(plan.model, data set).
    ModelBase(const Plan& plan, std::vector<ParameterSpec> layout, uint64_t seed, int64_t threads);

    const std::vector<ParameterSpec>& layout() const override { return layout_; }
    std::vector<at::Tensor>& parameters() override { return parameters_; }
    at::Tensor forward(const Sequence& sequence, const PassContext& pass) final;

  protected:
    const ModelSpec& model() const { return plan_.model; }
    const Plan& plan() const { return plan_; }
    Exchange exchange() const { return plan_.stages[0].exchange; }
    int64_t threads() const { return threads_; }
    bool has(const std::string& name) const { return index_.contains(name); }
    const at::Tensor& parameter(const std::string& name) const { return parameters_[index_.at(name)]; }

    at::Tensor linear(const at::Tensor& x, const std::string& name) const;    ///< x W^T + b
    at::Tensor layerNorm(const at::Tensor& x, const std::string& name) const; ///< eps 1e-5
    /// Key of one draw site; p = 0 outside of training. Layers count as in the layout: embed 0, blocks from 1.
    kernels::Dropout site(double p, uint32_t site, int64_t layer, const PassContext& pass) const;
    at::Tensor drop(const at::Tensor& x, double p, uint32_t site, int64_t layer, const TokenSequence& sequence, const PassContext& pass) const;
    /// mask(x) W^T (+ b): raw features of own nodes, dense or sparse, [n_i, out].
    at::Tensor project(const TokenSequence& sequence, const std::string& weight, const std::string& bias,
                       const kernels::Dropout& mask) const;
    AttentionOptions attention(double p, int64_t layer, const PassContext& pass) const;

  private:
    Plan plan_;
    int64_t threads_;
    std::vector<ParameterSpec> layout_;
    std::vector<at::Tensor> parameters_;
    std::map<std::string, size_t> index_;
};

std::string blockName(int64_t index);
inline const TokenSequence& tokensOf(const Sequence& sequence) { return static_cast<const TokenSequence&>(sequence); }

std::unique_ptr<GraphModel> makeGraphormer(const Plan& plan, std::vector<ParameterSpec> layout, uint64_t seed, int64_t threads);
std::unique_ptr<GraphModel> makeGtSparse(const Plan& plan, std::vector<ParameterSpec> layout, uint64_t seed, int64_t threads);
std::unique_ptr<GraphModel> makeSgformer(const Plan& plan, std::vector<ParameterSpec> layout, uint64_t seed, int64_t threads);

} // namespace megagraph::runtime
