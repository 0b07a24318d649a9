// SPDX-License-Identifier: Apache-2.0
#include "core/precision.h"

namespace megagraph {

StateBytes stateBytes(Precision precision, OptimizerKind optimizer)
{
    // fp32: two AdamW moments; bf16: fp32 master weights are counted with the optimizer (planner design 3.7)
    if (precision == Precision::Fp32)
        return {4, 4, optimizer == OptimizerKind::AdamW ? 8 : 0};
    return {2, 4, optimizer == OptimizerKind::AdamW ? 12 : 4};
}

} // namespace megagraph
