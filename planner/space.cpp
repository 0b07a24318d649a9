// SPDX-License-Identifier: Apache-2.0
#include "planner/space.h"

#include "core/bias_storage.h"
#include "core/plan_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace megagraph::planner {

namespace {

struct Knobs {
    int64_t replicas = 1, ring = 1, ulysses = 1;
    Exchange exchange = Exchange::None;
    Recompute recompute = Recompute::None;
    Zero zero = Zero::Z0;
    AttentionPath attention = AttentionPath::Fused;
};

Plan makePlan(const Problem& problem, const Knobs& knobs)
{
    Plan plan;
    plan.datasetName = problem.dataset.name;
    plan.datasetHash = problem.dataset.contentHash;
    plan.model = problem.model;
    plan.cluster = problem.cluster;
    plan.mode = problem.model.sequenceMode;
    const bool clusters = plan.mode == SequenceMode::Clusters;
    plan.tokens = clusters && problem.model.sequenceTokens > 0 ? std::min(problem.model.sequenceTokens, problem.dataset.nodes)
                                                               : problem.dataset.nodes;
    plan.order = problem.stats.order;
    plan.partitionSeed = problem.stats.partitionSeed;
    plan.microBatches = clusters ? std::max<int64_t>(1, int64_t(problem.stats.sequences.size())) : 1;
    plan.attention = knobs.attention;
    plan.bias = usualBiasPolicy(problem.model.hops);
    StagePlan stage;
    stage.lastLayer = problem.model.blocks + 2;
    stage.replicas = knobs.replicas;
    stage.ring = knobs.ring;
    stage.ulysses = knobs.ulysses;
    stage.exchange = knobs.exchange;
    stage.recompute = knobs.recompute;
    stage.zero = knobs.zero;
    for (int64_t device = 0; device < knobs.replicas * knobs.ring * knobs.ulysses; ++device)
        stage.devices.push_back(device);
    const auto context = problem.stats.contexts.find(knobs.ring * knobs.ulysses);
    if (plan.mode == SequenceMode::Full && context != problem.stats.contexts.end() && knobs.ring * knobs.ulysses > 1)
        stage.cuts = context->second.cuts;
    plan.stages = {stage};
    plan.name = planName(plan);
    return plan;
}

std::vector<Exchange> exchangesFor(AttentionKind kind)
{
    switch (kind) {
    case AttentionKind::Dense: return {Exchange::Ring, Exchange::Gather};
    case AttentionKind::Edges: return {Exchange::Gather};
    case AttentionKind::Linear: return {Exchange::Reduce};
    }
    return {};
}

std::vector<Candidate> baselines(const Problem& problem, int64_t ranks)
{
    std::vector<Candidate> rows;
    const auto add = [&](const char* name, const Knobs& knobs) { rows.push_back({makePlan(problem, knobs), name}); };
    Knobs replicated;
    replicated.replicas = ranks;
    Knobs sharded = replicated;
    sharded.zero = Zero::Z2;
    Knobs heads;
    heads.ulysses = ranks;
    heads.exchange = ranks > 1 ? Exchange::Ulysses : Exchange::None;
    Knobs dense;
    dense.attention = AttentionPath::Materialised;
    add("serial", {});
    add("data-parallel", replicated);
    add("zero-2", sharded);
    add("ulysses", heads);
    add("materialised", dense);
    return rows;
}

} // namespace

std::vector<Candidate> planCandidates(const Problem& problem)
{
    int64_t ranks = int64_t(problem.cluster.devices().size());
    if (problem.constraints.ranks > 0)
        ranks = std::min(ranks, problem.constraints.ranks);
    std::vector<Candidate> rows = baselines(problem, ranks);
    std::set<std::string> seen;
    for (const Candidate& row : rows)
        seen.insert(planHash(row.plan));
    const AttentionKind kind = attentionKind(problem.model);
    std::vector<AttentionPath> paths{AttentionPath::Fused};
    if (kind == AttentionKind::Dense)
        paths.push_back(AttentionPath::Materialised);
    for (int64_t replicas = 1; replicas <= ranks; ++replicas)
        for (int64_t context = 1; replicas * context <= ranks; ++context)
            for (const Exchange exchange : context > 1 ? exchangesFor(kind) : std::vector<Exchange>{Exchange::None})
                for (const AttentionPath path : paths)
                    for (const Recompute recompute : {Recompute::None, Recompute::Block}) {
                        Plan plan = makePlan(problem, {replicas, context, 1, exchange, recompute, Zero::Z0, path});
                        if (checkPlan(plan, problem.dataset).ok() && seen.insert(planHash(plan)).second)
                            rows.push_back({std::move(plan), ""});
                    }
    return rows;
}

const std::vector<std::string>& knobNames()
{
    static const std::vector<std::string> names{"mode", "tokens", "micro_batches", "schedule", "chunks", "stages", "ranks",
                                                "precision", "attention", "bias", "order", "replicas", "ulysses", "ring",
                                                "exchange", "zero", "recompute", "device_type"};
    return names;
}

std::string knobValue(const Plan& plan, const std::string& knob)
{
    if (knob == "mode") return sequenceModeName(plan.mode);
    if (knob == "tokens") return std::to_string(plan.tokens);
    if (knob == "micro_batches") return std::to_string(plan.microBatches);
    if (knob == "schedule") return pipelineScheduleName(plan.schedule);
    if (knob == "chunks") return std::to_string(plan.chunks);
    if (knob == "stages") return std::to_string(plan.stages.size());
    if (knob == "ranks") return std::to_string(plan.world());
    if (knob == "precision") return precisionName(plan.precision);
    if (knob == "attention") return attentionPathName(plan.attention);
    if (knob == "bias") return biasPolicyName(plan.bias);
    if (knob == "order") return plan.order;
    if (plan.stages.empty())
        return "";
    const StagePlan& stage = plan.stages.front();
    if (knob == "replicas") return std::to_string(stage.replicas);
    if (knob == "ulysses") return std::to_string(stage.ulysses);
    if (knob == "ring") return std::to_string(stage.ring);
    if (knob == "exchange") return exchangeName(stage.exchange);
    if (knob == "zero") return zeroName(stage.zero);
    if (knob == "recompute") return recomputeName(stage.recompute);
    const auto devices = plan.cluster.devices();
    if (knob == "device_type" && !stage.devices.empty() && size_t(stage.devices.front()) < devices.size()) {
        const DeviceSpec& device = devices[size_t(stage.devices.front())];
        return device.preset.empty() ? device.kind : device.preset;
    }
    return "";
}

std::string forbiddenBy(const ConstraintsSpec& constraints, const Plan& plan)
{
    for (const auto& [knob, values] : constraints.allow) {
        const std::string value = knobValue(plan, knob);
        if (std::find(values.begin(), values.end(), value) == values.end())
            return fmt::format("not allowed: {} = {}, the constraints allow {}", knob, value, fmt::join(values, ", "));
    }
    return "";
}

int knobDistance(const Plan& a, const Plan& b)
{
    int distance = 0;
    const auto differ = [&](const char* knob, int weight) { distance += knobValue(a, knob) == knobValue(b, knob) ? 0 : weight; };
    for (const char* knob : {"micro_batches", "tokens", "recompute", "zero", "bias", "attention"})
        differ(knob, 1);
    for (const char* knob : {"exchange", "replicas", "ring", "ulysses"})
        differ(knob, 2);
    differ("stages", 3);
    return distance;
}

int mechanisms(const Plan& plan)
{
    int count = plan.stages.size() > 1 ? 1 : 0;
    for (const StagePlan& stage : plan.stages)
        count += (stage.replicas > 1) + (stage.ring > 1) + (stage.ulysses > 1) + (stage.zero != Zero::Z0) + (stage.recompute != Recompute::None);
    return count + (plan.attention == AttentionPath::Materialised ? 1 : 0);
}

} // namespace megagraph::planner
