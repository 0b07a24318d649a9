// SPDX-License-Identifier: Apache-2.0
// Bytes that one context rank sends per block and micro-batch; the runtime's byte counters match it exactly (a test).
#pragma once

#include "core/plan.h"

#include <cstdint>
#include <span>

namespace megagraph {

struct ExchangeBytes { int64_t forward = 0, backward = 0; };
/// Bytes of payload that `context` sends. cuts: C + 1 token offsets. `width` d, `heads` H, `headWidth` d_h, `element` bytes.
///   ring: R-1 sends of the passing K,V blocks forward; backward K,V and fp32 dK,dV, plus the last hop home
///   gather: its own K,V rows to C-1 peers forward (the gathered keys are kept); backward the fp32 dK,dV rows of the other
///     ranks (reduce-scatter)
///   reduce: all-reduce payload 4 (H d_h^2 + H d_h + 2) forward, 4 (H d_h^2 + H d_h) backward (payload, not wire bytes)
ExchangeBytes exchangeBytes(Exchange exchange, std::span<const int64_t> cuts, int64_t context, int64_t width, int64_t heads,
                            int64_t headWidth, int64_t element);
/// One GCN convolution of SGFormer under `reduce`: node rows [n_i, width] to C-1 peers forward (all-gather), fp32 gradient rows
/// of the other ranks backward (reduce-scatter).
ExchangeBytes convolutionBytes(std::span<const int64_t> cuts, int64_t context, int64_t width, int64_t element);

} // namespace megagraph
