// SPDX-License-Identifier: Apache-2.0
// Checks before a run starts (runs design, section 5): C1 plan, C2 data, C3 devices, C4 device memory, C5 host memory, C6 cores,
// C7 disk, C8 limits. Nothing is changed but probe files in the run directory, which are removed.
#pragma once

#include "core/dataset_spec.h"
#include "core/plan.h"
#include "core/run_spec.h"

#include <string>
#include <vector>

namespace megagraph::launch {

struct CheckResult {
    std::string check, verdict = "ok"; // "C1" ..; "ok" "warn" "refuse"
    std::string got, expected, hint;

    std::string sentence() const; ///< "C4: predicted peak of rank 0 is 2.1 GiB, expected at most 1 GiB; ..."
};

/// What this host has now; read once, so that tests can state it.
struct HostFacts {
    int64_t availableBytes = 0; // MemAvailable, or less where the cgroup limits it
    int64_t cores = 0, openFiles = 0;
};
HostFacts readHostFacts();

std::vector<CheckResult> preflight(const RunSpec& spec, const Plan& plan, const DatasetSpec& dataset, const std::string& home,
                                   const std::string& runFolder, const HostFacts& host);

} // namespace megagraph::launch
