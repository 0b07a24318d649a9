// SPDX-License-Identifier: Apache-2.0
// Softmax attention over the entries of a CSR graph: out[n,h,:] = sum_{j in row n} softmax_j(scale q_n.k_j + bias) v_j,
// with no bias, a value per entry, a class per entry with a learned table, or the form of GT (Dwivedi & Bresson 2021,
// clamped products with an edge stream). Keys may be more than rows (gathered or halo keys). Optional self key: row n
// also attends to key selfOffset + n. Dropout as in dense attention with global row and column. fp32, no allocation, no
// threads of its own; work is spread by ParallelFor and the bits do not depend on it. Backward goes by row (dq, bias),
// then by key (dk, dv) with probabilities made again: nothing of the size of the entries is kept. Errors come before
// the first write: InvalidInput (shape, stride, null, graph, class out of range), Unsupported (d_h > 128). Zero rows,
// keys, entries and heads are legal. -inf in a value or table entry masks the pair.
#pragma once

#include "core/result.h"
#include "kernels/attention.h"
#include "kernels/types.h"

namespace megagraph::kernels {

struct EdgeGraph {
    int64_t rows = 0, keys = 0;
    std::span<const int64_t> indptr;  // [rows + 1]
    std::span<const int32_t> indices; // local key numbers in [0, keys)
    /// Transposed: for key j the entries [t_indptr[j], t_indptr[j+1]) name row and entry number. Needed by backward.
    std::span<const int64_t> transposedIndptr;  // [keys + 1]
    std::span<const int32_t> transposedRows;    // [entries]
    std::span<const int64_t> transposedEntries; // [entries]; needed with a bias only
    bool selfKey = false;                       // adds the pair (n, selfOffset + n), not stored in the CSR
    int64_t selfOffset = 0;
    int64_t queryOffset = 0, keyOffset = 0; // global numbers for dropout
    std::span<const int32_t> keyNumbers;    // [keys] global numbers of halo keys for dropout; empty: keyOffset + key
    int32_t headOffset = 0;                 // global number of the first head for dropout
    int32_t rowChunk = 512; // entries of a row summed at once, 1..512; longer rows: chunks in order. Part of the bits
};

enum class EdgeBiasKind : uint8_t { None, Values, Classes, Gt };

/// Values: score + w[h, e]. Classes: score + table[h, class(e)], the table as learned (nothing subtracted).
/// Gt: s_ex = scale q_nx k_jx u_ex, score = clamp(sum_x s_ex, -5, 5), denominator sum_j exp(score_j) + 1e-6 (lse has
/// it, too).
struct EdgeBias {
    EdgeBiasKind kind = EdgeBiasKind::None;
    const float* values = nullptr;    // [H, E]; self keys have none
    std::span<const uint8_t> classes; // [E], each < classCount
    const float* table = nullptr;     // [H, classCount]
    int32_t classCount = 0;           // 1..256
    int32_t selfClass = -1;           // class of self keys, -1: none
    const float* u = nullptr; // [E, H, d_h]; null: all ones (no edge stream). With u, self keys must be stored entries
};

/// What backward reads and writes beside dq, dk, dv; null = not wanted.
struct EdgeBiasGradients {
    float* values = nullptr;         // dw [H, E]
    double* tablePartials = nullptr; // [edgeTablePartials()]; sum them with edgeTableGradient
    const float* ds = nullptr;       // [E, H, d_h] gradient of the s that left forward; only with u
    float* u = nullptr;              // du [E, H, d_h]
};

/// o [rows, H, d_h]; lse [H, rows] natural log. A row without keys: o = 0, lse = -inf. s [E, H, d_h]: GT with u only,
/// may be null.
Result<Ok> edgeAttentionForward(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                HeadView<const float> v, const EdgeBias& bias, const Dropout& dropout,
                                HeadView<float> o, float* lse, float* s, const ParallelFor& parallel);
/// The same rows over one interval of their keys, for rows that are spread over ranks (graph token, hubs): combine the
/// states in rank order with attentionCombine, then edgeAttentionFinish. `first` initialises the state. Backward of
/// such rows is edgeAttentionBackward per interval with the final lse and delta; dq is then a part of the sum.
Result<Ok> edgeAttentionPartial(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                HeadView<const float> v, const EdgeBias& bias, const Dropout& dropout, bool first,
                                AttentionState state, float* s, const ParallelFor& parallel);
/// o, lse from the whole state; adds GT's 1e-6 (once, which is why states do not have it).
void edgeAttentionFinish(int64_t rows, int32_t heads, int32_t dim, EdgeBiasKind kind, AttentionState state,
                         HeadView<float> o, float* lse);

/// Bytes of scratch for backward, 64-byte aligned: lse and delta of a row side by side, since keys read them at random.
int64_t edgeAttentionBackwardWorkspace(int64_t rows, int32_t heads);
/// dq [rows,H,d_h], dk, dv [keys,H,d_h] contiguous fp32, written (not added), as are the gradients of the bias.
Result<Ok> edgeAttentionBackward(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                 HeadView<const float> v, HeadView<const float> dO, const float* lse,
                                 const float* delta /*[H, rows]*/, const EdgeBias& bias, const Dropout& dropout,
                                 float* dq, float* dk, float* dv, const EdgeBiasGradients& gradients, void* workspace,
                                 const ParallelFor& parallel);
/// Count of doubles of tablePartials: [tasks, H, classes].
int64_t edgeTablePartials(int64_t rows, int32_t heads, int32_t classes);
/// summed [H, classes] = partials added in task order.
void edgeTableGradient(int64_t rows, int32_t heads, int32_t classes, const double* partials, double* summed);

/// Without bias.
inline Result<Ok> edgeAttentionForward(const EdgeGraph& graph, double scale, HeadView<const float> q,
                                       HeadView<const float> k, HeadView<const float> v, const Dropout& dropout,
                                       HeadView<float> o, float* lse, const ParallelFor& parallel)
{
    return edgeAttentionForward(graph, scale, q, k, v, EdgeBias{}, dropout, o, lse, nullptr, parallel);
}
/// Without bias and scratch (slower for many heads).
inline Result<Ok> edgeAttentionBackward(const EdgeGraph& graph, double scale, HeadView<const float> q,
                                        HeadView<const float> k, HeadView<const float> v, HeadView<const float> dO,
                                        const float* lse, const float* delta, const Dropout& dropout, float* dq,
                                        float* dk, float* dv, const ParallelFor& parallel)
{
    return edgeAttentionBackward(graph, scale, q, k, v, dO, lse, delta, EdgeBias{}, dropout, dq, dk, dv, {}, nullptr,
                                 parallel);
}

} // namespace megagraph::kernels
