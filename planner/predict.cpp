// SPDX-License-Identifier: Apache-2.0
#include "planner/predict.h"

#include "core/exchange_volume.h"
#include "core/precision.h"
#include "core/schedule.h"
#include "core/units.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <tuple>

namespace megagraph::planner {

namespace {

constexpr double kAssumedSpread = 0.08;
constexpr double kUncalibrated = 0.20; // least half-width of a step without calibration runs

int64_t& at(TimeNs& terms, TimeTerm term)
{
    return terms[size_t(term)];
}

int64_t total(const TimeNs& terms)
{
    return std::accumulate(terms.begin(), terms.end(), int64_t(0));
}

int64_t contextSize(const StagePlan& stage)
{
    return stage.ulysses * stage.ring;
}

/// Sums estimates with their origins and keeps the time terms beside them.
struct Clock {
    Estimate sum;
    TimeNs terms{};

    void add(const Estimate& e, TimeTerm term)
    {
        sum = sum + e;
        at(terms, term) += e.value;
    }
    void addLayer(const PassCost& pass, TimeTerm rest)
    {
        sum = sum + pass.time;
        at(terms, TimeTerm::Attention) += pass.attentionNs;
        at(terms, TimeTerm::Exchange) += pass.exchangeNs;
        at(terms, rest) += pass.time.value - pass.attentionNs - pass.exchangeNs;
    }
    void addTimes(const Clock& other)
    {
        sum = sum + other.sum;
        for (size_t i = 0; i < terms.size(); ++i)
            terms[i] += other.terms[i];
    }
};

/// The layers of one micro-batch on one replica, and its shards.
struct MicroBatch {
    std::vector<Shard> shards;
    BlockQuery query;
    LayerCost embed, block, head;
};

MicroBatch microBatchCost(const Problem& problem, const CostModel& cost, const Plan& plan, const SequenceStats& sequence)
{
    const StagePlan& stage = plan.stages.front();
    MicroBatch micro;
    micro.shards = shardsOf(problem, sequence, stage);
    const int64_t busy = plan.world();
    micro.query = {plan.attention, stage.exchange, stage.recompute, busy, micro.shards};
    micro.embed = cost.embed(micro.query);
    micro.block = cost.block(micro.query);
    micro.head = cost.head(micro.query);
    return micro;
}

Clock microBatchTime(const MicroBatch& micro, int64_t blocks)
{
    Clock clock;
    for (const PassCost* pass : {&micro.embed.forward, &micro.embed.backward, &micro.head.forward, &micro.head.backward})
        clock.addLayer(*pass, TimeTerm::EmbedHead);
    for (int64_t b = 0; b < blocks; ++b) {
        clock.addLayer(micro.block.forward, TimeTerm::Block);
        clock.addLayer(micro.block.backward, TimeTerm::Block);
    }
    return clock;
}

struct Peak { int64_t activations = 0, workspace = 0; std::string action; };

/// Walks forward, then backward, over the layers of one micro-batch; `share` = this rank's rows of the widest rank's rows.
Peak peakOf(const MicroBatch& micro, int64_t blocks, double share)
{
    const auto own = [&](const Estimate& e) { return int64_t(std::ceil(double(e.value) * share)); };
    Peak peak;
    int64_t live = 0;
    const auto consider = [&](int64_t transient, const std::string& action) {
        if (live + transient > peak.activations + peak.workspace)
            peak = {live, transient, action};
    };
    const auto layer = [&](int64_t l) -> const LayerCost& { return l == 0 ? micro.embed : l <= blocks ? micro.block : micro.head; };
    const auto name = [&](int64_t l) { return l == 0 ? std::string("embed") : l <= blocks ? fmt::format("block {}", l - 1) : std::string("head"); };
    for (int64_t l = 0; l < blocks + 2; ++l) {
        live += own(layer(l).saved);
        consider(own(layer(l).forwardPeak), "forward of " + name(l));
    }
    for (int64_t l = blocks + 1; l >= 0; --l) {
        consider(own(layer(l).backwardPeak), "backward of " + name(l));
        live -= own(layer(l).saved);
    }
    return peak;
}

/// Weights, gradients (one flat tensor) and optimizer moments by the table of core/precision.
void addStates(const CostModel& cost, const Plan& plan, MemoryBytes& bytes)
{
    const StateBytes state = stateBytes(plan.precision, plan.model.optimizerKind);
    int64_t elements = 0;
    for (const ParameterSpec& parameter : cost.layout()) {
        elements += parameter.elements();
        bytes[size_t(MemoryCategory::Weights)] += roundedBytes(parameter.elements() * state.weight);
        bytes[size_t(MemoryCategory::Optimizer)] += roundedBytes(parameter.elements() * state.optimizer);
    }
    bytes[size_t(MemoryCategory::Gradients)] = roundedBytes(elements * state.gradient);
    const StagePlan& stage = plan.stages.front();
    const int64_t group = stage.zero == Zero::Z0 ? 1 : stage.zero == Zero::Hsdp ? stage.shardGroup : stage.replicas * contextSize(stage);
    const auto shard = [&](MemoryCategory category) { bytes[size_t(category)] = (bytes[size_t(category)] + group - 1) / std::max<int64_t>(1, group); };
    if (stage.zero >= Zero::Z1)
        shard(MemoryCategory::Optimizer);
    if (stage.zero >= Zero::Z2)
        shard(MemoryCategory::Gradients);
    if (stage.zero >= Zero::Z3)
        shard(MemoryCategory::Weights);
}

int64_t parametersOf(const CostModel& cost)
{
    return parameterCount(cost.layout());
}

} // namespace

std::vector<SequenceStats> planSequences(const Problem& problem)
{
    const GraphStats& stats = problem.stats;
    if (problem.model.sequenceMode == SequenceMode::Clusters && !stats.sequences.empty())
        return stats.sequences;
    return {{stats.nodes, stats.entries, stats.nearPairs, stats.touchedTiles, stats.labelledItems}};
}

std::vector<Shard> shardsOf(const Problem& problem, const SequenceStats& sequence, const StagePlan& stage)
{
    const int64_t parts = contextSize(stage);
    const int64_t token = problem.model.graphToken && attentionKind(problem.model) == AttentionKind::Dense ? 1 : 0;
    std::vector<Shard> shards;
    const auto known = problem.stats.contexts.find(parts);
    const bool full = problem.model.sequenceMode != SequenceMode::Clusters && known != problem.stats.contexts.end();
    for (int64_t c = 0; c < parts; ++c) {
        Shard shard;
        shard.keys = sequence.tokens;
        if (full && (stage.cuts.empty() || stage.cuts == known->second.cuts)) {
            const ContextStats& context = known->second;
            shard.rows = context.tokens[size_t(c)];
            shard.entries = context.edges[size_t(c)];
            for (int64_t j = 0; j < parts && !context.nearPairs.empty(); ++j) {
                shard.nearPairs += context.nearPairs[size_t(c * parts + j)];
                shard.tiles += context.touchedTiles[size_t(c * parts + j)];
            }
        } else {
            const int64_t begin = stage.cuts.empty() ? sequence.tokens * c / parts : stage.cuts[size_t(c)];
            const int64_t end = stage.cuts.empty() ? sequence.tokens * (c + 1) / parts : stage.cuts[size_t(c + 1)];
            const double share = sequence.tokens > 0 ? double(end - begin) / double(sequence.tokens) : 0;
            shard.rows = end - begin;
            shard.entries = int64_t(std::llround(double(sequence.entries) * share));
            shard.nearPairs = int64_t(std::llround(double(sequence.nearPairs) * share));
            shard.tiles = int64_t(std::llround(double(sequence.touchedTiles) * share));
        }
        shards.push_back(shard);
    }
    shards.back().rows += token; // the graph token sits behind the last node
    for (Shard& shard : shards)
        shard.keys += token;
    return shards;
}

int64_t usableBytes(const Problem& problem, int64_t device)
{
    const auto devices = problem.cluster.devices();
    if (device < 0 || device >= int64_t(devices.size()))
        return 0;
    const DeviceSpec& spec = devices[size_t(device)];
    int64_t budget = problem.constraints.budgetBytes > 0 ? problem.constraints.budgetBytes : spec.memoryBytes;
    if (spec.memoryBytes > 0)
        budget = std::min(budget, spec.memoryBytes);
    return int64_t(double(budget - spec.keptFreeBytes) * (1 - problem.constraints.keptFreeShare));
}

double fitProbability(int64_t peakBytes, int64_t usable)
{
    if (usable <= 0 || peakBytes <= 0)
        return 0;
    const double b = std::log(double(usable) / double(peakBytes));
    return 0.5 * std::erfc(-b / kAssumedSpread / std::sqrt(2.0));
}

int64_t usableForFit(int64_t peakBytes, double leastPFit)
{
    double low = -8, high = 8; // standard deviations
    for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (0.5 * std::erfc(-middle / std::sqrt(2.0)) < leastPFit ? low : high) = middle;
    }
    return int64_t(std::ceil(double(peakBytes) * std::exp(std::max(0.0, high) * kAssumedSpread)));
}

int64_t budgetForUsable(const Problem& problem, int64_t device, int64_t usable)
{
    const auto devices = problem.cluster.devices();
    const int64_t kept = device >= 0 && device < int64_t(devices.size()) ? devices[size_t(device)].keptFreeBytes : 0;
    return int64_t(std::ceil(double(usable) / (1 - problem.constraints.keptFreeShare))) + kept;
}

int64_t movedBytes(const Problem& problem, const CostModel& cost, const Plan& plan)
{
    const StagePlan& stage = plan.stages.front();
    const ModelSpec& model = plan.model;
    int64_t moved = 0;
    for (const SequenceStats& sequence : planSequences(problem)) {
        std::vector<int64_t> cuts{0};
        for (const Shard& shard : shardsOf(problem, sequence, stage))
            cuts.push_back(cuts.back() + shard.rows);
        for (int64_t c = 0; c + 1 < int64_t(cuts.size()); ++c) {
            const ExchangeBytes block = exchangeBytes(stage.exchange, cuts, c, model.width, model.heads, headWidth(model), elementBytes(plan.precision));
            moved += (block.forward + block.backward) * model.blocks;
            if (stage.exchange == Exchange::Reduce) {
                const ExchangeBytes rows = convolutionBytes(cuts, c, model.width, elementBytes(plan.precision));
                moved += (rows.forward + rows.backward) * model.gcnLayers;
            }
        }
    }
    const int64_t ranks = plan.world();
    return moved + (ranks > 1 ? ranks * 4 * parametersOf(cost) : 0);
}

namespace {

struct Times {
    std::vector<Clock> replicas;
    Clock tail; // reduce, update, host
    size_t slowest = 0;
};

Times stepTimes(const CostModel& cost, const Plan& plan, const std::vector<MicroBatch>& micros)
{
    const StagePlan& stage = plan.stages.front();
    Times times;
    times.replicas.resize(size_t(stage.replicas));
    for (size_t j = 0; j < micros.size(); ++j)
        times.replicas[j % size_t(stage.replicas)].addTimes(microBatchTime(micros[j], plan.model.blocks));
    for (size_t r = 0; r < times.replicas.size(); ++r)
        if (times.replicas[r].sum.value > times.replicas[times.slowest].sum.value)
            times.slowest = r;
    const int64_t ranks = plan.world(), parameters = parametersOf(cost);
    if (ranks > 1)
        times.tail.add(cost.collective("all_reduce", ranks, 4 * double(parameters)), TimeTerm::Exchange);
    times.tail.add(cost.update(parameters, ranks), TimeTerm::Update);
    times.tail.add(cost.host(ranks), TimeTerm::Host);
    return times;
}

/// Own work of one rank; what is missing to the step is waiting.
TimeNs rankTerms(const Times& times, const RankRole& role, const CostModel& cost, const MicroBatch& first, int64_t step)
{
    TimeNs terms = times.replicas[size_t(role.replica)].terms;
    const double share = cost.workShare(first.query, size_t(role.context));
    for (const TimeTerm term : {TimeTerm::Attention, TimeTerm::Block, TimeTerm::EmbedHead})
        at(terms, term) = int64_t(std::llround(double(at(terms, term)) * share));
    for (size_t i = 0; i < terms.size(); ++i)
        terms[i] += times.tail.terms[i];
    at(terms, TimeTerm::Bubble) = step - total(terms);
    return terms;
}

RankPrediction rankMemory(const CostModel& cost, const Plan& plan, const std::vector<MicroBatch>& micros,
                          const RankRole& role, int64_t rank, std::string& action)
{
    const StagePlan& stage = plan.stages.front();
    RankPrediction out;
    out.rank = rank;
    addStates(cost, plan, out.categories);
    Peak worst;
    int64_t topology = 0;
    for (size_t j = size_t(role.replica); j < micros.size(); j += size_t(stage.replicas)) {
        const MicroBatch& micro = micros[j];
        int64_t widest = 1;
        for (const Shard& shard : micro.shards)
            widest = std::max(widest, shard.rows);
        const Shard& own = micro.shards[size_t(role.context)];
        const Peak peak = peakOf(micro, plan.model.blocks, double(own.rows) / double(widest));
        if (peak.activations + peak.workspace > worst.activations + worst.workspace)
            worst = peak;
        topology += cost.sequenceBytes(own, plan.attention, plan.bias, stage.exchange, contextSize(stage), plan.world()).value;
    }
    out.categories[size_t(MemoryCategory::Activations)] = worst.activations;
    out.categories[size_t(MemoryCategory::Workspace)] = worst.workspace;
    out.categories[size_t(MemoryCategory::Topology)] = topology;
    out.categories[size_t(MemoryCategory::Base)] = cost.base().value;
    out.peakBytes = std::accumulate(out.categories.begin(), out.categories.end(), int64_t(0));
    action = worst.action;
    return out;
}

std::vector<std::string> notesOf(const Plan& plan, const MicroBatch& micro, const Times& times)
{
    const auto line = [](const char* what, const Estimate& e) {
        return fmt::format("{}: {} ± {:.0f} % ({})", what, durationText(e.value), 100 * e.halfWidth, provenanceName(e.worst));
    };
    std::vector<std::string> notes;
    notes.push_back(line("embed forward", micro.embed.forward.time));
    notes.push_back(line("embed backward", micro.embed.backward.time));
    notes.push_back(line("one block forward", micro.block.forward.time));
    notes.push_back(line("one block backward", micro.block.backward.time));
    notes.push_back(line("head and loss forward", micro.head.forward.time));
    notes.push_back(line("head and loss backward", micro.head.backward.time));
    notes.push_back(line("sum of gradients, update, host", times.tail.sum));
    notes.push_back(fmt::format("one block keeps {} ({}), {} more in backward ({})", bytesText(micro.block.saved.value),
                                provenanceName(micro.block.saved.worst), bytesText(micro.block.backwardPeak.value),
                                provenanceName(micro.block.backwardPeak.worst)));
    notes.push_back(fmt::format("step = {} micro-batches on {} replicas x (embed + {} blocks + head), then sum, update, host",
                                plan.microBatches, plan.stages.front().replicas, plan.model.blocks));
    return notes;
}

} // namespace

Result<Prediction> predictWith(const Problem& problem, const CostModel& cost, const Plan& plan)
{
    if (plan.stages.size() != 1 || plan.world() < 1)
        return Error{ErrorCode::Unsupported, fmt::format("prediction: {} stages: this version predicts plans of one stage", plan.stages.size())};
    const auto sequences = planSequences(problem);
    std::vector<MicroBatch> micros;
    for (const SequenceStats& sequence : sequences)
        micros.push_back(microBatchCost(problem, cost, plan, sequence));
    const Times times = stepTimes(cost, plan, micros);
    Clock step = times.replicas[times.slowest];
    step.addTimes(times.tail);

    Prediction out;
    out.summary.profileId = problem.profile ? problem.profile->id : "";
    out.summary.match = problem.profile ? problem.match : "none";
    out.summary.stepNs = step.sum.value;
    out.summary.terms = step.terms;
    out.share = step.sum.share;
    const double width = std::max(kUncalibrated, step.sum.halfWidth);
    out.summary.stepLoNs = int64_t(std::llround(double(step.sum.value) * std::exp(-width)));
    out.summary.stepHiNs = int64_t(std::llround(double(step.sum.value) * std::exp(width)));
    out.summary.pFit = 1;
    const auto roles = rankRoles(plan);
    for (size_t r = 0; r < roles.size(); ++r) {
        std::string action;
        out.summary.ranks.push_back(rankMemory(cost, plan, micros, roles[r], int64_t(r), action));
        out.peakAction.push_back(action);
        out.rankTerms.push_back(rankTerms(times, roles[r], cost, micros[size_t(roles[r].replica) % micros.size()], step.sum.value));
        out.summary.pFit = std::min(out.summary.pFit, fitProbability(out.summary.ranks.back().peakBytes, usableBytes(problem, roles[r].device)));
    }
    out.notes = notesOf(plan, micros.front(), times);
    return out;
}

Result<Prediction> predict(const Problem& problem, const Plan& plan)
{
    MEGAGRAPH_TRY(const CostModel cost, CostModel::build(problem));
    return predictWith(problem, cost, plan);
}

} // namespace megagraph::planner
