// SPDX-License-Identifier: Apache-2.0
// The primitives by the shim's emulation. One thread.
#pragma once

#include "tests/gpu/primitives.h"

namespace megagraph::kernels::goldens {

/// Under the shim's default order, or `seed` > 0: a random order of threads, blocks and copies.
std::vector<StoredWords> emulatePrimitives(uint64_t seed = 0);

} // namespace megagraph::kernels::goldens
