// SPDX-License-Identifier: Apache-2.0
// Bad sources: each ends in one message with file, place, found, expected and remedy, and leaves nothing behind.
#include "core/io/canonical_writer.h"
#include "core/io/dataset.h"
#include "core/io/npy.h"
#include "core/io/zip.h"
#include "tests/core/io_support.h"

#include <fmt/format.h>

namespace megagraph::test {
namespace {

constexpr ErrorCode kBad = ErrorCode::InvalidInput;
const std::string kEdges = "0,1\n1,2\n2,3\n3,0\n";
const std::string kLabels = "0\n1\n0\n1\n";

TEST(OgbFaults, CoraWithATruncatedEdgeFileNamesLineAndCounts)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Scratch scratch;
    scratch.copyFolder(sharedData() + "/cora-ogb", "cora");
    const std::string whole = scratch.read("cora/raw/edge.csv.gz");
    std::filesystem::remove(scratch.path("cora/raw/edge.csv.gz"));
    scratch.write("cora/raw/edge.csv.gz", whole.substr(0, whole.size() / 2));
    expectRefusal(scratch, scratch.path("cora"), kBad, {"raw/edge.csv.gz: line ", "got 9063 bytes", "expected 5278 lines", "gzip trailer", "get it again"});
}

TEST(OgbFaults, CoraWithOneLabelTooFewNamesTheMissingLine)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Scratch scratch;
    scratch.copyFolder(sharedData() + "/cora-ogb", "cora");
    std::string labels = gunzipped(scratch.read("cora/raw/node-label.csv.gz"));
    labels.erase(labels.rfind('\n', labels.size() - 2) + 1);
    std::filesystem::remove(scratch.path("cora/raw/node-label.csv.gz"));
    scratch.writeGzip("cora/raw/node-label.csv.gz", labels);
    expectRefusal(scratch, scratch.path("cora"), kBad, {"raw/node-label.csv.gz: line 2708", "got 2707", "expected 2708", "get the complete file"});
}

TEST(OgbFaults, CoraWithTheEdgeId2708NamesLineAndRange)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Scratch scratch;
    scratch.copyFolder(sharedData() + "/cora-ogb", "cora");
    std::string edges = gunzipped(scratch.read("cora/raw/edge.csv.gz"));
    const size_t second = edges.find('\n') + 1, comma = edges.find(',', second), end = edges.find('\n', second);
    edges.replace(comma + 1, end - comma - 1, "2708");
    std::filesystem::remove(scratch.path("cora/raw/edge.csv.gz"));
    scratch.writeGzip("cora/raw/edge.csv.gz", edges);
    expectRefusal(scratch, scratch.path("cora"), kBad, {"raw/edge.csv.gz: line 2", "got 2708", "expected 0..2707", "correct the id"});
}

struct OgbDefect { const char* name; std::string edges, labels, features, train; std::vector<std::string> pieces; };

class OgbDefects : public testing::TestWithParam<OgbDefect> {};

TEST_P(OgbDefects, AreRefusedWithFileLineValueAndRule)
{
    const OgbDefect& d = GetParam();
    const Scratch scratch;
    writeOgb(scratch, "set", 4, d.edges.empty() ? kEdges : d.edges, d.labels.empty() ? kLabels : d.labels);
    if (!d.features.empty())
        scratch.writeGzip("set/raw/node-feat.csv.gz", d.features);
    if (!d.train.empty())
        scratch.writeGzip("set/split/s/train.csv.gz", d.train);
    expectRefusal(scratch, scratch.path("set"), kBad, d.pieces);
}

INSTANTIATE_TEST_SUITE_P(
    Made, OgbDefects,
    testing::Values(OgbDefect{"NegativeId", "0,1\n1,-2\n", "", "", "", {"edge.csv.gz: line 2", "got -2", "0..3"}},
                    OgbDefect{"HugeId", "0,1\n99999999999999999999,2\n", "", "", "", {"edge.csv.gz: line 2", "two whole numbers"}},
                    OgbDefect{"WordInEdges", "0,1\nsource,target\n", "", "", "", {"edge.csv.gz: line 2", "\"source,target\""}},
                    OgbDefect{"ThreeColumns", "0,1\n1,2,3\n", "", "", "", {"edge.csv.gz: line 2", "two whole numbers"}},
                    OgbDefect{"OneColumn", "0,1\n1\n", "", "", "", {"edge.csv.gz: line 2", "two whole numbers"}},
                    OgbDefect{"LabelTooMany", "", "0\n1\n0\n1\n0\n", "", "", {"node-label.csv.gz: line 5", "got at least 5", "expected 4"}},
                    OgbDefect{"FeatureRowShort", "", "", "1,0\n1\n0,0\n1,1\n", "", {"node-feat.csv.gz: line 2", "got 1, expected 2"}},
                    OgbDefect{"FeatureWord", "", "", "1,0\n1,x\n0,0\n1,1\n", "", {"node-feat.csv.gz: line 2", "column 2", "\"x\""}},
                    OgbDefect{"FeatureRowsMissing", "", "", "1,0\n1,1\n", "", {"node-feat.csv.gz: line 3", "got 2", "expected 4"}},
                    OgbDefect{"SplitIdOutside", "", "", "", "0\n4\n", {"train.csv.gz: line 2", "\"4\"", "0..3"}},
                    OgbDefect{"DecimalComma", "", "", "1,0\n1,1\n0,0\n1,1,5\n", "", {"node-feat.csv.gz: line 4", "got 3, expected 2"}}),
    [](const auto& info) { return info.param.name; });

TEST(OgbFaults, CountFilesThatDisagreeWithTheEdgesAreRefused)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    scratch.writeGzip("set/raw/num-edge-list.csv.gz", "5\n");
    expectRefusal(scratch, scratch.path("set"), kBad, {"edge.csv.gz: line 5", "got 4", "expected 5"});
    scratch.writeGzip("set/raw/num-edge-list.csv.gz", "3\n");
    expectRefusal(scratch, scratch.path("set"), kBad, {"edge.csv.gz: line 4", "at least 4", "expected 3"});
    scratch.writeGzip("set/raw/num-edge-list.csv.gz", "2\n2\n");
    expectRefusal(scratch, scratch.path("set"), ErrorCode::Unsupported, {"num-edge-list.csv.gz: line 2", "many graphs"});
    std::filesystem::remove(scratch.path("set/raw/num-edge-list.csv.gz"));
    expectRefusal(scratch, scratch.path("set"), kBad, {"num-edge-list.csv.gz: missing"});
}

TEST(OgbFaults, ImpossibleCountsAreRefusedBeforeMemoryIsTaken)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    scratch.writeGzip("set/raw/num-node-list.csv.gz", "999999999999\n");
    expectRefusal(scratch, scratch.path("set"), ErrorCode::Unsupported, {"num-node-list.csv.gz: line 1", "got 999999999999"});
    scratch.writeGzip("set/raw/num-node-list.csv.gz", "2000000000\n");
    ImportOptions options;
    options.memoryBytes = int64_t(1) << 30;
    expectRefusal(scratch, scratch.path("set"), ErrorCode::OutOfMemory, {"2000000000 nodes", "the budget is 1"}, options);
}

TEST(OgbFaults, DamagedGzipIsRefused)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    std::string bytes = gzipped(kEdges);
    bytes[bytes.size() - 7] = static_cast<char>(bytes[bytes.size() - 7] ^ 1); // in the CRC
    scratch.write("set/raw/edge.csv.gz", bytes);
    expectRefusal(scratch, scratch.path("set"), kBad, {"edge.csv.gz: line ", "damaged gzip data", "get the file again"});
    scratch.write("set/raw/edge.csv.gz", kEdges);
    expectRefusal(scratch, scratch.path("set"), kBad, {"edge.csv.gz", "not a gzip file", "1f 8b"});
    scratch.write("set/raw/edge.csv.gz", gzipped(kEdges) + "rubbish");
    expectRefusal(scratch, scratch.path("set"), kBad, {"edge.csv.gz", "bytes after the gzip data"});
    scratch.writeGzip("set/raw/edge.csv.gz", std::string("0,1\n1,\0\n", 8));
    expectRefusal(scratch, scratch.path("set"), kBad, {"edge.csv.gz: line 2", "not text"});
    scratch.writeGzip("set/raw/edge.csv.gz", std::string(3 << 20, '1'));
    expectRefusal(scratch, scratch.path("set"), kBad, {"edge.csv.gz: line 1", "longer than the limit"});
}

TEST(Recognition, RefusesWhatIsKnownAndDangerousWithTheWayOut)
{
    const Scratch scratch;
    const std::pair<std::string, std::string> files[] = {
        {std::string("\x80\x02}q\x00", 5), "pickle"},          {"(dp0\nS'a'\n", "pickle"},  {"PAR1....", "Parquet"}, {"ARROW1..", "Feather"},
        {"\x89HDF\r\n\x1a\n", "HDF5"},                         {"smiles,y\nCCO,1\n", "SMILES"}, {"%%MatrixMarket matrix", "MatrixMarket"},
        {std::string("\x3f\xa1\xb4\xf6\xe4\x2f\xd2\xdd", 8), "DGL"}};
    for (const auto& [bytes, word] : files) {
        scratch.write("file.dat", bytes);
        expectRefusal(scratch, scratch.path("file.dat"), ErrorCode::Unsupported, {"file.dat", word});
        std::filesystem::remove(scratch.path("file.dat"));
    }
    scratch.write("pointer.npz", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
    expectRefusal(scratch, scratch.path("pointer.npz"), kBad, {"git-lfs pointer", "git lfs pull"});
    scratch.write("page.npz", "<!DOCTYPE html><html>");
    expectRefusal(scratch, scratch.path("page.npz"), kBad, {"web page"});
    scratch.write("model.pt", zipped({{"archive/data.pkl", "\x80\x02", false}}));
    expectRefusal(scratch, scratch.path("model.pt"), ErrorCode::Unsupported, {"data.pkl", "pickle"});
    expectRefusal(scratch, scratch.path("absent"), ErrorCode::NotFound, {"absent", "check the path"});
}

std::vector<ZipEntry> karateLike()
{
    const std::vector<int32_t> indices{1, 0, 2, 1}, indptr{0, 1, 3, 4};
    const std::vector<int64_t> shape{3, 3}, labels{0, 1, 0};
    return {{"adj_data.npy", npy("<f4", "(4,)", rawBytes(std::vector<float>{1, 1, 1, 1}))},
            {"adj_indices.npy", npy("<i4", "(4,)", rawBytes(indices))},
            {"adj_indptr.npy", npy("<i4", "(4,)", rawBytes(indptr))},
            {"adj_shape.npy", npy("<i8", "(2,)", rawBytes(shape)), false},
            {"labels.npy", npy("<i8", "(3,)", rawBytes(labels))}};
}

TEST(NpzFaults, TheBaseOfTheDefectsBelowIsAccepted)
{
    const Scratch scratch;
    scratch.write("good.npz", zipped(karateLike()));
    const auto made = importInto(scratch, scratch.path("good.npz"), "good");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->spec.undirectedEdges, 2);
}

struct NpzDefect { const char* name; int member; std::string data; ErrorCode code; std::vector<std::string> pieces; };

class NpzDefects : public testing::TestWithParam<NpzDefect> {};

TEST_P(NpzDefects, AreRefusedWithMemberValueAndRule)
{
    const NpzDefect& d = GetParam();
    const Scratch scratch;
    auto entries = karateLike();
    entries[static_cast<size_t>(d.member)].data = d.data;
    scratch.write("bad.npz", zipped(entries));
    expectRefusal(scratch, scratch.path("bad.npz"), d.code, d.pieces);
}

INSTANTIATE_TEST_SUITE_P(
    Made, NpzDefects,
    testing::Values(
        NpzDefect{"ObjectArray", 4, npy("|O", "(3,)", "\x80\x02...................."), ErrorCode::Unsupported, {"labels.npy", "pickle", "|O"}},
        NpzDefect{"Records", 4, npy("[('a', '<i4')]", "(3,)", std::string(12, 'x')), ErrorCode::Unsupported, {"labels.npy", "not read"}},
        NpzDefect{"ComplexNumbers", 4, npy("<c8", "(3,)", std::string(24, '\0')), ErrorCode::Unsupported, {"labels.npy", "<c8"}},
        NpzDefect{"ShapeTooLarge", 4, npy("<i8", "(3000000000,)", std::string(24, '\0')), kBad, {"labels.npy", "shape does not fit"}},
        NpzDefect{"ShapeOverflows", 4, npy("<i8", "(4294967296, 4294967296, 4294967296)", ""), kBad, {"labels.npy", "2^63"}},
        NpzDefect{"NineDimensions", 4, npy("<i8", "(1, 1, 1, 1, 1, 1, 1, 1, 3)", std::string(24, '\0')), kBad, {"labels.npy", "8 counts"}},
        NpzDefect{"NegativeShape", 4, npy("<i8", "(-3,)", std::string(24, '\0')), kBad, {"labels.npy", "shape"}},
        NpzDefect{"NoNpy", 4, "hello", kBad, {"labels.npy", "not a NumPy array"}},
        NpzDefect{"HeaderCut", 4, npy("<i8", "(3,)", "").substr(0, 40), kBad, {"labels.npy", "header does not fit"}},
        NpzDefect{"LabelsShort", 4, npy("<i8", "(2,)", std::string(16, '\0')), kBad, {"labels.npy", "got 2, expected 3"}},
        NpzDefect{"IdOutside", 1, npy("<i4", "(4,)", rawBytes(std::vector<int32_t>{1, 0, 3, 1})), kBad, {"adj_indices.npy", "element 2", "got 3", "0..2"}},
        NpzDefect{"IdNegative", 1, npy("<i4", "(4,)", rawBytes(std::vector<int32_t>{1, 0, -1, 1})), kBad, {"adj_indices.npy", "got -1"}},
        NpzDefect{"IndptrFalls", 2, npy("<i4", "(4,)", rawBytes(std::vector<int32_t>{0, 3, 1, 4})), kBad, {"adj_indptr.npy", "falls"}},
        NpzDefect{"IndptrShort", 2, npy("<i4", "(3,)", rawBytes(std::vector<int32_t>{0, 1, 4})), kBad, {"adj_indptr.npy", "got 3, expected 4"}},
        NpzDefect{"IndptrEndsWrong", 2, npy("<i4", "(4,)", rawBytes(std::vector<int32_t>{0, 1, 3, 9})), kBad, {"adj_indptr.npy", "got 0..9"}},
        NpzDefect{"NotSquare", 3, npy("<i8", "(2,)", rawBytes(std::vector<int64_t>{3, 4})), kBad, {"adj_shape.npy", "3 x 4"}},
        NpzDefect{"HalfAnId", 1, npy("<f4", "(4,)", rawBytes(std::vector<float>{1, 0, 0.5f, 1})), kBad, {"adj_indices.npy", "element 2", "0.5"}}),
    [](const auto& info) { return info.param.name; });

TEST(ZipFaults, EveryCutOfAnArchiveIsRefused)
{
    const Scratch scratch;
    const std::string whole = zipped(karateLike());
    for (size_t size = 4; size < whole.size(); size += 37) {
        scratch.write("cut.npz", whole.substr(0, size));
        const auto result = importInto(scratch, scratch.path("cut.npz"), "cut");
        ASSERT_FALSE(result.ok()) << "first " << size << " bytes of " << whole.size();
        EXPECT_EQ(result.error().code, kBad);
    }
    EXPECT_TRUE(scratch.storedSets().empty());
}

TEST(ZipFaults, EveryFlippedByteIsRefusedOrHarmless)
{
    const Scratch scratch;
    const std::string whole = zipped(karateLike());
    int refused = 0;
    for (size_t at = 0; at < whole.size(); at += 3) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ 0x41);
        scratch.write("flip.npz", bytes);
        ImportOptions options;
        options.name = "flip";
        options.replace = true;
        refused += !importDataset(scratch.path("flip.npz"), options, scratch.home(), {}, {}).ok();
    }
    EXPECT_GT(refused, 100);
    for (const auto& name : scratch.storedSets())
        EXPECT_EQ(name, "flip");
}

TEST(ZipFaults, BombsAreRefusedBeforeTheyAreInflated)
{
    const Scratch scratch;
    auto entries = karateLike();
    entries.push_back({"zeros.npy", npy("|u1", "(104857600,)", std::string(100 << 20, '\0'))});
    scratch.write("bomb.npz", zipped(entries));
    expectRefusal(scratch, scratch.path("bomb.npz"), kBad, {"bomb.npz", "expected at most 200 times", "--allow-ratio"});
    ImportOptions options;
    options.allowRatio = true;
    options.memoryBytes = 32 << 20;
    expectRefusal(scratch, scratch.path("bomb.npz"), ErrorCode::OutOfMemory, {"the budget is 33554432 bytes"}, options);
}

TEST(ZipFaults, WrongChecksumIsRefused)
{
    const Scratch scratch;
    auto entries = karateLike();
    for (auto& entry : entries)
        entry.deflated = false;
    std::string bytes = zipped(entries);
    bytes[bytes.find("adj_indices.npy") + 15 + 128 + 1] = 1; // in the stored data of the second member
    scratch.write("bad.npz", bytes);
    expectRefusal(scratch, scratch.path("bad.npz"), kBad, {"adj_indices.npy", "checksum wrong"});
}

TEST(Refusals, ANameInUseAsksForReplace)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    ASSERT_TRUE(importInto(scratch, scratch.path("set"), "refused").ok());
    expectRefusal(scratch, scratch.path("set"), ErrorCode::Refused, {"refused", "--replace"});
    ImportOptions options;
    options.replace = true;
    options.direction = "keep";
    const auto again = importInto(scratch, scratch.path("set"), "refused", options);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_TRUE(again->spec.directed);
    EXPECT_EQ(again->spec.entries, 4);
    EXPECT_EQ(scratch.storedSets(), std::vector<std::string>{"refused"});
}

TEST(Refusals, NamesThatLeaveTheFolderAreRefused)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    for (const char* name : {"", ".", "..", "../x", "a/b", "-x", ".hidden", "a b"}) {
        const auto result = importInto(scratch, scratch.path("set"), name);
        ASSERT_FALSE(result.ok()) << name;
        EXPECT_EQ(result.error().code, ErrorCode::Usage);
    }
}

TEST(Refusals, AStopAtAnyStepLeavesNothingBehind)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    scratch.writeGzip("set/raw/node-feat.csv.gz", "1,0\n1,1\n0,0\n1,1\n");
    int steps = 0;
    for (int at = 0; at < 100; ++at) {
        std::stop_source source;
        ImportOptions options;
        options.name = "stopped";
        int seen = 0;
        const auto progress = [&](const std::string&, int64_t, int64_t) {
            if (seen++ == at)
                source.request_stop();
        };
        const auto result = importDataset(scratch.path("set"), options, scratch.home(), progress, source.get_token());
        if (result.ok())
            break;
        EXPECT_EQ(result.error().code, ErrorCode::Cancelled);
        EXPECT_TRUE(scratch.storedSets().empty());
        ++steps;
    }
    EXPECT_GE(steps, 3);
}

TEST(Refusals, StrictTurnsAReportIntoARefusal)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, "0,1\n1,1\n", kLabels);
    ImportOptions options;
    options.strict = true;
    expectRefusal(scratch, scratch.path("set"), kBad, {"--strict", "self-loop", "line 2: 1 1"}, options);
}

TEST(Refusals, WhatAKilledImportLeftGoesWithTheNextOne)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    std::filesystem::create_directories(scratch.home() + "/datasets/.tmp-999999999-1-abc");
    ASSERT_TRUE(importInto(scratch, scratch.path("set"), "set").ok());
    EXPECT_EQ(scratch.storedSets(), std::vector<std::string>{"set"});
}

class StoredSet : public testing::Test {
  protected:
    void SetUp() override
    {
        writeOgb(scratch_, "set", 4, kEdges, kLabels);
        scratch_.writeGzip("set/raw/node-feat.csv.gz", "1,0.5\n1,1\n0,0\n1,1\n");
        const auto made = importInto(scratch_, scratch_.path("set"), "set");
        ASSERT_TRUE(made.ok()) << made.error().message;
        folder_ = made->folder;
    }
    void expectCorrupt(const std::string& piece)
    {
        const auto opened = Dataset::open(folder_);
        ASSERT_FALSE(opened.ok());
        EXPECT_EQ(opened.error().code, ErrorCode::Corrupt) << opened.error().message;
        EXPECT_NE(opened.error().message.find(piece), std::string::npos) << opened.error().message;
    }
    Scratch scratch_;
    std::string folder_;
};

TEST_F(StoredSet, OpensAndVerifies)
{
    const auto set = Dataset::open(folder_);
    ASSERT_TRUE(set.ok()) << set.error().message;
    EXPECT_TRUE(verifyDataset(*set).ok());
    EXPECT_EQ(set->split("nosuch").error().code, ErrorCode::NotFound);
    EXPECT_NE(set->split("nosuch").error().message.find("random:60/20/20:0"), std::string::npos);
}

TEST_F(StoredSet, ACutArrayIsCorruptBeforeItIsMapped)
{
    std::filesystem::resize_file(folder_ + "/indices.npy", 140);
    expectCorrupt("indices.npy: wrong size, got 140 bytes, expected 160");
}

TEST_F(StoredSet, AMissingArrayIsCorrupt)
{
    std::filesystem::remove(folder_ + "/labels.npy");
    expectCorrupt("labels.npy");
}

TEST_F(StoredSet, AHeaderOfAnotherShapeIsCorrupt)
{
    scratch_.write("home/datasets/set/indices.npy", npy("<i4", "(4, 2)", std::string(32, '\0')));
    expectCorrupt("header and dataset.json disagree");
}

TEST_F(StoredSet, RowBoundsThatFallAreCorruptOnOpening)
{
    scratch_.write("home/datasets/set/indptr.npy", npy("<i8", "(5,)", rawBytes(std::vector<int64_t>{0, 6, 2, 4, 8})));
    expectCorrupt("indptr.npy: element 2: falls, got 2 after 6");
}

TEST_F(StoredSet, AChangedByteIsFoundByVerify)
{
    std::string bytes = scratch_.read("home/datasets/set/indices.npy");
    bytes[128] = static_cast<char>(bytes[128] ^ 2);
    scratch_.write("home/datasets/set/indices.npy", bytes);
    const auto set = Dataset::open(folder_);
    ASSERT_TRUE(set.ok());
    const auto verified = verifyDataset(*set);
    ASSERT_FALSE(verified.ok());
    EXPECT_EQ(verified.error().code, ErrorCode::Corrupt);
    EXPECT_NE(verified.error().message.find("indices.npy: content changed"), std::string::npos) << verified.error().message;
}

TEST_F(StoredSet, ANewerVersionIsAVersionMismatch)
{
    std::string json = scratch_.read("home/datasets/set/dataset.json");
    json.replace(json.find("\"version\": 1"), 12, "\"version\": 9");
    scratch_.write("home/datasets/set/dataset.json", json);
    EXPECT_EQ(Dataset::open(folder_).error().code, ErrorCode::VersionMismatch);
    EXPECT_EQ(Dataset::open(scratch_.path("nosuch")).error().code, ErrorCode::NotFound);
}

TEST_F(StoredSet, AnArrayNameThatLeavesTheFolderIsCorrupt)
{
    std::string json = scratch_.read("home/datasets/set/dataset.json");
    for (size_t at = 0; (at = json.find("\"splits/random-60-20-20-0.npy\"", at)) != std::string::npos; ++at)
        json.replace(at, 30, "\"../../../set/raw/edge.csv.gz\"");
    scratch_.write("home/datasets/set/dataset.json", json);
    expectCorrupt("outside the data set folder");
}

} // namespace
} // namespace megagraph::test
