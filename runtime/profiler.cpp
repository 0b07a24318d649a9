// SPDX-License-Identifier: Apache-2.0
#include "runtime/profiler.h"

#include "core/bias_storage.h"
#include "core/clock.h"
#include "core/event.h"
#include "kernels/graph/token_order.h"
#include "runtime/allocator.h"
#include "runtime/functions/basic.h"
#include "runtime/functions/dense_attention.h"
#include "runtime/functions/edge_attention.h"
#include "runtime/functions/linear_attention.h"
#include "runtime/profiler_measure.h"
#include "runtime/sequence.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <c10/util/Exception.h>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>

namespace megagraph::runtime {
namespace {

template <class T> T need(Result<T> result)
{
    if (!result.ok())
        throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

std::string word(const ProfileJob& job, const char* name, const char* otherwise)
{
    const auto at = job.key.find(name);
    return at == job.key.end() ? otherwise : at->second;
}

int64_t size(const ProfileJob& job, const char* name, int64_t least)
{
    const auto at = job.x.find(name);
    return at == job.x.end() ? least : std::max(least, int64_t(at->second));
}

at::Tensor noise(int64_t rows, int64_t columns, bool gradient)
{
    const MemoryScope scope(MemoryCategory::Activations, "profile", "input");
    at::Tensor x = at::arange(rows * columns, at::kFloat).mul_(0.618f).sin_().reshape({rows, columns}); // no generator needed
    return x.requires_grad_(gradient);
}

/// How a layer is run.
struct Variant {
    Exchange exchange = Exchange::None;
    AttentionPath attention = AttentionPath::Fused;
    Recompute recompute = Recompute::None;
    int64_t contexts = 1, contextRank = 0;
    bool operator==(const Variant&) const = default;
};

/// The graph in token order, and what jobs build from it. The last sequence and model are kept for the next job.
class Workbench {
  public:
    explicit Workbench(WorkerContext& context);

    /// Plan with the variant's stage, one replica.
    Plan planOf(const Variant& variant) const;
    std::unique_ptr<TokenSequence> buildSequenceOf(const Variant& variant, const Plan& plan, int64_t tokens) const;
    const TokenSequence& sequence(const Variant& variant, int64_t tokens);
    GraphModel& model(const Variant& variant);
    FlatGradients& gradients() { return *gradients_; }
    ItemSet trainItems(const TokenSequence& sequence) const;
    /// Frees sequence and model, so that the next bytes counted are its own.
    void clear();

    WorkerContext& context;
    kernels::Csr graph; // in token order
    kernels::TokenOrder order;

  private:
    std::unique_ptr<Plan> sequencePlan_, modelPlan_;
    std::unique_ptr<TokenSequence> sequence_;
    std::pair<Variant, int64_t> sequenceKey_;
    std::unique_ptr<GraphModel> model_;
    std::unique_ptr<FlatGradients> gradients_;
    Variant modelKey_;
};

Workbench::Workbench(WorkerContext& workerContext) : context(workerContext)
{
    const Dataset& data = context.dataset;
    const kernels::CsrView stored{data.nodes(), data.indptr(), data.indices()};
    const kernels::Csr mirrored = data.spec().directed ? kernels::symmetrised(stored) : kernels::Csr{};
    const kernels::CsrView view = data.spec().directed ? mirrored.view() : stored;
    order = need(kernels::cachedTokenOrder(context.home, data.spec().structureHash, view, context.plan.order,
                                           context.plan.partitionSeed, {}, {}));
    graph = kernels::permute(view, order.order);
}

Plan Workbench::planOf(const Variant& variant) const
{
    Plan plan = context.plan;
    StagePlan& stage = plan.stages.at(0);
    stage.replicas = stage.ulysses = 1;
    stage.ring = variant.contexts;
    stage.exchange = variant.contexts > 1 ? variant.exchange : Exchange::None;
    stage.recompute = variant.recompute;
    stage.cuts.clear(); // the cost cut, as a plan takes it
    plan.attention = variant.attention;
    return plan;
}

std::unique_ptr<TokenSequence> Workbench::buildSequenceOf(const Variant& variant, const Plan& plan, int64_t tokens) const
{
    const MemoryScope scope(MemoryCategory::Topology, "sequence", "sequence");
    const SequencePlan shared{&plan, &context.dataset, variant.contextRank, variant.contexts, context.run.threadsPerRank};
    const int64_t count = std::min(tokens, context.dataset.nodes());
    if (count == context.dataset.nodes())
        return buildSequence(shared, graph.view(), order.order, order.component, {});
    std::vector<int32_t> first(static_cast<size_t>(count));
    std::iota(first.begin(), first.end(), 0);
    const kernels::Csr part = kernels::induced(graph.view(), first);
    const std::span<const int32_t> ids(order.order.data(), size_t(count));
    return buildSequence(shared, part.view(), ids, kernels::components(part.view()), {});
}

const TokenSequence& Workbench::sequence(const Variant& variant, int64_t tokens)
{
    Variant key = variant;
    key.recompute = Recompute::None; // makes no difference to a sequence
    if (sequence_ == nullptr || sequenceKey_ != std::pair(key, tokens)) {
        sequence_.reset();
        sequencePlan_ = std::make_unique<Plan>(planOf(key));
        sequence_ = buildSequenceOf(key, *sequencePlan_, tokens);
        sequenceKey_ = {key, tokens};
    }
    return *sequence_;
}

GraphModel& Workbench::model(const Variant& variant)
{
    Variant key = variant;
    key.contextRank = 0;
    if (model_ == nullptr || modelKey_ != key) {
        gradients_.reset();
        model_.reset();
        model_ = makeModel(planOf(key), context.dataset.spec(), context.run.seed, context.run.threadsPerRank);
        gradients_ = std::make_unique<FlatGradients>(model_->parameters(), kStepScalars);
        modelKey_ = key;
    }
    return *model_;
}

ItemSet Workbench::trainItems(const TokenSequence& sequence) const
{
    const auto bits = need(context.dataset.split(context.run.split));
    return selectItems(context.dataset, bits, 1, sequence.originalIds());
}

void Workbench::clear()
{
    sequence_.reset();
    gradients_.reset();
    model_.reset();
}

template <class E> E choice(const std::string& name, std::initializer_list<E> values, const char* (*nameOf)(E), const char* key)
{
    for (const E value : values)
        if (name == nameOf(value))
            return value;
    throw std::runtime_error(fmt::format("run.json: profile.jobs: {}: got \"{}\"; this version does not know it", key, name));
}

Variant variantOf(const ProfileJob& job, const Communicator& group)
{
    Variant variant;
    variant.exchange = choice(word(job, "exchange", "none"),
                              {Exchange::None, Exchange::Ring, Exchange::Gather, Exchange::Reduce}, exchangeName, "exchange");
    variant.attention = choice(word(job, "attention", "fused"), {AttentionPath::Fused, AttentionPath::Materialised},
                               attentionPathName, "attention");
    variant.recompute = choice(word(job, "recompute", "none"), {Recompute::None, Recompute::Block}, recomputeName, "recompute");
    if (variant.exchange != Exchange::None) {
        variant.contexts = group.size();
        variant.contextRank = group.rank();
    }
    return variant;
}

/// Forward and backward of `layer` once, with bytes and times.
std::vector<PhaseSample> forwardBackward(const std::function<at::Tensor()>& forward, Communicator* exchange, double& attention)
{
    std::vector<PhaseSample> phases(2);
    const auto waited = [&] { return exchange != nullptr ? exchange->secondsWaited() : 0.0; };
    const BytesWatch bytes;
    double start = monotonicSeconds(), wait = waited();
    attention = 0;
    at::Tensor out = forward();
    phases[0] = {"forward", monotonicSeconds() - start, bytes.saved(), 0, attention, waited() - wait};
    phases[0].peakBytes = bytes.transient(phases[0].savedBytes);
    at::Tensor gradient = out.dim() == 0 ? at::Tensor() : at::ones_like(out);
    resetMemoryPeak();
    const int64_t kept = memoryState().current;
    attention = 0;
    start = monotonicSeconds();
    wait = waited();
    out.backward(gradient);
    phases[1] = {"backward", monotonicSeconds() - start, 0, std::max<int64_t>(0, memoryState().peak - kept), attention,
                 waited() - wait};
    return phases;
}

JobRun layerJob(Workbench& bench, const ProfileJob& job, Communicator& group)
{
    const Variant variant = variantOf(job, group);
    const std::string name = word(job, "layer", "block");
    const TokenSequence& sequence = bench.sequence(variant, size(job, "n", 1));
    GraphModel& model = bench.model(variant);
    const auto attention = std::make_shared<double>(0.0);
    PassContext pass;
    pass.seed = bench.context.run.seed;
    pass.attentionSeconds = attention.get();
    Communicator* const exchange = variant.contexts > 1 ? &group : nullptr;
    pass.context = exchange;
    const int64_t last = model.layout().back().layer;
    if (name == "embed")
        return {[&model, &sequence, pass, attention, exchange] {
            return forwardBackward(
                [&] {
                    const MemoryScope scope(MemoryCategory::Activations, "embed", nullptr, 0);
                    return model.embed(sequence, pass);
                },
                exchange, *attention);
        }, exchange != nullptr};
    at::Tensor shape;
    {
        const at::NoGradGuard noGradients;
        shape = model.embed(sequence, pass);
    }
    const at::Tensor h = noise(shape.size(0), shape.size(1), true);
    shape.reset();
    if (name == "head") {
        const auto items = std::make_shared<ItemSet>(bench.trainItems(sequence));
        const Loss loss = bench.context.plan.model.loss;
        return {[&model, &sequence, pass, attention, exchange, h, items, loss, last] {
            h.mutable_grad().reset();
            return forwardBackward(
                [&] {
                    const MemoryScope scope(MemoryCategory::Activations, "head", nullptr, last);
                    return lossSum(loss, model.head(h, sequence, pass), *items);
                },
                exchange, *attention);
        }, exchange != nullptr};
    }
    if (name != "block")
        throw std::runtime_error(fmt::format("run.json: profile.jobs: layer: got \"{}\", expected embed, block or head", name));
    std::vector<at::Tensor> used;
    for (size_t p = 0; p < model.layout().size(); ++p)
        if (model.layout()[p].tied || model.layout()[p].layer == 1)
            used.push_back(model.parameters()[p]);
    const bool again = variant.recompute == Recompute::Block;
    return {[&model, &sequence, pass, attention, exchange, h, used, again] {
        h.mutable_grad().reset();
        const auto block = [&model, &sequence, pass](const at::Tensor& x) {
            const MemoryScope scope(MemoryCategory::Activations, "block", nullptr, 1);
            return model.block(0, x, sequence, pass);
        };
        return forwardBackward([&] { return again ? recomputed(block, h, used) : block(h); }, exchange, *attention);
    }, exchange != nullptr};
}

/// Columns below `keys` of the first `rows` rows.
kernels::Csr corner(const kernels::Csr& graph, int64_t rows, int64_t keys)
{
    kernels::Csr part;
    part.indptr.push_back(0);
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t e = graph.indptr[size_t(row)]; e < graph.indptr[size_t(row) + 1]; ++e)
            if (graph.indices[size_t(e)] < keys)
                part.indices.push_back(graph.indices[size_t(e)]);
        part.indptr.push_back(int64_t(part.indices.size()));
    }
    return part;
}

/// Structures of one attention job; the closures keep them alive.
struct AttentionBench {
    DenseTopology dense;
    kernels::Csr rows;
    kernels::Transposed columns;
    kernels::EdgeGraph edges;
    at::Tensor q, k, v, table, classes;
    AttentionOptions options;
};

void buildLists(AttentionBench& bench, const Workbench& work, int64_t queries, int64_t keys, bool lists, bool materialised,
                ProfileJob& job)
{
    const ModelSpec& model = work.context.plan.model;
    DenseTopology& dense = bench.dense;
    dense.hops = int32_t(model.hops);
    dense.classes = int32_t(biasClasses(model));
    dense.cuts = {0, keys};
    dense.components = work.order.component;
    bench.table = at::zeros({model.heads, dense.classes}, at::kFloat).requires_grad_(true);
    const kernels::Csr none{std::vector<int64_t>(work.graph.indptr.size(), 0), {}};
    const kernels::Csr& graph = lists ? work.graph : none; // without edges every pair is far: a bias that costs nothing
    const kernels::SerialFor serial;
    if (!materialised) {
        if (usualBiasPolicy(dense.hops) == BiasPolicy::Lists) {
            kernels::TileLists built = std::move(need(kernels::buildTileLists(graph.view(), dense.hops, 0, queries, dense.cuts, serial, {})).at(0));
            job.x["near_pairs"] = double(built.nearPairs);
            job.x["tiles"] = double(built.touchedTiles);
            dense.stores.emplace_back(std::move(built));
        } else { // every tile is stored, whatever lies in it
            kernels::TilePlanes built = std::move(need(kernels::buildTilePlanes(graph.view(), dense.hops, 0, queries, dense.cuts, {}, serial, {})).at(0));
            job.x["tiles"] = double(built.queryBlocks * built.keyBlocks);
            dense.stores.emplace_back(std::move(built));
        }
        return;
    }
    const MemoryScope scope(MemoryCategory::Topology, "profile", "distance classes of all pairs");
    bench.classes = at::empty({queries, keys}, at::kByte);
    for (int64_t i = 0; i < queries; ++i) {
        const std::vector<uint8_t> row = kernels::plainDistances(graph.view(), i, dense.hops);
        std::copy(row.begin(), row.begin() + keys, bench.classes.mutable_data_ptr<uint8_t>() + i * keys);
    }
}

JobRun attentionJob(Workbench& work, ProfileJob& job)
{
    const ModelSpec& model = work.context.plan.model;
    const std::string path = word(job, "path", "fused");
    const int64_t nodes = work.context.dataset.nodes();
    const int64_t queries = std::min(size(job, "n_q", 1), nodes), keys = std::min(size(job, "n_k", 1), nodes);
    const auto bench = std::make_shared<AttentionBench>();
    const int64_t width = model.kind == Architecture::Sgformer ? model.heads * model.width : model.width;
    bench->q = noise(queries, width, true);
    bench->k = noise(keys, width, true);
    bench->v = noise(keys, width, true);
    const auto attention = std::make_shared<double>(0.0);
    bench->options.heads = int32_t(model.heads);
    bench->options.threads = work.context.run.threadsPerRank;
    bench->options.seconds = attention.get();
    if (path == "fused" || path == "materialised")
        buildLists(*bench, work, queries, keys, word(job, "bias", "lists") == "lists", path == "materialised", job);
    if (path == "edges") {
        bench->rows = corner(work.graph, queries, keys);
        bench->columns = kernels::transposed(bench->rows.view(), keys);
        bench->edges = {queries, keys, bench->rows.indptr, bench->rows.indices, bench->columns.indptr, bench->columns.rows,
                        bench->columns.entries, model.selfLoops && queries <= keys, 0, 0, 0, {}};
        job.x["entries"] = double(bench->rows.indices.size());
    }
    return {[bench, path, attention, heads = model.heads] {
        for (const at::Tensor& leaf : {bench->q, bench->k, bench->v})
            leaf.mutable_grad().reset();
        const auto call = [&]() -> at::Tensor {
            const AttentionBench& b = *bench;
            if (path == "fused")
                return fusedAttention(b.q, b.k, b.v, b.table, b.dense, b.options);
            if (path == "materialised")
                return materialisedAttention(b.q, b.k, b.v, b.table, b.classes, 0, b.options);
            if (path == "edges")
                return edgeAttention(b.q, b.k, b.v, b.edges, b.options);
            if (path == "linear" && b.q.size(0) == b.k.size(0))
                return linearAttention(b.q, b.k, b.v, heads, b.q.size(0), nullptr, b.options.seconds);
            throw std::runtime_error(fmt::format("run.json: profile.jobs: path: got \"{}\", expected fused, materialised, edges or "
                                                 "linear (with n_q = n_k)",
                                                 path));
        };
        return forwardBackward(call, nullptr, *attention);
    }, false};
}

std::vector<PhaseSample> timed(const std::function<void()>& action)
{
    const BytesWatch bytes;
    const double start = monotonicSeconds();
    action();
    PhaseSample sample;
    sample.seconds = monotonicSeconds() - start;
    sample.savedBytes = bytes.saved();
    sample.peakBytes = bytes.transient(sample.savedBytes);
    return {sample};
}

JobRun transferJob(const ProfileJob& job, Communicator& group)
{
    const int64_t ranks = group.size();
    const int64_t numbers = std::max(ranks, size(job, "bytes", 4) / 4);
    std::vector<int64_t> rows(static_cast<size_t>(ranks));
    for (int64_t r = 0; r < ranks; ++r)
        rows[size_t(r)] = numbers * (r + 1) / ranks - numbers * r / ranks;
    const MemoryScope scope(MemoryCategory::Buffers, "profile", "message");
    const std::string op = word(job, "op", "all_reduce");
    const at::Tensor whole = at::ones({numbers}, at::kFloat), other = at::ones({numbers}, at::kFloat);
    const at::Tensor own = at::ones({rows[size_t(group.rank())]}, at::kFloat);
    if (op == "all_reduce")
        return {[&group, other] { return timed([&] { group.allReduce(other.zero_()); }); }, true};
    if (op == "all_gather")
        return {[&group, own, rows] { return timed([&] { group.allGatherRows(own, rows); }); }, true};
    if (op == "reduce_scatter")
        return {[&group, whole, rows] { return timed([&] { group.reduceScatterRows(whole, rows); }); }, true};
    if (op != "ring")
        throw std::runtime_error(fmt::format("run.json: profile.jobs: op: got \"{}\", expected all_reduce, all_gather, "
                                             "reduce_scatter or ring",
                                             op));
    return {[&group, whole, other] {
        return timed([&] {
            group.startRing(whole, other);
            group.waitRing();
        });
    }, true};
}

JobRun optimizerJob(Workbench& bench)
{
    GraphModel& model = bench.model({});
    const ModelSpec& spec = bench.context.plan.model;
    const auto optimizer = std::make_shared<Optimizer>(spec, model.layout(), model.parameters());
    return {[&bench, &spec, optimizer] {
        return timed([&] {
            const double norm = bench.gradients().norm(); // every step reports it, clipped or not
            if (spec.clipNorm > 0)
                bench.gradients().scale(spec.clipNorm / std::max(norm, spec.clipNorm));
            optimizer->step(bench.gradients(), 0.0); // rate 0: the weights stay what they are
        });
    }, false};
}

// What a step does besides layers, reduces and update: zeroing, slices back in place, scalars, the event lines.
JobRun hostJob(Workbench& bench)
{
    GraphModel& model = bench.model({});
    return {[&bench, &model] {
        return timed([&] {
            bench.gradients().zero();
            bench.gradients().reattach(model.parameters());
            for (int64_t i = 0; i < kStepScalars; ++i)
                bench.gradients().extra()[i] = 0;
            std::ignore = rankActions(bench.context.plan, bench.context.rank);
            std::ignore = encodeLine({{"kind", "step"}, {"step_from", 0}, {"loss", {0.5}}, {"lr", {0.1}}, {"step_s", {0.01}}});
        });
    }, false};
}

ProfilePoint memoryPoint(Workbench& bench, const ProfileJob& job, Communicator& group)
{
    const std::string what = word(job, "what", "base");
    int64_t bytes = memoryBase();
    if (what == "sequence") {
        bench.clear();
        const int64_t clean = memoryState().current;
        const Variant variant = variantOf(job, group);
        const Plan plan = bench.planOf(variant);
        const auto sequence = bench.buildSequenceOf(variant, plan, size(job, "n", 1));
        const auto bits = need(bench.context.dataset.split(bench.context.run.split));
        std::vector<ItemSet> items;
        for (const uint8_t bit : {1, 2, 4})
            items.push_back(selectItems(bench.context.dataset, bits, bit, sequence->originalIds()));
        bytes = memoryState().current - clean;
    } else if (what == "state") {
        bench.clear();
        const int64_t clean = memoryState().current;
        GraphModel& model = bench.model({});
        const Optimizer optimizer(bench.context.plan.model, model.layout(), model.parameters());
        bytes = memoryState().current - clean;
    } else if (what != "base") {
        throw std::runtime_error(fmt::format("run.json: profile.jobs: what: got \"{}\", expected base, sequence or state", what));
    }
    ProfilePoint point;
    point.kind = job.kind;
    point.key = job.key;
    point.x = job.x;
    at::Tensor all = group.allGatherRows(at::tensor({bytes}, at::kLong), std::vector<int64_t>(size_t(group.size()), 1));
    point.savedBytes = all.max().item<int64_t>();
    return point;
}

/// Sub-groups of the first R ranks, made when first needed (all of them ask in the same order).
class RankGroups {
  public:
    explicit RankGroups(WorkerContext& context) : context_(context), solo_(soloCommunicator()) {}
    /// nullptr: this rank is not part of it.
    Communicator* first(int64_t ranks)
    {
        if (context_.rank >= ranks)
            return nullptr;
        if (ranks == 1)
            return solo_.get();
        if (ranks == context_.groups.world->size())
            return context_.groups.world.get();
        auto& group = groups_[ranks];
        if (group == nullptr)
            group = context_.groups.firstRanks(ranks);
        return group.get();
    }

  private:
    WorkerContext& context_;
    std::unique_ptr<Communicator> solo_;
    std::map<int64_t, std::unique_ptr<Communicator>> groups_;
};

JobRun prepare(Workbench& bench, ProfileJob& job, Communicator& group)
{
    if (job.kind == "layer")
        return layerJob(bench, job, group);
    if (job.kind == "attention" || job.kind == "corun")
        return attentionJob(bench, job);
    if (job.kind == "collective" || job.kind == "p2p")
        return transferJob(job, group);
    if (job.kind == "optimizer")
        return optimizerJob(bench);
    if (job.kind == "host")
        return hostJob(bench);
    throw std::runtime_error(fmt::format("run.json: profile.jobs: kind: got \"{}\"; this version does not know it", job.kind));
}

std::vector<ProfilePoint> runJob(Workbench& bench, ProfileJob job, Communicator& group)
{
    if (job.kind == "memory")
        return {memoryPoint(bench, job, group)};
    JobRun run;
    bool fits = true;
    try {
        run = prepare(bench, job, group);
    } catch (const c10::OutOfMemoryError&) {
        fits = false;
    }
    std::vector<ProfilePoint> points{outOfMemoryPoint(job)};
    if (allAgree(fits, group))
        points = measure(job, run, group);
    if (points.front().status == "oom")
        bench.clear(); // what is left of it would stand in the way of the next job
    return points;
}

int64_t ranksOf(const ProfileJob& job, int64_t world)
{
    if (word(job, "what", "") == "base")
        return world;
    return std::clamp<int64_t>(std::strtoll(word(job, "ranks", "1").c_str(), nullptr, 10), 1, world);
}

// All ranks must agree to go on: rank 0 knows the clock and the orders.
bool goOn(WorkerContext& context, double startedAt)
{
    bool on = true;
    if (context.rank == 0) {
        const bool late = context.run.profileSeconds > 0 && monotonicSeconds() - startedAt > context.run.profileSeconds;
        const int orders = context.commands.take();
        on = !late && (orders & (Commands::kStop | Commands::kTerminate)) == 0;
    }
    at::Tensor flag = at::tensor({context.rank == 0 && on ? 1 : 0}, at::kLong);
    context.groups.world->allReduce(flag);
    return flag.item<int64_t>() > 0;
}

void reportPoints(WorkerContext& context, const ProfileJob& job, const std::vector<ProfilePoint>& points)
{
    if (context.rank != 0)
        return;
    for (const ProfilePoint& point : points)
        context.reporter.event("profile_point", {{"point", profilePointToJson(point)}});
    if (job.kind == "memory" && word(job, "what", "") == "base")
        context.reporter.event("profile_constant", {{"name", "process_base_bytes"},
                                                    {"value", double(points.at(0).savedBytes)},
                                                    {"unit", "bytes"}});
}

} // namespace

int runProfile(WorkerContext& context)
{
    const double startedAt = monotonicSeconds();
    context.reporter.at("load", 0, "graph");
    Workbench bench(context);
    RankGroups groups(context);
    const int64_t world = context.groups.world->size();
    int64_t done = 0;
    for (const ProfileJob& job : context.run.profileJobs) {
        if (!goOn(context, startedAt))
            break;
        context.reporter.at("profile", done, "job");
        if (Communicator* const group = groups.first(ranksOf(job, world)))
            reportPoints(context, job, runJob(bench, job, *group));
        ++done;
    }
    Json result = {{"steps", done},
                   {"best_step", -1},
                   {"reason", done == int64_t(context.run.profileJobs.size()) ? "steps" : "stopped"},
                   {"peak_bytes", memoryState().peak + memoryBase()},
                   {"categories", memoryFields()}};
    if (context.rank == 0)
        result["result"] = Json::object();
    context.reporter.event("done", result);
    return kExitDone;
}

} // namespace megagraph::runtime
