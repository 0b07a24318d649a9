// SPDX-License-Identifier: Apache-2.0
// Positional encodings of a whole graph (models design, 1.8): degrees, Laplacian eigenvectors, random-walk return
// probabilities. Undirected graphs without loops (kernels::symmetrised). Owned results; deterministic for a seed and any thread
// count. Source: LapPE as in Dwivedi & Bresson (arXiv 2012.09699), RWSE as in Dwivedi et al. (arXiv 2110.07875).
#pragma once

#include "core/result.h"
#include "kernels/graph/csr.h"
#include "kernels/graph/token_order.h"
#include "kernels/types.h"

#include <stop_token>
#include <vector>

namespace megagraph::kernels {

/// min(degree, 511) per node [N].
std::vector<uint16_t> clampedDegrees(CsrView graph);

struct LaplacianOptions {
    int64_t vectors = 8; // k
    uint64_t seed = 1;
    double tolerance = 1e-9;
    int64_t mostIterations = 3000;
    std::vector<int32_t> ids; // data set id per node, for the sign rule; empty = node number
};
struct LaplacianVectors {
    int64_t vectors = 0;             // k columns; columns beyond the graph's non-zero eigenvalues are 0
    std::vector<float> values;       // [N, k] row-major, unit columns
    std::vector<double> eigenvalues; // [k], rising; 0 for an empty column
    std::vector<double> residuals;   // [k] ||L u - lambda u||
    std::vector<bool> notUnique;     // [k] closer than 1e-6 to a neighbour: the basis of that space is arbitrary
    int64_t products = 0;            // sparse products spent
};
/// The k smallest non-zero eigenvalues of L_sym = I - D^-1/2 A D^-1/2 over the *whole* graph. The null space is known, D^1/2 1 of
/// each component, and is projected out, so no threshold decides what zero is. Isolated nodes get zeros. Sign: the entry of
/// largest |value| is positive; among entries within 1e-6 of it the lowest id decides. At most 256 nodes: dense solver.
/// Errors: InvalidInput (k < 0), Cancelled, Internal when the iteration ends early and no vector converged.
Result<LaplacianVectors> laplacianVectors(CsrView graph, const LaplacianOptions& options, const ParallelFor& parallel,
                                          const Progress& progress, std::stop_token stop);

struct WalkReturn {
    int64_t steps = 0;
    std::vector<float> values;        // [N, T]: probability to be back after t = 1..T steps
    std::vector<float> standardError; // [N, T]; empty when exact
};
/// diag(P^t), P = D^-1 A. Exact up to `exactFlops` (2 ceil(T/2) E N), else `walks` seeded walks a node.
Result<WalkReturn> randomWalkReturn(CsrView graph, int64_t steps, uint64_t seed, int64_t walks, double exactFlops,
                                    const ParallelFor& parallel, const Progress& progress, std::stop_token stop);

} // namespace megagraph::kernels
