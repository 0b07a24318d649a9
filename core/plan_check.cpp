// SPDX-License-Identifier: Apache-2.0
#include "core/plan_check.h"

#include "core/bias_storage.h"
#include "core/schedule.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

namespace megagraph {

namespace {

Error illegal(const std::string& place, const std::string& what)
{
    return {ErrorCode::InvalidInput, "plan: " + place + ": " + what};
}

Error notYet(const std::string& place, const std::string& what)
{
    return {ErrorCode::Unsupported, "plan: " + place + ": " + what};
}

std::string stagePlace(size_t index, const char* key)
{
    return fmt::format("stages[{}].{}", index, key);
}

int64_t contextSize(const StagePlan& stage)
{
    return stage.ulysses * stage.ring;
}

Result<Ok> checkModel(const ModelSpec& model)
{
    if (model.blocks < 1 || model.width < 1 || model.heads < 1)
        return illegal("model", fmt::format("blocks, width and heads must be at least 1, got {}, {}, {}", model.blocks,
                                            model.width, model.heads));
    if (model.kind != Architecture::Sgformer && model.width % model.heads != 0)
        return illegal("model", fmt::format("{} heads do not divide width {}; change heads or width", model.heads, model.width));
    return Ok{};
}

Result<Ok> checkSequence(const Plan& plan, const DatasetSpec& dataset)
{
    if (dataset.nodes < 1)
        return illegal("dataset", "it has no nodes");
    if (plan.mode != SequenceMode::Packs && dataset.graphs != 1)
        return illegal("sequence.mode", fmt::format("{} needs one graph, the data set has {}; use packs",
                                                    sequenceModeName(plan.mode), dataset.graphs));
    if (plan.microBatches < 1)
        return illegal("micro_batches", fmt::format("got {}, expected at least 1", plan.microBatches));
    if (plan.mode == SequenceMode::Full) {
        if (plan.tokens != dataset.nodes)
            return illegal("sequence.tokens", fmt::format("got {}, expected all {} nodes in mode full", plan.tokens, dataset.nodes));
        if (plan.microBatches != 1)
            return illegal("micro_batches", fmt::format("got {}, expected 1: the full graph is one micro-batch", plan.microBatches));
    }
    if (plan.mode == SequenceMode::Clusters) {
        if (plan.tokens < 1 || plan.tokens > dataset.nodes)
            return illegal("sequence.tokens", fmt::format("got {}, expected 1 to {} nodes", plan.tokens, dataset.nodes));
        if (plan.microBatches > dataset.nodes)
            return illegal("micro_batches", fmt::format("got {}, more than the {} nodes", plan.microBatches, dataset.nodes));
    }
    return Ok{};
}

Result<Ok> checkLayers(const Plan& plan)
{
    if (plan.stages.empty())
        return illegal("stages", "there is none, expected at least one");
    int64_t next = 0;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
        const StagePlan& stage = plan.stages[s];
        if (stage.firstLayer != next || stage.lastLayer <= stage.firstLayer)
            return illegal(stagePlace(s, "layers"), fmt::format("got [{}, {}), expected a run of layers that starts at {}",
                                                                stage.firstLayer, stage.lastLayer, next));
        next = stage.lastLayer;
    }
    if (next != plan.model.blocks + 2)
        return illegal("stages", fmt::format("they end at layer {}, expected {} (embed, {} blocks, head)", next,
                                             plan.model.blocks + 2, plan.model.blocks));
    return Ok{};
}

Result<Ok> checkDevices(const Plan& plan)
{
    const auto available = static_cast<int64_t>(plan.cluster.devices().size());
    std::set<int64_t> used;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
        const StagePlan& stage = plan.stages[s];
        if (stage.replicas < 1 || stage.ulysses < 1 || stage.ring < 1)
            return illegal(stagePlace(s, "replicas"), "replicas, ulysses and ring must be at least 1");
        const int64_t need = stage.replicas * contextSize(stage);
        if (static_cast<int64_t>(stage.devices.size()) != need)
            return illegal(stagePlace(s, "devices"), fmt::format("got {}, expected {} (replicas x ulysses x ring)",
                                                                 stage.devices.size(), need));
        for (int64_t device : stage.devices) {
            if (device < 0 || device >= available)
                return illegal(stagePlace(s, "devices"), fmt::format("device {} is not among the {} of the cluster", device, available));
            if (!used.insert(device).second)
                return illegal(stagePlace(s, "devices"), fmt::format("device {} is used twice", device));
        }
    }
    return Ok{};
}

bool exchangeFits(Exchange exchange, AttentionKind kind)
{
    switch (exchange) {
    case Exchange::None: return true;
    case Exchange::Ring:
    case Exchange::Ulysses:
    case Exchange::UlyssesRing: return kind == AttentionKind::Dense;
    case Exchange::Gather: return kind != AttentionKind::Linear;
    case Exchange::Halo: return kind == AttentionKind::Edges;
    case Exchange::Reduce: return kind == AttentionKind::Linear;
    }
    return false;
}

const char* exchangesOf(AttentionKind kind)
{
    switch (kind) {
    case AttentionKind::Dense: return "ring, ulysses, ulysses_ring or gather";
    case AttentionKind::Edges: return "gather or halo";
    case AttentionKind::Linear: return "reduce";
    }
    return "none";
}

Result<Ok> checkExchange(const Plan& plan, size_t index)
{
    const StagePlan& stage = plan.stages[index];
    const AttentionKind kind = attentionKind(plan.model);
    const std::string place = stagePlace(index, "exchange");
    const char* name = exchangeName(stage.exchange);
    if (!exchangeFits(stage.exchange, kind))
        return illegal(place, fmt::format("{} does not serve the attention of {}; use {}", name,
                                          architectureName(plan.model.kind), exchangesOf(kind)));
    if ((stage.exchange == Exchange::None) != (contextSize(stage) == 1))
        return illegal(place, contextSize(stage) == 1
                                  ? fmt::format("{} on 1 context rank has nobody to exchange with; use none", name)
                                  : fmt::format("none on {} context ranks; use {}", contextSize(stage), exchangesOf(kind)));
    const bool heads = stage.exchange == Exchange::Ulysses || stage.exchange == Exchange::UlyssesRing;
    if (stage.ulysses > 1 && !heads)
        return illegal(stagePlace(index, "ulysses"), fmt::format("got {}, expected 1 with exchange {}", stage.ulysses, name));
    if (stage.ring > 1 && stage.exchange == Exchange::Ulysses)
        return illegal(stagePlace(index, "ring"), fmt::format("got {}, expected 1 with exchange ulysses", stage.ring));
    if (stage.exchange == Exchange::UlyssesRing && (stage.ring < 2 || stage.ulysses < 2))
        return illegal(place, "ulysses_ring needs ulysses and ring of at least 2");
    if (heads && plan.model.heads % stage.ulysses != 0)
        return illegal(stagePlace(index, "ulysses"), fmt::format("U = {} does not divide {} heads", stage.ulysses, plan.model.heads));
    return Ok{};
}

Result<Ok> checkCuts(const Plan& plan, size_t index)
{
    const auto& cuts = plan.stages[index].cuts;
    if (cuts.empty())
        return Ok{};
    const std::string place = stagePlace(index, "cuts");
    if (plan.mode != SequenceMode::Full)
        return illegal(place, fmt::format("cuts belong to mode full; leave them out in mode {}", sequenceModeName(plan.mode)));
    const int64_t context = contextSize(plan.stages[index]);
    if (static_cast<int64_t>(cuts.size()) != context + 1 || cuts.front() != 0 || cuts.back() != plan.tokens)
        return illegal(place, fmt::format("expected {} offsets from 0 to {}, got {}{}", context + 1, plan.tokens, cuts.size(),
                                          cuts.empty() ? "" : fmt::format(" from {} to {}", cuts.front(), cuts.back())));
    for (size_t c = 1; c < cuts.size(); ++c)
        if (cuts[c] < cuts[c - 1])
            return illegal(place, fmt::format("offset {} ({}) is below offset {} ({})", c, cuts[c], c - 1, cuts[c - 1]));
    return Ok{};
}

Result<Ok> checkReplicas(const Plan& plan, size_t index)
{
    const StagePlan& stage = plan.stages[index];
    if (stage.replicas > 1 && plan.mode == SequenceMode::Full)
        return illegal(stagePlace(index, "replicas"),
                       fmt::format("{} replicas need {} sequences a step, mode full has 1; set sequence_mode=clusters",
                                   stage.replicas, stage.replicas));
    if (plan.microBatches % stage.replicas != 0)
        return illegal(stagePlace(index, "replicas"),
                       fmt::format("{} replicas do not divide {} micro-batches, so ranks would make unequal numbers of collectives",
                                   stage.replicas, plan.microBatches));
    if (stage.zero == Zero::Hsdp && (stage.shardGroup < 1 || (stage.replicas * contextSize(stage)) % stage.shardGroup != 0))
        return illegal(stagePlace(index, "shard_group"), fmt::format("{} does not divide {} ranks", stage.shardGroup,
                                                                     stage.replicas * contextSize(stage)));
    return Ok{};
}

Result<Ok> checkAttention(const Plan& plan)
{
    if (plan.attention == AttentionPath::Materialised && attentionKind(plan.model) != AttentionKind::Dense)
        return illegal("attention", fmt::format("materialised is a path of dense attention, {} has none; use fused",
                                                architectureName(plan.model.kind)));
    if (attentionKind(plan.model) == AttentionKind::Dense && (plan.model.hops < 0 || plan.model.hops > 27))
        return illegal("model.hops", fmt::format("got {}, expected 0 to 27 (32 bias classes)", plan.model.hops));
    if (attentionKind(plan.model) == AttentionKind::Dense && plan.attention == AttentionPath::Fused && plan.bias == BiasPolicy::Lists &&
        plan.model.hops > kMostListHops)
        return illegal("bias", fmt::format("lists hold at most {} hops, the model has {}; use planes or strips", kMostListHops, plan.model.hops));
    return Ok{};
}

/// What this version's runtime cannot execute although it is legal. The sentence is the row's `why_not`.
Result<Ok> checkRunnableStage(const Plan& plan, size_t index)
{
    const StagePlan& stage = plan.stages[index];
    const char* exchange = exchangeName(stage.exchange);
    if (stage.exchange == Exchange::Ulysses || stage.exchange == Exchange::UlyssesRing || stage.exchange == Exchange::Halo)
        return notYet(stagePlace(index, "exchange"), fmt::format("this version's runtime has no {} exchange yet; use {}", exchange,
                                                                 stage.exchange == Exchange::Halo ? "gather" : "ring or gather"));
    if (stage.zero != Zero::Z0)
        return notYet(stagePlace(index, "zero"), fmt::format("this version's runtime keeps all optimizer state on each rank "
                                                             "(zero 0); zero {} comes later", zeroName(stage.zero)));
    if (stage.recompute == Recompute::Attention)
        return notYet(stagePlace(index, "recompute"), "this version's runtime recomputes whole blocks only; use none or block");
    if (plan.attention == AttentionPath::Materialised && stage.exchange == Exchange::Ring)
        return notYet(stagePlace(index, "exchange"), "materialised attention runs on one context rank or under gather, not under ring");
    return Ok{};
}

Result<Ok> checkRunnable(const Plan& plan)
{
    if (plan.stages.size() > 1)
        return notYet("stages", fmt::format("this version's runtime runs one stage, the plan has {}", plan.stages.size()));
    for (size_t s = 0; s < plan.stages.size(); ++s) {
        MEGAGRAPH_TRY(std::ignore, checkRunnableStage(plan, s));
    }
    if (plan.mode == SequenceMode::Packs)
        return notYet("sequence.mode", "this version's runtime trains node tasks (full, clusters); packs come later");
    if (plan.precision != Precision::Fp32)
        return notYet("precision", "this version's runtime computes in fp32 only");
    if (plan.schedule == PipelineSchedule::Interleaved || plan.schedule == PipelineSchedule::ZeroBubble || plan.chunks != 1)
        return notYet("schedule", "this version's runtime has gpipe and 1f1b with one chunk per stage");
    if (plan.model.edgeEncoding != EdgeEncoding::None)
        return notYet("model.edge_encoding", "this version's runtime has no edge encoding; use none");
    for (const DeviceSpec& device : plan.cluster.devices())
        if (device.kind != "cpu_slot")
            return notYet("cluster", fmt::format("this version's worker runs on CPU slots only, device \"{}\" is a {}", device.name, device.kind));
    return Ok{};
}

} // namespace

Result<Ok> checkPlan(const Plan& plan, const DatasetSpec& dataset)
{
    MEGAGRAPH_TRY(std::ignore, checkModel(plan.model));
    MEGAGRAPH_TRY(std::ignore, checkSequence(plan, dataset));
    MEGAGRAPH_TRY(std::ignore, checkLayers(plan));
    MEGAGRAPH_TRY(std::ignore, checkDevices(plan));
    MEGAGRAPH_TRY(std::ignore, checkAttention(plan));
    for (size_t s = 0; s < plan.stages.size(); ++s) {
        MEGAGRAPH_TRY(std::ignore, checkExchange(plan, s));
        MEGAGRAPH_TRY(std::ignore, checkReplicas(plan, s));
        MEGAGRAPH_TRY(std::ignore, checkCuts(plan, s));
    }
    MEGAGRAPH_TRY(std::ignore, checkRunnable(plan));
    return proveNoDeadlock(plan);
}

} // namespace megagraph
