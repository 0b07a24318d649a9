// SPDX-License-Identifier: Apache-2.0
// `profile`: measures layers, links and memory of this machine with the real model and data set, and keeps the profile.
#include "app/commands/planning.h"

#include "core/json.h"
#include "core/places.h"
#include "core/store/library.h"
#include "core/units.h"
#include "planner/profiling.h"
#include "planner/space.h"
#include "runtime/launch/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <tuple>

namespace megagraph::app {
namespace {

struct ProfileOptions {
    PlanningOptions planning;
    bool quick = false;
    double seconds = 30;
    std::string id, file;
    CLI::App *list = nullptr, *show = nullptr, *exported = nullptr, *imported = nullptr;
};

/// One stage over all slots with the exchange of this attention: gives the workers their groups.
Plan profilePlan(const planner::Problem& problem)
{
    const AttentionKind kind = attentionKind(problem.model);
    const auto ranks = int64_t(problem.cluster.devices().size());
    const std::string exchange = ranks == 1 ? "none" : kind == AttentionKind::Dense ? "ring" : kind == AttentionKind::Edges ? "gather" : "reduce";
    for (const planner::Candidate& candidate : planner::planCandidates(problem)) {
        const Plan& plan = candidate.plan;
        if (planner::knobValue(plan, "ring") == std::to_string(ranks) && planner::knobValue(plan, "exchange") == exchange &&
            planner::knobValue(plan, "recompute") == "none" && plan.attention == AttentionPath::Fused && planner::knobValue(plan, "zero") == "0")
            return plan;
    }
    return planner::planCandidates(problem).front().plan;
}

RunSpec profileRun(const ProfileOptions& options, const planner::Problem& problem)
{
    RunSpec spec;
    spec.kind = "profile";
    spec.name = fmt::format("profile {} {}", problem.dataset.name, problem.model.name);
    spec.threadsPerRank = planner::slotThreads(problem.cluster);
    spec.steps = 0;
    spec.evalEvery = 1;
    spec.split = problem.dataset.splits.empty() ? "" : problem.dataset.splits.front().name;
    spec.profileLevel = "quick";
    spec.profileSeconds = std::max(1.0, options.seconds - 4); // starting the workers and the point under way count too
    spec.profileJobs = planner::quickProfileJobs(problem, options.seconds);
    return spec;
}

Result<Profile> profileOf(const launch::RunOutcome& outcome, const RunSpec& spec, const planner::Problem& problem, double seconds)
{
    Profile profile;
    profile.createdUtc = utcNow();
    profile.level = outcome.state == "finished" ? "quick" : "partial";
    profile.modelSignature = modelSignature(problem.model);
    profile.datasetKey = planner::datasetKey(problem.dataset);
    profile.seconds = seconds;
    profile.note = fmt::format("{} {}", problem.dataset.name, problem.model.name);
    const auto devices = problem.cluster.devices();
    profile.fingerprint = localFingerprint(int64_t(devices.size()), planner::slotThreads(problem.cluster), planner::sharedCores(problem.cluster));
    profile.fingerprint.memoryBytes = devices.front().memoryBytes;
    for (const Json& line : outcome.points) {
        if (line.contains("point")) {
            MEGAGRAPH_TRY(ProfilePoint point, profilePointFromJson(line["point"], outcome.folder, "point"));
            profile.points.push_back(std::move(point));
        } else if (line.contains("name") && line.contains("value")) {
            profile.constants.push_back({line["name"].get<std::string>(), line["value"].get<double>(), line.value("unit", ""), "measured"});
        }
    }
    profile.holes = planner::profileHoles(spec.profileJobs, profile.points);
    profile.id = profileId(profile);
    return profile;
}

std::string keyText(const std::map<std::string, std::string>& key)
{
    std::vector<std::string> parts;
    for (const char* name : {"layer", "path", "op", "what", "attention", "exchange", "recompute", "phase", "ranks"}) {
        const auto found = key.find(name);
        if (found == key.end() || found->second.empty() || found->second == "none")
            continue;
        parts.push_back(std::string(name) == "ranks" ? "x " + found->second : found->second);
    }
    return fmt::format("{}", fmt::join(parts, " "));
}

void printProfile(const Profile& profile)
{
    fmt::print("Profile {} ({}, {}), {:.1f} s, {} points, {} holes\n", profile.id.substr(0, 8), profile.level, profile.note, profile.seconds,
               profile.points.size(), profile.holes.size());
    fmt::print("  {} x {} thread{}, {}, kernels {}\n\n", profile.fingerprint.deviceCount, profile.fingerprint.threadsPerSlot,
               profile.fingerprint.threadsPerSlot == 1 ? "" : "s", profile.fingerprint.cpuModel, profile.fingerprint.instructionLevel);
    fmt::print("  {:<11} {:<40} {:>10} {:>9} {:>6} {:>9} {:>9}  {}\n", "kind", "what", "size", "median", "spread", "kept", "transient", "status");
    for (const ProfilePoint& point : profile.points) {
        std::string size;
        for (const char* name : {"n", "n_q", "bytes", "parameters"})
            if (const auto found = point.x.find(name); found != point.x.end())
                size = fmt::format("{:.0f}", found->second);
        const double spread = point.medianNs > 0 ? 100.0 * double(point.madNs) / double(point.medianNs) : 0;
        fmt::print("  {:<11} {:<40} {:>10} {:>9} {:>4.1f} % {:>9} {:>9}  {}\n", point.kind, keyText(point.key), size,
                   point.medianNs > 0 ? durationText(point.medianNs) : "-", spread, bytesText(point.savedBytes), bytesText(point.peakBytes), point.status);
    }
    for (const ProfileConstant& constant : profile.constants)
        fmt::print("  constant    {:<40} {:>10.0f} {}\n", constant.name, constant.value, constant.unit);
    for (const ProfileHole& hole : profile.holes)
        fmt::print("  hole        {} {}: {}\n", hole.kind, keyText(hole.key), hole.reason);
}

void printDocument(const Profile& profile, bool json)
{
    if (json)
        fmt::print("{}\n", profileToJson(profile).dump(2));
    else
        printProfile(profile);
}

Result<int> measure(const ProfileOptions& options, const Invocation& invocation)
{
    MEGAGRAPH_TRY(const planner::Problem problem, planningProblem(options.planning, invocation));
    const RunSpec spec = profileRun(options, problem);
    launch::SupervisorOptions supervisor;
    supervisor.home = homeFolder();
    supervisor.workerProgram = programPath("megagraph-worker");
    if (supervisor.workerProgram.empty())
        return Error{ErrorCode::NotFound, "profile: megagraph-worker was not found beside this program or on PATH; build it with -DMEGAGRAPH_WORKER=ON"};
    const auto total = int64_t(spec.profileJobs.size());
    int64_t done = 0;
    std::string last;
    supervisor.onLine = [&](const Json& line) {
        if (line.value("kind", "") != "profile_point" || !line.contains("point"))
            return;
        const auto point = profilePointFromJson(line["point"], "profile point", "point");
        if (!point.ok())
            return;
        auto job = point->key;
        job.erase("phase");
        if (const std::string what = point->kind + " " + keyText(job); what != last || job.empty()) {
            last = what;
            progress(invocation, what, std::min(++done, total - 1), total);
        }
    };
    const auto start = std::chrono::steady_clock::now();
    MEGAGRAPH_TRY(const launch::RunOutcome outcome, launch::supervise(spec, profilePlan(problem), problem.dataset, supervisor));
    progress(invocation, "measuring", total, total);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    MEGAGRAPH_TRY(const Profile profile, profileOf(outcome, spec, problem, seconds));
    if (!profile.points.empty()) {
        MEGAGRAPH_TRY(Library library, Library::open(homeFolder()));
        MEGAGRAPH_TRY(std::ignore, library.saveProfile(profile));
        printDocument(profile, invocation.json);
    }
    if (outcome.exitCode != 0)
        return Error{outcome.state == "stopped" ? ErrorCode::Cancelled : ErrorCode::RankFailed,
                     fmt::format("profile: {}{}", outcome.message.empty() ? "stopped" : outcome.message,
                                 profile.points.empty() ? "" : fmt::format("; {} points are kept as profile {}", profile.points.size(), profile.id.substr(0, 8)))};
    if (profile.points.empty())
        return Error{ErrorCode::Internal, fmt::format("profile: run {}: the workers reported no points", outcome.id)};
    return 0;
}

Result<int> list(const Invocation& invocation)
{
    MEGAGRAPH_TRY(const Library library, Library::open(homeFolder()));
    MEGAGRAPH_TRY(const std::vector<ProfileRow> rows, library.profiles());
    if (invocation.json) {
        Json out{{"format", "megagraph.profile_list"}, {"version", 1}, {"profiles", Json::array()}};
        for (const ProfileRow& row : rows)
            out["profiles"].push_back({{"id", row.id}, {"created_utc", row.createdUtc}, {"level", row.level}, {"model_signature", row.modelSignature},
                                       {"dataset_key", row.datasetKey}, {"seconds", row.seconds}, {"points", row.points}, {"note", row.note}});
        fmt::print("{}\n", out.dump(2));
        return 0;
    }
    if (rows.empty())
        fmt::print("No profiles yet. Measure with: megagraph profile --quick --data NAME --model PRESET\n");
    for (const ProfileRow& row : rows)
        fmt::print("{}  {}  {:<8} {:>4} points {:>6.1f} s  {}\n", row.id.substr(0, 8), row.createdUtc, row.level, row.points, row.seconds, row.note);
    return 0;
}

Result<int> show(const ProfileOptions& options, const Invocation& invocation)
{
    MEGAGRAPH_TRY(const Library library, Library::open(homeFolder()));
    MEGAGRAPH_TRY(const Profile profile, library.profile(options.id));
    printDocument(profile, invocation.json);
    return 0;
}

Result<int> exportProfile(const ProfileOptions& options)
{
    MEGAGRAPH_TRY(const Library library, Library::open(homeFolder()));
    MEGAGRAPH_TRY(const Profile profile, library.profile(options.id));
    MEGAGRAPH_TRY(std::ignore, writeFileAtomically(options.file, profileToJson(profile).dump(2) + "\n"));
    fmt::print("{}\n", options.file);
    return 0;
}

Result<int> importProfile(const ProfileOptions& options)
{
    MEGAGRAPH_TRY(const Json json, readJsonFile(options.file));
    MEGAGRAPH_TRY(const Profile profile, profileFromJson(json, options.file));
    if (const std::string id = profileId(profile); id != profile.id)
        return Error{ErrorCode::InvalidInput, fmt::format("{}: id: does not match the content, got {}, expected {}; export the profile again",
                                                          options.file, profile.id.substr(0, 8), id.substr(0, 8))};
    MEGAGRAPH_TRY(Library library, Library::open(homeFolder()));
    MEGAGRAPH_TRY(std::ignore, library.saveProfile(profile));
    fmt::print("{}\n", profile.id.substr(0, 8));
    return 0;
}

Result<int> profile(const ProfileOptions& options, const Invocation& invocation)
{
    if (options.list->parsed())
        return list(invocation);
    if (options.show->parsed())
        return show(options, invocation);
    if (options.exported->parsed())
        return exportProfile(options);
    if (options.imported->parsed())
        return importProfile(options);
    return measure(options, invocation);
}

void addStored(CLI::App& app, ProfileOptions& options, Invocation& invocation)
{
    app.require_subcommand(0, 1);
    options.list = app.add_subcommand("list", "Stored profiles, newest first");
    options.show = app.add_subcommand("show", "Points, constants and holes of a profile");
    options.exported = app.add_subcommand("export", "Write a profile to a file");
    options.imported = app.add_subcommand("import", "Read a profile from a file");
    for (CLI::App* verb : {options.list, options.show})
        verb->add_flag("--json", invocation.json, "Print one JSON document");
    for (CLI::App* verb : {options.show, options.exported})
        verb->add_option("ID", options.id, "Profile id or its beginning")->required();
    for (CLI::App* verb : {options.exported, options.imported})
        verb->add_option("FILE", options.file, "profile.json")->required();
}

} // namespace

Verb addProfile(CLI::App& root, Invocation& invocation)
{
    auto options = std::make_shared<ProfileOptions>();
    CLI::App* app = root.add_subcommand("profile", "Measure layers, links and memory of this machine");
    addPlanningOptions(*app, options->planning, false);
    app->add_flag("--quick", options->quick, "About 30 s: every size that the local plans need (the only level of this version)");
    app->add_option("--seconds", options->seconds, "Time for all points")->check(CLI::Range(1.0, 3600.0));
    app->add_flag("--json", invocation.json, "Print one JSON document");
    app->add_flag("--events", invocation.events, "Progress as JSON lines on stderr");
    app->footer("Example: megagraph profile --quick --ranks 2 --data cora --model graphormer-cora");
    addStored(*app, *options, invocation);
    const auto stored = [options] {
        return options->list->parsed() || options->show->parsed() || options->exported->parsed() || options->imported->parsed();
    };
    return {app,
            [options, &invocation] {
                const auto code = profile(*options, invocation);
                return code.ok() ? *code : report(code.error(), invocation.json);
            },
            [stored] { return !stored(); }};
}

} // namespace megagraph::app
