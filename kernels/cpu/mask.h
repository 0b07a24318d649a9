// SPDX-License-Identifier: Apache-2.0
// The dropout mask as kernels read it.
#pragma once

#include "kernels/cpu/calls.h"
#include "kernels/types.h"

namespace megagraph::kernels::cpu {

/// Key and threshold of (seed, step, p). p that rounds to 0 / 65536 is off.
Mask makeMask(const Dropout& dropout);

} // namespace megagraph::kernels::cpu
