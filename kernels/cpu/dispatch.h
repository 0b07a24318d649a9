// SPDX-License-Identifier: Apache-2.0
// One set of CPU kernels per instruction set and the choice between them. The choice is made once per process: the first set
// that the machine supports in the order amxbf16, avx512bf16, avx512, avx2, portable; MEGAGRAPH_CPU_KERNELS=name forces one. The
// first two differ from avx512 in dense attention on bf16 tensors only. Thread-safe.
#pragma once

#include "core/result.h"
#include "kernels/cpu/set_entry.h"

#include <span>
#include <string_view>

namespace megagraph::kernels::cpu {

/// All sets of this build, fastest first.
std::span<const CpuKernels* const> allKernels();
/// The set in use. A forced name that is unknown or not supported leaves the choice to the machine; the kernels that return a
/// Result refuse to run then (`forcedKernels`).
const CpuKernels& kernels();
/// Unsupported if MEGAGRAPH_CPU_KERNELS names no set that runs here.
Result<Ok> forcedKernels();
/// Makes `name` the set in use for this process; for tests and the benchmark. Unsupported with the list of names otherwise.
Result<Ok> forceKernels(std::string_view name);

} // namespace megagraph::kernels::cpu
