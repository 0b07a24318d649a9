// SPDX-License-Identifier: Apache-2.0
// One problem of attention over edges, H = 1: tensors [N, d] of LibTorch, read by our kernels and by the peers, which are
// written in LibTorch operations here. Faults of kernels are thrown as std::runtime_error. Used by one thread.
#pragma once

#include "kernels/edge_attention.h"
#include "kernels/graph/csr.h"

#include <ATen/ATen.h>
#include <cstdint>

namespace megagraph::runtime::bench {

class EdgeProblem {
  public:
    EdgeProblem(kernels::Csr graph, int32_t dim);
    EdgeProblem(const EdgeProblem&) = delete;
    EdgeProblem& operator=(const EdgeProblem&) = delete;

    int64_t nodes() const { return nodes_; }
    int64_t entries() const { return int64_t(csr_.indices.size()); }
    double forwardFlops() const { return 4.0 * double(entries()) * dim_; }
    double backwardFlops() const { return 2.5 * forwardFlops(); }

    void forward(const kernels::ParallelFor& parallel);
    void backward(const kernels::ParallelFor& parallel); ///< after forward
    const at::Tensor& output() const { return o_; }
    void dropResults() { o_ = lse_ = dq_ = at::Tensor(); } ///< before bytes are counted
    const at::Tensor& queryGradient() const { return dq_; }
    /// Relative L2 error of o, or dq, on 64 sampled rows against fp64 loops.
    double error(bool gradient) const;

    /// q k v gathered per edge, softmax by scatter, weighted values scattered: what message passing libraries do. Autograd.
    at::Tensor gatherScatter(bool withBackward);
    /// Sampled dense product on a CSR tensor, softmax of its values, sparse product; the same operations by hand for backward.
    /// Returns o, or dq with backward.
    at::Tensor sparseProducts(bool withBackward);

    const at::Tensor& q() const { return q_; }
    const at::Tensor& k() const { return k_; }
    const at::Tensor& v() const { return v_; }
    const at::Tensor& dO() const { return dO_; }
    const at::Tensor& rows() const { return row_; }       ///< int64 [E]
    const at::Tensor& columns() const { return column_; } ///< int64 [E]

  private:
    at::Tensor matrix(const at::Tensor& values, bool transposed) const;

    kernels::Csr csr_;
    kernels::Transposed transposed_;
    kernels::EdgeGraph graph_;
    int64_t nodes_;
    int32_t dim_;
    double scale_;
    at::Tensor q_, k_, v_, dO_, o_, lse_, dq_;
    at::Tensor indptr_, row_, column_, transposedIndptr_, transposedColumn_, transposedEntry_; // for the peers
};

} // namespace megagraph::runtime::bench
