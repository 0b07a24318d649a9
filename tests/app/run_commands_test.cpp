// SPDX-License-Identifier: Apache-2.0
// The verbs train, verify, watch, stop and runs of the real program with the scripted rank process of tests/launch beside it:
// real planner, real supervisor, real library; only the training is played.
#include "core/checkpoint.h"
#include "core/clock.h"
#include "core/follow.h"
#include "core/json.h"
#include "core/process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace megagraph;
namespace fs = std::filesystem;

namespace {

struct Answer { int code = -1; std::string out, err; };

std::string textOf(const std::string& path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

bool eventually(double seconds, const std::function<bool()>& condition)
{
    for (const double until = monotonicSeconds() + seconds; monotonicSeconds() < until; ::usleep(10'000))
        if (condition())
            return true;
    return condition();
}

/// Last line of a text as JSON; null when it is none.
Json lastLine(std::string text)
{
    while (!text.empty() && text.back() == '\n')
        text.pop_back();
    const auto line = parseJson(text.substr(text.rfind('\n') + 1), "stdout");
    return line.ok() ? *line : Json();
}

class RunCommands : public testing::Test {
  protected:
    struct Running { Child child; std::string name; };

    void SetUp() override
    {
        std::string name = (fs::temp_directory_path() / "megagraph-runs-XXXXXX").string();
        root = ::mkdtemp(name.data());
        fs::create_directories(root + "/bin");
        std::error_code linked; // a hard link keeps /proc/self/exe in this folder; across file systems it has to be a copy
        fs::create_hard_link(MEGAGRAPH_BIN_DIR "/megagraph", root + "/bin/megagraph", linked);
        if (linked)
            fs::copy_file(MEGAGRAPH_BIN_DIR "/megagraph", root + "/bin/megagraph");
        fs::create_symlink(FAKE_WORKER, root + "/bin/megagraph-worker");
        script(Json{{"checkpoint_every", 5}});
        ASSERT_EQ(run({"generate", "community", "--name", "tiny", "--nodes", "210"}).code, 0);
        ASSERT_EQ(run({"plan", "--data", "tiny", "--model", "graphormer-sample", "--ranks", "2", "--allow", "ring=2", "--out", plan()}).code, 0);
    }
    void TearDown() override { fs::remove_all(root); }

    void script(const Json& value) const { std::ofstream(root + "/bin/megagraph-worker.json") << value.dump(); }
    std::string plan() const { return root + "/plan.json"; }
    std::string home() const { return root + "/home"; }
    std::string folderOf(const std::string& id) const { return home() + "/runs/" + id; }
    std::string newestFolder() const
    {
        const auto listed = lastLine(run({"runs", "--json"}).out);
        return listed.is_object() && !listed["runs"].empty() ? listed["runs"][0]["dir"].get<std::string>() : "";
    }

    Running start(const std::vector<std::string>& arguments) const
    {
        static int count = 0;
        Running running{{}, root + "/output-" + std::to_string(++count)};
        const int out = ::open((running.name + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        const int err = ::open((running.name + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ChildOptions options;
        options.program = root + "/bin/megagraph";
        options.arguments = arguments;
        options.environment = {{"MEGAGRAPH_HOME", home()}, {"MEGAGRAPH_RESOURCES", MEGAGRAPH_SOURCE_DIR "/resources"}, {"HOME", root}};
        options.descriptors = {{null, 0}, {out, 1}, {err, 2}};
        const auto child = spawn(options);
        for (const int fd : {out, err, null})
            ::close(fd);
        EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().message);
        if (child.ok())
            running.child = *child;
        return running;
    }
    Answer finish(const Running& running) const
    {
        int status = 0;
        while (::waitpid(pid_t(running.child.pid), &status, 0) < 0 && errno == EINTR) {
        }
        ::close(running.child.pidfd);
        return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), textOf(running.name + ".out"), textOf(running.name + ".err")};
    }
    Answer run(const std::vector<std::string>& arguments) const { return finish(start(arguments)); }

    std::string root;
};

} // namespace

TEST_F(RunCommands, TrainOfAPlanEndsWithTheResultAsLastLine)
{
    const Answer answer = run({"train", "--plan", plan(), "--steps", "20", "--seed", "3", "--set", "patience=0", "--json"});
    ASSERT_EQ(answer.code, 0) << answer.err;
    const Json result = lastLine(answer.out);
    EXPECT_EQ(result["format"], "megagraph.run_result");
    EXPECT_EQ(result["state"], "finished");
    EXPECT_EQ(result["steps"], 20);
    EXPECT_TRUE(result["step_ms"]["predicted"].is_number());
    EXPECT_TRUE(result["ranks"][1]["peak_bytes"]["predicted"].is_number());
    const std::string folder = folderOf(result["run"]);
    EXPECT_EQ(*readJsonFile(folder + "/result.json"), result);
    const auto written = readJsonFile(folder + "/run.json");
    EXPECT_EQ((*written)["seed"], 3);
    EXPECT_EQ((*written)["hashes"]["model"].get<std::string>().size(), 64u);
    EXPECT_EQ(lastLine(run({"runs", "--json"}).out)["runs"][0]["state"], "finished");
}

TEST_F(RunCommands, TrainWithoutAPlanSearchesTakesTheFastestAndSaysSo)
{
    const Answer answer = run({"train", "--data", "tiny", "--model", "graphormer-sample", "--ranks", "2", "--steps", "5"});
    ASSERT_EQ(answer.code, 0) << answer.err;
    EXPECT_NE(answer.err.find("taking the fastest of"), std::string::npos) << answer.err;
    EXPECT_NE(answer.out.find("finished, 5 steps"), std::string::npos) << answer.out;
    EXPECT_NE(answer.out.find("rank 0: peak memory"), std::string::npos) << answer.out;
}

TEST_F(RunCommands, WhatDoesNotGoTogetherIsAUsageErrorBeforeAnythingStarts)
{
    EXPECT_EQ(run({"train"}).code, 2);
    EXPECT_EQ(run({"train", "--plan", plan(), "--data", "tiny"}).code, 2);
    EXPECT_EQ(run({"train", "--plan", plan(), "--checkpoint-every", "5parsecs"}).code, 2);
    EXPECT_EQ(run({"train", "--plan", plan(), "--steps", "0"}).code, 2);
    EXPECT_EQ(run({"train", "--resume", "last", "--plan", plan()}).code, 2);
    EXPECT_EQ(run({"train", "--resume", "last"}).code, 4);
    EXPECT_EQ(run({"train", "--plan", root + "/none.json"}).code, 4);
    EXPECT_EQ(run({"watch", "2026"}).code, 4);
    const Answer shape = run({"train", "--plan", plan(), "--set", "width=128"});
    EXPECT_NE(shape.code, 0);
    EXPECT_NE(shape.err.find("width"), std::string::npos) << shape.err;
    EXPECT_FALSE(fs::exists(home() + "/runs"));
}

TEST_F(RunCommands, NothingThatFitsIsAnAnswerWithExitCodeOne)
{
    const Answer answer = run({"train", "--data", "tiny", "--model", "graphormer-sample", "--ranks", "2", "--budget", "1MiB"});
    EXPECT_EQ(answer.code, 1);
    EXPECT_NE(answer.err.find("nothing that is allowed fits"), std::string::npos) << answer.err;
}

TEST_F(RunCommands, PlanThatIsPredictedNotToFitIsRefusedUnlessTheRiskIsTaken)
{
    ASSERT_EQ(run({"plan", "--data", "tiny", "--model", "graphormer-sample", "--ranks", "2", "--budget", "4MiB", "--even-infeasible", "--out", plan()}).code, 1);
    const Answer refused = run({"train", "--plan", plan(), "--steps", "5"});
    EXPECT_EQ(refused.code, 11);
    EXPECT_NE(refused.err.find("C4: predicted peak of rank"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("--risk-oom"), std::string::npos);
    EXPECT_EQ(run({"train", "--plan", plan(), "--steps", "5", "--risk-oom"}).code, 0);
}

TEST_F(RunCommands, DetachedRunIsWatchedStoppedAndResumed)
{
    script(Json{{"checkpoint_every", 5}, {"step_ms", 5}});
    const Answer ready = run({"train", "--plan", plan(), "--steps", "3000", "--detach"});
    ASSERT_EQ(ready.code, 0) << ready.err;
    const Json line = lastLine(ready.out);
    const std::string id = line["run"], folder = line["dir"];
    EXPECT_EQ(folder, folderOf(id));
    const Running watching = start({"watch", id.substr(0, 18), "--json"});
    ASSERT_TRUE(eventually(20, [&] { return findCheckpoint(folder).ok() && findCheckpoint(folder)->step >= 5; }));
    EXPECT_EQ(lastLine(run({"runs", "--json"}).out)["runs"][0]["state"], "running");
    const Answer stopped = run({"stop", "last", "--json"});
    EXPECT_EQ(stopped.code, 0) << stopped.err;
    const Json stop = lastLine(stopped.out);
    EXPECT_EQ(stop["state"], "stopped");
    EXPECT_EQ(stop["acknowledged"], true);
    EXPECT_EQ(stop["step"], stop["last_commit_step"]);
    const Answer watched = finish(watching);
    EXPECT_EQ(watched.code, 10);
    EXPECT_EQ(lastLine(watched.out), *readJsonFile(folder + "/result.json"));
    EXPECT_NE(watched.out.find("\"kind\":\"checkpoint.committed\""), std::string::npos);
    EXPECT_EQ(lastLine(run({"stop", "last", "--json"}).out)["was_running"], false);

    script(Json{{"step_ms", 0}});
    const Answer resumed = run({"train", "--resume", "last", "--json"});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    const Json result = lastLine(resumed.out);
    EXPECT_EQ(result["run"], id);
    EXPECT_EQ(result["steps"], 3000);
    EXPECT_EQ(result["attempts"], 2);
    EXPECT_EQ(run({"train", "--resume", id}).code, 11); // finished: nothing to resume
}

TEST_F(RunCommands, DetachPassesOnAnErrorOfTheSupervisor)
{
    const Answer answer = run({"train", "--plan", root + "/none.json", "--detach", "--json"});
    EXPECT_EQ(answer.code, 4);
    EXPECT_EQ(lastLine(answer.out)["error"]["code"], "NotFound");
}

TEST_F(RunCommands, CtrlCStopsWithACheckpointAndSaysHowToResume)
{
    script(Json{{"checkpoint_every", 50}, {"step_ms", 5}});
    const Running running = start({"train", "--plan", plan(), "--steps", "3000", "--json"});
    ASSERT_TRUE(eventually(20, [&] {
        const std::string folder = newestFolder();
        return !folder.empty() && readRunStatus(folder)->step > 3;
    }));
    ::kill(pid_t(running.child.pid), SIGINT);
    const Answer answer = finish(running);
    EXPECT_EQ(answer.code, 10) << answer.err;
    const Json result = lastLine(answer.out);
    EXPECT_EQ(result["state"], "stopped");
    EXPECT_EQ(result["last_commit_step"], result["steps"]);
    EXPECT_NE(answer.err.find("megagraph train --resume " + result["run"].get<std::string>()), std::string::npos) << answer.err;
}

TEST_F(RunCommands, KilledWorkerGivesTheSentenceAndTheResultAllTheSame)
{
    script(Json{{"checkpoint_every", 5}, {"faults", {{{"rank", 1}, {"attempt", 1}, {"at_step", 8}, {"do", "signal"}, {"signal", SIGKILL}}}}});
    const Answer answer = run({"train", "--plan", plan(), "--steps", "20", "--json"});
    EXPECT_EQ(answer.code, 12);
    const Json result = lastLine(answer.out);
    EXPECT_EQ(result["state"], "failed");
    EXPECT_EQ(result["last_commit_step"], 5);
    for (const std::string& part : {std::string("rank 1"), std::string("signal 9"), "resume: megagraph train --resume " + result["run"].get<std::string>()})
        EXPECT_NE(answer.err.find(part), std::string::npos) << answer.err;
    EXPECT_EQ(run({"watch", "last"}).code, 12);
    EXPECT_EQ(run({"train", "--resume", "last"}).code, 0);
}

TEST_F(RunCommands, OutOfMemoryOffersAPlanThatFitsAndThatPlanRuns)
{
    ASSERT_EQ(run({"plan", "--data", "tiny", "--model", "graphormer-sample", "--ranks", "2", "--allow", "attention=materialised", "--out", plan()}).code, 0);
    script(Json{{"faults", {{{"rank", 0}, {"at_step", 0}, {"do", "oom"}}}}});
    const Answer answer = run({"train", "--plan", plan(), "--steps", "20"});
    EXPECT_EQ(answer.code, 12);
    EXPECT_NE(answer.err.find("block1.scores"), std::string::npos) << answer.err;
    const size_t at = answer.err.find("megagraph train --plan ");
    ASSERT_NE(at, std::string::npos) << answer.err;
    const std::string offered = answer.err.substr(at + 23, answer.err.find_first_of(" \n;", at + 23) - at - 23);
    script(Json::object());
    EXPECT_EQ(run({"train", "--plan", offered, "--steps", "3"}).code, 0) << offered;
}

TEST_F(RunCommands, KilledSupervisorIsListedAsLostAndWatchSaysHowToResume)
{
    script(Json{{"checkpoint_every", 5}, {"step_ms", 5}});
    const Running running = start({"train", "--plan", plan(), "--steps", "3000"});
    ASSERT_TRUE(eventually(20, [&] {
        const std::string folder = newestFolder();
        return !folder.empty() && findCheckpoint(folder).ok() && findCheckpoint(folder)->step >= 5;
    }));
    ::kill(pid_t(running.child.pid), SIGKILL);
    finish(running);
    EXPECT_EQ(lastLine(run({"runs", "--json", "--state", "lost"}).out)["runs"].size(), 1u);
    const Answer watched = run({"watch"});
    EXPECT_EQ(watched.code, 12);
    EXPECT_NE(watched.err.find("megagraph train --resume"), std::string::npos) << watched.err;
    EXPECT_EQ(lastLine(run({"stop", "--json"}).out)["was_running"], false);
}

TEST_F(RunCommands, VerifyGivesACertificateAndExitCodeOneWhenDifferent)
{
    const Answer same = run({"verify", plan(), "--steps", "7", "--json"});
    ASSERT_EQ(same.code, 0) << same.err;
    const Json certificate = lastLine(same.out);
    EXPECT_EQ(certificate["format"], "megagraph.certificate");
    EXPECT_EQ(certificate["steps"], 7);
    EXPECT_EQ(certificate["verdict"], "same");
    EXPECT_EQ(certificate["limits"]["loss_rel"], 1e-5);
    EXPECT_EQ(*readJsonFile(folderOf(certificate["runs"]["plan"]) + "/certificate.json"), certificate);
    EXPECT_EQ(readJsonFile(folderOf(certificate["runs"]["serial"]) + "/run.json")->at("world"), 1);
    script(Json{{"gradient_rel", 2e-4}});
    const Answer different = run({"verify", plan(), "--steps", "7", "--json"});
    EXPECT_EQ(different.code, 1);
    EXPECT_EQ(lastLine(different.out)["verdict"], "different");
    script(Json{{"loss_rel", "nan"}}); // not a number may not look like agreement
    EXPECT_EQ(run({"verify", plan(), "--steps", "2"}).code, 1);
    script(Json{{"faults", {{{"rank", 0}, {"at_step", 1}, {"do", "exit"}, {"code", 70}}}}});
    EXPECT_EQ(run({"verify", plan(), "--steps", "7"}).code, 12);
}
