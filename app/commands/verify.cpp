// SPDX-License-Identifier: Apache-2.0
// `verify`: trains the same seed serially and under the plan, and compares losses and gradients of every step.
#include "app/commands/planning.h"
#include "app/commands/run_support.h"

#include "core/event.h"
#include "core/hash.h"
#include "core/io/dataset.h"
#include "core/places.h"
#include "core/units.h"
#include "planner/profiling.h"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <tuple>

namespace megagraph::app {
namespace {

constexpr double kLossLimit = 1e-5, kGradientLimit = 1e-4; // fp32; parallelism design, section 6

struct VerifyOptions {
    std::string plan;
    std::vector<std::string> set;
    int64_t steps = 50, threads = 0;
    uint64_t seed = 1;
    bool keep = false;
};

/// What all `verify.step` lines of a run say together. A NaN counts as larger than any number.
struct Differences {
    double loss = 0, gradient = 0;
    int64_t steps = 0, lossStep = -1, gradientStep = -1;
    std::string parameter;

    void take(const Json& line)
    {
        ++steps;
        const int64_t step = line.value("step", int64_t(-1));
        if (const double value = numberOf(line["loss_rel"]); !(value <= loss)) {
            loss = value;
            lossStep = step;
        }
        if (const double value = numberOf(line["gradient_rel"]); !(value <= gradient)) {
            gradient = value;
            gradientStep = step;
            parameter = line.value("parameter", "");
        }
    }
    bool same() const { return loss <= kLossLimit && gradient <= kGradientLimit; }
};

/// One rank over the whole sequence, nothing recomputed, the fused kernel: the reference that every plan must equal.
Result<Plan> serialPlan(const Plan& plan)
{
    Plan serial = plan;
    MEGAGRAPH_TRY(serial.cluster, localCluster(1, 0));
    StagePlan stage;
    stage.firstLayer = 0;
    stage.lastLayer = plan.stages.empty() ? plan.model.blocks + 2 : plan.stages.back().lastLayer;
    stage.devices = {0};
    if (plan.mode == SequenceMode::Full)
        stage.cuts = {0, plan.tokens};
    serial.stages = {stage};
    serial.attention = AttentionPath::Fused;
    serial.prediction = {};
    serial.name = planName(serial);
    return serial;
}

RunSpec verifyRun(const VerifyOptions& options, const Plan& plan, const DatasetSpec& dataset, const std::string& role)
{
    RunSpec spec;
    spec.kind = "verify";
    spec.name = fmt::format("verify {} {}: {}", plan.datasetName, role, plan.name);
    spec.seed = options.seed;
    spec.steps = options.steps;
    spec.evalEvery = options.steps;
    spec.threadsPerRank = options.threads > 0 ? options.threads : std::max<int64_t>(1, planner::slotThreads(plan.cluster));
    spec.checkpointEveryS = 0;
    spec.riskOom = true; // whether it fits is not the question here
    spec.split = dataset.splits.empty() ? "" : dataset.splits.front().name;
    spec.modelHash = sha256Hex(canonicalText(modelToJson(plan.model)));
    spec.verifyRole = role;
    return spec;
}

Result<launch::RunOutcome> supervised(const RunSpec& spec, const Plan& plan, const DatasetSpec& dataset, const Invocation& invocation,
                                      const std::function<void(const Json&)>& onLine)
{
    launch::SupervisorOptions supervisor;
    supervisor.home = homeFolder();
    MEGAGRAPH_TRY(supervisor.workerProgram, workerProgram());
    RunRecorder recorder(supervisor.home, plan);
    RunProgress shown(invocation, spec.verifyRole == "serial" ? "serial run" : "plan's run", spec.steps);
    supervisor.onReady = [&](const std::string& id, const std::string& folder) { recorder.started(id, folder); };
    supervisor.onLine = [&](const Json& line) {
        shown.take(line);
        onLine(line);
    };
    MEGAGRAPH_TRY(launch::RunOutcome outcome, launch::supervise(spec, plan, dataset, supervisor));
    shown.end();
    recorder.ended(outcome);
    if (outcome.state == "stopped")
        return Error{ErrorCode::Cancelled, fmt::format("verify: run {} was stopped", outcome.id)};
    if (outcome.state != "finished")
        return Error{outcome.exitCode == exitCode(ErrorCode::Refused) ? ErrorCode::Refused : ErrorCode::RankFailed,
                     fmt::format("verify: {} run {}: {}", spec.verifyRole, outcome.id, outcome.message)};
    return outcome;
}

Json certificate(const VerifyOptions& options, const Plan& plan, const Differences& found, const std::string& serialRun, const std::string& planRun)
{
    return Json{{"format", "megagraph.certificate"},
                {"version", 1},
                {"steps", found.steps},
                {"loss_rel_max", numberJson(found.loss)},
                {"gradient_rel_max", numberJson(found.gradient)},
                {"limits", {{"loss_rel", kLossLimit}, {"gradient_rel", kGradientLimit}}},
                {"verdict", found.same() ? "same" : "different"},
                {"loss_step", found.lossStep},
                {"gradient_step", found.gradientStep},
                {"gradient_parameter", found.parameter},
                {"plan", {{"name", plan.name}, {"hash", planHash(plan)}}},
                {"dataset", {{"name", plan.datasetName}, {"content_hash", plan.datasetHash}}},
                {"model", plan.model.name},
                {"seed", options.seed},
                {"created_utc", utcNow()},
                {"runs", {{"serial", serialRun}, {"plan", planRun}}}};
}

void keepCertificate(const Json& document, const Plan& plan, const std::string& folder)
{
    (void)writeFileAtomically(folder + "/certificate.json", document.dump(1) + "\n").ok();
    auto library = Library::open(homeFolder());
    if (library.ok())
        if (const auto saved = library->saveCertificate(planHash(plan), plan.datasetHash, document["verdict"].get<std::string>(), document.dump()); saved.ok())
            return;
    fmt::print(stderr, "megagraph: the certificate is in {}, but the library was not written\n", folder);
}

Result<int> verify(const VerifyOptions& options, const Invocation& invocation)
{
    MEGAGRAPH_TRY(const Json json, readJsonFile(options.plan));
    MEGAGRAPH_TRY(Plan plan, planFromJson(json, options.plan));
    for (const std::string& setting : options.set) {
        MEGAGRAPH_TRY(plan.model, setModelValue(plan.model, setting, true));
    }
    MEGAGRAPH_TRY(const Dataset dataset, Dataset::open(datasetFolder(homeFolder(), plan.datasetName)));
    MEGAGRAPH_TRY(const Plan serial, serialPlan(plan));
    MEGAGRAPH_TRY(const launch::RunOutcome reference, supervised(verifyRun(options, serial, dataset.spec(), "serial"), serial, dataset.spec(), invocation, [](const Json&) {}));
    RunSpec spec = verifyRun(options, plan, dataset.spec(), "plan");
    spec.verifyReferenceRun = reference.id;
    Differences found;
    auto outcome = supervised(spec, plan, dataset.spec(), invocation, [&](const Json& line) {
        if (line.value("kind", "") == "verify.step" && line.contains("loss_rel") && line.contains("gradient_rel"))
            found.take(line);
    });
    if (!options.keep) {
        std::error_code ignored;
        std::filesystem::remove_all(reference.folder + "/gradients", ignored); // large, and of no use any more
    }
    if (!outcome.ok())
        return outcome.error();
    if (found.steps != options.steps)
        return Error{ErrorCode::Internal, fmt::format("verify: run {}: {} steps were compared, expected {}", outcome->id, found.steps, options.steps)};
    const Json document = certificate(options, plan, found, reference.id, outcome->id);
    keepCertificate(document, plan, outcome->folder);
    if (invocation.json)
        fmt::print("{}\n", document.dump());
    else
        fmt::print("{}: {} steps of \"{}\" against the serial run\n  loss      {:.2e} relative at most (limit {:.0e}), step {}\n"
                   "  gradients {:.2e} relative at most (limit {:.0e}), step {}, {}\n  {}/certificate.json\n",
                   found.same() ? "Same" : "DIFFERENT", found.steps, plan.name, found.loss, kLossLimit, found.lossStep, found.gradient, kGradientLimit,
                   found.gradientStep, found.parameter.empty() ? "all parameters" : found.parameter, outcome->folder);
    return found.same() ? 0 : 1;
}

} // namespace

Verb addVerify(CLI::App& root, Invocation& invocation)
{
    auto options = std::make_shared<VerifyOptions>();
    CLI::App* app = root.add_subcommand("verify", "Prove that a plan trains as the serial run does");
    app->add_option("PLAN", options->plan, "plan.json")->required();
    app->add_option("--steps", options->steps, "Steps to compare")->check(CLI::Range(1, 100'000))->capture_default_str();
    app->add_option("--seed", options->seed, "Seed of all draws (default 1)");
    app->add_option("--threads", options->threads, "Threads per rank (default: those of the plan's devices)")->check(CLI::Range(1, 1024));
    app->add_option("--set", options->set, "KEY=VALUE: change one key of the model that changes no shape; may be repeated");
    app->add_flag("--keep-gradients", options->keep, "Leave the serial run's gradients in its run directory");
    app->add_flag("--json", invocation.json, "The certificate as one JSON document");
    app->add_flag("--events", invocation.events, "Recorded lines as JSON on stderr");
    app->footer("Exit code 0: same, 1: different.\nExample: megagraph verify plan.json --steps 50");
    return {app,
            [options, &invocation] {
                const auto code = verify(*options, invocation);
                return code.ok() ? *code : report(code.error(), invocation.json);
            },
            [] { return true; }};
}

} // namespace megagraph::app
