// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov & Hutter, arXiv 1711.05101) and plain SGD over the parameters of a model, with two parameter groups,
// decoupled or l2 weight decay, clipping by the global norm and learning-rate schedules. Gradients live in one flat tensor
// whose slices are the parameters' .grad, so one all-reduce serves all. Training thread only; the same bits for any thread count.
#pragma once

#include "core/model_layout.h"
#include "core/model_spec.h"

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <vector>

namespace megagraph::runtime {

/// Learning rate of step `step` (from 0) of `totalSteps`: linear warm-up, then constant, linear or cosine to minLearningRate.
double learningRateAt(const ModelSpec& model, int64_t step, int64_t totalSteps);

/// One fp32 tensor with room for every gradient in layout order and `extra` numbers behind them (step scalars).
class FlatGradients {
  public:
    /// Sets .grad of each parameter to its slice; autograd then adds in place.
    FlatGradients(std::vector<at::Tensor>& parameters, int64_t extra);

    at::Tensor& flat() { return flat_; }            ///< [elements + extra]
    int64_t elements() const { return elements_; }
    float* extra();                                 ///< the numbers behind the gradients
    at::Tensor slice(size_t parameter) const;       ///< 1-d view
    at::Tensor all() const;                         ///< the gradients without the extra numbers
    void zero();
    /// Puts the slices back (with their values) where autograd replaced them.
    void reattach(std::vector<at::Tensor>& parameters);
    /// Euclidean norm over all parameters, in fp64, each element once. Not finite iff some gradient is not.
    double norm() const;
    void scale(double factor);

  private:
    at::Tensor flat_;
    int64_t elements_ = 0;
    std::vector<int64_t> offsets_; // parameters + 1
};

class Optimizer {
  public:
    /// Allocates the moments (AdamW) under category optimizer.
    Optimizer(const ModelSpec& model, const std::vector<ParameterSpec>& layout, std::vector<at::Tensor>& parameters);

    /// One update with the gradients of `gradients`.
    void step(const FlatGradients& gradients, double learningRate);
    int64_t updates() const { return updates_; }
    void setUpdates(int64_t updates) { updates_ = updates; }
    /// First and second moment of a parameter; undefined tensors under SGD.
    at::Tensor first(size_t parameter) const { return first_.empty() ? at::Tensor() : first_[parameter]; }
    at::Tensor second(size_t parameter) const { return second_.empty() ? at::Tensor() : second_[parameter]; }

  private:
    ModelSpec model_;
    std::vector<ParameterSpec> layout_;
    std::vector<at::Tensor>& parameters_;
    std::vector<at::Tensor> first_, second_;
    int64_t updates_ = 0;
};

/// Decay of one parameter: 0 for biases, norms, tables and the graph token.
double weightDecayOf(const ModelSpec& model, const ParameterSpec& parameter);

} // namespace megagraph::runtime
