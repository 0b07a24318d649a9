// SPDX-License-Identifier: Apache-2.0
// Graphs of the benchmarks, made from a seed: power-law communities, R-MAT, grid; undirected, no loops. Node numbers are
// shuffled ("random order"); `metisOrder` gives the order that data sets are stored in. Pure.
#pragma once

#include "kernels/graph/csr.h"

#include <cstdint>

namespace megagraph::runtime::bench {

/// Weights fall as a power law with exponent 2.5; nine in ten edges stay inside a community of 256 nodes. Mean degree `degree`
/// within 2 %, after repeats and loops are dropped.
kernels::Csr communities(int64_t nodes, int64_t degree, uint64_t seed);
/// 2^scale nodes, probabilities 0.57, 0.19, 0.19, 0.05 (Chakrabarti et al. 2004), degree/2 draws per node.
kernels::Csr rmat(int64_t scale, int64_t degree, uint64_t seed);
kernels::Csr grid(int64_t rows, int64_t columns, uint64_t seed);
/// The same graph in token order (METIS recursive bisection). Throws std::runtime_error.
kernels::Csr metisOrder(kernels::CsrView graph);

} // namespace megagraph::runtime::bench
