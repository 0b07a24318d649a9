// SPDX-License-Identifier: Apache-2.0
#include "core/run_spec.h"

#include <fmt/format.h>
#include <tuple>

namespace megagraph {

namespace {

constexpr int64_t kMaxSteps = 1'000'000'000;

void readChoice(ObjectReader& reader, const char* key, std::string& out, const std::vector<std::string>& names)
{
    int position = -1;
    reader.getChoice(key, position, names);
    if (position >= 0)
        out = names[static_cast<size_t>(position)];
}

/// A run's id names a folder, so it must not climb out of `runs/`.
void readRunId(ObjectReader& reader, const char* key, std::string& out, bool mayBeEmpty)
{
    reader.get(key, out);
    const bool plain = out.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == std::string::npos;
    if (!plain || out.starts_with(".") || out.size() > 128 || (out.empty() && !mayBeEmpty))
        reader.fail(key, fmt::format("not a run id, got \"{}\", expected letters, digits, - _ and .", out.substr(0, 60)));
}

void readSeed(ObjectReader& reader, uint64_t& out)
{
    const Json* value = reader.raw("seed");
    if (value == nullptr)
        return;
    if (value->is_number_unsigned() || (value->is_number_integer() && value->get<int64_t>() >= 0))
        out = value->get<uint64_t>();
    else
        reader.fail("seed", fmt::format("out of range, got {}, expected an integer from 0 to {}", value->dump().substr(0, 60), UINT64_MAX));
}

void readProfilePart(ObjectReader& root, RunSpec& spec)
{
    ObjectReader profile = root.child("profile");
    readChoice(profile, "level", spec.profileLevel, {"", "quick", "full", "partial"});
    profile.get("seconds", spec.profileSeconds, 0, 1e7);
    for (ObjectReader& job : profile.children("jobs"))
        readProfileJob(job, spec.profileJobs.emplace_back());
}

} // namespace

Result<RunSpec> runFromJson(const Json& value, const std::string& file)
{
    RunSpec spec;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.run", 1);
    readRunId(reader, "id", spec.id, false);
    readChoice(reader, "kind", spec.kind, {"train", "verify", "profile"});
    reader.get("name", spec.name);
    reader.get("created_utc", spec.createdUtc);
    ObjectReader parent = reader.child("parent");
    readRunId(parent, "run", spec.parentRun, true);
    parent.get("step", spec.parentStep, 0, kMaxSteps);
    readSeed(reader, spec.seed);
    reader.get("threads_per_rank", spec.threadsPerRank, 1, 4096);
    reader.get("steps", spec.steps, 0, kMaxSteps);
    reader.get("eval_every", spec.evalEvery, 1, kMaxSteps);
    reader.get("checkpoint_every_steps", spec.checkpointEverySteps, 0, kMaxSteps);
    reader.get("checkpoint_every_s", spec.checkpointEveryS, 0, 1e9);
    reader.get("patience", spec.patience, 0, kMaxSteps);
    reader.get("risk_oom", spec.riskOom);
    reader.get("launcher", spec.launcher);
    reader.get("world", spec.world, 1, 1 << 20);
    reader.get("split", spec.split);
    ObjectReader build = reader.child("build");
    build.get("id", spec.buildId);
    build.get("libtorch", spec.libtorch);
    ObjectReader hashes = reader.child("hashes");
    hashes.get("plan", spec.planHash);
    hashes.get("model", spec.modelHash);
    hashes.get("data", spec.dataHash);
    reader.get("environment", spec.environment);
    ObjectReader verify = reader.child("verify");
    readChoice(verify, "role", spec.verifyRole, {"", "serial", "plan"});
    readRunId(verify, "reference_run", spec.verifyReferenceRun, true);
    readProfilePart(reader, spec);
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return spec;
}

Json runToJson(const RunSpec& s)
{
    Json jobs = Json::array();
    for (const ProfileJob& job : s.profileJobs)
        jobs.push_back(profileJobToJson(job));
    return {{"format", "megagraph.run"},
            {"version", 1},
            {"id", s.id},
            {"kind", s.kind},
            {"name", s.name},
            {"created_utc", s.createdUtc},
            {"parent", {{"run", s.parentRun}, {"step", s.parentStep}}},
            {"seed", s.seed},
            {"threads_per_rank", s.threadsPerRank},
            {"steps", s.steps},
            {"eval_every", s.evalEvery},
            {"checkpoint_every_steps", s.checkpointEverySteps},
            {"checkpoint_every_s", s.checkpointEveryS},
            {"patience", s.patience},
            {"risk_oom", s.riskOom},
            {"launcher", s.launcher},
            {"world", s.world},
            {"split", s.split},
            {"build", {{"id", s.buildId}, {"libtorch", s.libtorch}}},
            {"hashes", {{"plan", s.planHash}, {"model", s.modelHash}, {"data", s.dataHash}}},
            {"environment", s.environment},
            {"verify", {{"role", s.verifyRole}, {"reference_run", s.verifyReferenceRun}}},
            {"profile", {{"level", s.profileLevel}, {"seconds", s.profileSeconds}, {"jobs", jobs}}}};
}

Result<ProjectSpec> projectFromJson(const Json& value, const std::string& file)
{
    ProjectSpec spec;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.project", 1);
    reader.get("dataset", spec.dataset);
    reader.get("model", spec.model);
    reader.get("clusters", spec.clusters);
    reader.get("active_cluster", spec.activeCluster, 0, spec.clusters.empty() ? 0 : static_cast<int64_t>(spec.clusters.size()) - 1);
    reader.get("constraints", spec.constraints);
    reader.get("plans", spec.plans);
    reader.get("runs", spec.runs);
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return spec;
}

Json projectToJson(const ProjectSpec& s)
{
    return {{"format", "megagraph.project"}, {"version", 1},
            {"dataset", s.dataset},          {"model", s.model},
            {"clusters", s.clusters},        {"active_cluster", s.activeCluster},
            {"constraints", s.constraints},  {"plans", s.plans},
            {"runs", s.runs}};
}

} // namespace megagraph
