// SPDX-License-Identifier: Apache-2.0
// Models on one rank: parameters by name, and the forward pass over this rank's token interval of one micro-batch under the
// plan's exchange. Every plan equals the serial run up to summation order (tests/runtime parity). Training thread only.
#pragma once

#include "core/dataset_spec.h"
#include "core/io/dataset.h"
#include "core/model_layout.h"
#include "core/plan.h"
#include "runtime/comm.h"

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace megagraph::runtime {

/// One token sequence (micro-batch) as one context rank sees it. Built once, read-only afterwards.
class Sequence {
  public:
    virtual ~Sequence() = default;
    virtual int64_t tokens() const = 0;                    ///< of the whole sequence, without graph token
    virtual const std::vector<int64_t>& cuts() const = 0;  ///< C + 1
    virtual int64_t begin() const = 0;                     ///< own interval
    virtual int64_t end() const = 0;
    /// Data set ids of own tokens [n_i].
    virtual const std::vector<int32_t>& originalIds() const = 0;
};

/// Everything that keys a draw and steers a pass.
struct PassContext {
    uint64_t seed = 1, step = 0;
    uint32_t item = 0;          // sequence number
    bool training = true;
    Communicator* context = nullptr;
    double* attentionSeconds = nullptr; // optional timers for profiling
};

class GraphModel {
  public:
    virtual ~GraphModel() = default;
    virtual const std::vector<ParameterSpec>& layout() const = 0;
    /// Leaf tensors (requires_grad), same order as layout().
    virtual std::vector<at::Tensor>& parameters() = 0;
    /// Logits of own tokens [n_i, out].
    virtual at::Tensor forward(const Sequence& sequence, const PassContext& pass) = 0;
    /// Parts for the profiler, on local tensors: embed -> h, block b: h -> h, head: h -> logits.
    virtual at::Tensor embed(const Sequence& sequence, const PassContext& pass) = 0;
    virtual at::Tensor block(int64_t index, const at::Tensor& h, const Sequence& sequence, const PassContext& pass) = 0;
    virtual at::Tensor head(const at::Tensor& h, const Sequence& sequence, const PassContext& pass) = 0;
};

/// Threads for kernels: the worker's LibTorch pool as a kernels::ParallelFor lives behind this.
std::unique_ptr<GraphModel> makeModel(const Plan& plan, const DatasetSpec& dataset, uint64_t seed, int64_t threads);

/// Sequences of one epoch in order (full: one; clusters: METIS groups). `contextRank` of `contextSize`. Uses the cached token
/// order under home. Throws std::runtime_error with a full message on bad data (caught in worker main).
struct SequenceSet {
    std::vector<std::unique_ptr<Sequence>> sequences;
    double keptEdges = 1.0;
};
SequenceSet makeSequences(const Plan& plan, const Dataset& dataset, const std::string& home, int64_t contextRank, int64_t threads);

} // namespace megagraph::runtime
