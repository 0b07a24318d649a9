// SPDX-License-Identifier: Apache-2.0
// The function table that every instruction set fills. Plain struct, no includes beyond calls.h.
#pragma once

#include "kernels/cpu/calls.h"

namespace megagraph::kernels::cpu {

/// Task bodies; `index` runs over the counts named here. Tasks of one function write to disjoint places.
struct CpuKernels {
    const char* name;
    bool (*supported)();
    void (*densePack)(const DenseCall&, int64_t index);                   // heads * key blocks
    void (*denseIds)(const DenseCall&);                                   // once
    void (*denseForward)(const DenseCall&, int64_t index, int32_t slot);  // heads * query blocks
    void (*denseBackward)(const DenseCall&, int64_t index, int32_t slot); // heads * kvSplits
    void (*denseReduce)(const DenseCall&, int64_t index);                 // heads * query blocks, kvSplits > 1
    void (*edgeForward)(const EdgeCall&, int64_t index);                  // blocks of kEdgeRows rows
    void (*edgeBackwardRows)(const EdgeCall&, int64_t index);             // blocks of kEdgeRows rows
    void (*edgeBackwardKeys)(const EdgeCall&, int64_t index);             // blocks of kEdgeRows keys
    void (*dropout)(const DropoutCall&, int64_t firstRow, int64_t lastRow);
};

} // namespace megagraph::kernels::cpu
