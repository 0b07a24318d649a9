// SPDX-License-Identifier: Apache-2.0
// Counter-based initial values (models design, 1.1): element t of parameter `name` depends on (seed, FNV-1a of name, t)
// alone, so a rank makes only its slice and every plan starts from equal bits. Pure, no Torch.
#pragma once

#include "core/model_layout.h"

#include <cstdint>
#include <span>

namespace megagraph::runtime {

/// out[i] = initial value of element begin + i (row-major over spec.shape), 0 <= begin <= begin + out.size() <= elements.
void initialValues(const ParameterSpec& spec, uint64_t seed, int64_t begin, std::span<float> out);

} // namespace megagraph::runtime
