// SPDX-License-Identifier: Apache-2.0
// From the ends of all ranks to one cause: the first failure by the supervisor's receive time, its sentence and its card
// (runs design, section 6). Pure but for the files that writeCard makes.
#pragma once

#include "core/run_spec.h"
#include "runtime/launch/rank.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace megagraph::launch {

struct FailureContext {
    const RunSpec* spec = nullptr;
    std::string folder, host;
    int64_t attempt = 1, step = 0, lastCommit = -1;
    int64_t oomKillsBefore = 0, oomKillsAfter = 0; // counters of the kernel
    std::function<std::string(const Json& oom)> nearestPlan;
};

/// The rank whose end is the cause: the earliest failure that is no consequence, else the earliest. nullptr = nobody failed.
const Rank* rootCause(const std::vector<std::unique_ptr<Rank>>& ranks);

/// card.json of the failure: every key of the design, null where it does not apply; "sentence", "cause" and "action" never are.
Json failureCard(const Rank& root, const std::vector<std::unique_ptr<Rank>>& ranks, const FailureContext& context);
/// Writes failures/N/card.json and tail-rK.log with the next free N, which is returned and set in the card.
int64_t writeCard(Json& card, const Rank& root, const std::string& folder);

/// Processes that the kernel has killed for memory: cgroup v2 memory.events, else /proc/vmstat.
int64_t kernelMemoryKills();

} // namespace megagraph::launch
