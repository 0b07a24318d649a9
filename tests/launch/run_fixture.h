// SPDX-License-Identifier: Apache-2.0
// What the supervisor's tests share: a home with a small canonical data set, a legal plan for it, the scripted worker, and the
// look around after each test: no process, no store, no half-written checkpoint of a run may be left.
#pragma once

#include "core/clock.h"
#include "core/dataset_spec.h"
#include "core/follow.h"
#include "core/json.h"
#include "core/plan.h"
#include "core/run_spec.h"
#include "runtime/launch/run_directory.h"
#include "runtime/launch/supervisor.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <unistd.h>

namespace megagraph::launch {

inline DatasetSpec testDataset()
{
    DatasetSpec spec;
    spec.name = "tiny";
    spec.contentHash = std::string(64, 'a');
    spec.structureHash = spec.featuresHash = spec.labelsHash = std::string(64, 'b');
    spec.nodes = 8;
    spec.entries = 16;
    spec.undirectedEdges = 8;
    spec.components = 1;
    spec.featureKind = "dense";
    spec.featureWidth = 4;
    spec.featureValues = "float32";
    spec.taskKind = "classification";
    spec.tasks = 1;
    spec.labelledItems = 8;
    spec.classes = {"0", "1"};
    spec.splits = {{"default", "splits/default.npy", 4, 2, 2, 0}};
    spec.arrays = {{"indptr.npy", "<i8", {9}, 200, "aa"}};
    spec.sourceFormat = "test";
    return spec;
}

inline Plan testPlan(int64_t ranks)
{
    Plan plan;
    plan.datasetName = "tiny";
    plan.datasetHash = testDataset().contentHash;
    plan.model.name = "tiny";
    plan.model.width = 8;
    plan.model.ffnWidth = 8;
    plan.model.heads = 2;
    plan.model.steps = 20;
    NodeSpec node;
    node.name = "local";
    for (int64_t i = 0; i < ranks; ++i)
        node.devices.push_back({"cpu_slot", "slot " + std::to_string(i), {i}, 0, 1, int64_t(1) << 30, 0, ""});
    plan.cluster.name = "test";
    plan.cluster.nodes = {node};
    plan.tokens = 8;
    StagePlan stage;
    stage.lastLayer = plan.model.blocks + 2;
    stage.ring = ranks;
    stage.exchange = ranks > 1 ? Exchange::Ring : Exchange::None;
    for (int64_t i = 0; i < ranks; ++i)
        stage.devices.push_back(i);
    for (int64_t i = 0; i <= ranks; ++i)
        stage.cuts.push_back(8 * i / ranks);
    plan.stages = {stage};
    plan.prediction.stepNs = 2'000'000;
    for (int64_t i = 0; i < ranks; ++i) {
        RankPrediction rank;
        rank.rank = i;
        rank.peakBytes = 1 << 20;
        plan.prediction.ranks.push_back(rank);
    }
    plan.name = planName(plan);
    return plan;
}

inline RunSpec testRun(int64_t steps)
{
    RunSpec spec;
    spec.name = "test";
    spec.steps = steps;
    spec.checkpointEveryS = 600;
    spec.split = "default";
    return spec;
}

/// A temporary home with the data set and a worker program that follows `script`.
class TestHome {
  public:
    TestHome()
    {
        char name[] = "/tmp/megagraph-launch-XXXXXX";
        root_ = ::mkdtemp(name);
        const std::string data = root_ + "/datasets/tiny";
        std::filesystem::create_directories(data);
        std::ofstream(data + "/indptr.npy") << std::string(200, 'x');
        std::ofstream(data + "/dataset.json") << datasetToJson(testDataset()).dump();
        std::filesystem::create_symlink(FAKE_WORKER, worker());
    }
    ~TestHome() { std::filesystem::remove_all(root_); }

    const std::string& path() const { return root_; }
    std::string worker() const { return root_ + "/worker"; }
    void script(const Json& value) const { std::ofstream(worker() + ".json") << value.dump(); }
    SupervisorOptions options() const
    {
        SupervisorOptions options;
        options.home = root_;
        options.workerProgram = worker();
        options.stopGraceS = 5;
        return options;
    }

  private:
    std::string root_;
};

/// Polls `condition` until it holds; false after `seconds`.
inline bool eventually(double seconds, const std::function<bool()>& condition)
{
    for (const double until = monotonicSeconds() + seconds; monotonicSeconds() < until; ::usleep(5000))
        if (condition())
            return true;
    return condition();
}

/// All events of a run so far.
inline std::vector<Json> eventsOf(const std::string& folder)
{
    RunFollower follower(folder);
    std::vector<Json> all;
    for (;;) {
        auto lines = follower.poll();
        if (!lines.ok())
            return all;
        all.insert(all.end(), lines->events.begin(), lines->events.end());
        if (!lines->more)
            return all;
    }
}

inline std::vector<Json> eventsOf(const std::string& folder, const std::string& kind)
{
    std::vector<Json> some;
    for (const Json& line : eventsOf(folder))
        if (line.value("kind", "") == kind)
            some.push_back(line);
    return some;
}

/// What a run must not leave: "" when all is clean.
inline std::string leftovers(const std::string& folder)
{
    for (const auto& process : processesOfRun(folder))
        return "process " + std::to_string(process.pid);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (name.rfind("store.a", 0) == 0 || name.find(".tmp") != std::string::npos)
            return name;
        const auto mode = entry.status().permissions() & (std::filesystem::perms::group_all | std::filesystem::perms::others_all);
        if (mode != std::filesystem::perms::none)
            return name + " is open to others";
    }
    return "";
}

} // namespace megagraph::launch
