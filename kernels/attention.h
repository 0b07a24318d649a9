// SPDX-License-Identifier: Apache-2.0
// Dense attention with a learned topology bias, forward and backward, tiled, O(N d) memory; one declaration for all sets
// (portable, avx2, avx512, avx512bf16, amxbf16; kernels/cpu/dispatch.h chooses). Source: online softmax as in FlashAttention-2
// (arXiv 2307.08691), bias classes as in Graphormer (arXiv 2106.05234), section 3.1.1.
// bf16: products of bf16 pairs with fp32 sums on sets that have them (P and dS are rounded to bf16), else blocks are widened
// and the fp32 code runs; softmax, state, lse, table and all gradients stay fp32 (table sums fp64).
// Errors come before the first write: InvalidInput (shape, stride, null with rows > 0, list headers), Unsupported
// (d_h > 128). Zero rows, heads or keys are legal. Bit-identical for any thread count.
#pragma once

#include "core/result.h"
#include "kernels/types.h"

namespace megagraph::kernels {

struct AttentionShape {
    int64_t queries = 0, keys = 0;           // n_q, n_k
    int64_t queryOffset = 0, keyOffset = 0;  // q0, k0: global token numbers (dropout)
    int32_t heads = 0, dim = 0;              // H, d_h
    int32_t headOffset = 0;                  // h0
    double scale = 1.0;                      // 1 / sqrt(d_h)
    int32_t kvSplits = 1;                    // backward: sums of dq in split order; part of the result's bits
};

/// Un-normalised softmax state of a row range. All fp32, contiguous. m, in log2 units, is the origin of l and acc: at most 8 below
/// the row's maximum, -inf before the first key.
struct AttentionState {
    float* m = nullptr;   // [H, n_q]
    float* l = nullptr;   // [H, n_q]
    float* acc = nullptr; // [n_q, H, d_h]
};

/// Element type of q, k, v, o and dO. State, lse, delta and all gradients are fp32 for both.
enum class Element : uint8_t { Fp32, Bf16 };

/// Sums of the backward pass over queries (dk, dv, table) end at every 512 query rows of a call: part of the result's bits.
constexpr int64_t kBackwardRows = 512;

/// Bytes for `slots` threads; of bf16 enough for every set of kernels.
int64_t attentionForwardWorkspace(const AttentionShape& shape, int32_t slots, Element element = Element::Fp32);
int64_t attentionBackwardWorkspace(const AttentionShape& shape, int32_t slots, Element element = Element::Fp32);

/// o[i,h,:] = sum_j drop(softmax_j(scale q_i.k_j + table[h, c(i,j)])) v_j;  lse [H, n_q] natural log of the row sum.
/// A row without keys: o = 0, lse = -inf.
Result<Ok> attentionForward(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k, HeadView<const float> v,
                            const Bias& bias, const Dropout& dropout, HeadView<float> o, float* lse, void* workspace,
                            const ParallelFor& parallel);
Result<Ok> attentionForward(const AttentionShape& shape, HeadView<const Bfloat16> q, HeadView<const Bfloat16> k,
                            HeadView<const Bfloat16> v, const Bias& bias, const Dropout& dropout, HeadView<Bfloat16> o, float* lse, void* workspace,
                            const ParallelFor& parallel);
/// One key interval of a ring step; `first` initialises the state. Nothing is rounded between steps.
Result<Ok> attentionPartial(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k, HeadView<const float> v,
                            const Bias& bias, const Dropout& dropout, bool first, AttentionState state, void* workspace,
                            const ParallelFor& parallel);
Result<Ok> attentionPartial(const AttentionShape& shape, HeadView<const Bfloat16> q, HeadView<const Bfloat16> k,
                            HeadView<const Bfloat16> v, const Bias& bias, const Dropout& dropout, bool first, AttentionState state, void* workspace,
                            const ParallelFor& parallel);
/// a <- a combined with b.
void attentionCombine(int64_t queries, int32_t heads, int32_t dim, AttentionState a, AttentionState b);
/// o, lse from a state.
void attentionFinish(int64_t queries, int32_t heads, int32_t dim, AttentionState state, HeadView<float> o, float* lse);
void attentionFinish(int64_t queries, int32_t heads, int32_t dim, AttentionState state, HeadView<Bfloat16> o, float* lse);
/// delta[h, i] = sum_x dO[i,h,x] O[i,h,x], once per row, before the ring turns.
void attentionDelta(HeadView<const float> o, HeadView<const float> dO, float* delta);
void attentionDelta(HeadView<const Bfloat16> o, HeadView<const Bfloat16> dO, float* delta);
/// dq [n_q,H,d_h], dk, dv [n_k,H,d_h] contiguous fp32, added to (+=). tablePartials [H * kvSplits, B] fp64 += (null: frozen
/// bias), the far bin left open: close it once with closeFarBin after the last sum.
Result<Ok> attentionBackward(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k, HeadView<const float> v,
                             HeadView<const float> dO, const float* lse, const float* delta, const Bias& bias,
                             const Dropout& dropout, float* dq, float* dk, float* dv, double* tablePartials, void* workspace,
                             const ParallelFor& parallel);
Result<Ok> attentionBackward(const AttentionShape& shape, HeadView<const Bfloat16> q, HeadView<const Bfloat16> k,
                             HeadView<const Bfloat16> v, HeadView<const Bfloat16> dO, const float* lse, const float* delta, const Bias& bias,
                             const Dropout& dropout, float* dq, float* dk, float* dv, double* tablePartials, void* workspace,
                             const ParallelFor& parallel);
/// shifted [H, B] = table - table[far] per head, what Bias::table takes (softmax ignores a constant per row). InvalidInput if a far
/// entry is not finite; other entries may be -inf. May work in place.
Result<Ok> subtractFar(int32_t heads, int32_t hops, const float* table, float* shifted);
/// summed [H, B] fp64 = partials added in split order.
void tableGradient(int32_t heads, int32_t kvSplits, int32_t classes, const double* partials, double* summed);
/// db [H, B] fp32; the far bin becomes minus the sum of the others (rows of dS sum to zero). Exactly once.
void closeFarBin(int32_t heads, int32_t hops, const double* summed, float* db);

} // namespace megagraph::kernels
