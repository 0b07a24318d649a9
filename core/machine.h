// SPDX-License-Identifier: Apache-2.0
// What this machine has, as this process may use it: affinity mask, cgroup limits, /proc and /sys. Read anew on each
// call; no state; any thread. Linux only. A fact that cannot be read has its stated neutral value, never an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

struct CoreFact { int64_t cpu = 0, numaNode = 0; };

/// Logical CPUs of the affinity mask, NUMA node by NUMA node, hardware threads of a core beside each other. A cgroup CPU
/// quota below their count keeps the first ceil(quota) of them. At least one.
std::vector<CoreFact> usableCores();
/// MemAvailable, or what the memory cgroup still allows if that is less. Bytes; 0 = unknown.
int64_t availableMemoryBytes();
int64_t numaNodeCount(); ///< at least 1
/// "avx512bf16" "avx512" "avx2" "portable": the best level that our CPU kernels know and this processor has.
const char* instructionLevel();
std::string cpuModelName();
std::string cpuGovernor(); ///< of cpu0; "" when there is no frequency control
int64_t cpuClockMhz();     ///< of the first core in /proc/cpuinfo; 0 = unknown

} // namespace megagraph
