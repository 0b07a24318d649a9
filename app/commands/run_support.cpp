// SPDX-License-Identifier: Apache-2.0
#include "app/commands/run_support.h"

#include "core/clock.h"
#include "core/event.h"
#include "core/places.h"
#include "core/units.h"
#include "planner/explain.h"
#include "planner/profiling.h"
#include "planner/search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace megagraph::app {
namespace {

constexpr double kDrawEveryS = 0.2;

bool isRunId(const std::string& name)
{
    return name.size() == 22 && name[8] == '-' && name[15] == '-' && name.find_first_not_of("0123456789abcdef-") == std::string::npos;
}

double numberAt(const Json& value, std::initializer_list<const char*> path)
{
    const Json* at = &value;
    for (const char* key : path) {
        if (!at->is_object() || !at->contains(key))
            return std::nan("");
        at = &(*at)[key];
    }
    return numberOf(*at);
}

int64_t largestPeak(const Json& result, const char* which)
{
    double most = 0;
    if (result.contains("ranks") && result["ranks"].is_array())
        for (const Json& rank : result["ranks"])
            most = std::max(most, numberAt(rank, {"peak_bytes", which}));
    return std::isfinite(most) ? int64_t(most) : 0;
}

double quantile(std::vector<double> values, double share)
{
    if (values.empty())
        return 0;
    const auto at = values.begin() + std::ptrdiff_t(double(values.size() - 1) * share);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

std::string text(const Json& value, const char* key)
{
    return value.is_object() && value.contains(key) && value[key].is_string() ? value[key].get<std::string>() : "";
}

} // namespace

std::vector<std::string> runIds(const std::string& home)
{
    std::vector<std::string> ids;
    std::error_code error;
    for (std::filesystem::directory_iterator it(home + "/runs", error), end; !error && it != end; it.increment(error)) {
        const std::string name = it->path().filename().string();
        struct stat info{};
        if (isRunId(name) && ::stat((it->path().string() + "/run.json").c_str(), &info) == 0)
            ids.push_back(name);
    }
    // the id has seconds; within one second the folder's time decides
    std::sort(ids.begin(), ids.end(), [&](const std::string& a, const std::string& b) {
        if (a.compare(0, 15, b, 0, 15) != 0)
            return a > b;
        struct stat first{}, second{};
        (void)::stat((home + "/runs/" + a + "/run.json").c_str(), &first);
        (void)::stat((home + "/runs/" + b + "/run.json").c_str(), &second);
        return std::pair(first.st_mtim.tv_sec, first.st_mtim.tv_nsec) > std::pair(second.st_mtim.tv_sec, second.st_mtim.tv_nsec);
    });
    return ids;
}

Result<std::string> resolveRun(const std::string& home, const std::string& name)
{
    const std::vector<std::string> ids = runIds(home);
    if (ids.empty())
        return Error{ErrorCode::NotFound, fmt::format("{}/runs: there is no run yet; start one with megagraph train", home)};
    if (name == "last")
        return ids.front();
    std::vector<std::string> found;
    for (const std::string& id : ids)
        if (id.rfind(name, 0) == 0)
            found.push_back(id);
    if (found.size() == 1)
        return found.front();
    if (found.empty())
        return Error{ErrorCode::NotFound, fmt::format("{}: no such run; the newest is {}; megagraph runs lists all", name, ids.front())};
    return Error{ErrorCode::Usage, fmt::format("{}: {} runs begin with it, {} and {} among them; write more of the id", name, found.size(), found[0], found[1])};
}

Result<RunRow> runRowOf(const std::string& folder)
{
    MEGAGRAPH_TRY(const RunStatus status, readRunStatus(folder));
    MEGAGRAPH_TRY(const Json run, readJsonFile(folder + "/run.json"));
    RunRow row;
    row.id = status.id;
    row.path = folder;
    row.kind = status.kind;
    row.name = status.name;
    row.state = status.state;
    row.cause = status.cause;
    row.created = text(run, "created_utc");
    row.world = run.value("world", int64_t(0));
    row.attempts = status.attempt;
    row.lastStep = status.step;
    row.lastCommit = status.lastCommitStep;
    row.journalSeq = status.journalSeq;
    row.stepS = status.stepS;
    if (run.contains("hashes"))
        row.plan = text(run["hashes"], "plan");
    if (const auto plan = readJsonFile(folder + "/plan.json"); plan.ok() && plan->is_object()) {
        row.dataset = plan->contains("dataset") ? text((*plan)["dataset"], "name") : "";
        row.model = plan->contains("model") ? text((*plan)["model"], "name") : "";
        row.predictedStepS = plan->contains("prediction") ? numberAt(*plan, {"prediction", "step_ns"}) * 1e-9 : 0;
    }
    if (const auto result = readJsonFile(folder + "/result.json"); result.ok() && result->is_object()) {
        const double best = numberAt(*result, {"valid", "value"}), measured = numberAt(*result, {"step_ms", "measured"});
        row.bestMetric = std::isfinite(best) ? best : 0;
        if (std::isfinite(measured))
            row.stepS = measured * 1e-3;
        row.peakBytes = largestPeak(*result, "measured");
        row.predictedPeakBytes = largestPeak(*result, "predicted");
    }
    if (!std::isfinite(row.predictedStepS))
        row.predictedStepS = 0;
    return row;
}

void RunRecorder::note(const Error& error)
{
    if (!std::exchange(noted_, true))
        fmt::print(stderr, "megagraph: the run is not disturbed, but the library was not written: {}\n", error.message);
}

void RunRecorder::take(const Json& line)
{
    if (line.value("kind", "") == "step" && line.contains("step_s") && line["step_s"].is_array())
        for (const Json& value : line["step_s"])
            stepS_.push_back(numberOf(value));
}

void RunRecorder::started(const std::string& id, const std::string& folder)
{
    const auto save = [&]() -> Result<Ok> {
        MEGAGRAPH_TRY(Library library, Library::open(home_));
        MEGAGRAPH_TRY(const RunRow row, runRowOf(folder));
        MEGAGRAPH_TRY(std::ignore, library.savePlan(plan_));
        MEGAGRAPH_TRY(std::ignore, library.saveRun(row));
        return library.savePrediction(id, plan_);
    };
    if (const auto saved = save(); !saved.ok())
        note(saved.error());
}

void RunRecorder::observe(Library& library, const launch::RunOutcome& outcome)
{
    std::vector<double> settled(stepS_.begin() + std::ptrdiff_t(std::min<size_t>(5, stepS_.size())), stepS_.end());
    if (settled.empty())
        return;
    const int64_t threads = planner::slotThreads(plan_.cluster);
    const Fingerprint fingerprint = localFingerprint(plan_.world(), threads, planner::sharedCores(plan_.cluster));
    const auto saved = library.saveObservation(outcome.id, planHash(plan_), fingerprint.id(), outcome.result.value("steps", int64_t(0)),
                                               std::llround(quantile(settled, 0.5) * 1e9), std::llround(quantile(settled, 0.95) * 1e9),
                                               outcome.result.contains("ranks") ? outcome.result["ranks"].dump() : "[]");
    if (!saved.ok())
        note(saved.error());
}

void RunRecorder::ended(const launch::RunOutcome& outcome)
{
    const auto save = [&]() -> Result<Ok> {
        MEGAGRAPH_TRY(Library library, Library::open(home_));
        MEGAGRAPH_TRY(RunRow row, runRowOf(outcome.folder));
        row.ended = utcNow();
        MEGAGRAPH_TRY(std::ignore, library.saveRun(row));
        observe(library, outcome);
        return Ok{};
    };
    if (const auto saved = save(); !saved.ok())
        note(saved.error());
}

RunProgress::RunProgress(const Invocation& invocation, std::string what, int64_t steps)
    : invocation_(invocation), what_(std::move(what)), steps_(steps), terminal_(isatty(STDERR_FILENO) && !invocation.events)
{
}

void RunProgress::say(const std::string& text)
{
    if (invocation_.events)
        return;
    end();
    fmt::print(stderr, "megagraph: {}\n", text);
}

void RunProgress::end()
{
    if (terminal_ && std::exchange(drawn_, false))
        fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
}

void RunProgress::draw()
{
    const double now = monotonicSeconds();
    if (!terminal_ || (now - drawnAt_ < kDrawEveryS && step_ < steps_))
        return;
    drawnAt_ = now;
    drawn_ = true;
    std::string line = fmt::format("{}: step {} of {}, loss {:.4g}{}", what_, step_, steps_, loss_, metric_);
    if (stepS_ > 0)
        line += ", " + durationText(std::llround(stepS_ * 1e9)) + " a step";
    if (step_ > firstStep_ && firstStep_ >= 0 && step_ < steps_)
        line += ", " + durationText(std::llround((now - firstAt_) / double(step_ - firstStep_) * double(steps_ - step_) * 1e9)) + " left";
    fmt::print(stderr, "\r\033[K{}", line);
    std::fflush(stderr);
}

void RunProgress::take(const Json& line)
{
    if (invocation_.events)
        fmt::print(stderr, "{}", encodeLine(line));
    const std::string kind = line.value("kind", "");
    if (kind == "step") {
        step_ = line.value("step_to", step_);
        if (firstStep_ < 0) {
            firstStep_ = step_;
            firstAt_ = monotonicSeconds();
        }
        if (line.contains("loss") && line["loss"].is_array() && !line["loss"].empty())
            loss_ = numberOf(line["loss"].back());
        if (line.contains("step_s") && line["step_s"].is_array() && !line["step_s"].empty())
            stepS_ = numberOf(line["step_s"].back());
        draw();
    } else if (kind == "eval" && line.value("split", "") == "valid") {
        metric_ = fmt::format(", valid {} {:.4f}", line.value("metric", ""), numberAt(line, {"value"}));
    } else if (kind == "preflight" && line.value("verdict", "") == "warn") {
        say(fmt::format("warning {}: {}, expected {}; {}", line.value("check", ""), line.value("got", ""), line.value("expected", ""), line.value("hint", "")));
    } else if (kind == "checkpoint.skipped" || kind == "checkpoint.damaged") {
        say(fmt::format("{} of step {}: {}{}", kind, line.value("step", int64_t(0)), text(line, "reason"), text(line, "got")));
    } else if (kind == "control" && text(line, "do") == "stop") {
        say("stopping after this step, with a checkpoint; once more stops at once");
    }
}

void printRunResult(const Json& result, const std::string& folder)
{
    const auto shown = [](double value, const char* form) { return std::isfinite(value) ? fmt::format(fmt::runtime(form), value) : std::string("-"); };
    fmt::print("Run {}: {}, {} steps", text(result, "run"), text(result, "state"), result.value("steps", int64_t(0)));
    if (result.contains("best_step") && result["best_step"].is_number())
        fmt::print(", best at step {}", result["best_step"].get<int64_t>());
    const std::string metric = result.contains("test") ? text(result["test"], "metric") : "";
    fmt::print("\n  train loss {}, valid {} {}, test {} {}\n", shown(numberAt(result, {"train", "loss"}), "{:.4g}"), metric,
               shown(numberAt(result, {"valid", "value"}), "{:.4f}"), metric, shown(numberAt(result, {"test", "value"}), "{:.4f}"));
    const auto time = [](double ms) { return std::isfinite(ms) ? durationText(std::llround(ms * 1e6)) : std::string("-"); };
    fmt::print("  step time {} measured, {} predicted\n", time(numberAt(result, {"step_ms", "measured"})), time(numberAt(result, {"step_ms", "predicted"})));
    if (result.contains("ranks"))
        for (const Json& rank : result["ranks"]) {
            const auto bytes = [&](const char* which) {
                const double value = numberAt(rank, {"peak_bytes", which});
                return std::isfinite(value) ? bytesText(int64_t(value)) : std::string("-");
            };
            fmt::print("  rank {}: peak memory {} measured, {} predicted\n", rank.value("rank", int64_t(0)), bytes("measured"), bytes("predicted"));
        }
    fmt::print("  {}\n", folder);
}

Result<std::string> workerProgram()
{
    const std::string path = programPath("megagraph-worker");
    if (path.empty())
        return Error{ErrorCode::NotFound, "megagraph-worker: was not found beside this program or on PATH; build it with -DMEGAGRAPH_WORKER=ON"};
    return path;
}

std::string nearestPlanText(const std::string& home, const Plan& plan, const Json& oom)
{
    planner::ProblemRequest request{home, resourcesFolder(), plan.datasetName, plan.model, plan.cluster, {}, {}, "none"};
    const auto problem = planner::assembleProblem(request, [](const std::string&, int64_t, int64_t) {}, {});
    if (!problem.ok())
        return "";
    const auto table = planner::search(*problem, {}, [](int64_t, int64_t) {}, {});
    if (!table.ok())
        return "";
    double ratio = 1;
    const double reached = numberAt(oom, {"in_use_bytes"}) + numberAt(oom, {"requested_bytes"});
    for (const auto& rank : plan.prediction.ranks)
        if (rank.peakBytes > 0 && std::isfinite(reached))
            ratio = std::max(ratio, reached / double(rank.peakBytes));
    const auto rows = planner::nearestFeasible(*table, plan, ratio, 3);
    if (rows.empty())
        return "no plan on these devices is predicted to fit; give each rank a larger --budget, or take more ranks";
    std::string text;
    for (const auto& row : rows)
        text += fmt::format("{}{} ({} per rank, {} a step)", text.empty() ? "" : "; ", planner::changeText(plan, row.plan), bytesText(row.peakBytes), durationText(row.stepNs));
    if (auto library = Library::open(home); library.ok() && library->savePlan(rows.front().plan).ok())
        text += fmt::format("; the first: megagraph train --plan {}/plans/{}.json", home, planHash(rows.front().plan));
    return text;
}

} // namespace megagraph::app
