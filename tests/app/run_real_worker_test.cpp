// SPDX-License-Identifier: Apache-2.0
// The main job with nothing played: real planner, supervisor, workers and Gloo on a small generated graph. Kills a rank and the
// supervisor in the middle, resumes, and compares with the run that nobody disturbed.
#include "core/checkpoint.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/follow.h"
#include "core/json.h"
#include "core/process.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace megagraph;
namespace fs = std::filesystem;

namespace {

bool eventually(double seconds, const std::function<bool()>& condition)
{
    for (const double until = monotonicSeconds() + seconds; monotonicSeconds() < until; ::usleep(10'000))
        if (condition())
            return true;
    return condition();
}

/// Pids of the workers of a run, by rank order of their command lines.
std::vector<int64_t> workersOf(const std::string& folder)
{
    std::vector<std::pair<std::string, int64_t>> found;
    std::error_code error;
    for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
        const auto line = readSmallFile(it->path().string() + "/cmdline", 1 << 16);
        if (line.ok() && line->find("megagraph-worker") != std::string::npos && line->find(folder) != std::string::npos)
            found.emplace_back(*line, std::strtoll(it->path().filename().c_str(), nullptr, 10));
    }
    std::sort(found.begin(), found.end());
    std::vector<int64_t> pids;
    for (const auto& [line, pid] : found)
        pids.push_back(pid);
    return pids;
}

class RealRun : public testing::Test {
  protected:
    struct Running { Child child; std::string name; };

    void SetUp() override
    {
        std::string name = (fs::temp_directory_path() / "megagraph-real-XXXXXX").string();
        root = ::mkdtemp(name.data());
        ASSERT_EQ(finish(start({"generate", "community", "--name", "tiny", "--nodes", "400"})), 0);
        ASSERT_EQ(finish(start({"plan", "--data", "tiny", "--model", "graphormer-sample", "--ranks", "2", "--allow", "ring=2", "--out", root + "/plan.json"})), 0);
    }
    void TearDown() override { fs::remove_all(root); }

    Running start(const std::vector<std::string>& arguments)
    {
        Running running{{}, fmt::format("{}/output-{}", root, ++count)};
        const int out = ::open((running.name + ".out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        const int err = ::open((running.name + ".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ChildOptions options;
        options.program = MEGAGRAPH_BIN_DIR "/megagraph";
        options.arguments = arguments;
        options.environment = {{"MEGAGRAPH_HOME", root + "/home"}, {"MEGAGRAPH_RESOURCES", MEGAGRAPH_SOURCE_DIR "/resources"}, {"HOME", root}};
        options.descriptors = {{out, 1}, {err, 2}};
        const auto child = spawn(options);
        ::close(out);
        ::close(err);
        EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().message);
        if (child.ok())
            running.child = *child;
        return running;
    }
    int finish(const Running& running)
    {
        int status = 0;
        while (::waitpid(pid_t(running.child.pid), &status, 0) < 0 && errno == EINTR) {
        }
        ::close(running.child.pidfd);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        std::ifstream err(running.name + ".err"), out(running.name + ".out");
        errors.assign(std::istreambuf_iterator<char>(err), {});
        text.assign(std::istreambuf_iterator<char>(out), {});
        return code;
    }
    std::string folder() const
    {
        for (const auto& entry : fs::directory_iterator(root + "/home/runs"))
            return entry.path().string();
        return "";
    }
    bool committed(int64_t step) const
    {
        return fs::exists(root + "/home/runs") && !folder().empty() && findCheckpoint(folder()).ok() && findCheckpoint(folder())->step >= step;
    }

    std::string root, errors, text;
    int count = 0;
};

} // namespace

TEST_F(RealRun, A8KilledRankAndKilledSupervisorLeaveNoProcessAndResumeEndsInTheSameLoss)
{
    const std::vector<std::string> train{"train", "--plan", root + "/plan.json", "--steps", "200", "--checkpoint-every", "5steps", "--json"};
    ASSERT_EQ(finish(start(train)), 0) << errors;
    const auto undisturbed = parseJson(text, "stdout");
    ASSERT_TRUE(undisturbed.ok()) << text;
    fs::remove_all(root + "/home/runs");

    Running run = start(train);
    ASSERT_TRUE(eventually(60, [&] { return committed(5); }));
    const auto workers = workersOf(folder());
    ASSERT_EQ(workers.size(), 2u);
    ::kill(pid_t(workers[1]), SIGKILL);
    EXPECT_EQ(finish(run), 12);
    EXPECT_NE(errors.find("rank 1 on "), std::string::npos) << errors;
    EXPECT_NE(errors.find("signal 9"), std::string::npos) << errors;
    EXPECT_TRUE(workersOf(folder()).empty());
    const int64_t first = findCheckpoint(folder())->step;
    EXPECT_GE(first, 5);

    run = start({"train", "--resume", "last", "--json"});
    ASSERT_TRUE(eventually(60, [&] { return committed(first + 5); }));
    ::kill(pid_t(run.child.pid), SIGKILL);
    EXPECT_EQ(finish(run), 128 + SIGKILL);
    EXPECT_TRUE(eventually(5, [&] { return workersOf(folder()).empty(); }));
    EXPECT_EQ(readRunStatus(folder())->state, "lost");

    ASSERT_EQ(finish(start({"train", "--resume", "last", "--json"})), 0) << errors;
    const auto resumed = parseJson(text, "stdout");
    ASSERT_TRUE(resumed.ok()) << text;
    EXPECT_EQ((*resumed)["attempts"], 3);
    EXPECT_EQ((*resumed)["steps"], 200);
    EXPECT_EQ((*resumed)["train"], (*undisturbed)["train"]); // bit for bit
    EXPECT_EQ((*resumed)["best_step"], (*undisturbed)["best_step"]);
    EXPECT_EQ((*resumed)["test"], (*undisturbed)["test"]);
}

TEST_F(RealRun, CtrlCOnTheRealWorkersStopsWithACheckpoint)
{
    Running run = start({"train", "--plan", root + "/plan.json", "--steps", "5000", "--json"});
    ASSERT_TRUE(eventually(60, [&] { return committed(0) && readRunStatus(folder())->step >= 2; }));
    ::kill(pid_t(run.child.pid), SIGINT);
    EXPECT_EQ(finish(run), 10) << errors;
    const auto result = parseJson(text, "stdout");
    ASSERT_TRUE(result.ok()) << text;
    EXPECT_EQ((*result)["last_commit_step"], (*result)["steps"]);
    EXPECT_TRUE(workersOf(folder()).empty());
}
