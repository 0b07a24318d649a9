// SPDX-License-Identifier: Apache-2.0
#include "core/json.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace megagraph;

namespace {

class TemporaryFolder {
  public:
    TemporaryFolder()
    {
        std::string name = (std::filesystem::temp_directory_path() / "megagraph-json-XXXXXX").string();
        path = ::mkdtemp(name.data());
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path); }
    std::string path;
};

std::string textOf(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST(Json, CanonicalTextSortsKeysAndDropsSpaces)
{
    const auto value = parseJson(R"( {"b": [1, 2.5, true, null], "a": {"z": "x", "y": ""}} )", "t");
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(canonicalText(*value), R"({"a":{"y":"","z":"x"},"b":[1,2.5,true,null]})");
}

TEST(Json, CanonicalTextMakesEqualNumbersEqual)
{
    const auto a = parseJson("[600, 600.0, 6e2, 1e6, -0.0]", "t");
    ASSERT_TRUE(a.ok());
    EXPECT_EQ(canonicalText(*a), "[600,600,600,1000000,0]");
}

TEST(Json, CanonicalNumbersRoundTripExactly)
{
    for (const double number : {0.1, 1e-8, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, 0.85}) {
        const auto back = parseJson(canonicalText(Json(number)), "t");
        ASSERT_TRUE(back.ok());
        EXPECT_EQ(back->get<double>(), number);
    }
    EXPECT_EQ(canonicalText(Json(UINT64_MAX)), "18446744073709551615");
}

TEST(Json, SyntaxFaultNamesFileLineAndColumn)
{
    const auto value = parseJson("{\"a\": 1,\n  \"b\": tru}", "x.json");
    ASSERT_FALSE(value.ok());
    EXPECT_EQ(value.error().code, ErrorCode::InvalidInput);
    EXPECT_NE(value.error().message.find("x.json: line 2, column 1"), std::string::npos) << value.error().message;
}

TEST(Json, BracketsInsideStringsAreNotDepth)
{
    EXPECT_TRUE(parseJson("\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"", "t").ok());
    EXPECT_TRUE(parseJson(std::string(32, '[') + std::string(32, ']'), "t").ok());
    EXPECT_FALSE(parseJson(std::string(33, '[') + std::string(33, ']'), "t").ok());
}

TEST(Json, SameKeyInDifferentObjectsIsNotARepeat)
{
    EXPECT_TRUE(parseJson(R"({"a": {"x": 1}, "b": {"x": 2, "a": [{"x": 3}, {"x": 4}]}})", "t").ok());
    EXPECT_FALSE(parseJson(R"({"a": {"x": 1, "y": [{"x": 1}], "x": 2}})", "t").ok());
}

TEST(Json, TextAboveTheCapIsRefusedUnparsed)
{
    const auto value = parseJson(std::string((8 << 20) + 1, ' '), "big.json");
    ASSERT_FALSE(value.ok());
    EXPECT_NE(value.error().message.find("8388608"), std::string::npos);
}

TEST(Json, MissingFileIsNotFoundAndFolderIsInvalid)
{
    const TemporaryFolder folder;
    const auto missing = readJsonFile(folder.path + "/none.json");
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, ErrorCode::NotFound);
    EXPECT_NE(missing.error().message.find("none.json"), std::string::npos);
    EXPECT_FALSE(readJsonFile(folder.path).ok());
    ASSERT_EQ(::mkfifo((folder.path + "/pipe").c_str(), 0600), 0);
    EXPECT_EQ(readJsonFile(folder.path + "/pipe").error().code, ErrorCode::InvalidInput); // and does not hang
    ASSERT_EQ(::symlink("loop", (folder.path + "/loop").c_str()), 0);
    EXPECT_EQ(readJsonFile(folder.path + "/loop").error().code, ErrorCode::Io);
}

TEST(Json, AtomicWriteReplacesAndLeavesNoTemporary)
{
    const TemporaryFolder folder;
    const std::string path = folder.path + "/a.json";
    ASSERT_TRUE(writeFileAtomically(path, "one").ok());
    ASSERT_TRUE(writeFileAtomically(path, std::string(300000, 'x')).ok());
    EXPECT_EQ(textOf(path), std::string(300000, 'x'));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1);
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0600u);
    const auto failed = writeFileAtomically(folder.path + "/none/a.json", "x");
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, ErrorCode::NotFound);
}

TEST(Json, NearestNameFindsTyposAndNothingElse)
{
    const std::vector<std::string> names{"width", "ffn_width", "heads", "steps"};
    EXPECT_EQ(nearestName("widht", names), "width");
    EXPECT_EQ(nearestName("step", names), "steps");
    EXPECT_EQ(nearestName("completely_different", names), "");
    EXPECT_EQ(nearestName("", names), "");
}

TEST(ObjectReader, FirstFaultWinsAcrossChildren)
{
    const auto value = parseJson(R"({"a": {"x": "no"}, "b": -1})", "t.json");
    ASSERT_TRUE(value.ok());
    ObjectReader reader(*value, "t.json", "");
    int64_t x = 7, b = 7;
    reader.child("a").get("x", x, 0, 9);
    reader.get("b", b, 0, 9);
    const auto result = reader.finish();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().message, "t.json: a.x: wrong type, got \"no\", expected an integer from 0 to 9");
    EXPECT_EQ(x, 7) << "a refused value must not be written";
    EXPECT_EQ(b, 7);
}

TEST(ObjectReader, UnknownKeysOfChildrenAreFoundUnlessAllowed)
{
    const auto value = parseJson(R"({"list": [{"k": 1}, {"k": 2, "extra": 3}]})", "t.json");
    ASSERT_TRUE(value.ok());
    for (const bool allowed : {false, true}) {
        ObjectReader reader(*value, "t.json", "");
        for (ObjectReader& item : reader.children("list")) {
            int64_t k = 0;
            item.get("k", k, 0, 9);
            if (allowed)
                item.allowUnknown();
        }
        const auto result = reader.finish();
        EXPECT_EQ(result.ok(), allowed);
        if (!allowed) {
            EXPECT_NE(result.error().message.find("list[1].extra: unknown key"), std::string::npos) << result.error().message;
        }
    }
}

TEST(ObjectReader, HugeIntegersAreOutOfRangeNotWrapped)
{
    const auto value = parseJson(R"({"n": 18446744073709551615, "list": [18446744073709551615]})", "t.json");
    ASSERT_TRUE(value.ok());
    int64_t n = 1;
    ObjectReader reader(*value, "t.json", "");
    reader.get("n", n, INT64_MIN, INT64_MAX);
    EXPECT_EQ(n, 1);
    EXPECT_NE(reader.finish().error().message.find("out of range"), std::string::npos);
    std::vector<int64_t> list;
    ObjectReader second(*value, "t.json", "");
    second.get("list", list);
    EXPECT_NE(second.finish().error().message.find("list[0]"), std::string::npos);
}
