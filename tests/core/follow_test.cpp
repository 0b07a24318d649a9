// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"
#include "core/file.h"
#include "core/follow.h"
#include "tests/core/temporary_folder.h"

#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>

namespace megagraph {
namespace {

void append(const std::string& path, const std::string& text)
{
    std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

std::string journalLine(int64_t seq, const Json& fields = Json{{"kind", "eval"}})
{
    return encodeJournalLine(seq, fields);
}

TEST(Follower, EmptyRunGivesNothing)
{
    const TemporaryFolder folder;
    RunFollower follower(folder.path());
    const auto lines = follower.poll();
    ASSERT_TRUE(lines.ok());
    EXPECT_TRUE(lines->events.empty());
    EXPECT_FALSE(lines->more);
}

TEST(Follower, WaitsForTheRestOfAnIncompleteLine)
{
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/journal.jsonl", line = journalLine(1);
    RunFollower follower(folder.path());
    for (size_t at = 0; at + 1 < line.size(); ++at) {
        append(path, line.substr(at, 1));
        ASSERT_TRUE(follower.poll()->events.empty());
    }
    append(path, "\n");
    EXPECT_EQ(follower.poll()->events.size(), 1u);
    EXPECT_TRUE(follower.poll()->events.empty());
}

TEST(Follower, SmallReadsGiveEachLineOnce)
{
    const TemporaryFolder folder;
    for (int64_t seq = 1; seq <= 200; ++seq) {
        append(folder.path() + "/journal.jsonl", journalLine(seq));
        append(folder.path() + "/metrics.jsonl", encodeLine(Json{{"kind", "step"}, {"step_to", seq}}));
    }
    RunFollower follower(folder.path());
    int64_t events = 0, samples = 0;
    for (bool more = true; more;) {
        const auto lines = follower.poll(300);
        ASSERT_TRUE(lines.ok());
        for (const Json& line : lines->events)
            EXPECT_EQ(line["seq"], ++events);
        for (const Json& line : lines->samples)
            EXPECT_EQ(line["step_to"], ++samples);
        more = lines->more;
    }
    EXPECT_EQ(events, 200);
    EXPECT_EQ(samples, 200);
}

TEST(Follower, TornTailThatIsReplacedIsNoDamage)
{
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/journal.jsonl";
    append(path, journalLine(1) + journalLine(2).substr(0, 20));
    RunFollower follower(folder.path());
    EXPECT_EQ(follower.poll()->events.size(), 1u);
    std::filesystem::resize_file(path, journalLine(1).size()); // what the next supervisor does
    append(path, journalLine(2, Json{{"kind", "other"}}));
    const auto lines = follower.poll();
    ASSERT_TRUE(lines.ok());
    ASSERT_EQ(lines->events.size(), 1u);
    EXPECT_EQ(lines->events[0]["kind"], "other");
}

TEST(Follower, BadLineFollowedByAGoodOneIsCorrupt)
{
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/journal.jsonl";
    append(path, journalLine(1) + "garbage\n");
    RunFollower follower(folder.path());
    ASSERT_TRUE(follower.poll().ok());
    append(path, journalLine(3));
    const auto lines = follower.poll();
    ASSERT_FALSE(lines.ok());
    EXPECT_EQ(lines.error().code, ErrorCode::Corrupt);
    EXPECT_NE(lines.error().message.find("line 2"), std::string::npos) << lines.error().message;
}

TEST(Follower, GoesOnToTheNextMetricsSegment)
{
    const TemporaryFolder folder;
    append(folder.path() + "/metrics.jsonl", "{\"n\":1}\n");
    RunFollower follower(folder.path());
    EXPECT_EQ(follower.poll()->samples.size(), 1u);
    append(folder.path() + "/metrics.jsonl", "{\"n\":2}\n{\"n\":"); // the last one was cut
    append(folder.path() + "/metrics-0002.jsonl", "{\"n\":3}\n");
    std::vector<int> seen;
    for (int i = 0; i < 4; ++i) {
        const auto lines = follower.poll();
        ASSERT_TRUE(lines.ok());
        for (const Json& line : lines->samples)
            seen.push_back(line["n"]);
    }
    EXPECT_EQ(seen, (std::vector<int>{2, 3}));
}

TEST(RunStatus, LostIsAStateThatIsNotFinalWithAFreeLock)
{
    const TemporaryFolder folder;
    append(folder.path() + "/run.json", R"({"id":"20260101-000000-abcdef","kind":"train","name":"n","steps":10})");
    append(folder.path() + "/status.json", R"({"state":"running","step":4,"loss":0.5,"step_s":0.1,"eta_s":3})");
    append(folder.path() + "/journal.jsonl", journalLine(1, Json{{"kind", "run.state"}, {"from", "starting"}, {"to", "running"}, {"reason", ""}}));
    append(folder.path() + "/lock", R"({"pid":77})");
    EXPECT_EQ(readRunStatus(folder.path())->state, "lost");
    {
        const auto lock = openFile(folder.path() + "/lock", O_RDWR);
        ASSERT_TRUE(*tryLock(lock->get()));
        const auto status = readRunStatus(folder.path());
        ASSERT_TRUE(status.ok());
        EXPECT_EQ(status->state, "running");
        EXPECT_TRUE(status->alive);
        EXPECT_EQ(status->supervisorPid, 77);
        EXPECT_EQ(status->step, 4);
        EXPECT_EQ(status->steps, 10);
    }
    // the journal is the truth, whatever status.json says
    append(folder.path() + "/journal.jsonl", journalLine(2, Json{{"kind", "run.state"}, {"from", "running"}, {"to", "failed"}, {"reason", "killed"}}));
    EXPECT_EQ(readRunStatus(folder.path())->state, "failed");
}

TEST(Control, RequestsAreSmallWholeLines)
{
    const TemporaryFolder folder;
    const auto first = requestControl(folder.path(), "stop", "studio"), second = requestControl(folder.path(), "checkpoint", std::string(5000, 'x'));
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_NE(*first, *second);
    std::ifstream file(folder.path() + "/control.jsonl");
    std::string line;
    std::vector<std::string> asked;
    while (std::getline(file, line)) {
        EXPECT_LE(line.size(), 511u);
        asked.push_back((*decodeLine(line))["do"]);
    }
    EXPECT_EQ(asked, (std::vector<std::string>{"stop", "checkpoint"}));
    EXPECT_EQ(requestControl(folder.path(), "format-disk", "x").error().code, ErrorCode::InvalidInput);
}

} // namespace
} // namespace megagraph
