// SPDX-License-Identifier: Apache-2.0
// One token sequence as one context rank sees it: own interval, features, degrees, components and the distance structure or
// edges of own rows. Built once from the ordered graph, read-only afterwards, so any thread may read it. Limits: undirected
// single graphs, K <= 11, int32 node ids.
#pragma once

#include "kernels/graph/csr.h"
#include "runtime/allocator.h"
#include "runtime/functions/basic.h"
#include "runtime/functions/dense_attention.h"
#include "runtime/functions/edge_attention.h"
#include "runtime/model.h"

namespace megagraph::runtime {

class TokenSequence final : public Sequence {
  public:
    int64_t tokens() const override { return count; }
    const std::vector<int64_t>& cuts() const override { return nodeCuts; }
    int64_t begin() const override { return nodeCuts[size_t(rank)]; }
    int64_t end() const override { return nodeCuts[size_t(rank) + 1]; }
    const std::vector<int32_t>& originalIds() const override { return ids; }

    int64_t own() const { return end() - begin(); }
    /// The graph token is the last token of the sequence and lives on the last context rank.
    bool ownsToken() const { return hasToken && size_t(rank) + 2 == nodeCuts.size(); }

    int64_t count = 0, rank = 0;
    bool hasToken = false;
    std::vector<int64_t> nodeCuts;
    std::vector<int64_t> nodeRows, tokenRows; ///< rows per context rank without and with the graph token
    std::vector<int32_t> ids;
    std::vector<int32_t> components;          ///< [tokens (+ 1)], -1 = graph token

    at::Tensor degrees;                       ///< [n_i] int64, min(degree, 511)
    at::Tensor denseFeatures;                 ///< [n_i, F], or undefined
    SparsePattern features;                   ///< rows 0 when features are dense or absent
    at::Tensor featureValues;                 ///< [nnz]

    DenseTopology dense;                      ///< Graphormer
    at::Tensor classes;                       ///< materialised: uint8 [n_q, tokens]
    kernels::EdgeGraph edges;                 ///< sparse GT
    SparsePattern convolution;                ///< SGFormer: own rows of A + I (residual form: A)
    at::Tensor convolutionValues;

    /// Storage behind the spans above.
    kernels::Csr featureRows, edgeRows, convolutionRows, distanceGraph;
    kernels::Transposed featureColumns, edgeColumns, convolutionColumns;
    std::vector<MemoryCharge> charges;
};

/// What all sequences of a run share.
struct SequencePlan {
    const Plan* plan = nullptr;
    const Dataset* dataset = nullptr;
    int64_t contextRank = 0, contextSize = 1, threads = 1;
};

/// `graph`, `ids` and `components` are in token order of this sequence: ids[t] = data set node of token t.
std::unique_ptr<TokenSequence> buildSequence(const SequencePlan& shared, kernels::CsrView graph, std::span<const int32_t> ids,
                                             std::vector<int32_t> components, const std::vector<int64_t>& fixedCuts);

} // namespace megagraph::runtime
