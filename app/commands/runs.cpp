// SPDX-License-Identifier: Apache-2.0
// `runs`: all runs of the home, newest first, read from their directories; the library's rows are put right on the way.
#include "app/commands/run_support.h"

#include "core/event.h"
#include "core/places.h"
#include "core/units.h"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <memory>

namespace megagraph::app {
namespace {

struct RunsOptions { int64_t limit = 50; std::string state, kind; };

struct Listed { RunRow row; RunStatus status; };

Json runJson(const Listed& run)
{
    const auto bytes = [](int64_t value) { return value > 0 ? Json(value) : Json(); };
    return Json{{"run", run.row.id},
                {"state", run.row.state},
                {"kind", run.row.kind},
                {"name", run.row.name},
                {"dataset", run.row.dataset},
                {"model", run.row.model},
                {"world", run.row.world},
                {"attempts", run.row.attempts},
                {"step", run.row.lastStep},
                {"steps", run.status.steps},
                {"loss", numberJson(run.status.loss)},
                {"last_commit_step", run.row.lastCommit},
                {"step_ms", {{"predicted", run.row.predictedStepS > 0 ? Json(run.row.predictedStepS * 1e3) : Json()},
                             {"measured", run.row.stepS > 0 ? Json(run.row.stepS * 1e3) : Json()}}},
                {"peak_bytes", {{"predicted", bytes(run.row.predictedPeakBytes)}, {"measured", bytes(run.row.peakBytes)}}},
                {"created_utc", run.row.created},
                {"eta_s", run.status.alive && run.status.etaS > 0 ? Json(run.status.etaS) : Json()},
                {"cause", run.row.cause},
                {"dir", run.row.path}};
}

/// The database is an index: what differs from the directories is written again; failures are no reason to stop.
void reconcile(const std::string& home, const std::vector<Listed>& runs)
{
    auto library = Library::open(home);
    if (!library.ok())
        return;
    const auto rows = library->runs();
    std::map<std::string, std::pair<std::string, int64_t>> known;
    if (rows.ok())
        for (const RunRow& row : *rows)
            known[row.id] = {row.state, row.journalSeq};
    for (const Listed& run : runs)
        if (const auto found = known.find(run.row.id); found == known.end() || found->second != std::pair(run.row.state, run.row.journalSeq))
            (void)library->saveRun(run.row).ok();
}

void printRuns(const std::vector<Listed>& runs)
{
    if (runs.empty())
        fmt::print("No runs yet. Start one with: megagraph train --data NAME --model PRESET\n");
    else
        fmt::print("{:<22}  {:<9} {:<8} {:>5} {:>15} {:>10} {:>9} {:>9}  {}\n", "run", "state", "kind", "ranks", "step", "loss", "step time", "peak", "name");
    for (const Listed& run : runs)
        fmt::print("{:<22}  {:<9} {:<8} {:>5} {:>15} {:>10} {:>9} {:>9}  {}\n", run.row.id, run.row.state, run.row.kind, run.row.world,
                   fmt::format("{} of {}", run.row.lastStep, run.status.steps), std::isfinite(run.status.loss) && run.row.lastStep > 0 ? fmt::format("{:.4g}", run.status.loss) : "-",
                   run.row.stepS > 0 ? durationText(std::llround(run.row.stepS * 1e9)) : "-", run.row.peakBytes > 0 ? bytesText(run.row.peakBytes) : "-", run.row.name);
}

Result<int> runs(const RunsOptions& options, const Invocation& invocation)
{
    const std::string home = homeFolder();
    std::vector<Listed> listed;
    for (const std::string& id : runIds(home)) {
        if (int64_t(listed.size()) >= options.limit)
            break;
        auto row = runRowOf(runFolder(home, id));
        auto status = readRunStatus(runFolder(home, id));
        if (!row.ok() || !status.ok())
            continue; // a folder that is no run, or one just being made
        if ((!options.state.empty() && row->state != options.state) || (!options.kind.empty() && row->kind != options.kind))
            continue;
        listed.push_back({std::move(*row), std::move(*status)});
    }
    reconcile(home, listed);
    if (!invocation.json) {
        printRuns(listed);
        return 0;
    }
    Json document{{"format", "megagraph.runs"}, {"version", 1}, {"runs", Json::array()}};
    for (const Listed& run : listed)
        document["runs"].push_back(runJson(run));
    fmt::print("{}\n", document.dump());
    return 0;
}

} // namespace

Verb addRuns(CLI::App& root, Invocation& invocation)
{
    auto options = std::make_shared<RunsOptions>();
    CLI::App* app = root.add_subcommand("runs", "List runs, newest first");
    app->add_option("--limit", options->limit, "At most so many")->check(CLI::Range(1, 1'000'000))->capture_default_str();
    app->add_option("--state", options->state, "Only runs in this state: running, finished, stopped, failed, lost ..");
    app->add_option("--kind", options->kind, "Only runs of this kind: train, verify or profile");
    app->add_flag("--json", invocation.json, "One JSON document on stdout");
    app->footer("Example: megagraph runs --state lost");
    return {app, [options, &invocation] {
                const auto code = runs(*options, invocation);
                return code.ok() ? *code : report(code.error(), invocation.json);
            }};
}

} // namespace megagraph::app
