// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint.h"
#include "core/safetensors.h"
#include "tests/core/temporary_folder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace megagraph {
namespace {

std::vector<float> ramp(int64_t count, float first)
{
    std::vector<float> values(size_t(count), 0.0f);
    std::iota(values.begin(), values.end(), first);
    return values;
}

TensorSlice slice(const std::string& tensor, std::vector<int64_t> shape, int64_t begin, int64_t end)
{
    TensorSlice out;
    out.tensor = tensor;
    out.shape = std::move(shape);
    out.begin = begin;
    out.end = end;
    return out;
}

class Checkpoint : public testing::Test {
  protected:
    /// Two ranks: "big" is split unevenly (over a block border), "small" is written by rank 1.
    Result<CheckpointManifest> write(int64_t step, int64_t attempt = 1, int64_t secondBegin = 300'000)
    {
        big_ = ramp(700'000, float(step));
        small_ = ramp(6, 0.5f);
        const std::string temporary = run() + "/checkpoints/" + checkpointTempName(step, attempt);
        auto first = writeShard(temporary, 0, step, {{slice("big/w", {700, 1000}, 0, 300'000), big_.data()}}, Json{{"step", step}});
        auto second = writeShard(temporary, 1, step,
                                 {{slice("big/w", {700, 1000}, secondBegin, 700'000), big_.data() + secondBegin}, {slice("small/w", {2, 3}, 0, 6), small_.data()}}, Json());
        EXPECT_TRUE(first.ok() && second.ok());
        CheckpointManifest identity;
        identity.run = "20260101-000000-abcdef";
        identity.attempt = attempt;
        identity.step = step;
        identity.world = 2;
        identity.seed = ~uint64_t(0);
        return commitCheckpoint(run(), identity, {*first, *second});
    }
    std::string run() const { return folder_.path(); }

    TemporaryFolder folder_;
    std::vector<float> big_, small_;
};

TEST_F(Checkpoint, ReadsBackEveryElementAcrossShards)
{
    ASSERT_TRUE(write(1200).ok());
    const auto entry = findCheckpoint(run());
    ASSERT_TRUE(entry.ok()) << entry.error().message;
    EXPECT_EQ(entry->step, 1200);
    EXPECT_EQ(std::filesystem::path(entry->folder).filename(), "step-000001200");
    auto reader = CheckpointReader::open(entry->folder);
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    EXPECT_EQ(reader->manifest().state["step"], 1200);
    EXPECT_EQ(reader->manifest().seed, ~uint64_t(0));
    EXPECT_EQ(*reader->shape("big/w"), (std::vector<int64_t>{700, 1000}));
    std::vector<float> back(700'000);
    ASSERT_TRUE(reader->read("big/w", 0, 700'000, back.data(), 700'000 * 4).ok());
    EXPECT_EQ(back, big_);
    float part[4] = {};
    ASSERT_TRUE(reader->read("big/w", 299'998, 300'002, part, sizeof part).ok());
    EXPECT_EQ(part[0], big_[299'998]);
    EXPECT_EQ(part[3], big_[300'001]);
    EXPECT_EQ(reader->read("none/w", 0, 1, part, 4).error().code, ErrorCode::NotFound);
    EXPECT_TRUE(reader->verify().ok());
}

TEST_F(Checkpoint, LeavesNeitherSidecarsNorTemporaryFolder)
{
    ASSERT_TRUE(write(5).ok());
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::recursive_directory_iterator(run() + "/checkpoints"))
        names.push_back(file.path().filename());
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"manifest.json", "rank-0000.safetensors", "rank-0001.safetensors", "step-000000005"}));
}

TEST_F(Checkpoint, ShardsAreSafetensorsThatOtherToolsCanRead)
{
    ASSERT_TRUE(write(5).ok());
    const auto header = readSafetensorsHeader(run() + "/checkpoints/step-000000005/rank-0001.safetensors");
    ASSERT_TRUE(header.ok()) << header.error().message;
    ASSERT_EQ(header->entries.size(), 2u);
    EXPECT_EQ(header->entries[0].name, "big/w@300000");
    EXPECT_EQ(header->entries[1].name, "small/w");
    EXPECT_EQ(header->entries[1].shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(header->dataOffset % 64, 0);
}

TEST_F(Checkpoint, CommitRefusesMissingAndDoubledElements)
{
    const auto missing = write(1, 1, 300'010), doubled = write(2, 1, 299'990);
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().message.find("big/w: elements [300000, 300010) are missing"), std::string::npos) << missing.error().message;
    ASSERT_FALSE(doubled.ok());
    EXPECT_NE(doubled.error().message.find("big/w: elements [299990, 300000) are written twice"), std::string::npos) << doubled.error().message;
    EXPECT_EQ(findCheckpoint(run()).error().code, ErrorCode::NotFound);
    removeUnfinishedCheckpoints(run());
    EXPECT_TRUE(std::filesystem::is_empty(run() + "/checkpoints"));
}

TEST_F(Checkpoint, CommitRefusesASidecarThatIsNotTheReportedOne)
{
    const std::string temporary = run() + "/checkpoints/" + checkpointTempName(3, 1);
    small_ = ramp(6, 0);
    auto report = writeShard(temporary, 0, 3, {{slice("small/w", {6}, 0, 6), small_.data()}}, Json());
    ASSERT_TRUE(report.ok());
    report->sidecarCrc ^= 1;
    CheckpointManifest identity;
    identity.step = 3;
    EXPECT_EQ(commitCheckpoint(run(), identity, {*report}).error().code, ErrorCode::Corrupt);
    report->sidecarCrc ^= 1;
    report->name = "../../run.json";
    EXPECT_EQ(commitCheckpoint(run(), identity, {*report}).error().code, ErrorCode::Corrupt);
}

TEST_F(Checkpoint, CoverageHoldsForRandomCutsAndFailsForEachBrokenOne)
{
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
        std::vector<TensorSlice> slices;
        for (const char* name : {"a/w", "a/m", "b/w"}) {
            const int64_t total = 1 + int64_t(random() % 1000);
            for (int64_t at = 0; at < total;) {
                const int64_t end = std::min<int64_t>(total, at + 1 + int64_t(random() % 300));
                slices.push_back(slice(name, {total}, at, end));
                at = end;
            }
        }
        std::shuffle(slices.begin(), slices.end(), random);
        ASSERT_TRUE(checkCoverage(slices).ok());
        auto broken = slices;
        TensorSlice& victim = broken[random() % broken.size()];
        switch (random() % 3) {
        case 0: broken.push_back(victim); break;
        case 1: ++victim.begin; break;
        default: victim.shape[0] += 1; break;
        }
        EXPECT_FALSE(checkCoverage(broken).ok());
    }
}

TEST_F(Checkpoint, NewestIsComparedAsANumberAndUnfinishedOnesDoNotCount)
{
    for (const int64_t step : {int64_t(9), int64_t(10'000'000'000), int64_t(100)})
        ASSERT_TRUE(write(step).ok());
    std::filesystem::create_directories(run() + "/checkpoints/step-99999999999.tmp-a1");
    std::filesystem::create_directories(run() + "/checkpoints/.trash-step-5");
    EXPECT_EQ(findCheckpoint(run())->step, 10'000'000'000);
    EXPECT_EQ(findCheckpoint(run(), 9)->step, 9);
    const auto missing = findCheckpoint(run(), 10);
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().message.find("100 9"), std::string::npos) << missing.error().message;
}

TEST_F(Checkpoint, SameStepOfALaterAttemptReplacesTheOld)
{
    ASSERT_TRUE(write(7, 1).ok());
    ASSERT_TRUE(write(7, 2).ok());
    EXPECT_EQ(readManifest(findCheckpoint(run())->folder)->attempt, 2);
    EXPECT_EQ(listCheckpoints(run())->entries.size(), 1u);
    EXPECT_FALSE(std::filesystem::exists(run() + "/checkpoints/" + checkpointTempName(7, 2)));
}

TEST_F(Checkpoint, F03EveryFlippedOrCutShardIsFound)
{
    ASSERT_TRUE(write(4).ok());
    std::mt19937 random(11);
    const std::string folder = findCheckpoint(run())->folder;
    for (int round = 0; round < 40; ++round) {
        const std::string path = folder + (random() % 2 ? "/rank-0000.safetensors" : "/rank-0001.safetensors");
        const int64_t size = int64_t(std::filesystem::file_size(path)), at = int64_t(random() % uint64_t(size));
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(at);
        const char before = char(file.get());
        file.seekp(at);
        file.put(char(before ^ (1 << (random() % 8))));
        file.close();
        auto reader = CheckpointReader::open(folder);
        ASSERT_TRUE(reader.ok());
        const auto verdict = reader->verify();
        ASSERT_FALSE(verdict.ok()) << path << " byte " << at;
        EXPECT_EQ(verdict.error().code, ErrorCode::Corrupt);
        EXPECT_NE(verdict.error().message.find("block " + std::to_string(at / kChecksumBlock)), std::string::npos);
        std::fstream repair(path, std::ios::in | std::ios::out | std::ios::binary);
        repair.seekp(at);
        repair.put(before);
    }
    std::filesystem::resize_file(folder + "/rank-0001.safetensors", 4096);
    EXPECT_EQ(readManifest(folder).error().code, ErrorCode::Corrupt);
    const auto list = listCheckpoints(run());
    ASSERT_TRUE(list.ok());
    EXPECT_TRUE(list->entries.empty());
    ASSERT_EQ(list->damaged.size(), 1u);
    EXPECT_NE(list->damaged[0].reason.find("4096 bytes"), std::string::npos) << list->damaged[0].reason;
}

TEST(Safetensors, HeaderRoundTrip)
{
    std::vector<SafetensorsEntry> entries{{"a", "F32", {2, 3}, 0, 0}, {"b", "I64", {}, 0, 0}, {"c", "F32", {0, 5}, 0, 0}};
    const std::string head = encodeSafetensorsHeader(entries, {{"k", "v"}});
    const auto back = decodeSafetensorsHeader(head, int64_t(head.size()) + 32, "x");
    ASSERT_TRUE(back.ok()) << back.error().message;
    ASSERT_EQ(back->entries.size(), 3u);
    EXPECT_EQ(back->entries[1].begin, 24);
    EXPECT_EQ(back->entries[1].end, 32);
    EXPECT_EQ(back->metadata.at("k"), "v");
}

TEST(Safetensors, HostileHeadersAreRefusedBeforeAnythingIsAllocated)
{
    const auto header = [](const std::string& json) {
        std::string text(8, '\0');
        text[0] = char(json.size());
        text[1] = char(json.size() >> 8);
        return text + json;
    };
    const auto refused = [&](const std::string& json, int64_t data) {
        const std::string head = header(json);
        const auto got = decodeSafetensorsHeader(head, int64_t(head.size()) + data, "x.safetensors");
        EXPECT_FALSE(got.ok()) << json;
        if (!got.ok()) {
            EXPECT_NE(got.error().message.find("x.safetensors"), std::string::npos);
        }
    };
    refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})", 12);
    refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4);
    refused(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8);
    refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 8);
    refused(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8);
    refused(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 8);
    refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12);
    refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8);
    refused(R"([1])", 8);
    refused(R"({"a":)", 8);
    std::string huge(8, '\xff');
    EXPECT_FALSE(decodeSafetensorsHeader(huge, 8, "x").ok());
    EXPECT_FALSE(decodeSafetensorsHeader("abc", 3, "x").ok());
}

} // namespace
} // namespace megagraph
