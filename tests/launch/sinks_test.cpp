// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"
#include "core/follow.h"
#include "runtime/launch/sinks.h"
#include "tests/core/temporary_folder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <random>

namespace megagraph::launch {
namespace {

std::string contentOf(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LineSplitter, GivesTheSameLinesForEveryCutOfTheStream)
{
    std::mt19937 random(5);
    std::string stream;
    std::vector<std::string> expected;
    for (int i = 0; i < 300; ++i) {
        const size_t size = random() % 40 == 0 ? kMaxEventLine + random() % 100 : random() % 200;
        const std::string line = std::string(size, char('a' + i % 26)) + "\n";
        stream += line;
        if (line.size() <= kMaxEventLine)
            expected.push_back(line);
    }
    for (int round = 0; round < 20; ++round) {
        LineSplitter splitter;
        std::vector<std::string> lines;
        int bad = 0;
        for (size_t at = 0; at < stream.size();) {
            const size_t size = std::min<size_t>(stream.size() - at, 1 + random() % 5000);
            splitter.feed(std::string_view(stream).substr(at, size), [&](std::string_view line) { lines.emplace_back(line); },
                          [&](std::string_view first) {
                              ++bad;
                              EXPECT_LE(first.size(), 64u);
                          });
            at += size;
        }
        EXPECT_EQ(lines, expected);
        EXPECT_EQ(bad, 300 - int(expected.size()));
        EXPECT_TRUE(splitter.empty());
    }
}

TEST(LogSink, KeepsHeadAndTailAndCountsWhatIsDropped)
{
    const TemporaryFolder folder;
    LogSink sink;
    sink.open(folder.path() + "/r0.log");
    const std::string block(1 << 20, 'x');
    constexpr int kBlocks = 100;
    for (int i = 0; i < kBlocks; ++i)
        sink.write(block);
    sink.write("the end\n");
    int64_t kept = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder.path()))
        kept += int64_t(file.file_size());
    EXPECT_EQ(kept + sink.droppedBytes(), int64_t(kBlocks) * int64_t(block.size()) + 8);
    EXPECT_LE(kept, LogSink::kHeadBytes + 2 * LogSink::kSegmentBytes);
    EXPECT_EQ(std::filesystem::file_size(folder.path() + "/r0.log"), uint64_t(LogSink::kHeadBytes));
    EXPECT_EQ(sink.tail().size(), LogSink::kTailBytes);
    EXPECT_EQ(sink.tail().substr(sink.tail().size() - 8), "the end\n");
}

TEST(MetricsSink, StartsANewSegmentAndContinuesTheNewest)
{
    const TemporaryFolder folder;
    const Json sample{{"kind", "step"}, {"fill", std::string(16'000, 'm')}};
    {
        MetricsSink sink;
        sink.open(folder.path());
        for (int64_t bytes = 0; bytes <= MetricsSink::kSegmentBytes; bytes += 16'000)
            sink.write(sample);
        EXPECT_EQ(sink.droppedLines(), 0);
    }
    ASSERT_TRUE(std::filesystem::exists(folder.path() + "/metrics-0002.jsonl"));
    const auto first = std::filesystem::file_size(folder.path() + "/metrics.jsonl");
    MetricsSink sink;
    sink.open(folder.path());
    sink.write(Json{{"n", 1}});
    EXPECT_EQ(std::filesystem::file_size(folder.path() + "/metrics.jsonl"), first);
    EXPECT_NE(contentOf(folder.path() + "/metrics-0002.jsonl").find("{\"n\":1}\n"), std::string::npos);
}

TEST(MetricsSink, LineCutByACrashDoesNotSwallowTheNextOne)
{
    const TemporaryFolder folder;
    std::ofstream(folder.path() + "/metrics.jsonl") << "{\"n\":1}\n{\"n\":";
    MetricsSink sink;
    sink.open(folder.path());
    sink.write(Json{{"n", 3}});
    RunFollower follower(folder.path());
    const auto lines = follower.poll();
    ASSERT_TRUE(lines.ok());
    ASSERT_EQ(lines->samples.size(), 2u);
    EXPECT_EQ(lines->samples[1]["n"], 3);
}

TEST(ControlReader, SeesOnlyWhatIsAskedAfterItsStartAndSkipsGarbage)
{
    const TemporaryFolder folder;
    ASSERT_TRUE(requestControl(folder.path(), "kill", "an earlier attempt").ok());
    ControlReader reader(folder.path());
    EXPECT_TRUE(reader.poll().empty());
    const std::string path = folder.path() + "/control.jsonl";
    std::ofstream(path, std::ios::app) << "nonsense\n{\"do\":";
    EXPECT_TRUE(reader.poll().empty());
    std::ofstream(path, std::ios::app) << "\"stop\"}\n";
    const auto requests = reader.poll();
    ASSERT_EQ(requests.size(), 1u);
    EXPECT_EQ(requests[0]["do"], "stop");
}

} // namespace
} // namespace megagraph::launch
