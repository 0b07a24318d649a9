// SPDX-License-Identifier: Apache-2.0
// One dense attention problem on tensors of LibTorch, so that our kernels and the peers read the same memory. q, k, v, dO
// [N, H, d_h] in fp32 or bf16; table [H, B] fp32; topology of a made-up graph in METIS order. Faults of kernels are thrown as
// std::runtime_error. Used by one thread.
#pragma once

#include "kernels/attention.h"
#include "kernels/graph/csr.h"
#include "kernels/graph/tiles.h"

#include <ATen/ATen.h>
#include <cstdint>
#include <memory>
#include <vector>

namespace megagraph::runtime::bench {

struct DenseSize {
    int64_t tokens = 0; ///< keys
    int32_t heads = 1, dim = 64;
    bool bf16 = false;
    int64_t queries = 0; ///< 0 = as many as keys; else the first rows only

    int64_t rows() const { return queries > 0 ? queries : tokens; }
    double forwardFlops() const { return 4.0 * double(rows()) * double(tokens) * dim * heads; }
    double backwardFlops() const { return 2.5 * forwardFlops(); }
};

enum class BiasUse { None, Frozen, Learned };

class DenseProblem {
  public:
    static constexpr int32_t kHops = 2;

    /// `graph` with size.tokens nodes gives the topology; null: only BiasUse::None may be asked for.
    DenseProblem(const DenseSize& size, int32_t threads, const kernels::Csr* graph);

    const DenseSize& size() const { return size_; }
    int64_t topologyBytes() const { return lists_.bytes(); }

    /// Allocates its outputs and workspace, as the trainer does; keeps o and lse.
    void forward(BiasUse bias, const kernels::ParallelFor& parallel);
    /// Needs o and lse of forward; allocates and drops dq, dk, dv, delta, workspace; keeps dq.
    void backward(BiasUse bias, const kernels::ParallelFor& parallel);
    const at::Tensor& output() const { return o_; }
    /// Before bytes are counted: what a call before has left would be freed inside of it.
    void dropResults() { o_ = lse_ = dq_ = at::Tensor(); }

    /// [1, H, N, d_h] views for LibTorch.
    at::Tensor q() const { return peer(q_); }
    at::Tensor k() const { return peer(k_); }
    at::Tensor v() const { return peer(v_); }
    at::Tensor dO() const { return peer(dO_); }
    /// As stored, [N, H, d_h].
    const at::Tensor& storedQ() const { return q_; }
    const at::Tensor& storedK() const { return k_; }
    const at::Tensor& storedV() const { return v_; }
    const at::Tensor& table() const { return table_; }
    /// Classes of all pairs, int32 [N, N]; made at first use. The peer's topology.
    const at::Tensor& classes();
    void dropClasses() { classes_ = at::Tensor(); }

    /// Relative L2 error of o (and of dq) on 64 sampled rows against the fp64 reference.
    double forwardError(BiasUse bias);
    double backwardError(BiasUse bias);

  private:
    struct Sampled { std::vector<int64_t> rows; std::vector<double> o, dq; }; // [rows, H, d_h]
    at::Tensor peer(const at::Tensor& stored) const { return stored.transpose(0, 1).unsqueeze(0); }
    kernels::Bias bias(BiasUse use) const;
    kernels::AttentionShape shape() const;
    const Sampled& sampled(bool withBias, bool withGradient);

    DenseSize size_;
    int32_t threads_;
    kernels::Csr graph_;
    at::Tensor q_, k_, v_, dO_, o_, lse_, dq_, table_, shifted_, classes_;
    std::vector<int32_t> component_;
    kernels::TileLists lists_;
    Sampled reference_[2]; // without, with bias
};

} // namespace megagraph::runtime::bench
