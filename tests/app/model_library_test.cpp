// SPDX-License-Identifier: Apache-2.0
// The verbs `model` and `library` of the real program, in a home of their own.
#include "core/json.h"
#include "core/model_spec.h"
#include "core/plan.h"
#include "core/profile.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>

using namespace megagraph;
namespace fs = std::filesystem;

namespace {

const std::string kGood = std::string(MEGAGRAPH_TEST_DATA) + "/good/";

struct Answer { int code = -1; std::string out, err; };

std::string textOf(const std::string& path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

class Verbs : public testing::Test {
  protected:
    void SetUp() override
    {
        std::string name = (fs::temp_directory_path() / "megagraph-verbs-XXXXXX").string();
        home = ::mkdtemp(name.data());
    }
    void TearDown() override { fs::remove_all(home); }

    Answer run(const std::string& arguments) const
    {
        const std::string command = "MEGAGRAPH_HOME=" + home + " MEGAGRAPH_RESOURCES=" MEGAGRAPH_SOURCE_DIR "/resources " MEGAGRAPH_BIN_DIR
                                    "/megagraph " + arguments + " >" + home + "/out 2>" + home + "/err </dev/null";
        const int status = std::system(command.c_str());
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, textOf(home + "/out"), textOf(home + "/err")};
    }

    std::string home;
};

} // namespace

TEST_F(Verbs, ModelListsEveryPresetWithItsCounts)
{
    const Answer answer = run("model --json");
    ASSERT_EQ(answer.code, 0) << answer.err;
    const auto document = parseJson(answer.out, "stdout");
    ASSERT_TRUE(document.ok()) << document.error().message;
    EXPECT_EQ((*document)["models"].size(), modelPresets(MEGAGRAPH_SOURCE_DIR "/resources").size());
    bool found = false;
    for (const Json& row : (*document)["models"])
        if (row["name"] == "sgformer-cora") {
            found = true;
            // embed 1433*64+64 + LN 128, q k v 3*(64*64+64), LN 128, GCN 1433*64+64 and 64*64+64, output 64*7+7
            EXPECT_EQ(row["parameters"], 91776 + 128 + 3 * 4160 + 128 + 91776 + 4160 + 455);
            EXPECT_EQ(row["state_bytes"], row["parameters"].get<int64_t>() * 16);
        }
    EXPECT_TRUE(found);
    EXPECT_NE(run("model").out.find("gt-sparse-tolokers"), std::string::npos);
}

TEST_F(Verbs, ModelShowPrintsADocumentThatReadsBack)
{
    const Answer answer = run("model show graphormer-cora --set width=32 --json");
    ASSERT_EQ(answer.code, 0) << answer.err;
    const auto model = modelFromJson(*parseJson(answer.out, "stdout"), "stdout");
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->width, 32);
    EXPECT_NE(run("model show graphormer-cora").out.find("embed.feature.weight"), std::string::npos);
}

TEST_F(Verbs, ModelFaultsHaveTheirExitCodes)
{
    const Answer unknown = run("model show graphormer-coro");
    EXPECT_EQ(unknown.code, 4);
    EXPECT_NE(unknown.err.find("did you mean \"graphormer-cora\""), std::string::npos) << unknown.err;
    EXPECT_EQ(run("model show graphormer-cora --set width=x").code, 3);
    EXPECT_EQ(run("model show graphormer-cora --set wdth=3").code, 2);
    const Answer json = run("model show graphormer-coro --json");
    EXPECT_EQ((*parseJson(json.out, "stdout"))["error"]["code"], "NotFound");
}

TEST_F(Verbs, LibraryRebuildReadsFilesAndListShowsThem)
{
    fs::create_directories(home + "/plans");
    fs::create_directories(home + "/profiles");
    fs::copy_file(kGood + "plan.json", home + "/plans/a.json");
    fs::copy_file(kGood + "profile.json", home + "/profiles/b.json");
    std::ofstream(home + "/plans/broken.json") << "{";
    const Answer rebuilt = run("library rebuild --json");
    ASSERT_EQ(rebuilt.code, 0) << rebuilt.err;
    EXPECT_EQ((*parseJson(rebuilt.out, "stdout"))["rows"], 2);
    EXPECT_EQ((*parseJson(rebuilt.out, "stdout"))["skipped"].size(), 1u);
    const Answer listed = run("library list --json");
    ASSERT_EQ(listed.code, 0) << listed.err;
    const Json document = *parseJson(listed.out, "stdout");
    EXPECT_EQ(document["plans"][0]["model"], "graphormer-cora");
    EXPECT_EQ(document["profiles"][0]["id"], "3f2a9c41");
    EXPECT_EQ(document["runs"].size(), 0u);
    EXPECT_NE(run("library list").out.find("1 plans"), std::string::npos);
}

TEST_F(Verbs, DamagedLibraryIsNamedAndRebuilt)
{
    std::ofstream(home + "/library.db") << std::string(8192, 'Z');
    const Answer listed = run("library list");
    EXPECT_EQ(listed.code, 7);
    EXPECT_NE(listed.err.find("megagraph library rebuild"), std::string::npos) << listed.err;
    EXPECT_EQ(run("library rebuild").code, 0);
    EXPECT_EQ(run("library list").code, 0);
}
