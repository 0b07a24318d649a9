// SPDX-License-Identifier: Apache-2.0
// What readers accept and decide: line ends, marks, members, number forms, missing labels, element types, orders; that the
// result depends on nothing but source and options.
#include "core/io/dataset.h"
#include "core/io/labels.h"
#include "core/io/line_reader.h"
#include "core/io/npy.h"
#include "core/io/structure.h"
#include "core/io/text_number.h"
#include "tests/core/io_support.h"

#include <clocale>
#include <cmath>
#include <fmt/format.h>

namespace megagraph::test {
namespace {

const std::string kEdges = "0,1\n1,2\n2,3\n3,0\n";
const std::string kLabels = "0\n1\n0\n1\n";
constexpr uint64_t kFirstMasks = 9572964;

std::string structureOf(const Scratch& scratch, const std::string& name, const std::string& edges)
{
    writeOgb(scratch, name, 4, kEdges, kLabels);
    scratch.write(name + "/raw/edge.csv.gz", edges);
    const auto made = importInto(scratch, scratch.path(name), name);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return made.ok() ? made->spec.structureHash : "";
}

TEST(LineForms, MarksLineEndsSpacesAndJoinedMembersGiveOneStructure)
{
    const Scratch scratch;
    const std::string plain = structureOf(scratch, "plain", gzipped(kEdges));
    EXPECT_EQ(structureOf(scratch, "bom", gzipped("\xEF\xBB\xBF" + kEdges)), plain);
    EXPECT_EQ(structureOf(scratch, "crlf", gzipped("0,1\r\n1,2\r\n2,3\r\n3,0\r\n")), plain);
    EXPECT_EQ(structureOf(scratch, "no-final-newline", gzipped("0,1\n1,2\n2,3\n3,0")), plain);
    EXPECT_EQ(structureOf(scratch, "blank-lines", gzipped("0,1\n\n1,2\n2,3\n\n3,0\n\n")), plain);
    EXPECT_EQ(structureOf(scratch, "spaces", gzipped(" 0, 1\n1 ,2\n2,\t3\n+3,0\n")), plain);
    EXPECT_EQ(structureOf(scratch, "two-members", gzipped("0,1\n1,") + gzipped("2\n2,3\n3,0\n")), plain);
    EXPECT_EQ(structureOf(scratch, "padded", gzipped(kEdges) + std::string(1000, '\0')), plain);
    EXPECT_EQ(structureOf(scratch, "other-order", gzipped("3,0\n2,3\n1,2\n0,1\n")), plain);
    EXPECT_NE(structureOf(scratch, "other-graph", gzipped("0,1\n1,2\n2,3\n3,1\n")), plain);
}

TEST(LineForms, LinesOverBlockBordersAreWhole)
{
    const Scratch scratch;
    std::string text;
    for (int i = 0; i < 60000; ++i)
        text += fmt::format("line-{}\n", i);
    scratch.write("plain.txt", text);
    scratch.writeGzip("packed.txt.gz", text);
    for (const char* file : {"plain.txt", "packed.txt.gz"}) {
        auto reader = LineReader::open(scratch.path(file), file);
        ASSERT_TRUE(reader.ok());
        std::string_view line;
        for (int i = 0; i < 60000; ++i) {
            const auto more = reader->next(line);
            ASSERT_TRUE(more.ok() && *more);
            ASSERT_EQ(line, fmt::format("line-{}", i));
        }
        EXPECT_FALSE(*reader->next(line));
        EXPECT_EQ(reader->lineNumber(), 60000);
    }
}

TEST(Numbers, AreReadWithoutTheLocale)
{
    const char* comma = nullptr;
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"})
        comma = comma ? comma : std::setlocale(LC_ALL, name);
    EXPECT_EQ(parseNumber("1e-05"), 1e-05);
    EXPECT_EQ(parseNumber("0.5"), 0.5);
    EXPECT_TRUE(std::signbit(*parseNumber("-0.0")));
    EXPECT_TRUE(std::isnan(*parseNumber("nan")) && std::isnan(*parseNumber("NaN")));
    EXPECT_TRUE(std::isinf(*parseNumber("inf")) && std::isinf(*parseNumber("-inf")));
    EXPECT_EQ(parseNumber("0,5"), std::nullopt);
    EXPECT_EQ(parseNumber(""), std::nullopt);
    EXPECT_EQ(parseNumber("1x"), std::nullopt);
    EXPECT_EQ(parseNumber("0x10"), std::nullopt);
    EXPECT_EQ(parseInteger("9223372036854775807"), INT64_MAX);
    EXPECT_EQ(parseInteger("9223372036854775808"), std::nullopt);
    EXPECT_EQ(numberText(0.25), "0.25");
    std::setlocale(LC_ALL, "C");
    if (!comma)
        std::cout << "note: no locale with a decimal comma on this machine\n";
}

RawLabels numbers(std::vector<double> values)
{
    RawLabels labels;
    labels.present = true;
    labels.numbers = std::move(values);
    return labels;
}

TEST(Labels, MinusOneIsMissingOnlyWhereItCanBeNothingElse)
{
    const ImportOptions options;
    const auto missing = decideLabels(numbers({0, 1, -1, 2}), {}, options);
    ASSERT_TRUE(missing.ok());
    EXPECT_EQ(missing->names, (std::vector<std::string>{"0", "1", "2"}));
    EXPECT_EQ(missing->classes, (std::vector<int32_t>{0, 1, -1, 2}));
    const auto mutag = decideLabels(numbers({-1, 1, 1, -1}), {}, options); // others are not 0..C-1
    EXPECT_EQ(mutag->names, (std::vector<std::string>{"-1", "1"}));
    const auto inPart = decideLabels(numbers({0, 1, -1, 2}), {{"s", {1, 1, 1, 4}}}, options);
    EXPECT_EQ(inPart->names, (std::vector<std::string>{"-1", "0", "1", "2"}));
}

TEST(Labels, AreSortedAsNumbersNotAsText)
{
    const auto table = decideLabels(numbers({10, 9, 2, std::nan(""), 10}), {}, {});
    EXPECT_EQ(table->names, (std::vector<std::string>{"2", "9", "10"}));
    EXPECT_EQ(table->classes, (std::vector<int32_t>{2, 1, 0, -1, 2}));
    EXPECT_EQ(table->labelled, 4);
    EXPECT_EQ(table->firstMissing, 3);
}

TEST(Labels, ManyDifferentOrFractionalNumbersAreRealTargets)
{
    std::vector<double> many;
    for (int i = 0; i < 40; ++i)
        many.push_back(i);
    EXPECT_EQ(decideLabels(numbers(many), {}, {})->kind, "regression");
    EXPECT_EQ(decideLabels(numbers({0.5, 1, 2}), {}, {})->kind, "regression");
    ImportOptions asked;
    asked.task = "classification";
    EXPECT_EQ(decideLabels(numbers(many), {}, asked)->names.size(), 40u);
    EXPECT_EQ(decideLabels(numbers(std::vector<double>(many.begin(), many.begin() + 20)), {}, {})->kind, "classification");
}

TEST(Labels, RegressionIsStoredAndOpened)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, "0.5\nnan\n-2.25\n1e3\n");
    const auto made = importInto(scratch, scratch.path("set"), "real");
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto set = Dataset::open(made->folder);
    ASSERT_TRUE(set.ok()) << set.error().message;
    ASSERT_EQ(set->realLabels().size(), 4u);
    EXPECT_EQ(set->realLabels()[2], -2.25f);
    EXPECT_TRUE(std::isnan(set->realLabels()[1]));
    EXPECT_EQ((*set->split(""))[1], 0);
}

TEST(Labels, WordsBecomeClassesSortedByBytes)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, "tv\n\"\"\n12\npage\n");
    const auto made = importInto(scratch, scratch.path("set"), "words");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->spec.classes, (std::vector<std::string>{"12", "page", "tv"}));
    EXPECT_EQ(made->spec.labelledItems, 3);
}

TEST(Splits, RandomOnesAreStratifiedAndTheSameEverywhere)
{
    std::vector<int32_t> classes;
    for (int i = 0; i < 1000; ++i)
        classes.push_back(i % 10 == 0 ? -1 : i % 3);
    const auto bits = randomSplit(classes, 3, {60, 20, 20, 7});
    EXPECT_EQ(bits, randomSplit(classes, 3, {60, 20, 20, 7}));
    EXPECT_NE(bits, randomSplit(classes, 3, {60, 20, 20, 8}));
    for (int c = 0; c < 3; ++c) {
        int train = 0, valid = 0, test = 0;
        for (size_t i = 0; i < bits.size(); ++i) {
            train += classes[i] == c && bits[i] == 1;
            valid += classes[i] == c && bits[i] == 2;
            test += classes[i] == c && bits[i] == 4;
        }
        EXPECT_EQ(train, 180);
        EXPECT_EQ(valid, 60);
        EXPECT_EQ(test, 60);
    }
    const SplitCounts counts = countSplit(bits);
    EXPECT_EQ(counts.none, 100);
    EXPECT_EQ(counts.overlap, 0);
    uint64_t mixed = 0; // the first masks as a number: a change of the hash changes every stored split
    for (size_t i = 1; i < 9; ++i)
        mixed = mixed * 8 + bits[i];
    EXPECT_EQ(mixed, kFirstMasks);
}

TEST(Splits, ClassesWithFewerThanThreeItemsGoToTrain)
{
    const auto bits = randomSplit(std::vector<int32_t>{0, 0, 1, 1, 1, 2}, 3, {60, 20, 20, 0});
    EXPECT_EQ(bits[0] | bits[1] | bits[5], 1);
    EXPECT_EQ(bits[2] | bits[3] | bits[4], 7);
}

TEST(Splits, RequestsAreChecked)
{
    EXPECT_EQ(parseSplitRequest("random:50/25/25:3")->seed, 3u);
    for (const char* text : {"random", "random:60/20:0", "random:60/20/30:0", "random:60/20/20", "60/20/20:0", "random:60/20/20:x", "random:0/50/50:0"})
        EXPECT_EQ(parseSplitRequest(text).error().code, ErrorCode::Usage) << text;
}

TEST(NpyArrays, EveryElementTypeAndOrderReadsTheSame)
{
    const std::string swapped("\x00\x03\xff\xfe", 4);
    EXPECT_EQ(NpyArray::parse({}, "x").error().code, ErrorCode::InvalidInput);
    const auto parse = [](const std::string& bytes) { return NpyArray::parse({bytes.begin(), bytes.end()}, "x"); };
    EXPECT_EQ(parse(npy(">i2", "(2,)", swapped))->number(0), 3);
    EXPECT_EQ(parse(npy(">i2", "(2,)", swapped))->number(1), -2);
    EXPECT_EQ(*parse(npy("<u8", "(1,)", rawBytes(std::vector<uint64_t>{7})))->integer(0), 7);
    EXPECT_FALSE(parse(npy("<u8", "(1,)", rawBytes(std::vector<uint64_t>{~0ull})))->integer(0).ok());
    EXPECT_EQ(parse(npy("|b1", "(2,)", std::string("\1\0", 2)))->number(0), 1);
    EXPECT_EQ(parse(npy("<f2", "(3,)", rawBytes(std::vector<uint16_t>{0x3c00, 0xc100, 0x0001})))->number(0), 1.0);
    EXPECT_EQ(parse(npy("<f2", "(3,)", rawBytes(std::vector<uint16_t>{0x3c00, 0xc100, 0x0001})))->number(1), -2.5);
    EXPECT_EQ(parse(npy("<f2", "(3,)", rawBytes(std::vector<uint16_t>{0x3c00, 0xc100, 0x0001})))->number(2), std::ldexp(1.0, -24));
    EXPECT_EQ(parse(npy("<f8", "(1,)", rawBytes(std::vector<double>{0.1})))->number(0), 0.1);
    EXPECT_EQ(parse(npy("|S4", "(1,)", std::string("ab\0\0", 4)))->text(0), "ab");
    EXPECT_EQ(parse(npy("<U2", "(1,)", rawBytes(std::vector<uint32_t>{'A', 0xe4})))->text(0), "A\xc3\xa4");
    // 2 x 3 in Fortran order: columns are contiguous
    const auto fortran = parse(npy("<i4", "(2, 3)", rawBytes(std::vector<int32_t>{1, 4, 2, 5, 3, 6}), true));
    for (int i = 0; i < 6; ++i)
        EXPECT_EQ(fortran->number(i), i + 1);
}

TEST(NpyArrays, WrittenOnesHaveAlignedDataAndAKnownHeader)
{
    const Scratch scratch;
    const std::vector<int64_t> values{1, 2, 3};
    auto writer = NpyWriter::create(scratch.path(), "x.npy", "<i8", {3});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->write(values.data(), 8).ok());
    ASSERT_TRUE(writer->write(values.data() + 1, 16).ok());
    const auto array = writer->finish();
    ASSERT_TRUE(array.ok());
    EXPECT_EQ(array->sizeBytes, 128 + 24);
    EXPECT_EQ(array->hash, npyDataHash(values.data(), 24));
    EXPECT_EQ(scratch.read("x.npy"), npy("<i8", "(3,)", rawBytes(values)));
    for (const auto& shape : std::vector<std::vector<int64_t>>{{}, {1}, {12345678901, 1, 2}, {7, 7, 7, 7, 7, 7, 7, 7}})
        EXPECT_EQ(npyHeaderBytes("<f4", shape).size() % 64, 0u);
}

TEST(NpzReading, EdgeArraysMasksAndNamesInEveryForm)
{
    const Scratch scratch;
    const std::vector<int64_t> edges{0, 1, 1, 2, 2, 0}, across{0, 1, 2, 1, 2, 0};
    const std::vector<ZipEntry> base{{"node_features.npy", npy("<f8", "(3, 2)", rawBytes(std::vector<double>{1, 0, 0, 1, 0.5, 0}))},
                                     {"node_labels.npy", npy("<U1", "(3,)", rawBytes(std::vector<uint32_t>{'b', 'a', 'b'}))},
                                     {"train_mask.npy", npy("|b1", "(3,)", std::string("\1\0\0", 3)), false},
                                     {"val_mask.npy", npy("|u1", "(3,)", std::string("\0\1\0", 3))},
                                     {"test_mask.npy", npy("|b1", "(3,)", std::string("\0\0\1", 3))}};
    auto rows = base, columns = base;
    rows.push_back({"edges.npy", npy("<i8", "(3, 2)", rawBytes(edges))});
    columns.push_back({"edges.npy", npy("<i8", "(2, 3)", rawBytes(across))});
    scratch.write("rows.npz", zipped(rows));
    scratch.write("columns.npz", zipped(columns));
    const auto a = importInto(scratch, scratch.path("rows.npz"), "rows"), b = importInto(scratch, scratch.path("columns.npz"), "columns");
    ASSERT_TRUE(a.ok()) << a.error().message;
    ASSERT_TRUE(b.ok()) << b.error().message;
    EXPECT_EQ(a->spec.contentHash, b->spec.contentHash);
    EXPECT_EQ(a->spec.classes, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(a->spec.splits[0].name, "mask 0");
    const auto set = Dataset::open(a->folder);
    ASSERT_TRUE(set.ok());
    EXPECT_EQ((*set->split("mask 0"))[2], 4);
}

TEST(NpzReading, UnsortedRepeatedAndZeroEntriesAreCounted)
{
    const Scratch scratch;
    const std::vector<int32_t> indices{2, 1, 1, 0, 0}, indptr{0, 3, 4, 5};
    scratch.write("odd.npz", zipped({{"indices.npy", npy("<i4", "(5,)", rawBytes(indices))},
                                     {"indptr.npy", npy("<i4", "(4,)", rawBytes(indptr))},
                                     {"shape.npy", npy("<i8", "(2,)", rawBytes(std::vector<int64_t>{3, 3}))},
                                     {"format.npy", npy("|S3", "()", "csr"), false},
                                     {"data.npy", npy("<f8", "(5,)", rawBytes(std::vector<double>{1, 0, 2, 1, 1}))}}));
    const auto made = importInto(scratch, scratch.path("odd.npz"), "odd");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->document["repeated_lines"], 1);
    EXPECT_EQ(made->spec.undirectedEdges, 2);
    std::string checks = made->document["checks"].dump();
    EXPECT_NE(checks.find("entries of value 0"), std::string::npos) << checks;
    EXPECT_NE(checks.find("edge values other than 1"), std::string::npos) << checks;
    EXPECT_NE(checks.find("entry 2: 0 1"), std::string::npos) << checks; // first repeat
}

TEST(Structure, CountsAgreeWithHandWorkInBothDirections)
{
    const std::vector<int32_t> from{0, 1, 1, 3, 3, 2}, to{1, 0, 2, 3, 4, 2};
    ImportOptions mirror, keep;
    keep.direction = keep.selfLoops = "keep";
    const auto m = buildStructure(6, from, to, {mirror, {}, {}});
    EXPECT_EQ(m->undirectedEdges, 3); // 0-1, 1-2, 3-4
    EXPECT_EQ(m->indices, (std::vector<int32_t>{1, 0, 2, 1, 4, 3}));
    EXPECT_EQ(m->components, 3);
    EXPECT_EQ(m->largestComponent, 3);
    EXPECT_EQ(m->isolated, 1);
    EXPECT_EQ(m->loopLines, 2);
    EXPECT_EQ(m->firstLoop, 3);
    EXPECT_EQ(m->reciprocalLines, 2);
    const auto k = buildStructure(6, from, to, {keep, {}, {}});
    EXPECT_EQ(k->undirectedEdges, 3);
    EXPECT_EQ(k->keptLoops, 2);
    EXPECT_EQ(k->directedEdges, 4);
    EXPECT_EQ(k->isolated, 1);
    EXPECT_EQ(k->indices, (std::vector<int32_t>{1, 0, 2, 2, 3, 4}));
}

TEST(Structure, AGraphWithoutNodesOrEdgesIsLegal)
{
    EXPECT_EQ(buildStructure(0, {}, {}, {ImportOptions{}, {}, {}})->components, 0);
    EXPECT_EQ(buildStructure(5, {}, {}, {ImportOptions{}, {}, {}})->isolated, 5);
    const Scratch scratch;
    writeOgb(scratch, "lonely", 1, "", "3\n");
    const auto made = importInto(scratch, scratch.path("lonely"), "lonely");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_TRUE(Dataset::open(made->folder).ok());
}

TEST(Features, SparseAndDenseFormsHoldTheSameValues)
{
    const Scratch scratch;
    std::string sparse, dense;
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 200; ++c) {
            sparse += fmt::format("{}{}", c == r ? "1" : "0", c == 199 ? "\n" : ",");
            dense += fmt::format("{}{}", r * 200 + c + 0.5, c == 199 ? "\n" : ",");
        }
    writeOgb(scratch, "sparse", 4, kEdges, kLabels);
    scratch.writeGzip("sparse/raw/node-feat.csv.gz", sparse);
    writeOgb(scratch, "dense", 4, kEdges, kLabels);
    scratch.writeGzip("dense/raw/node-feat.csv.gz", dense);
    const auto a = importInto(scratch, scratch.path("sparse"), "sparse"), b = importInto(scratch, scratch.path("dense"), "dense");
    ASSERT_TRUE(a.ok() && b.ok());
    const auto s = Dataset::open(a->folder), d = Dataset::open(b->folder);
    ASSERT_TRUE(s.ok() && d.ok());
    EXPECT_EQ(s->spec().featureValues, "ones");
    EXPECT_EQ(std::vector<int32_t>(s->featureIndices().begin(), s->featureIndices().end()), (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_TRUE(s->denseFeatures().empty());
    ASSERT_EQ(d->denseFeatures().size(), 800u);
    for (size_t i = 0; i < 800; ++i)
        ASSERT_EQ(d->denseFeatures()[i], static_cast<float>(i) + 0.5f);
}

TEST(Features, NotANumberAndInfinityAreCountedWithTheirPlace)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    scratch.writeGzip("set/raw/node-feat.csv.gz", "1,2\n3,nan\n,inf\n5,6\n");
    const auto made = importInto(scratch, scratch.path("set"), "set");
    ASSERT_TRUE(made.ok()) << made.error().message;
    const std::string checks = made->document["checks"].dump();
    EXPECT_NE(checks.find(R"("NaN in features","count":2,"first":"node 1 column 1")"), std::string::npos) << checks;
    EXPECT_NE(checks.find(R"("infinite features","count":1,"first":"node 2 column 1")"), std::string::npos) << checks;
}

TEST(Determinism, SameSourceAndOptionsGiveTheSameBytes)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    const auto a = importInto(scratch, scratch.path("set"), "a"), b = importInto(scratch, scratch.path("set"), "b");
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->spec.contentHash, b->spec.contentHash);
    for (const auto& array : a->spec.arrays)
        EXPECT_EQ(scratch.read("home/datasets/a/" + array.file), scratch.read("home/datasets/b/" + array.file)) << array.file;
    ImportOptions labels;
    labels.missing = "1";
    const auto c = importInto(scratch, scratch.path("set"), "c", labels);
    ASSERT_TRUE(c.ok()) << c.error().message;
    EXPECT_EQ(a->spec.structureHash, c->spec.structureHash); // labels do not touch the structure
    EXPECT_NE(a->spec.labelsHash, c->spec.labelsHash);
    EXPECT_NE(a->spec.contentHash, c->spec.contentHash);
}

TEST(Inspection, TellsFormatFactsAndDecisionsAndWritesNothing)
{
    const Scratch scratch;
    writeOgb(scratch, "set", 4, kEdges, kLabels);
    for (const bool full : {false, true}) {
        const auto seen = inspectSource(scratch.path("set"), {}, full, {}, {});
        ASSERT_TRUE(seen.ok()) << seen.error().message;
        std::string text;
        for (const auto& line : seen->text)
            text += line + "\n";
        EXPECT_NE(text.find("ogb-raw"), std::string::npos) << text;
        EXPECT_NE(text.find("--direction mirror|keep"), std::string::npos) << text;
    }
    EXPECT_FALSE(std::filesystem::exists(scratch.home()));
}

} // namespace
} // namespace megagraph::test
