// SPDX-License-Identifier: Apache-2.0
#include "app/commands/planning.h"

#include "core/json.h"
#include "core/places.h"
#include "core/store/library.h"
#include "core/units.h"
#include "planner/profiling.h"

#include <fmt/format.h>

#include <filesystem>
#include <tuple>

namespace megagraph::app {

void addPlanningOptions(CLI::App& app, PlanningOptions& options, bool constraints)
{
    app.add_option("--data", options.data, "Data set of the library (megagraph import, generate)");
    app.add_option("--model", options.model, "Model preset, or a model.json");
    app.add_option("--ranks", options.ranks, "CPU slots of this machine (default: 2, or 1 on one core)")->check(CLI::Range(1, 256));
    app.add_option("--budget", options.budget, "Memory of each slot, e.g. 1GiB (default: 80 % of what is available, shared out)");
    app.add_option("--cluster", options.cluster, "cluster.json instead of --ranks and --budget");
    app.add_option("--set", options.set, "KEY=VALUE: change one key of the model; may be repeated");
    if (!constraints)
        return;
    app.add_option("--constraints", options.constraints, "constraints.json");
    app.add_option("--allow", options.allow, "KNOB=V,..: allow only these values of a knob; may be repeated");
    app.add_option("--profile", options.profile, "Profile to use: id, its beginning, or a file (default: the newest that matches)");
    app.add_flag("--accept-stale", options.acceptStale, "Also use a profile of this hardware under other versions");
}

Result<ModelSpec> modelWithSettings(const std::string& model, const std::vector<std::string>& settings)
{
    MEGAGRAPH_TRY(ModelSpec spec, loadModel(model, resourcesFolder()));
    for (const std::string& setting : settings) {
        MEGAGRAPH_TRY(spec, setModelValue(spec, setting, false));
    }
    return spec;
}

namespace {

Result<ClusterSpec> clusterOf(const PlanningOptions& options)
{
    if (!options.cluster.empty()) {
        if (options.ranks > 0 || !options.budget.empty())
            return Error{ErrorCode::Usage, "--cluster: excludes --ranks and --budget; write devices and memory_bytes into the file"};
        MEGAGRAPH_TRY(const Json json, readJsonFile(options.cluster));
        return clusterFromJson(json, options.cluster);
    }
    int64_t budget = 0;
    if (!options.budget.empty()) {
        MEGAGRAPH_TRY(budget, parseBytes(options.budget));
    }
    return localCluster(options.ranks, budget);
}

Result<ConstraintsSpec> constraintsOf(const PlanningOptions& options)
{
    ConstraintsSpec spec;
    if (!options.constraints.empty()) {
        MEGAGRAPH_TRY(const Json json, readJsonFile(options.constraints));
        MEGAGRAPH_TRY(spec, constraintsFromJson(json, options.constraints));
    }
    for (const std::string& assignment : options.allow) {
        MEGAGRAPH_TRY(std::ignore, addAllowed(spec, assignment));
    }
    return spec;
}

Result<Profile> readProfile(const std::string& idOrFile)
{
    if (std::filesystem::is_regular_file(idOrFile)) {
        MEGAGRAPH_TRY(const Json json, readJsonFile(idOrFile));
        return profileFromJson(json, idOrFile);
    }
    MEGAGRAPH_TRY(const Library library, Library::open(homeFolder()));
    return library.profile(idOrFile);
}

Result<Ok> chooseProfile(const PlanningOptions& options, planner::ProblemRequest& request)
{
    if (options.acceptStale)
        request.match = "stale"; // also stale ones may be found
    if (options.profile.empty())
        return Ok{};
    MEGAGRAPH_TRY(request.profile, readProfile(options.profile));
    request.match = planner::profileMatch(*request.profile, request.cluster);
    const std::string id = request.profile->id.substr(0, 8);
    if (request.profile->modelSignature != modelSignature(request.model))
        return Error{ErrorCode::Refused, fmt::format("profile {}: was measured with another model shape ({}, this one is {}); measure "
                                                     "again with megagraph profile --quick", id, request.profile->modelSignature, modelSignature(request.model))};
    if (request.match == "other")
        return Error{ErrorCode::Refused, fmt::format("profile {}: was measured on other hardware ({}); it never prices this one: measure "
                                                     "with megagraph profile --quick", id, request.profile->fingerprint.deviceName)};
    if (request.match == "stale" && !options.acceptStale)
        return Error{ErrorCode::Refused, fmt::format("profile {}: is stale (versions, clock or age differ); use --accept-stale, or "
                                                     "measure again with megagraph profile --quick", id)};
    return Ok{};
}

} // namespace

Result<planner::ProblemRequest> planningRequest(const PlanningOptions& options)
{
    if (options.data.empty())
        return Error{ErrorCode::Usage, "--data: is missing; name a data set of the library (megagraph inspect lists them)"};
    if (options.model.empty())
        return Error{ErrorCode::Usage, "--model: is missing; name a preset or a model.json (megagraph model lists them)"};
    planner::ProblemRequest request;
    request.home = homeFolder();
    request.resources = resourcesFolder();
    request.dataset = options.data;
    MEGAGRAPH_TRY(request.model, modelWithSettings(options.model, options.set));
    MEGAGRAPH_TRY(request.cluster, clusterOf(options));
    MEGAGRAPH_TRY(request.constraints, constraintsOf(options));
    MEGAGRAPH_TRY(std::ignore, chooseProfile(options, request));
    return request;
}

Result<planner::Problem> planningProblem(const PlanningOptions& options, const Invocation& invocation)
{
    MEGAGRAPH_TRY(const planner::ProblemRequest request, planningRequest(options));
    return planner::assembleProblem(
        request, [&](const std::string& what, int64_t done, int64_t total) { progress(invocation, what, done, total); }, invocation.stop);
}

} // namespace megagraph::app
