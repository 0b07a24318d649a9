// SPDX-License-Identifier: Apache-2.0
// The ordered actions of every rank, generated once and used by simulator and ranks alike, so prediction and execution
// cannot drift apart. Pure; depends on the plan alone, never on predicted times.
#pragma once

#include "core/plan.h"

#include <cstdint>
#include <vector>

namespace megagraph {

enum class ActionKind { Forward, Backward, BackwardInput, BackwardWeight, Send, Receive, Reduce, Step };
const char* actionName(ActionKind kind);

struct Action {
    ActionKind kind;
    int64_t microBatch = -1; // -1 for Reduce and Step
    int64_t stage = 0;
    int64_t peer = -1;       // Send / Receive
    bool operator==(const Action&) const = default;
};

struct RankRole { int64_t stage = 0, replica = 0, context = 0, device = 0; };

/// Role of each rank: stages in order, replica-major, then context rank.
std::vector<RankRole> rankRoles(const Plan& plan);
/// Actions of one step for one rank. Micro-batch j belongs to replica j mod D of each stage.
Result<std::vector<Action>> rankActions(const Plan& plan, int64_t rank);
/// Acyclic with rendezvous sends; Internal with the cycle otherwise.
Result<Ok> proveNoDeadlock(const Plan& plan);

} // namespace megagraph
