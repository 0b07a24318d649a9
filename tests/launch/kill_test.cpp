// SPDX-License-Identifier: Apache-2.0
// Real kills of real processes with the scripted worker: P09 (supervisor), P01 at random times, P08 (a reader comes and goes).
#include "tests/launch/run_fixture.h"

#include "core/checkpoint.h"
#include "core/process.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/wait.h>

namespace megagraph::launch {
namespace {

struct Supervised { Child child; std::string id, folder; };

class Kills : public testing::Test {
  protected:
    Supervised start(std::vector<std::string> arguments)
    {
        arguments.insert(arguments.begin(), {home_.path(), home_.worker()});
        int ends[2];
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        ChildOptions options;
        options.program = SUPERVISED;
        options.arguments = arguments;
        options.descriptors = {{ends[1], 1}, {2, 2}};
        auto child = spawn(options);
        ::close(ends[1]);
        EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().message);
        Supervised out{*child, "", ""};
        FILE* ready = ::fdopen(ends[0], "r");
        char id[64] = {}, folder[512] = {};
        EXPECT_EQ(std::fscanf(ready, "%63s %511s", id, folder), 2);
        std::fclose(ready);
        out.id = id;
        out.folder = folder;
        return out;
    }
    int finish(Supervised& run)
    {
        int status = 0;
        while (::waitpid(pid_t(run.child.pid), &status, 0) < 0 && errno == EINTR) {
        }
        ::close(run.child.pidfd);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    int64_t stepOf(const std::string& folder)
    {
        const auto status = readRunStatus(folder);
        return status.ok() ? status->step : -1;
    }

    TestHome home_;
};

TEST_F(Kills, P09WorkersEndAndReadersSeeLostWhenTheSupervisorIsKilled)
{
    home_.script({{"checkpoint_every", 5}, {"step_ms", 5}});
    std::mt19937 seeds(1);
    for (int round = 0; round < 4; ++round) {
        Supervised run = start({"--steps", "3000"});
        ASSERT_TRUE(eventually(20, [&] { return findCheckpoint(run.folder).ok() && findCheckpoint(run.folder)->step >= 5; }));
        ::usleep(seeds() % 40'000);
        ::kill(pid_t(run.child.pid), SIGKILL);
        EXPECT_EQ(finish(run), 128 + SIGKILL);
        EXPECT_TRUE(eventually(5, [&] { return processesOfRun(run.folder).empty(); })) << "round " << round;
        const auto status = readRunStatus(run.folder);
        ASSERT_TRUE(status.ok());
        EXPECT_EQ(status->state, "lost");
        EXPECT_FALSE(status->alive);
        const int64_t committed = findCheckpoint(run.folder)->step;

        Supervised again = start({"--resume", run.id});
        ASSERT_TRUE(eventually(20, [&] { return stepOf(run.folder) > committed; }));
        const auto starts = eventsOf(run.folder, "attempt.start");
        ASSERT_EQ(starts.size(), 2u);
        EXPECT_GE(starts[1]["resume_step"].get<int64_t>(), committed);
        ASSERT_TRUE(requestControl(run.folder, "terminate", "test").ok());
        EXPECT_EQ(finish(again), 10);
        EXPECT_EQ(leftovers(run.folder), "") << "round " << round;
    }
}

TEST_F(Kills, P01RandomKillsLoseNoCommitAndResumeGivesTheSameResult)
{
    home_.script({{"checkpoint_every", 4}, {"step_ms", 2}});
    Supervised undisturbed = start({"--steps", "120"});
    ASSERT_EQ(finish(undisturbed), 0);
    const Json expected = readJsonFile(undisturbed.folder + "/result.json")->at("train");

    std::mt19937 seeds(7);
    Supervised run = start({"--steps", "120"});
    int attempts = 1;
    for (; attempts <= 12; ++attempts) {
        ASSERT_TRUE(eventually(20, [&] { return findCheckpoint(run.folder).ok(); }));
        ::usleep(30'000 + seeds() % 80'000);
        const bool supervisor = seeds() % 2 == 0;
        const auto workers = processesOfRun(run.folder);
        if (supervisor)
            ::kill(pid_t(run.child.pid), SIGKILL);
        else if (!workers.empty())
            ::kill(pid_t(workers[seeds() % workers.size()].pid), SIGKILL);
        const int code = finish(run);
        if (code == 0)
            break;
        EXPECT_EQ(code, supervisor ? 128 + SIGKILL : 12);
        EXPECT_TRUE(eventually(5, [&] { return processesOfRun(run.folder).empty(); }));
        int64_t announced = -1;
        for (const Json& line : eventsOf(run.folder, "checkpoint.committed"))
            announced = std::max(announced, line["step"].get<int64_t>());
        ASSERT_TRUE(findCheckpoint(run.folder).ok());
        EXPECT_GE(findCheckpoint(run.folder)->step, announced) << "a committed checkpoint was lost";
        const std::string folder = run.folder;
        run = start({"--resume", run.id});
        run.folder = folder;
    }
    if (attempts > 12) {
        ASSERT_EQ(finish(run), 0);
    }
    EXPECT_GT(attempts, 1) << "nothing was killed";
    EXPECT_EQ(readJsonFile(run.folder + "/result.json")->at("train"), expected);
    EXPECT_EQ(leftovers(run.folder), "");
}

TEST_F(Kills, P08ReaderThatComesLateOrAgainSeesEachEventOnce)
{
    home_.script({{"checkpoint_every", 10}, {"step_ms", 2}});
    Supervised run = start({"--steps", "200"});
    std::vector<int64_t> seen;
    RunFollower follower(run.folder);
    bool ended = false;
    ASSERT_TRUE(eventually(30, [&] {
        const auto lines = follower.poll(2000); // small reads: many borders inside lines
        EXPECT_TRUE(lines.ok()) << (lines.ok() ? "" : lines.error().message);
        for (const Json& line : lines->events) {
            seen.push_back(line["seq"]);
            ended = ended || line["kind"] == "run.end";
        }
        return ended;
    }));
    EXPECT_EQ(finish(run), 0);
    for (size_t i = 0; i < seen.size(); ++i)
        ASSERT_EQ(seen[i], int64_t(i) + 1);
    const auto all = eventsOf(run.folder); // a reader that attaches after the end
    EXPECT_GE(all.size(), seen.size());
    EXPECT_EQ(readRunStatus(run.folder)->state, "finished");
}

} // namespace
} // namespace megagraph::launch
