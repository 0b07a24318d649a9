// SPDX-License-Identifier: Apache-2.0
// Dense attention with policy `strips`: the distance structure of 512 query rows at a time, made by a StripSource and dropped.
// Results equal those of policies `planes` and `lists` bit for bit: query blocks are independent in the forward pass, and the
// backward pass of attention.h adds up dK, dV and the table gradient per 512 query rows in any case (kBackwardRows).
// Memory: one strip and the kernels' workspace. One thread drives a call; the kernels spread their tasks over `parallel`.
#pragma once

#include "kernels/attention.h"

namespace megagraph::kernels {

constexpr int64_t kStripRows = kBackwardRows;

/// Planes of query rows [512 strip, 512 strip + 512) of a call, clipped to its queries, on the call's key grid.
class StripSource {
  public:
    virtual ~StripSource() = default;
    /// The view holds until the next call. Errors: what the search reports (Cancelled).
    virtual Result<TilePlanesView> stripPlanes(int64_t strip) = 0;
};

/// Workspace of the three calls, with lse, delta or state of one strip.
int64_t attentionStripsForwardWorkspace(const AttentionShape& shape, int32_t slots);
int64_t attentionStripsBackwardWorkspace(const AttentionShape& shape, int32_t slots);

/// As attentionForward, attentionPartial and attentionBackward; bias.lists and bias.planes are not read, bias.edges is taken
/// strip by strip. Rows of strips before a failed one are written.
Result<Ok> attentionForwardStrips(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k,
                                  HeadView<const float> v, const Bias& bias, StripSource& source, const Dropout& dropout,
                                  HeadView<float> o, float* lse, void* workspace, const ParallelFor& parallel);
Result<Ok> attentionPartialStrips(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k,
                                  HeadView<const float> v, const Bias& bias, StripSource& source, const Dropout& dropout,
                                  bool first, AttentionState state, void* workspace, const ParallelFor& parallel);
Result<Ok> attentionBackwardStrips(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k,
                                   HeadView<const float> v, HeadView<const float> dO, const float* lse, const float* delta,
                                   const Bias& bias, StripSource& source, const Dropout& dropout, float* dq, float* dk, float* dv,
                                   double* tablePartials, void* workspace, const ParallelFor& parallel);

} // namespace megagraph::kernels
