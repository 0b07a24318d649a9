// SPDX-License-Identifier: Apache-2.0
// `train --detach`: the command starts itself again in a session of its own, hands on the ready line {"run","dir"} and ends;
// the other process supervises the run (runs design, section 1).
#pragma once

#include "app/commands/command.h"

#include <string>

namespace megagraph::app {

constexpr const char* kDetachedFlag = "--supervise-detached";

/// In the process that was typed: starts the supervisor, prints its ready line, returns 0; or passes on its error and exit code.
int startDetached(bool json);
/// In the supervisor: prints the ready line, then closes stdout and sends stderr to logs/supervisor.log.
void announceAndLeaveTerminal(const std::string& id, const std::string& folder);

} // namespace megagraph::app
