// SPDX-License-Identifier: Apache-2.0
// The oracle of attention over the entries of a graph: fp64 loops over rows and entries, no chunks, no running maximum.
// Plain scores, per-edge and per-class bias, and the GT form (Dwivedi & Bresson 2021; models design, 1.3):
//   s_ex = scale q_nx k_jx u_ex,  t_e = clamp(sum_x s_ex, -5, 5),  P_e = exp(t_e) / (sum exp(t) + 1e-6).
// Allocates, one thread; for tests and accuracy reports only. Pure.
#pragma once

#include "kernels/edge_attention.h"
#include "kernels/reference/attention.h"

namespace megagraph::kernels::reference {

/// Entry e of row n is the pair (n, indices[e]); duplicates count twice; self keys as in EdgeGraph, without w, of class
/// selfClass (-1: none). Arrays are contiguous: q [rows, H, d_h]; k, v [keys, H, d_h]; w [H, E]; table [H, B]; u [E, H,
/// d_h].
struct Edges {
    int64_t rows = 0, keys = 0, queryOffset = 0, keyOffset = 0, selfOffset = 0;
    int32_t heads = 0, dim = 0, headOffset = 0;
    bool selfKey = false;
    double scale = 1.0;
    std::vector<int64_t> indptr;
    std::vector<int32_t> indices, keyNumbers; // global numbers of the keys; empty: keyOffset + key
    std::vector<double> q, k, v;
    EdgeBiasKind kind = EdgeBiasKind::None;
    std::vector<double> w, table, u; // u empty in the GT form: all ones
    std::vector<uint8_t> classes;
    int32_t classCount = 0, selfClass = -1;
    Dropout dropout;
};
/// o [rows, H, d_h]; lse [H, rows] natural log, GT: with the 1e-6.
struct EdgeOutput : Output {
    std::vector<double> s; // GT with u: [E, H, d_h]
};
struct EdgeGradients : Gradients {
    std::vector<double> dw, du;
};
EdgeOutput edgeForward(const Edges& problem);
/// ds [E, H, d_h]: gradient of the s that left forward; empty: none.
EdgeGradients edgeBackward(const Edges& problem, const std::vector<double>& dO, const std::vector<double>& ds = {});

} // namespace megagraph::kernels::reference
