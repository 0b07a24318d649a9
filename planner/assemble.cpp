// SPDX-License-Identifier: Apache-2.0
#include "core/io/dataset.h"
#include "core/json.h"
#include "core/places.h"
#include "kernels/graph/graph_stats.h"
#include "planner/profiling.h"
#include "planner/search.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <thread>
#include <tuple>

namespace megagraph::planner {

namespace {

constexpr double kOldestDays = 90;

/// Days since a UTC text "2026-01-05T10:11:12.345Z"; 0 when it cannot be read.
double ageDays(const std::string& utc)
{
    std::tm time{};
    if (std::sscanf(utc.c_str(), "%d-%d-%dT%d:%d:%d", &time.tm_year, &time.tm_mon, &time.tm_mday, &time.tm_hour, &time.tm_min, &time.tm_sec) != 6)
        return 0;
    time.tm_year -= 1900;
    time.tm_mon -= 1;
    return std::difftime(std::time(nullptr), timegm(&time)) / 86400;
}

/// The largest number of replicas that the constraints let the search use.
int64_t mostReplicas(const Problem& problem)
{
    auto ranks = int64_t(problem.cluster.devices().size());
    if (problem.constraints.ranks > 0)
        ranks = std::min(ranks, problem.constraints.ranks);
    const auto allowed = problem.constraints.allow.find("replicas");
    if (allowed == problem.constraints.allow.end())
        return ranks;
    int64_t most = 1;
    for (const std::string& text : allowed->second) {
        int64_t value = 1;
        std::from_chars(text.data(), text.data() + text.size(), value);
        if (value <= ranks)
            most = std::max(most, value);
    }
    return most;
}

} // namespace

std::string datasetKey(const DatasetSpec& dataset)
{
    return dataset.contentHash.substr(0, 8);
}

int64_t slotThreads(const ClusterSpec& cluster)
{
    int64_t threads = 0;
    for (const DeviceSpec& device : cluster.devices())
        threads = threads == 0 ? device.threads : std::min(threads, device.threads);
    return std::max<int64_t>(1, threads);
}

bool sharedCores(const ClusterSpec& cluster)
{
    for (const NodeSpec& node : cluster.nodes)
        if (node.shared)
            return true;
    return false;
}

std::string profileMatch(const Profile& profile, const ClusterSpec& cluster)
{
    for (const DeviceSpec& device : cluster.devices())
        if (!device.preset.empty())
            return "other";
    Fingerprint here = localFingerprint(profile.fingerprint.deviceCount, slotThreads(cluster), sharedCores(cluster));
    const Fingerprint& there = profile.fingerprint;
    const bool sameHardware = here.deviceKind == there.deviceKind && here.deviceName == there.deviceName && here.cpuModel == there.cpuModel &&
                              here.cores == there.cores && here.threadsPerSlot == there.threadsPerSlot && here.numaNodes == there.numaNodes &&
                              here.instructionLevel == there.instructionLevel && here.sharedCores == there.sharedCores;
    if (!sameHardware || there.deviceCount < int64_t(cluster.devices().size()))
        return "other";
    const double clock = here.clockMhz > 0 && there.clockMhz > 0 ? std::abs(double(here.clockMhz) / double(there.clockMhz) - 1) : 0;
    here.driver = there.driver; // a CPU slot has no driver
    const bool sameVersions = here.id() == there.id();
    return sameVersions && clock <= 0.05 && ageDays(profile.createdUtc) <= kOldestDays ? "exact" : "stale";
}

FoundProfile findProfile(const std::string& home, const ClusterSpec& cluster, const ModelSpec& model, const DatasetSpec& dataset,
                         bool acceptStale)
{
    FoundProfile best;
    std::error_code ignored;
    const auto signature = modelSignature(model);
    for (const auto& entry : std::filesystem::directory_iterator(home + "/profiles", ignored)) {
        if (entry.path().extension() != ".json")
            continue;
        const auto json = readJsonFile(entry.path().string());
        if (!json.ok())
            continue;
        auto profile = profileFromJson(*json, entry.path().string());
        if (!profile.ok() || profile->modelSignature != signature || profile->datasetKey != datasetKey(dataset))
            continue;
        const std::string match = profileMatch(*profile, cluster);
        if (match == "other" || (match == "stale" && !acceptStale))
            continue;
        const auto rank = [](const FoundProfile& f) { return std::tuple(f.match == "exact", f.profile ? f.profile->createdUtc : std::string()); };
        FoundProfile found{std::move(*profile), match};
        if (!best.profile || rank(found) > rank(best))
            best = std::move(found);
    }
    return best;
}

int64_t sequenceTokensFor(int64_t nodes, int64_t wanted, int64_t replicas)
{
    const auto count = [&](int64_t tokens) { return std::clamp<int64_t>((nodes + tokens / 2) / std::max<int64_t>(1, tokens), 1, std::max<int64_t>(1, nodes)); };
    if (wanted < 1 || replicas < 2 || nodes < replicas || count(wanted) % replicas == 0)
        return wanted;
    for (int64_t step = 1; step < nodes; ++step) // shorter first: it needs no more memory than asked for
        for (const int64_t tokens : {wanted - step, wanted + step})
            if (tokens >= 1 && tokens <= nodes && count(tokens) % replicas == 0)
                return tokens;
    return wanted;
}

Result<Problem> assembleProblem(const ProblemRequest& request, const std::function<void(const std::string&, int64_t, int64_t)>& progress,
                                std::stop_token stop)
{
    MEGAGRAPH_TRY(const Dataset dataset, Dataset::open(datasetFolder(request.home, request.dataset)));
    Problem problem;
    problem.dataset = dataset.spec();
    problem.model = request.model;
    problem.cluster = request.cluster;
    problem.constraints = request.constraints;
    problem.resources = request.resources;
    if (problem.model.sequenceMode == SequenceMode::Clusters) {
        const int64_t wanted = problem.model.sequenceTokens > 0 ? std::min(problem.model.sequenceTokens, dataset.nodes()) : dataset.nodes();
        problem.model.sequenceTokens = sequenceTokensFor(dataset.nodes(), wanted, mostReplicas(problem));
    }
    kernels::GraphStatsOptions options;
    options.contexts.clear();
    for (int64_t c = 1; c <= int64_t(problem.cluster.devices().size()); ++c)
        options.contexts.push_back(c);
    const kernels::ForkJoinFor parallel(int32_t(std::max(1u, std::thread::hardware_concurrency())));
    MEGAGRAPH_TRY(problem.stats, kernels::graphStats(request.home, dataset, problem.model, options, parallel, progress, stop));
    if (request.profile) {
        problem.profile = request.profile;
        problem.match = request.match;
    } else {
        FoundProfile found = findProfile(request.home, problem.cluster, problem.model, problem.dataset, request.match == "stale");
        problem.profile = std::move(found.profile);
        problem.match = problem.profile ? found.match : "none";
    }
    return problem;
}

} // namespace megagraph::planner
