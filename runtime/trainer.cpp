// SPDX-License-Identifier: Apache-2.0
#include "runtime/trainer.h"

#include "core/clock.h"
#include "core/event.h"
#include "runtime/allocator.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <stdexcept>
#include <tuple>

namespace megagraph::runtime {
namespace {

constexpr double kFlushSeconds = 0.1; // at most 10 step lines per second
constexpr size_t kStepsPerLine = 100; // keeps a line below 16 KiB
constexpr double kSampleSeconds = 1.0;

const char* optimizerName(OptimizerKind kind) { return kind == OptimizerKind::AdamW ? "adamw" : "sgd"; }

Json numbers(const std::vector<double>& values)
{
    Json array = Json::array();
    for (const double value : values)
        array.push_back(numberJson(value));
    return array;
}

double median(std::vector<double> values)
{
    if (values.empty())
        return 0;
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

Json metricJson(const ModelSpec& model, double value)
{
    return {{"metric", metricName(model.metric)}, {"value", numberJson(value)}};
}

} // namespace

Json memoryFields()
{
    const MemoryState state = memoryState();
    Json fields = Json::object();
    for (int c = 0; c < kMemoryCategories; ++c) {
        const auto category = MemoryCategory(c);
        const int64_t bytes = category == MemoryCategory::Base ? memoryBase() : state.atPeak[size_t(c)];
        fields[std::string(memoryCategoryName(category))] = bytes;
    }
    return fields;
}

StepRunner::StepRunner(const WorkerContext& context, WorkSet& work, GraphModel& model, FlatGradients& gradients)
    : context_(context), work_(work), model_(model), gradients_(gradients)
{
    Result<std::vector<Action>> actions = rankActions(context.plan, context.rank);
    if (!actions.ok())
        throw std::runtime_error(actions.error().message);
    actions_ = std::move(actions).value();
}

double StepRunner::itemsOf(int64_t step)
{
    double items = 0;
    for (int64_t j = 0; j < context_.plan.microBatches; ++j)
        items += double(work_.at(work_.sequenceAt(context_.run.seed, step * context_.plan.microBatches + j)).trainCount);
    return items;
}

void StepRunner::forward(int64_t step, int64_t microBatch, double items)
{
    context_.reporter.at("train", step, "forward");
    const int64_t number = work_.sequenceAt(context_.run.seed, step * context_.plan.microBatches + microBatch);
    const WorkItem& item = work_.at(number);
    PassContext pass;
    pass.seed = context_.run.seed;
    pass.step = uint64_t(step);
    pass.item = uint32_t(number);
    pass.context = context_.groups.context.get();
    const at::Tensor logits = model_.forward(*item.sequence, pass);
    const MemoryScope scope(MemoryCategory::Activations, "loss", "loss", model_.layout().back().layer);
    const at::Tensor sum = lossSum(context_.plan.model.loss, logits, item.train);
    lossSum_ += sum.detach().item<double>();
    live_[microBatch] = sum / std::max(1.0, items);
}

StepRunner::Outcome StepRunner::run(int64_t step, int commands)
{
    gradients_.zero();
    lossSum_ = 0;
    Outcome outcome;
    outcome.items = itemsOf(step);
    float* const scalars = gradients_.extra();
    bool summed = false;
    const auto fillScalars = [&] {
        gradients_.reattach(model_.parameters());
        scalars[kScalarLoss] = float(lossSum_);
        scalars[kScalarStop] = commands & Commands::kStop ? 1.0f : 0.0f;
        scalars[kScalarCheckpoint] = commands & Commands::kCheckpoint ? 1.0f : 0.0f;
        scalars[kScalarTerminate] = commands & Commands::kTerminate ? 1.0f : 0.0f;
        summed = true;
    };
    for (const Action& action : actions_) {
        if (action.kind == ActionKind::Forward)
            forward(step, action.microBatch, outcome.items);
        if (action.kind == ActionKind::Backward) {
            context_.reporter.at("train", step, "backward");
            const MemoryScope scope(MemoryCategory::Activations, "backward", "activation gradient");
            live_.at(action.microBatch).backward();
            live_.erase(action.microBatch);
        }
        if (action.kind == ActionKind::Reduce) {
            context_.reporter.at("train", step, "reduce");
            fillScalars();
            const double before = monotonicSeconds();
            context_.groups.world->allReduce(gradients_.flat());
            outcome.reduceSeconds = monotonicSeconds() - before;
        }
    }
    if (!summed) // one rank: the list has no reduce
        fillScalars();
    outcome.lossSum = double(scalars[kScalarLoss]);
    outcome.commands = (scalars[kScalarStop] > 0 ? Commands::kStop : 0) |
                       (scalars[kScalarCheckpoint] > 0 ? Commands::kCheckpoint : 0) |
                       (scalars[kScalarTerminate] > 0 ? Commands::kTerminate : 0);
    return outcome;
}

Trainer::Trainer(WorkerContext& context, StepObserver* observer) : context_(context), observer_(observer) {}

Result<Ok> Trainer::start()
{
    const Plan& plan = context_.plan;
    const int64_t threads = context_.run.threadsPerRank;
    context_.reporter.at("load", 0, "sequences");
    work_ = std::make_unique<WorkSet>(plan, context_.dataset, context_.run.split, context_.home, context_.role.context, threads,
                                      *context_.groups.context);
    context_.reporter.at("load", 0, "model");
    {
        const MemoryScope scope(MemoryCategory::Weights, "model", "parameter");
        model_ = makeModel(plan, context_.dataset.spec(), context_.run.seed, threads);
    }
    gradients_ = std::make_unique<FlatGradients>(model_->parameters(), kStepScalars);
    optimizer_ = std::make_unique<Optimizer>(plan.model, model_->layout(), model_->parameters());
    runner_ = std::make_unique<StepRunner>(context_, *work_, *model_, *gradients_);
    totalSteps_ = std::max(context_.run.steps, plan.model.steps);
    if (context_.resumeStep >= 0) {
        const std::string folder = context_.runFolder + "/checkpoints/" + checkpointName(context_.resumeStep);
        MEGAGRAPH_TRY(scalars_, loadTrainingState(folder, *model_, *optimizer_, optimizerName(plan.model.optimizerKind)));
        savedStep_ = scalars_.step;
    }
    resetMemoryPeak();
    startedAt_ = lastCheckpointAt_ = lastRankAt_ = lastFlushAt_ = monotonicSeconds();
    sums_.bytesBefore = context_.groups.world->bytesSent() + context_.groups.context->bytesSent();
    return Ok{};
}

int Trainer::fail(const Error& error, int code)
{
    context_.reporter.event("error", {{"code", errorCodeName(error.code)}, {"message", error.message}, {"exit_code", code}});
    return code;
}

int Trainer::run()
{
    const Result<Ok> started = start();
    if (!started.ok())
        return fail(started.error(), kExitCheckpoint);
    const bool keeps = context_.run.kind == "train";
    if (keeps && scalars_.step == 0 && savedStep_ < 0) {
        // before any work: proves that the volume takes a checkpoint at all
        const Result<Ok> first = checkpoint();
        if (!first.ok())
            return fail(first.error(), kExitCheckpoint);
    }
    const Ending ending = loop();
    flushSteps();
    if (ending.exitCode != kExitDone && ending.exitCode != kExitStopped)
        return ending.exitCode; // reported where it was found
    if (keeps && savedStep_ != scalars_.step && (commands_ & Commands::kTerminate) == 0) {
        const Result<Ok> last = checkpoint();
        if (!last.ok())
            return fail(last.error(), kExitCheckpoint);
    }
    reportRank(true);
    reportDone(ending);
    return ending.exitCode;
}

Trainer::Ending Trainer::loop()
{
    const RunSpec& run = context_.run;
    while (scalars_.step < run.steps) {
        const int64_t step = scalars_.step;
        if (!trainStep(step))
            return {"nonfinite", kExitNonFinite};
        const int64_t done = scalars_.step;
        const bool last = done == run.steps;
        if (run.evalEvery > 0 && run.kind == "train" && (last || done % run.evalEvery == 0))
            evaluateAfter(done);
        if (commands_ & (Commands::kStop | Commands::kTerminate) && !last)
            return {"stopped", kExitStopped};
        if (run.patience > 0 && scalars_.bestStep >= 0 && done - scalars_.bestStep >= run.patience)
            return {"patience", kExitDone};
        if (!last && wantsCheckpoint(done)) {
            const Result<Ok> saved = checkpoint();
            if (!saved.ok())
                return {"checkpoint", fail(saved.error(), kExitCheckpoint)};
        }
        reportRank(false);
    }
    return {};
}

int Trainer::commandsOfRank0()
{
    if (context_.rank != 0)
        return 0; // the supervisor tells all ranks; one voice is enough and cannot split them
    int bits = context_.commands.take();
    const RunSpec& run = context_.run;
    if (run.kind == "train" && run.checkpointEveryS > 0 && monotonicSeconds() - lastCheckpointAt_ >= run.checkpointEveryS)
        bits |= Commands::kCheckpoint;
    return bits;
}

bool Trainer::wantsCheckpoint(int64_t step) const
{
    const RunSpec& run = context_.run;
    return run.kind == "train" && savedStep_ != step &&
           ((commands_ & Commands::kCheckpoint) != 0 ||
            (run.checkpointEverySteps > 0 && step % run.checkpointEverySteps == 0));
}

bool Trainer::trainStep(int64_t step)
{
    const double start = monotonicSeconds();
    const double waitBefore = context_.groups.world->secondsWaited() + context_.groups.context->secondsWaited();
    const StepRunner::Outcome outcome = runner_->run(step, commandsOfRank0());
    commands_ = outcome.commands;
    const double loss = outcome.lossSum / std::max(1.0, outcome.items);
    const double norm = gradients_->norm();
    if (observer_ != nullptr)
        observer_->onStep(step, loss, *gradients_);
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
        reportNonFinite(step, loss);
        return false;
    }
    context_.reporter.at("train", step, "update");
    const ModelSpec& model = context_.plan.model;
    if (model.clipNorm > 0 && norm > model.clipNorm)
        gradients_->scale(model.clipNorm / norm);
    const double rate = learningRateAt(model, step, totalSteps_);
    optimizer_->step(*gradients_, rate);
    ++scalars_.step;
    scalars_.lastLoss = loss;
    const double seconds = monotonicSeconds() - start;
    const double waited = context_.groups.world->secondsWaited() + context_.groups.context->secondsWaited() - waitBefore;
    sums_.wait += waited;
    sums_.compute += seconds - waited;
    reportStep(step, loss, rate, norm, outcome.items, seconds);
    return true;
}

void Trainer::evaluateAfter(int64_t step)
{
    context_.reporter.at("eval", step, "forward");
    const double start = monotonicSeconds();
    PassContext pass;
    pass.seed = context_.run.seed;
    pass.step = uint64_t(step);
    const ModelSpec& model = context_.plan.model;
    lastEvaluation_ = evaluate(*model_, model, *work_, context_.groups, pass);
    finalTest_ = lastEvaluation_.test.value;
    const SplitScore& valid = lastEvaluation_.valid;
    const bool better = scalars_.bestStep < 0 || std::isnan(scalars_.bestValid) ||
                        metricBetter(model.metric, valid.value, scalars_.bestValid);
    if (better) {
        scalars_.bestStep = step;
        scalars_.bestValid = valid.value;
        scalars_.bestTest = lastEvaluation_.test.value;
        scalars_.bestTrainLoss = scalars_.lastLoss;
    }
    sums_.host += monotonicSeconds() - start;
    if (context_.rank != 0)
        return;
    const auto line = [&](const char* split, const SplitScore& score) {
        context_.reporter.event("eval", {{"step", step},
                                         {"split", split},
                                         {"metric", metricName(model.metric)},
                                         {"value", numberJson(score.value)},
                                         {"item_count", score.items},
                                         {"loss", numberJson(score.loss)}});
    };
    line("valid", valid);
    if (step == context_.run.steps)
        line("test", lastEvaluation_.test);
    if (better)
        context_.reporter.event("best", {{"step", step},
                                         {"valid", numberJson(scalars_.bestValid)},
                                         {"test", numberJson(scalars_.bestTest)},
                                         {"train_loss", numberJson(scalars_.bestTrainLoss)}});
}

Result<Ok> Trainer::checkpoint()
{
    const int64_t step = scalars_.step;
    context_.reporter.at("checkpoint", step, "write");
    const double start = monotonicSeconds();
    int64_t bytes = 0;
    for (const at::Tensor& parameter : model_->parameters())
        bytes += int64_t(parameter.nbytes()) * (optimizer_->first(0).defined() ? 3 : 1);
    if (context_.rank == 0)
        context_.reporter.event("checkpoint.begin", {{"step", step}, {"bytes", bytes}});
    MEGAGRAPH_TRY(const ShardReport report,
                  saveTrainingState(context_.runFolder, context_.rank, context_.attempt, scalars_, *model_, *optimizer_,
                                    optimizerName(context_.plan.model.optimizerKind)));
    const double seconds = monotonicSeconds() - start;
    context_.reporter.event("checkpoint.shard", {{"step", step},
                                                 {"folder", checkpointTempName(step, context_.attempt)},
                                                 {"files", Json::array({shardReportToJson(report)})},
                                                 {"blocked_s", seconds},
                                                 {"write_s", seconds}});
    savedStep_ = step;
    lastCheckpointAt_ = monotonicSeconds();
    return Ok{};
}

void Trainer::reportNonFinite(int64_t step, double loss)
{
    std::string tensor;
    int64_t layer = -1;
    const std::vector<ParameterSpec>& layout = model_->layout();
    for (size_t p = 0; p < layout.size() && layer < 0; ++p) {
        const at::Tensor slice = gradients_->slice(p);
        if (at::isfinite(slice).all().item<bool>())
            continue;
        tensor = layout[p].name;
        layer = layout[p].layer;
    }
    const char* const where = std::isfinite(loss) ? "gradient" : "loss";
    context_.reporter.event("nonfinite", {{"step", step}, {"where", where}, {"layer", layer}, {"tensor", tensor}});
    context_.reporter.event(
        "error", {{"code", errorCodeName(ErrorCode::Internal)},
                  {"message", fmt::format("training: step {}: the {} is not finite{}; the update was not applied. Lower the "
                                          "learning rate or clip the gradient norm",
                                          step, where, tensor.empty() ? "" : ", first in " + tensor)},
                  {"exit_code", int(kExitNonFinite)}});
}

void Trainer::reportStep(int64_t step, double loss, double rate, double norm, double items, double seconds)
{
    stepSeconds_.push_back(seconds);
    if (context_.rank != 0)
        return;
    if (lines_.loss.empty())
        lines_.from = step;
    lines_.loss.push_back(loss);
    lines_.rate.push_back(rate);
    lines_.norm.push_back(norm);
    lines_.items.push_back(int64_t(items));
    lines_.seconds.push_back(seconds);
    if (lines_.loss.size() >= kStepsPerLine || monotonicSeconds() - lastFlushAt_ >= kFlushSeconds)
        flushSteps();
}

void Trainer::flushSteps()
{
    lastFlushAt_ = monotonicSeconds();
    if (lines_.loss.empty())
        return;
    context_.reporter.event("step", {{"step_from", lines_.from},
                                     {"step_to", lines_.from + int64_t(lines_.loss.size())},
                                     {"loss", numbers(lines_.loss)},
                                     {"lr", numbers(lines_.rate)},
                                     {"grad_norm", numbers(lines_.norm)},
                                     {"item_count", lines_.items},
                                     {"step_s", numbers(lines_.seconds)}});
    lines_ = {};
}

void Trainer::reportRank(bool force)
{
    const double now = monotonicSeconds();
    if (!force && now - lastRankAt_ < kSampleSeconds)
        return;
    lastRankAt_ = now;
    const int64_t bytes = context_.groups.world->bytesSent() + context_.groups.context->bytesSent();
    context_.reporter.sample("rank", {{"step", scalars_.step},
                                      {"compute_s", sums_.compute},
                                      {"comm_wait_s", sums_.wait},
                                      {"data_s", 0.0},
                                      {"host_s", sums_.host},
                                      {"comm_bytes", bytes - sums_.bytesBefore}});
    sums_ = {};
    sums_.bytesBefore = bytes;
    Json fields = Json::object();
    const Json categories = memoryFields();
    for (const auto& [name, value] : categories.items())
        fields[name + "_bytes"] = value;
    const MemoryState state = memoryState();
    fields["allocated_bytes"] = state.current + memoryBase();
    fields["peak_bytes"] = state.peak + memoryBase();
    context_.reporter.sample("memory", fields);
}

void Trainer::reportDone(const Ending& ending)
{
    const ModelSpec& model = context_.plan.model;
    Json done = {{"steps", scalars_.step},
                 {"best_step", scalars_.bestStep},
                 {"reason", ending.reason},
                 {"peak_bytes", memoryState().peak + memoryBase()},
                 {"resident_peak_bytes", residentPeakBytes()},
                 {"categories", memoryFields()}};
    if (context_.rank == 0) {
        // the first steps also touch memory for the first time; with few steps there is nothing else
        const size_t skip = stepSeconds_.size() > 6 ? 2 : 0;
        const double step = median({stepSeconds_.begin() + std::ptrdiff_t(skip), stepSeconds_.end()});
        done["result"] = {{"train", {{"loss", numberJson(scalars_.lastLoss)}}},
                          {"valid", metricJson(model, scalars_.bestValid)},
                          {"test", metricJson(model, scalars_.bestTest)},
                          {"step_ms", step * 1000.0},
                          {"final_test", numberJson(finalTest_)}};
        if (observer_ != nullptr)
            done["result"].update(observer_->result());
    }
    context_.reporter.at("done", scalars_.step, "");
    context_.reporter.event("done", done);
}

} // namespace megagraph::runtime
