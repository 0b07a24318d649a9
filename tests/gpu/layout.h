// SPDX-License-Identifier: Apache-2.0
// Sizes and offsets of the structs of kernels/cuda/api.h as JSON, so that a reader in another language can hold its own copy
// against the compiler's. Pure.
#pragma once

#include "core/json.h"

namespace megagraph::kernels::goldens {

/// {"version", "structs": {name: {"size", "fields": {name: offset}}}}
Json apiLayout();

} // namespace megagraph::kernels::goldens
