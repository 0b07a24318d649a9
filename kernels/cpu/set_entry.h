// SPDX-License-Identifier: Apache-2.0
// The function table that every instruction set fills. Plain struct, no includes beyond calls.h.
#pragma once

#include "kernels/cpu/calls.h"

namespace megagraph::kernels::cpu {

/// Dense attention. `index` runs over the counts named here; tasks of one function write to disjoint places.
struct DenseKernels {
    void (*ids)(const DenseCall&);                                   // once
    void (*pack)(const DenseCall&, int64_t index);                   // heads * key blocks
    void (*forward)(const DenseCall&, int64_t index, int32_t slot);  // heads * query blocks
    void (*backward)(const DenseCall&, int64_t index, int32_t slot); // heads * kvSplits
    void (*reduce)(const DenseCall&, int64_t index);                 // heads * query blocks, kvSplits > 1
};

struct CpuKernels {
    const char* name;
    bool (*supported)();
    DenseKernels dense;                                       // fp32 operands; bf16 elements are widened
    const DenseKernels* pairs;                                // bf16 operands; null: `dense` runs
    void (*edgeForward)(const EdgeCall&, int64_t index);      // blocks of kEdgeRows rows
    void (*edgeBackwardRows)(const EdgeCall&, int64_t index); // blocks of kEdgeRows rows
    void (*edgeBackwardKeys)(const EdgeCall&, int64_t index); // blocks of kEdgeRows keys
    void (*dropout)(const DropoutCall&, int64_t firstRow, int64_t lastRow);
};

} // namespace megagraph::kernels::cpu
