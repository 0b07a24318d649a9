// SPDX-License-Identifier: Apache-2.0
// `train`: runs a plan, or searches for the fastest that fits and runs it, or resumes a run; supervises the workers.
#include "app/commands/planning.h"
#include "app/commands/run_detach.h"
#include "app/commands/run_support.h"

#include "core/hash.h"
#include "core/io/dataset.h"
#include "core/places.h"
#include "core/units.h"
#include "planner/explain.h"
#include "planner/profiling.h"

#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <tuple>

namespace megagraph::app {
namespace {

struct TrainOptions {
    PlanningOptions planning;
    std::string plan, resume, every, name, split;
    int64_t step = -1, steps = 0, threads = 0;
    uint64_t seed = 1;
    bool detach = false, detached = false, riskOom = false;
};

struct Job { RunSpec spec; Plan plan; DatasetSpec dataset; };

/// "500steps", "15min", "90s", "off".
Result<Ok> setCheckpointEvery(const std::string& text, RunSpec& spec)
{
    if (text.empty())
        return Ok{};
    if (text == "off") {
        spec.checkpointEverySteps = 0;
        spec.checkpointEveryS = 0;
        return Ok{};
    }
    size_t used = 0;
    double number = 0;
    try {
        number = std::stod(text, &used);
    } catch (const std::exception&) { // no number at all; said below
    }
    const std::string unit = text.substr(used);
    const bool known = unit == "steps" || unit == "step" || unit == "min" || unit == "s";
    if (!known || !(number > 0) || number > 1e9)
        return Error{ErrorCode::Usage, fmt::format("--checkpoint-every: got {}, expected e.g. 500steps, 15min, 90s or off", text)};
    if (unit == "steps" || unit == "step")
        spec.checkpointEverySteps = int64_t(number);
    else
        spec.checkpointEveryS = unit == "min" ? number * 60 : number;
    return Ok{};
}

Result<Plan> readPlan(const TrainOptions& options)
{
    const PlanningOptions& other = options.planning;
    if (!other.data.empty() || !other.model.empty() || other.ranks > 0 || !other.budget.empty() || !other.cluster.empty() || !other.constraints.empty() || !other.allow.empty())
        return Error{ErrorCode::Usage, "--plan: fixes data set, model, devices and knobs; leave --data, --model, --ranks, --budget, --cluster, "
                                       "--constraints and --allow out, or make another plan with megagraph plan"};
    MEGAGRAPH_TRY(const Json json, readJsonFile(options.plan));
    MEGAGRAPH_TRY(Plan plan, planFromJson(json, options.plan));
    for (const std::string& setting : other.set) {
        MEGAGRAPH_TRY(plan.model, setModelValue(plan.model, setting, true));
    }
    return plan;
}

Result<Plan> searchPlan(const TrainOptions& options, const Invocation& invocation)
{
    MEGAGRAPH_TRY(const planner::Problem problem, planningProblem(options.planning, invocation));
    planner::SearchOptions search;
    search.evenInfeasible = options.riskOom;
    MEGAGRAPH_TRY(const planner::PlanTable table, planner::search(problem, search, [&](int64_t done, int64_t total) {
        progress(invocation, "plans", done, total);
    }, invocation.stop));
    if (table.picked < 0) {
        planner::Problem open = problem;
        open.constraints.allow.clear();
        MEGAGRAPH_TRY(const planner::PlanTable all, planner::search(open, {}, [](int64_t, int64_t) {}, {}));
        return Error{ErrorCode::Infeasible, planner::nothingFitsText(table, all)};
    }
    const planner::PlanRow& row = table.rows[size_t(table.picked)];
    fmt::print(stderr, "megagraph: no plan given: taking the fastest of {} that fit, \"{}\", predicted {} a step and {} per rank; {}\n", table.feasible,
               row.plan.name, durationText(row.stepNs), bytesText(row.peakBytes), table.profileNote);
    return row.plan;
}

Result<Job> newJob(const TrainOptions& options, const Invocation& invocation)
{
    Job job;
    if (options.plan.empty()) {
        MEGAGRAPH_TRY(job.plan, searchPlan(options, invocation));
    } else {
        MEGAGRAPH_TRY(job.plan, readPlan(options));
    }
    MEGAGRAPH_TRY(const Dataset dataset, Dataset::open(datasetFolder(homeFolder(), job.plan.datasetName)));
    job.dataset = dataset.spec();
    RunSpec& spec = job.spec;
    const ModelSpec& model = job.plan.model;
    spec.name = options.name.empty() ? fmt::format("{} {}", job.plan.datasetName, job.plan.name) : options.name;
    spec.seed = options.seed;
    spec.threadsPerRank = options.threads > 0 ? options.threads : std::max<int64_t>(1, planner::slotThreads(job.plan.cluster));
    spec.steps = options.steps > 0 ? options.steps : model.steps;
    spec.evalEvery = model.evalEvery;
    spec.patience = model.patience;
    spec.riskOom = options.riskOom;
    spec.split = options.split.empty() && !job.dataset.splits.empty() ? job.dataset.splits.front().name : options.split;
    spec.modelHash = sha256Hex(canonicalText(modelToJson(model)));
    spec.environment = {"MEGAGRAPH_HOME", "OMP_NUM_THREADS"};
    if (!options.split.empty()) {
        MEGAGRAPH_TRY(std::ignore, dataset.split(options.split));
    }
    MEGAGRAPH_TRY(std::ignore, setCheckpointEvery(options.every, spec));
    return job;
}

/// The documents of a run that is resumed, for progress and library; the supervisor reads them again under its lock.
Result<Job> oldJob(const std::string& folder)
{
    Job job;
    MEGAGRAPH_TRY(const Json run, readJsonFile(folder + "/run.json"));
    MEGAGRAPH_TRY(job.spec, runFromJson(run, folder + "/run.json"));
    MEGAGRAPH_TRY(const Json plan, readJsonFile(folder + "/plan.json"));
    MEGAGRAPH_TRY(job.plan, planFromJson(plan, folder + "/plan.json"));
    return job;
}

Result<int> train(const TrainOptions& options, const Invocation& invocation)
{
    const std::string home = homeFolder();
    launch::SupervisorOptions supervisor;
    supervisor.home = home;
    supervisor.riskOom = options.riskOom;
    supervisor.resumeStep = options.step;
    Job job;
    if (!options.resume.empty()) {
        if (!options.plan.empty() || !options.planning.data.empty() || !options.planning.set.empty())
            return Error{ErrorCode::Usage, "--resume: goes on with the run's own plan; leave --plan, --data and --set out"};
        MEGAGRAPH_TRY(supervisor.resumeRun, resolveRun(home, options.resume));
        MEGAGRAPH_TRY(job, oldJob(runFolder(home, supervisor.resumeRun)));
    } else {
        MEGAGRAPH_TRY(job, newJob(options, invocation));
    }
    MEGAGRAPH_TRY(supervisor.workerProgram, workerProgram());
    RunRecorder recorder(home, job.plan);
    RunProgress shown(invocation, job.spec.name, job.spec.steps);
    supervisor.nearestPlan = [&](const Json& oom) { return nearestPlanText(home, job.plan, oom); };
    supervisor.onReady = [&](const std::string& id, const std::string& folder) {
        if (options.detached)
            announceAndLeaveTerminal(id, folder);
        recorder.started(id, folder);
    };
    supervisor.onLine = [&](const Json& line) {
        recorder.take(line);
        if (!options.detached)
            shown.take(line);
    };
    MEGAGRAPH_TRY(const launch::RunOutcome outcome, launch::supervise(job.spec, job.plan, job.dataset, supervisor));
    shown.end();
    recorder.ended(outcome);
    if (!outcome.message.empty())
        fmt::print(stderr, "megagraph: {}\n", outcome.message);
    if (outcome.state == "stopped" && !options.detached)
        fmt::print(stderr, "megagraph: stopped; resume: megagraph train --resume {}\n", outcome.id);
    if (invocation.json)
        fmt::print("{}\n", outcome.result.dump());
    else if (!options.detached)
        printRunResult(outcome.result, outcome.folder);
    return outcome.exitCode;
}

} // namespace

Verb addTrain(CLI::App& root, Invocation& invocation)
{
    auto options = std::make_shared<TrainOptions>();
    CLI::App* app = root.add_subcommand("train", "Train a plan on local ranks, or resume a run");
    app->add_option("--plan", options->plan, "plan.json (default: search, and take the fastest that fits)");
    app->add_option("--resume", options->resume, "Go on with this run from its newest checkpoint: id, its beginning, or last");
    app->add_option("--step", options->step, "With --resume: the checkpoint of this step")->check(CLI::NonNegativeNumber);
    addPlanningOptions(*app, options->planning, true);
    app->add_option("--seed", options->seed, "Seed of all draws (default 1)");
    app->add_option("--steps", options->steps, "Steps (default: as the model says)")->check(CLI::Range(1, 1'000'000'000));
    app->add_option("--threads", options->threads, "Threads per rank (default: those of the plan's devices)")->check(CLI::Range(1, 1024));
    app->add_option("--split", options->split, "Split of the data set (default: the first)");
    app->add_option("--name", options->name, "Name of the run in lists");
    app->add_option("--checkpoint-every", options->every, "500steps, 15min, 90s or off (default 10min; also before the first step and at the end)");
    app->add_flag("--risk-oom", options->riskOom, "Run a plan that is predicted not to fit");
    app->add_flag("--detach", options->detach, "Print {\"run\",\"dir\"} once the run exists, and go on in the background");
    app->add_flag(kDetachedFlag, options->detached, "")->group("");
    app->add_flag("--json", invocation.json, "result.json as the last line of stdout");
    app->add_flag("--events", invocation.events, "Recorded lines as JSON on stderr");
    app->footer("Ctrl-C stops after the step, with a checkpoint; a second one stops at once.\n"
                "Example: megagraph train --plan plan.json --seed 1 --json");
    return {app,
            [options, &invocation] {
                if (options->detach)
                    return startDetached(invocation.json);
                const auto code = train(*options, invocation);
                return code.ok() ? *code : report(code.error(), invocation.json);
            },
            [options] { return !options->detach; }};
}

} // namespace megagraph::app
