// SPDX-License-Identifier: Apache-2.0
// libmegagraph_cuda.so of a folder: found, loaded, its table of the right version. Loading needs no driver. Stays loaded.
#pragma once

#include "core/result.h"
#include "kernels/cuda/api.h"

#include <string>

namespace megagraph::kernels::goldens {

/// NotFound, VersionMismatch or Corrupt with path and reason.
Result<const MegagraphCudaTable*> loadModule(const std::string& path);
/// The module beside the running program, or in ../lib of it.
std::string modulePath();

} // namespace megagraph::kernels::goldens
