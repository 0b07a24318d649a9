// SPDX-License-Identifier: Apache-2.0
// The table of the data design, section 12, for the formats that are built: one row per set, exact numbers.
#include "core/io/dataset.h"
#include "tests/core/io_support.h"

#include <cmath>
#include <map>

namespace megagraph::test {
namespace {

struct Row {
    const char* folder;
    int64_t nodes, lines, loops, repeats, edges, components, isolated;
    int64_t classes, width, nonzeros, unlabelled, zeroRows;
    int64_t train, valid, test, splits; // of the first split
    const char* featureKind;
};

const Row kRows[] = {
    {"cora-ogb", 2708, 5278, 0, 0, 5278, 78, 0, 7, 1433, 49216, 0, 0, 140, 500, 1000, 1, "sparse"},
    {"citeseer-ogb", 3327, 4552, 0, 0, 4552, 438, 48, 6, 3703, 105165, 15, 15, 120, 500, 1000, 1, "sparse"},
    {"pubmed-structure-ogb", 19717, 44324, 0, 0, 44324, 1, 0, 3, 0, 0, 0, 0, -1, -1, -1, 1, "none"},
    {"amazon-photo-ogb", 7650, 143663, 1, 0, 119081, 136, 115, 8, 745, 1979909, 0, -1, 4590, 1530, 1530, 1, "sparse"},
    {"npz-csr-amazon-photo", 7650, 143663, 1, 0, 119081, 136, 115, 8, 745, 1979909, 0, -1, -1, -1, -1, 1, "sparse"},
    {"npz-csr-amazon-computers", 13752, 287209, 0, 0, 245861, 314, 281, 10, 767, 3675081, 0, -1, -1, -1, -1, 1, "sparse"},
    {"npz-csr-coauthor-cs", 18333, 163788, 0, 0, 81894, 1, 0, 15, 6805, 1092079, 0, -1, -1, -1, -1, 1, "sparse"},
    {"npz-csr-coauthor-physics", 34493, 495924, 0, 0, 247962, 1, 0, 5, 8415, 1137311, 0, -1, -1, -1, -1, 1, "sparse"},
    {"npz-csr-cora-ml", 2995, 8416, 0, 0, 8158, 61, 0, 7, 2879, 151171, 0, -1, -1, -1, -1, 1, "sparse"},
    {"npz-csr-gnnbench-cora", 2708, 5429, 0, 0, 5278, 78, 0, 7, 1433, 49216, 0, 0, -1, -1, -1, 1, "sparse"},
    {"npz-csr-gnnbench-citeseer", 3312, 4715, 124, 0, 4536, 438, 48, 6, 3703, 105165, 0, 0, -1, -1, -1, 1, "sparse"},
    {"npz-csr-karate", 34, 156, 0, 0, 78, 1, 0, 4, 0, 0, 0, 0, -1, -1, -1, 1, "none"},
    {"npz-edges-minesweeper", 10000, 39402, 0, 0, 39402, 1, 0, 2, 7, -1, 0, -1, 5000, 2500, 2500, 10, nullptr},
    {"npz-edges-chameleon-filtered", 890, 8854, 0, 0, 8854, 1, 0, 5, 2325, -1, 0, -1, 409, 287, 194, 10, nullptr},
};

class RealSet : public testing::TestWithParam<Row> {};

TEST_P(RealSet, ImportsWithExactlyThePublishedCounts)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Row& row = GetParam();
    const Scratch scratch;
    const auto imported = importInto(scratch, sharedData() + "/" + row.folder, "set");
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    const Json& report = imported->document;
    EXPECT_EQ(report["nodes"], row.nodes);
    EXPECT_EQ(report["lines"], row.lines);
    EXPECT_EQ(report["loop_lines"], row.loops);
    EXPECT_EQ(report["repeated_lines"], row.repeats);
    EXPECT_EQ(report["undirected_edges"], row.edges);
    EXPECT_EQ(report["components"], row.components);
    EXPECT_EQ(report["isolated_nodes"], row.isolated);

    const auto set = Dataset::open(imported->folder);
    ASSERT_TRUE(set.ok()) << set.error().message;
    const DatasetSpec& spec = set->spec();
    EXPECT_EQ(spec.entries, 2 * row.edges);
    EXPECT_EQ(static_cast<int64_t>(spec.classes.size()), row.classes);
    EXPECT_EQ(spec.featureWidth, row.width);
    EXPECT_EQ(spec.nodes - spec.labelledItems, row.unlabelled);
    EXPECT_EQ(static_cast<int64_t>(spec.splits.size()), row.splits);
    if (row.featureKind) {
        EXPECT_EQ(spec.featureKind, row.featureKind);
    }
    if (row.nonzeros >= 0) {
        EXPECT_EQ(spec.featureNonzeros, row.nonzeros);
    }
    if (row.zeroRows >= 0) {
        EXPECT_EQ(report["features"]["zero_rows"], row.zeroRows);
    }
    if (row.train >= 0) {
        EXPECT_EQ(spec.splits[0].train, row.train);
        EXPECT_EQ(spec.splits[0].valid, row.valid);
        EXPECT_EQ(spec.splits[0].test, row.test);
    }
    const auto verified = verifyDataset(*set);
    EXPECT_TRUE(verified.ok()) << (verified.ok() ? "" : verified.error().message);
    std::cout << row.folder << ": " << row.nodes << "/" << report["lines"] << "/" << report["loop_lines"] << "/" << report["repeated_lines"] << "/"
              << report["undirected_edges"] << "/" << report["components"] << "/" << report["isolated_nodes"] << " classes " << spec.classes.size()
              << " split " << spec.splits[0].name << " " << spec.splits[0].train << "/" << spec.splits[0].valid << "/" << spec.splits[0].test
              << " features " << spec.featureKind << " " << spec.featureWidth << " nnz " << spec.featureNonzeros << "\n";
}

INSTANTIATE_TEST_SUITE_P(Section12, RealSet, testing::ValuesIn(kRows), [](const auto& info) {
    std::string name = info.param.folder;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

TEST(RealSets, AmazonPhotoHasOneStructureInBothFormats)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Scratch scratch;
    const auto ogb = importInto(scratch, sharedData() + "/amazon-photo-ogb", "ogb");
    const auto npz = importInto(scratch, sharedData() + "/npz-csr-amazon-photo", "npz");
    ASSERT_TRUE(ogb.ok() && npz.ok());
    EXPECT_EQ(ogb->spec.structureHash, npz->spec.structureHash);
    EXPECT_EQ(ogb->spec.featuresHash, npz->spec.featuresHash);
    EXPECT_NE(ogb->spec.contentHash, "");
}

TEST(RealSets, AmazonPhotoReportsTheReciprocalShareAndTheLoop)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Scratch scratch;
    const auto ogb = importInto(scratch, sharedData() + "/amazon-photo-ogb", "ogb");
    ASSERT_TRUE(ogb.ok());
    std::string text;
    for (const auto& line : ogb->text)
        text += line + "\n";
    EXPECT_NE(text.find("34.2 % of the lines had their reverse; mirrored"), std::string::npos) << text;
    EXPECT_NE(text.find("lines 143663 -> 1 self-loop dropped, 0 repeats -> 119081 undirected edges (238162 entries)"), std::string::npos) << text;
    EXPECT_NE(text.find("largest 7487"), std::string::npos) << text;
    EXPECT_NE(text.find("largest degree 1434"), std::string::npos) << text;
}

TEST(RealSets, TwoClassesAskForRocAuc)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Scratch scratch;
    const auto set = importInto(scratch, sharedData() + "/npz-edges-minesweeper", "mines");
    ASSERT_TRUE(set.ok());
    EXPECT_EQ(set->spec.classes, (std::vector<std::string>{"0", "1"}));
    EXPECT_EQ(set->spec.splits[0].name, "mask 0");
    EXPECT_EQ(set->spec.splits[9].name, "mask 9");
    bool noted = false;
    for (const auto& d : set->spec.decisions)
        noted = noted || (d.id == "metric" && d.value.starts_with("roc_auc"));
    EXPECT_TRUE(noted);
}

TEST(RealSets, PlanetoidPicklesAreRefusedWithTheWayOut)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Scratch scratch;
    expectRefusal(scratch, sharedData() + "/cora-planetoid", ErrorCode::Unsupported, {"ind.cora.", "pickle", "ogb-raw"});
    expectRefusal(scratch, sharedData() + "/citeseer-planetoid", ErrorCode::Unsupported, {"ind.citeseer.", "pickle", "ogb-raw"});
}

} // namespace
} // namespace megagraph::test
