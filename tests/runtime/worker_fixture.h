// SPDX-License-Identifier: Apache-2.0
// What tests of the worker share: a home with a generated data set, run directories as the supervisor writes them, real
// worker processes, and their report lines. No Torch here.
#pragma once

#include "core/checkpoint.h"
#include "core/event.h"
#include "core/io/dataset.h"
#include "core/io/generate.h"
#include "core/io/import.h"
#include "core/places.h"
#include "core/plan.h"
#include "core/run_spec.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace megagraph::test {

/// One started rank; descriptors 3 and 4 are pipes if asked for, else closed.
struct Rank {
    pid_t process = -1;
    int report = -1, command = -1;
};

class WorkerHome {
  public:
    WorkerHome()
    {
        char name[] = "/tmp/megagraph-worker-XXXXXX";
        path_ = ::mkdtemp(name);
        GenerateOptions options;
        options.nodes = 203;
        options.communities = 3;
        options.features = 8;
        options.degree = 6;
        options.separation = 0.6;
        auto graph = generateGraph(options);
        EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
        ImportOptions import;
        import.name = "sample";
        auto stored = storeGraph(std::move(*graph), ImportRun{import, {}, {}}, path_);
        EXPECT_TRUE(stored.ok()) << (stored.ok() ? "" : stored.error().message);
        openSample();
    }
    /// A home whose data set is imported from a source.
    explicit WorkerHome(const std::string& source)
    {
        char name[] = "/tmp/megagraph-worker-XXXXXX";
        path_ = ::mkdtemp(name);
        ImportOptions import;
        import.name = "sample";
        auto stored = importDataset(source, import, path_, {}, {});
        EXPECT_TRUE(stored.ok()) << (stored.ok() ? "" : stored.error().message);
        openSample();
    }
    ~WorkerHome() { std::filesystem::remove_all(path_); }

    const std::string& path() const { return path_; }
    const DatasetSpec& dataset() const { return spec_; }
    std::string folder(const std::string& id) const { return runFolder(path_, id); }

    static ModelSpec model()
    {
        ModelSpec spec;
        spec.name = "small";
        spec.blocks = 2;
        spec.width = spec.ffnWidth = 16;
        spec.heads = 2;
        spec.hops = 2;
        spec.learningRate = 0.01;
        spec.weightDecay = 0.01;
        spec.residualDropout = 0.2;
        spec.attentionDropout = 0.1;
        spec.steps = 12;
        return spec;
    }

    /// One stage: `replicas` x `contexts` CPU slots of `budget` bytes each.
    Plan plan(const ModelSpec& model, int64_t replicas, int64_t contexts, Exchange exchange, int64_t budget = int64_t(8) << 30) const
    {
        Plan plan;
        plan.datasetName = "sample";
        plan.datasetHash = spec_.contentHash;
        plan.model = model;
        NodeSpec node;
        node.name = "local";
        StagePlan stage;
        for (int64_t i = 0; i < replicas * contexts; ++i) {
            DeviceSpec device;
            device.name = "slot " + std::to_string(i);
            device.memoryBytes = budget;
            node.devices.push_back(device);
            stage.devices.push_back(i);
        }
        plan.cluster.name = "test";
        plan.cluster.nodes = {node};
        plan.mode = model.sequenceMode;
        plan.tokens = model.sequenceMode == SequenceMode::Full ? spec_.nodes : model.sequenceTokens;
        stage.lastLayer = model.blocks + 2;
        stage.replicas = replicas;
        stage.ring = contexts;
        stage.exchange = contexts > 1 ? exchange : Exchange::None;
        plan.stages = {stage};
        plan.name = planName(plan);
        return plan;
    }

    RunSpec run(int64_t steps, int64_t world, const std::string& kind = "train") const
    {
        RunSpec run;
        run.kind = kind;
        run.steps = steps;
        run.world = world;
        run.split = spec_.splits.at(0).name;
        run.checkpointEveryS = 0;
        return run;
    }

    /// Writes the three documents a worker reads.
    void write(const std::string& id, RunSpec run, const Plan& plan) const
    {
        run.id = id;
        std::filesystem::create_directories(folder(id));
        std::ofstream(folder(id) + "/run.json") << runToJson(run).dump();
        std::ofstream(folder(id) + "/plan.json") << planToJson(plan).dump();
        std::ofstream(folder(id) + "/dataset.json") << datasetToJson(spec_).dump();
    }

    Rank start(const std::string& id, int64_t rank, int64_t attempt = 1, int64_t resumeStep = -1, bool pipes = false) const
    {
        Rank started;
        int report[2] = {-1, -1}, command[2] = {-1, -1};
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        if (pipes && ::pipe2(report, O_CLOEXEC) == 0 && ::pipe2(command, O_CLOEXEC) == 0) {
            // lifted first: the pipes themselves may have the numbers 3 and 4
            const int out = ::fcntl(report[1], F_DUPFD_CLOEXEC, 20), in = ::fcntl(command[0], F_DUPFD_CLOEXEC, 20);
            ::close(report[1]);
            ::close(command[0]);
            ::posix_spawn_file_actions_adddup2(&actions, out, 3);
            ::posix_spawn_file_actions_adddup2(&actions, in, 4);
            started.report = ::fcntl(report[0], F_DUPFD_CLOEXEC, 20);
            started.command = ::fcntl(command[1], F_DUPFD_CLOEXEC, 20);
            ::close(report[0]);
            ::close(command[1]);
            report[1] = out;
            command[0] = in;
        } else { // whoever started the tests may have left them open
            ::posix_spawn_file_actions_addclose(&actions, 3);
            ::posix_spawn_file_actions_addclose(&actions, 4);
        }
        std::vector<std::string> environment{"MEGAGRAPH_HOME=" + path_, "MEGAGRAPH_ATTEMPT=" + std::to_string(attempt),
                                             "MEGAGRAPH_RESUME_STEP=" + std::to_string(resumeStep), "OMP_NUM_THREADS=1"};
        for (char** entry = environ; *entry != nullptr; ++entry)
            if (std::strncmp(*entry, "MEGAGRAPH_", 10) != 0 && std::strncmp(*entry, "OMP_", 4) != 0)
                environment.emplace_back(*entry);
        std::vector<std::string> words{WORKER_PROGRAM, "--run", folder(id), "--rank", std::to_string(rank)};
        EXPECT_EQ(::posix_spawn(&started.process, WORKER_PROGRAM, &actions, nullptr, pointers(words).data(), pointers(environment).data()), 0);
        ::posix_spawn_file_actions_destroy(&actions);
        if (pipes) {
            ::close(report[1]);
            ::close(command[0]);
        }
        return started;
    }

    static int wait(const Rank& rank)
    {
        int status = 0;
        ::waitpid(rank.process, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }

    /// Runs all ranks to their end; exit codes in rank order.
    std::vector<int> runAll(const std::string& id, int64_t world, int64_t attempt = 1, int64_t resumeStep = -1) const
    {
        std::vector<Rank> ranks;
        for (int64_t r = 0; r < world; ++r)
            ranks.push_back(start(id, r, attempt, resumeStep));
        std::vector<int> codes;
        for (const Rank& rank : ranks)
            codes.push_back(wait(rank));
        return codes;
    }

    std::vector<Json> lines(const std::string& id, int64_t rank, const std::string& kind, int64_t attempt = 1) const
    {
        std::vector<Json> some;
        std::ifstream file(folder(id) + "/ranks/r" + std::to_string(rank) + ".a" + std::to_string(attempt) + ".jsonl");
        for (std::string text; std::getline(file, text);) {
            const auto line = decodeLine(text);
            EXPECT_TRUE(line.ok()) << text;
            if (line.ok() && line->value("kind", "") == kind)
                some.push_back(*line);
        }
        return some;
    }
    /// Losses by step of rank 0, exactly as reported.
    std::map<int64_t, double> losses(const std::string& id, int64_t attempt = 1) const
    {
        std::map<int64_t, double> all;
        for (const Json& line : lines(id, 0, "step", attempt)) {
            int64_t step = line["step_from"].get<int64_t>();
            for (const Json& loss : line["loss"])
                all[step++] = numberOf(loss);
        }
        return all;
    }
    /// What the supervisor does with the shards of one step.
    void commit(const std::string& id, int64_t world, int64_t step, int64_t attempt = 1) const
    {
        std::vector<ShardReport> reports;
        for (int64_t r = 0; r < world; ++r)
            for (const Json& line : lines(id, r, "checkpoint.shard", attempt))
                if (line["step"] == step) {
                    auto report = shardReportFromJson(line["files"].at(0));
                    ASSERT_TRUE(report.ok());
                    reports.push_back(*report);
                }
        ASSERT_EQ(int64_t(reports.size()), world);
        CheckpointManifest identity;
        identity.run = id;
        identity.attempt = attempt;
        identity.step = step;
        identity.world = world;
        const auto committed = commitCheckpoint(folder(id), identity, reports);
        ASSERT_TRUE(committed.ok()) << committed.error().message;
    }

  private:
    void openSample()
    {
        auto data = Dataset::open(datasetFolder(path_, "sample"));
        EXPECT_TRUE(data.ok()) << (data.ok() ? "" : data.error().message);
        spec_ = data->spec();
    }
    static std::vector<char*> pointers(std::vector<std::string>& words)
    {
        std::vector<char*> all;
        for (std::string& word : words)
            all.push_back(word.data());
        all.push_back(nullptr);
        return all;
    }
    std::string path_;
    DatasetSpec spec_;
};

} // namespace megagraph::test
