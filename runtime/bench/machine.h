// SPDX-License-Identifier: Apache-2.0
// What a benchmark result depends on besides our code. Reads /proc, /sys, the environment; no state.
#pragma once

#include "core/json.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace megagraph::runtime::bench {

/// CPU, cores, threads, instruction set in use, memory, GPU, driver, compiler, LibTorch version and build, commit, and
/// the variables below.
Json machineFacts(int32_t threads, const std::string& commit);
/// Set variables that steer BLAS, oneDNN, OpenMP or our choice of kernels, and so the numbers.
std::vector<std::pair<std::string, std::string>> steeringVariables();
/// Warnings about them; empty when none is set.
std::vector<std::string> steeringWarnings();
/// Name of a GPU that the driver lists, "" without one.
std::string gpuName();

} // namespace megagraph::runtime::bench
