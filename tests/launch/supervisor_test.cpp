// SPDX-License-Identifier: Apache-2.0
// The supervisor with the scripted worker: normal ends, stops, failures and their root cause. Fault ids (P01 ..) are those of
// the runs design, section 11.
#include "tests/launch/run_fixture.h"

#include "core/checkpoint.h"
#include "core/process.h"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace megagraph::launch {
namespace {

class Supervisor : public testing::Test {
  protected:
    RunOutcome train(int64_t steps, const Json& script, int64_t ranks = 2, SupervisorOptions* changed = nullptr)
    {
        home_.script(script);
        const SupervisorOptions options = changed ? *changed : home_.options();
        auto outcome = supervise(testRun(steps), testPlan(ranks), testDataset(), options);
        EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
        if (!outcome.ok())
            return {};
        EXPECT_EQ(leftovers(outcome->folder), "");
        return *outcome;
    }
    Result<RunOutcome> resume(const std::string& id, const Json& script)
    {
        home_.script(script);
        SupervisorOptions options = home_.options();
        options.resumeRun = id;
        return supervise({}, {}, {}, options);
    }
    void expectSentence(const RunOutcome& outcome, std::initializer_list<const char*> parts)
    {
        EXPECT_EQ(outcome.state, "failed");
        EXPECT_EQ(outcome.exitCode, 12);
        for (const char* part : parts)
            EXPECT_NE(outcome.message.find(part), std::string::npos) << "no '" << part << "' in: " << outcome.message;
    }

    TestHome home_;
};

TEST_F(Supervisor, FinishesARunAndWritesItsResult)
{
    const RunOutcome outcome = train(20, {{"checkpoint_every", 5}});
    EXPECT_EQ(outcome.state, "finished") << outcome.message;
    EXPECT_EQ(outcome.exitCode, 0);
    EXPECT_EQ(outcome.result["format"], "megagraph.run_result");
    EXPECT_EQ(outcome.result["steps"], 20);
    EXPECT_EQ(outcome.result["test"]["value"], 0.25);
    EXPECT_NEAR(outcome.result["step_ms"]["measured"].get<double>(), 2.0, 1e-6);
    EXPECT_EQ(outcome.result["step_ms"]["predicted"], 2.0);
    ASSERT_EQ(outcome.result["ranks"].size(), 2u);
    EXPECT_EQ(outcome.result["ranks"][1]["peak_bytes"]["measured"], 2'000'001);
    EXPECT_EQ(*readJsonFile(outcome.folder + "/result.json"), outcome.result);
    EXPECT_EQ(eventsOf(outcome.folder, "checkpoint.committed").size(), 5u);
    EXPECT_EQ(findCheckpoint(outcome.folder)->step, 20);
    EXPECT_EQ(eventsOf(outcome.folder, "preflight").size(), 8u);
    const auto status = readRunStatus(outcome.folder);
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->state, "finished");
    EXPECT_FALSE(status->alive);
}

TEST_F(Supervisor, P01KilledWorkerIsNamedWithRankSignalStepAndLastCommit)
{
    const RunOutcome outcome = train(50, {{"checkpoint_every", 5}, {"faults", {{{"rank", 1}, {"at_step", 12}, {"do", "signal"}, {"signal", SIGKILL}}}}});
    expectSentence(outcome, {"rank 1 on ", "pid ", "signal 9", "step 12", "last committed checkpoint: step 10", "megagraph train --resume "});
    const auto card = readJsonFile(outcome.folder + "/failures/1/card.json");
    ASSERT_TRUE(card.ok());
    EXPECT_EQ((*card)["cause"], "killed");
    EXPECT_EQ((*card)["rank"], 1);
    EXPECT_EQ((*card)["last_committed_step"], 10);
    EXPECT_EQ((*card)["lost_steps"], 2);
}

TEST_F(Supervisor, P02WorkerThatExitsEarlyIsAFailureThoughItsCodeIsZero)
{
    expectSentence(train(50, {{"faults", {{{"rank", 1}, {"at_step", 3}, {"do", "exit"}, {"code", 0}}}}}),
                   {"rank 1", "ended early", "no checkpoint is committed"});
}

TEST_F(Supervisor, P02ErrorTextOfTheWorkerIsPartOfTheSentence)
{
    expectSentence(train(50, {{"faults", {{{"rank", 0}, {"at_step", 3}, {"do", "error"}, {"code", 22}, {"message", "features.npy: file is cut"}}}}}),
                   {"rank 0", "exit code 22 (invalid input)", "features.npy: file is cut"});
}

TEST_F(Supervisor, RootCauseIsTheDeadRankAndNotThePeerThatNoticedItFirst)
{
    // rank 0 reports a lost peer, rank 1 is the one that was killed a moment later in receive time
    const Json faults = Json::array({Json{{"rank", 0}, {"at_step", 6}, {"do", "exit"}, {"code", 20}},
                                     Json{{"rank", 1}, {"at_step", 6}, {"do", "sleep"}, {"ms", 100}},
                                     Json{{"rank", 1}, {"at_step", 6}, {"do", "signal"}, {"signal", SIGKILL}}});
    const RunOutcome outcome = train(50, {{"faults", faults}});
    expectSentence(outcome, {"rank 1", "signal 9"});
    EXPECT_EQ(readJsonFile(outcome.folder + "/failures/1/card.json")->at("consequences").size(), 1u);
}

TEST_F(Supervisor, SurvivorsThatHangAreKilledWithinTwoSecondsOfTheFirstFailure)
{
    const double before = monotonicSeconds();
    const RunOutcome outcome = train(1000, {{"faults", {{{"rank", 0}, {"at_step", 3}, {"do", "exit"}, {"code", 70}}}}}, 3);
    expectSentence(outcome, {"rank 0", "exit code 70"});
    EXPECT_LT(monotonicSeconds() - before, 20.0); // without the kill it would never end
    int killed = 0;
    for (const Json& line : eventsOf(outcome.folder, "rank.exit"))
        killed += line["class"] == "killed_by_us";
    EXPECT_EQ(killed, 2);
}

TEST_F(Supervisor, OutOfMemoryNamesTensorLayerCategoryAndTheNearestPlan)
{
    SupervisorOptions options = home_.options();
    Json asked;
    options.nearestPlan = [&](const Json& oom) {
        asked = oom;
        return std::string("ring 2 fused, 310 MiB, 41 ms; the first: megagraph train --plan /x.json");
    };
    const RunOutcome outcome = train(50, {{"faults", {{{"rank", 0}, {"at_step", 0}, {"do", "oom"}}}}}, 2, &options);
    expectSentence(outcome, {"rank 0", "out of memory", "block1.scores", "layer block1", "category activations", "512 MiB requested",
                             "700 MiB in use", "budget 1.00 GiB", "ring 2 fused, 310 MiB, 41 ms"});
    EXPECT_EQ(asked["layer"], "block1");
    EXPECT_EQ(readJsonFile(outcome.folder + "/failures/1/card.json")->at("action").at("command"), "megagraph train --plan /x.json");
    EXPECT_EQ(outcome.result["ranks"][0]["peak_bytes"]["measured"], 700 << 20);
    EXPECT_EQ(readJsonFile(outcome.folder + "/failures/1/card.json")->at("cause"), "oom_device");
}

TEST_F(Supervisor, P16ThreeUnreadableLinesEndTheRank)
{
    expectSentence(train(1000, {{"faults", {{{"rank", 1}, {"at_step", 4}, {"do", "garbage"}, {"lines", 3}}}}}), {"rank 1", "3 unreadable report lines"});
}

TEST_F(Supervisor, P16TwoUnreadableLinesAndAnOverLongOneAreCountedOnly)
{
    const RunOutcome outcome = train(20, {{"faults", {{{"rank", 1}, {"at_step", 4}, {"do", "garbage"}, {"lines", 1}}, {{"rank", 1}, {"at_step", 5}, {"do", "long_line"}}}}});
    EXPECT_EQ(outcome.state, "finished") << outcome.message;
    EXPECT_EQ(eventsOf(outcome.folder, "line.bad").size(), 2u);
}

TEST_F(Supervisor, P16LineCutByDeathIsDropped)
{
    expectSentence(train(50, {{"faults", {{{"rank", 1}, {"at_step", 4}, {"do", "cut_line"}}}}}), {"rank 1", "signal 9"});
}

TEST_F(Supervisor, P15FloodOfTheLogIsCappedAndCounted)
{
    const RunOutcome outcome = train(10, {{"faults", {{{"rank", 0}, {"at_step", 2}, {"do", "flood"}, {"bytes", 80 << 20}}}}}, 1);
    EXPECT_EQ(outcome.state, "finished") << outcome.message;
    int64_t kept = 0;
    for (const auto& entry : std::filesystem::directory_iterator(outcome.folder + "/logs"))
        kept += int64_t(entry.file_size());
    EXPECT_LE(kept, (8 + 2 * 28 + 1) << 20);
    const auto dropped = eventsOf(outcome.folder, "log.dropped");
    ASSERT_EQ(dropped.size(), 1u);
    EXPECT_GE(dropped[0]["bytes"].get<int64_t>(), 10 << 20);
}

TEST_F(Supervisor, StrayChildrenOfAWorkerAreEnded)
{
    const RunOutcome outcome = train(10, {{"faults", {{{"rank", 1}, {"at_step", 2}, {"do", "stray"}}}}});
    EXPECT_EQ(outcome.state, "finished") << outcome.message; // train() looks for processes that are left
}

TEST_F(Supervisor, P13WorkerThatCannotStartIsNamedAndNothingIsLeft)
{
    SupervisorOptions options = home_.options();
    options.workerProgram = home_.path() + "/no-such-program";
    const RunOutcome outcome = train(10, Json::object(), 2, &options);
    expectSentence(outcome, {"rank 0 could not be started", "no-such-program", "No such file"});
}

TEST_F(Supervisor, P14StopWritesACheckpointAndTheRunResumesBitForBit)
{
    SupervisorOptions options = home_.options();
    std::string folder;
    options.onReady = [&](const std::string&, const std::string& place) { folder = place; };
    int steps = 0;
    options.onLine = [&](const Json& line) {
        if (line["kind"] == "step" && ++steps == 7) {
            ASSERT_TRUE(requestControl(folder, "stop", "test").ok());
        }
    };
    const RunOutcome stopped = train(400, {{"checkpoint_every", 50}, {"step_ms", 5}}, 2, &options);
    EXPECT_EQ(stopped.state, "stopped") << stopped.message;
    EXPECT_EQ(stopped.exitCode, 10);
    const int64_t at = stopped.result["steps"];
    EXPECT_LT(at, 400);
    EXPECT_EQ(findCheckpoint(stopped.folder)->step, at);
    ASSERT_EQ(eventsOf(stopped.folder, "control").size(), 1u);

    const auto resumed = resume(stopped.id, {{"step_ms", 0}});
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    EXPECT_EQ(resumed->state, "finished") << resumed->message;
    EXPECT_EQ(eventsOf(stopped.folder, "attempt.start").back()["attempt"], 2);
    const RunOutcome whole = train(400, {{"step_ms", 0}});
    EXPECT_EQ(whole.result["train"]["loss"], resumed->result["train"]["loss"]);
}

TEST_F(Supervisor, P14SecondStopEndsAtOnceAndAThirdKillsADeafWorker)
{
    SupervisorOptions options = home_.options();
    options.stopGraceS = 60;
    std::string folder;
    options.onReady = [&](const std::string&, const std::string& place) { folder = place; };
    options.onLine = [&](const Json& line) {
        const std::string kind = line["kind"];
        const bool lastStep = kind == "step" && line["step_to"] == 5;
        if (lastStep || kind == "control") { // each press is answered, then the next one follows
            ASSERT_TRUE(requestControl(folder, "stop", "test").ok());
        }
    };
    const RunOutcome outcome = train(1000, {{"faults", {{{"rank", 1}, {"at_step", 5}, {"do", "hang_deaf"}}}}}, 2, &options);
    EXPECT_EQ(outcome.state, "stopped") << outcome.message;
    EXPECT_GE(eventsOf(outcome.folder, "control").size(), 3u);
}

TEST_F(Supervisor, StopBySignalIsAStopWithCheckpoint)
{
    SupervisorOptions options = home_.options();
    bool sent = false;
    options.onLine = [&](const Json& line) {
        if (line["kind"] == "step" && !sent) {
            sent = true;
            ::kill(::getpid(), SIGTERM);
        }
    };
    const RunOutcome outcome = train(1000, {{"checkpoint_every", 100}, {"step_ms", 5}}, 2, &options);
    EXPECT_EQ(outcome.state, "stopped") << outcome.message;
    EXPECT_EQ(findCheckpoint(outcome.folder)->step, outcome.result["steps"].get<int64_t>());
}

TEST_F(Supervisor, CheckpointOnRequestIsCommitted)
{
    SupervisorOptions options = home_.options();
    std::string folder;
    bool asked = false;
    options.onReady = [&](const std::string&, const std::string& place) { folder = place; };
    options.onLine = [&](const Json& line) {
        if (line["kind"] == "step" && !std::exchange(asked, true)) {
            ASSERT_TRUE(requestControl(folder, "checkpoint", "test").ok());
        }
    };
    const RunOutcome outcome = train(100, {{"step_ms", 5}}, 2, &options);
    EXPECT_EQ(outcome.state, "finished");
    EXPECT_EQ(eventsOf(outcome.folder, "checkpoint.committed").size(), 1u);
}

TEST_F(Supervisor, FailureInACommitLeavesTheOldCheckpoint)
{
    const RunOutcome outcome = train(50, {{"checkpoint_every", 5}, {"faults", {{{"rank", 1}, {"at_step", 10}, {"where", "shard_written"}, {"do", "signal"}, {"signal", SIGKILL}}}}});
    expectSentence(outcome, {"rank 1", "last committed checkpoint: step 5"});
    EXPECT_EQ(findCheckpoint(outcome.folder)->step, 5);
    EXPECT_EQ(eventsOf(outcome.folder, "checkpoint.skipped").size(), 1u);
}

TEST_F(Supervisor, ResumeAfterAFailureContinuesFromTheLastCommit)
{
    const RunOutcome failed = train(30, {{"checkpoint_every", 5}, {"faults", {{{"rank", 1}, {"attempt", 1}, {"at_step", 13}, {"do", "signal"}, {"signal", SIGKILL}}}}});
    const auto resumed = resume(failed.id, {{"checkpoint_every", 5}});
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    EXPECT_EQ(resumed->state, "finished") << resumed->message;
    EXPECT_EQ(resumed->result["attempts"], 2);
    EXPECT_EQ(eventsOf(failed.folder, "attempt.start").back()["resume_step"], 10);
    EXPECT_EQ(resumed->result["train"]["loss"], train(30, {{"checkpoint_every", 5}}).result["train"]["loss"]);
    const auto again = resume(failed.id, Json::object());
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error().code, ErrorCode::Refused);
    EXPECT_NE(again.error().message.find("finished"), std::string::npos);
}

TEST_F(Supervisor, F03DamagedNewestCheckpointFallsBackToTheOneBefore)
{
    const RunOutcome failed = train(30, {{"checkpoint_every", 5}, {"faults", {{{"rank", 1}, {"attempt", 1}, {"at_step", 13}, {"do", "signal"}, {"signal", SIGKILL}}}}});
    const std::string shard = failed.folder + "/checkpoints/step-000000010/rank-0000.safetensors";
    {
        std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(-3, std::ios::end);
        const char byte = char(file.get() ^ 1);
        file.seekp(-3, std::ios::end);
        file.put(byte);
    }
    const auto resumed = resume(failed.id, Json::object());
    ASSERT_TRUE(resumed.ok()) << resumed.error().message;
    EXPECT_EQ(eventsOf(failed.folder, "attempt.start").back()["resume_step"], 5);
    const auto damaged = eventsOf(failed.folder, "checkpoint.damaged");
    ASSERT_EQ(damaged.size(), 1u);
    EXPECT_EQ(damaged[0]["step"], 10);
}

TEST_F(Supervisor, ResumeWithoutAnyCheckpointIsRefusedWithTheCommandToStartAgain)
{
    const RunOutcome failed = train(30, {{"faults", {{{"rank", 0}, {"at_step", 2}, {"do", "exit"}, {"code", 70}}}}});
    const auto resumed = resume(failed.id, Json::object());
    ASSERT_FALSE(resumed.ok());
    EXPECT_EQ(resumed.error().code, ErrorCode::Refused);
    EXPECT_NE(resumed.error().message.find("megagraph train --plan"), std::string::npos);
    EXPECT_EQ(resume("20200101-000000-abcdef", Json::object()).error().code, ErrorCode::NotFound);
}

TEST_F(Supervisor, RefusesAPlanThatIsPredictedNotToFitUnlessTheRiskIsTaken)
{
    home_.script(Json::object());
    Plan plan = testPlan(2);
    plan.prediction.ranks[1].peakBytes = int64_t(2) << 30;
    auto outcome = supervise(testRun(5), plan, testDataset(), home_.options());
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->exitCode, 11);
    EXPECT_NE(outcome->message.find("C4: predicted peak of rank 1 is 2.00 GiB"), std::string::npos) << outcome->message;
    EXPECT_TRUE(eventsOf(outcome->folder, "rank.started").empty());
    SupervisorOptions options = home_.options();
    options.riskOom = true;
    outcome = supervise(testRun(5), plan, testDataset(), options);
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->state, "finished") << outcome->message;
}

TEST_F(Supervisor, F15RefusesDataThatChangedSinceThePlan)
{
    home_.script(Json::object());
    std::filesystem::resize_file(home_.path() + "/datasets/tiny/indptr.npy", 100);
    auto outcome = supervise(testRun(5), testPlan(2), testDataset(), home_.options());
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->exitCode, 11);
    EXPECT_NE(outcome->message.find("indptr.npy has 100 bytes, expected 200 bytes"), std::string::npos) << outcome->message;
}

TEST_F(Supervisor, P11SecondSupervisorIsRefusedWithTheHolder)
{
    SupervisorOptions options = home_.options();
    std::string id;
    Result<RunOutcome> second = Error{};
    options.onReady = [&](const std::string& run, const std::string&) { id = run; };
    options.onLine = [&](const Json& line) {
        if (line["kind"] == "step" && second.error().message.empty()) {
            SupervisorOptions other = home_.options();
            other.resumeRun = id;
            second = supervise({}, {}, {}, other);
            ASSERT_FALSE(second.ok());
        }
    };
    EXPECT_EQ(train(10, Json::object(), 2, &options).state, "finished");
    EXPECT_EQ(second.error().code, ErrorCode::Refused);
    EXPECT_NE(second.error().message.find("pid " + std::to_string(::getpid())), std::string::npos) << second.error().message;
}

TEST_F(Supervisor, P11LeftoversOfACrashAreListedAndNotKilled)
{
    const RunOutcome failed = train(30, {{"checkpoint_every", 5}, {"faults", {{{"rank", 1}, {"at_step", 13}, {"do", "signal"}, {"signal", SIGKILL}}}}});
    ChildOptions options;
    options.program = "/bin/sleep";
    options.arguments = {"60"};
    options.environment = {{"MEGAGRAPH_RUN", failed.folder}};
    const auto leftover = spawn(options);
    ASSERT_TRUE(leftover.ok());
    const auto resumed = resume(failed.id, Json::object());
    EXPECT_EQ(processStartTicks(leftover->pid), leftover->startTicks) << "it was killed";
    ::kill(pid_t(leftover->pid), SIGKILL);
    ::waitpid(pid_t(leftover->pid), nullptr, 0);
    ::close(leftover->pidfd);
    ASSERT_FALSE(resumed.ok());
    EXPECT_EQ(resumed.error().code, ErrorCode::Refused);
    EXPECT_NE(resumed.error().message.find("sleep (pid " + std::to_string(leftover->pid)), std::string::npos) << resumed.error().message;
}

TEST_F(Supervisor, P14StopInTheStartIsAnsweredAndTheRunStopsAtItsFirstStep)
{
    SupervisorOptions options = home_.options();
    std::string folder;
    options.onReady = [&](const std::string&, const std::string& place) { folder = place; };
    options.onLine = [&](const Json& line) {
        if (line["kind"] == "rank.started" && line["rank"] == 1) {
            ASSERT_TRUE(requestControl(folder, "stop", "test").ok());
        }
    };
    const RunOutcome outcome = train(1000, {{"faults", {{{"rank", 0}, {"where", "start"}, {"do", "sleep"}, {"ms", 400}}}}}, 2, &options);
    EXPECT_EQ(outcome.state, "stopped") << outcome.message;
    EXPECT_LE(outcome.result["steps"].get<int64_t>(), 2);
    EXPECT_TRUE(findCheckpoint(outcome.folder).ok());
}

TEST_F(Supervisor, P14StopInACheckpointLetsTheCommitFinish)
{
    SupervisorOptions options = home_.options();
    std::string folder;
    options.onReady = [&](const std::string&, const std::string& place) { folder = place; };
    options.onLine = [&](const Json& line) {
        if (line["kind"] == "checkpoint.begin" && line["step"] == 5) {
            ASSERT_TRUE(requestControl(folder, "stop", "test").ok());
        }
    };
    const Json faults = Json::array({Json{{"rank", 1}, {"where", "checkpoint"}, {"at_step", 5}, {"do", "sleep"}, {"ms", 300}}});
    const RunOutcome outcome = train(1000, {{"checkpoint_every", 5}, {"faults", faults}}, 2, &options);
    EXPECT_EQ(outcome.state, "stopped") << outcome.message;
    EXPECT_TRUE(findCheckpoint(outcome.folder, 5).ok());
}

TEST_F(Supervisor, LastLineOfTheLogIsPartOfTheSentenceOfACrash)
{
    expectSentence(train(50, {{"faults", {{{"rank", 1}, {"at_step", 3}, {"do", "last_words"}, {"text", "libfoo.so.7: cannot open shared object file"}, {"code", 127}}}}}),
                   {"rank 1", "exit code 127", "libfoo.so.7: cannot open shared object file"});
}

TEST_F(Supervisor, WorkersGetNothingOfTheUsersEnvironmentButTheAllowList)
{
    ::setenv("MEGAGRAPH_SECRET_OF_TEST", "1", 1);
    SupervisorOptions options = home_.options();
    std::string environment, folder;
    options.onLine = [&](const Json& line) {
        if (line["kind"] != "rank.ready" || line["rank"] != 0 || !environment.empty())
            return;
        for (const auto& process : processesOfRun(folder))
            if (auto text = readSmallFile("/proc/" + std::to_string(process.pid) + "/environ", 1 << 20); text.ok())
                environment = *text;
    };
    options.onReady = [&](const std::string&, const std::string& place) { folder = place; };
    train(20, {{"step_ms", 5}}, 1, &options);
    ::unsetenv("MEGAGRAPH_SECRET_OF_TEST");
    for (const char* wanted : {"RANK=0", "WORLD_SIZE=1", "OMP_NUM_THREADS=1", "MEGAGRAPH_ATTEMPT=1", "MEGAGRAPH_RESUME_STEP=-1", "MEGAGRAPH_HOME="})
        EXPECT_NE(environment.find(wanted), std::string::npos) << wanted;
    EXPECT_EQ(environment.find("MEGAGRAPH_SECRET_OF_TEST"), std::string::npos);
    EXPECT_EQ(environment.find("PATH=/"), std::string::npos);
}

} // namespace
} // namespace megagraph::launch
