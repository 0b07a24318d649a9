// SPDX-License-Identifier: Apache-2.0
// Attention over a made-up graph of power-law communities in METIS order, at sizes where the fp64 reference is too slow: the
// tensors of benchmarks and of the comparison with the CPU kernels. Pure.
#pragma once

#include "core/result.h"
#include "tests/gpu/golden_cases.h"

namespace megagraph::kernels::goldens {

struct BigCase {
    int64_t tokens = 4096, degree = 14;
    int32_t heads = 2, dim = 64, hops = 2; // hops < 0: no bias
    double dropout = 0;
    bool tensors = true;                   // false: q, k, v, dO stay empty
};
/// `classes` stays empty; graph and transposed are the whole graph, as sparse attention wants them. Errors of the generator, the partitioner or the searches.
Result<Inputs> makeBig(const BigCase& c, const ParallelFor& parallel);

} // namespace megagraph::kernels::goldens
