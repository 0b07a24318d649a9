// SPDX-License-Identifier: Apache-2.0
#include "core/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace megagraph {

const char* actionName(ActionKind kind)
{
    switch (kind) {
    case ActionKind::Forward: return "forward";
    case ActionKind::Backward: return "backward";
    case ActionKind::BackwardInput: return "backward_input";
    case ActionKind::BackwardWeight: return "backward_weight";
    case ActionKind::Send: return "send";
    case ActionKind::Receive: return "receive";
    case ActionKind::Reduce: return "reduce";
    case ActionKind::Step: return "step";
    }
    return "step";
}

std::vector<RankRole> rankRoles(const Plan& plan)
{
    std::vector<RankRole> roles;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
        const StagePlan& stage = plan.stages[s];
        const int64_t context = stage.ulysses * stage.ring;
        for (int64_t replica = 0; replica < stage.replicas; ++replica)
            for (int64_t c = 0; c < context; ++c) {
                const auto slot = static_cast<size_t>(replica * context + c);
                const int64_t device = slot < stage.devices.size() ? stage.devices[slot] : static_cast<int64_t>(roles.size());
                roles.push_back({static_cast<int64_t>(s), replica, c, device});
            }
    }
    return roles;
}

namespace {

int64_t contextSize(const StagePlan& stage)
{
    return stage.ulysses * stage.ring;
}

/// Ranks of `other` that handle micro-batch j and whose token interval meets the one of `role`.
std::vector<int64_t> peersOf(const Plan& plan, const std::vector<RankRole>& roles, const RankRole& role, int64_t other, int64_t j)
{
    const StagePlan& mine = plan.stages[static_cast<size_t>(role.stage)];
    const StagePlan& theirs = plan.stages[static_cast<size_t>(other)];
    const bool sameSize = contextSize(mine) == contextSize(theirs);
    const bool known = !mine.cuts.empty() && !theirs.cuts.empty();
    std::vector<int64_t> peers;
    for (size_t r = 0; r < roles.size(); ++r) {
        const RankRole& peer = roles[r];
        if (peer.stage != other || j % theirs.replicas != peer.replica)
            continue;
        bool meets = !sameSize || peer.context == role.context;
        if (known) {
            const auto a = static_cast<size_t>(role.context), b = static_cast<size_t>(peer.context);
            meets = std::max(mine.cuts[a], theirs.cuts[b]) < std::min(mine.cuts[a + 1], theirs.cuts[b + 1]);
        }
        if (meets)
            peers.push_back(static_cast<int64_t>(r));
    }
    return peers;
}

/// Order of forwards and backwards of one rank as (is forward, micro-batch). `warm` forwards first, then strict alternation.
std::vector<std::pair<bool, int64_t>> passOrder(const std::vector<int64_t>& mine, int64_t warm)
{
    std::vector<std::pair<bool, int64_t>> order;
    const auto count = static_cast<int64_t>(mine.size());
    const int64_t first = std::min(warm, count);
    for (int64_t k = 0; k < first; ++k)
        order.emplace_back(true, mine[static_cast<size_t>(k)]);
    for (int64_t k = 0; k < count; ++k) {
        order.emplace_back(false, mine[static_cast<size_t>(k)]);
        if (first + k < count)
            order.emplace_back(true, mine[static_cast<size_t>(first + k)]);
    }
    return order;
}

/// Forwards in flight before the first backward: 1F1B caps them at ceil(sum of replicas from here on / own replicas), which
/// is p - s for equal replicas; GPipe runs all of them.
int64_t warmUp(const Plan& plan, int64_t stage)
{
    if (plan.schedule == PipelineSchedule::GPipe)
        return plan.microBatches;
    int64_t behind = 0;
    for (size_t t = static_cast<size_t>(stage); t < plan.stages.size(); ++t)
        behind += plan.stages[t].replicas;
    const int64_t own = plan.stages[static_cast<size_t>(stage)].replicas;
    return (behind + own - 1) / own;
}

Result<Ok> schedulable(const Plan& plan)
{
    if (plan.schedule != PipelineSchedule::GPipe && plan.schedule != PipelineSchedule::OneF1B)
        return Error{ErrorCode::Unsupported, fmt::format("plan: schedule.kind: {} has no action lists yet; use gpipe or 1f1b",
                                                         pipelineScheduleName(plan.schedule))};
    for (const StagePlan& stage : plan.stages)
        if (stage.replicas < 1 || contextSize(stage) < 1 || plan.microBatches < 1 || plan.microBatches % stage.replicas != 0)
            return Error{ErrorCode::InvalidInput, fmt::format("plan: stages: {} replicas do not divide {} micro-batches",
                                                              stage.replicas, plan.microBatches)};
    return Ok{};
}

std::vector<Action> actionsOf(const Plan& plan, const std::vector<RankRole>& roles, const RankRole& role)
{
    const StagePlan& stage = plan.stages[static_cast<size_t>(role.stage)];
    const auto last = static_cast<int64_t>(plan.stages.size()) - 1;
    std::vector<int64_t> mine;
    for (int64_t j = role.replica; j < plan.microBatches; j += stage.replicas)
        mine.push_back(j);
    std::vector<Action> actions;
    const auto exchange = [&](ActionKind kind, int64_t other, int64_t j) {
        for (int64_t peer : peersOf(plan, roles, role, other, j))
            actions.push_back({kind, j, role.stage, peer});
    };
    for (const auto& [forward, j] : passOrder(mine, warmUp(plan, role.stage))) {
        const int64_t from = forward ? role.stage - 1 : role.stage + 1, to = forward ? role.stage + 1 : role.stage - 1;
        if (from >= 0 && from <= last)
            exchange(ActionKind::Receive, from, j);
        actions.push_back({forward ? ActionKind::Forward : ActionKind::Backward, j, role.stage, -1});
        if (to >= 0 && to <= last)
            exchange(ActionKind::Send, to, j);
    }
    if (stage.replicas * contextSize(stage) > 1)
        actions.push_back({ActionKind::Reduce, -1, role.stage, -1});
    actions.push_back({ActionKind::Step, -1, role.stage, -1});
    return actions;
}

/// The action graph: one node per action, a send and its receive are one node (rendezvous); edges along the compute, send and
/// receive lanes of each rank and along data (receive before pass before send).
class ActionGraph {
  public:
    explicit ActionGraph(const std::vector<std::vector<Action>>& lists) : lists_(lists)
    {
        for (size_t r = 0; r < lists.size(); ++r)
            addRank(static_cast<int64_t>(r));
    }
    Result<Ok> prove() const;

  private:
    using Transfer = std::tuple<int64_t, int64_t, int64_t>; // from, to, micro-batch
    int64_t nodeOf(int64_t rank, size_t index);
    void addRank(int64_t rank);
    void link(int64_t from, int64_t to)
    {
        if (from >= 0)
            edges_.emplace_back(from, to);
    }

    const std::vector<std::vector<Action>>& lists_;
    std::map<Transfer, int64_t> transfers_;
    std::vector<std::string> names_;
    std::vector<int> halves_; // 2 = not a transfer or both halves seen
    std::vector<std::pair<int64_t, int64_t>> edges_;
};

int64_t ActionGraph::nodeOf(int64_t rank, size_t index)
{
    const Action& action = lists_[static_cast<size_t>(rank)][index];
    const bool send = action.kind == ActionKind::Send, receive = action.kind == ActionKind::Receive;
    if (send || receive) {
        const Transfer key{send ? rank : action.peer, send ? action.peer : rank, action.microBatch};
        const auto found = transfers_.find(key);
        if (found != transfers_.end()) {
            halves_[static_cast<size_t>(found->second)] = 2;
            return found->second;
        }
        transfers_[key] = static_cast<int64_t>(names_.size());
    }
    names_.push_back(fmt::format("rank {} {} {}", rank, actionName(action.kind), action.microBatch));
    halves_.push_back(send || receive ? 1 : 2);
    return static_cast<int64_t>(names_.size()) - 1;
}

void ActionGraph::addRank(int64_t rank)
{
    int64_t compute = -1, sent = -1, received = -1;
    std::vector<int64_t> waiting; // receives that the next pass consumes
    for (size_t i = 0; i < lists_[static_cast<size_t>(rank)].size(); ++i) {
        const int64_t node = nodeOf(rank, i);
        switch (lists_[static_cast<size_t>(rank)][i].kind) {
        case ActionKind::Receive:
            link(received, node);
            received = node;
            waiting.push_back(node);
            break;
        case ActionKind::Send:
            link(sent, node);
            link(compute, node);
            sent = node;
            break;
        default:
            link(compute, node);
            for (int64_t before : waiting)
                link(before, node);
            waiting.clear();
            compute = node;
        }
    }
}

Result<Ok> ActionGraph::prove() const
{
    for (size_t i = 0; i < names_.size(); ++i)
        if (halves_[i] != 2)
            return Error{ErrorCode::Internal, "schedule: " + names_[i] + ": transfer without its other side"};
    std::vector<int64_t> open(names_.size(), 0), ready;
    std::vector<std::vector<int64_t>> next(names_.size());
    for (const auto& [from, to] : edges_) {
        ++open[static_cast<size_t>(to)];
        next[static_cast<size_t>(from)].push_back(to);
    }
    for (size_t i = 0; i < open.size(); ++i)
        if (open[i] == 0)
            ready.push_back(static_cast<int64_t>(i));
    size_t done = 0;
    for (; done < ready.size(); ++done)
        for (int64_t to : next[static_cast<size_t>(ready[done])])
            if (--open[static_cast<size_t>(to)] == 0)
                ready.push_back(to);
    if (done == names_.size())
        return Ok{};
    std::string cycle;
    for (size_t i = 0, shown = 0; i < open.size() && shown < 6; ++i)
        if (open[i] > 0) {
            cycle += (shown++ ? ", " : "") + names_[i];
        }
    return Error{ErrorCode::Internal, "schedule: actions wait for each other: " + cycle};
}

} // namespace

Result<std::vector<Action>> rankActions(const Plan& plan, int64_t rank)
{
    MEGAGRAPH_TRY(std::ignore, schedulable(plan));
    const auto roles = rankRoles(plan);
    if (rank < 0 || rank >= static_cast<int64_t>(roles.size()))
        return Error{ErrorCode::InvalidInput, fmt::format("schedule: rank {}: the plan has {} ranks", rank, roles.size())};
    return actionsOf(plan, roles, roles[static_cast<size_t>(rank)]);
}

Result<Ok> proveNoDeadlock(const Plan& plan)
{
    MEGAGRAPH_TRY(std::ignore, schedulable(plan));
    const auto roles = rankRoles(plan);
    std::vector<std::vector<Action>> lists;
    for (const RankRole& role : roles)
        lists.push_back(actionsOf(plan, roles, role));
    return ActionGraph(lists).prove();
}

} // namespace megagraph
