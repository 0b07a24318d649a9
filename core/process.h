// SPDX-License-Identifier: Apache-2.0
// Child processes: spawn with argv array (never a shell), pidfd, process group, parent-death signal, closed descriptors.
// Thread contract stated per call. Linux only.
#pragma once

#include "core/result.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace megagraph {

struct ChildOptions {
    std::string program;
    std::vector<std::string> arguments;               // without argv[0]
    std::vector<std::pair<std::string, std::string>> environment; // whole environment of the child
    std::vector<std::pair<int, int>> descriptors;     // (descriptor here, number in the child); others are closed
    bool dieWithParent = true;  // PR_SET_PDEATHSIG; the spawning THREAD must outlive the child
    bool newSession = false;    // detach: setsid
    int oomScoreAdj = 0;
};
struct Child { int64_t pid = -1; int pidfd = -1; int64_t startTicks = 0; };
Result<Child> spawn(const ChildOptions& options);

/// Clock ticks since boot of a live process; -1 when there is none. (pid, ticks) identifies a process for good.
int64_t processStartTicks(int64_t pid);
std::string bootId();

} // namespace megagraph
