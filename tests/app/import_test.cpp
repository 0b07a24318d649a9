// SPDX-License-Identifier: Apache-2.0
// The verbs import, inspect and generate as a user runs them: the real program, its exit codes, its one message.
#include "core/json.h"
#include "tests/core/io_support.h"

#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace megagraph::test {
namespace {

struct Outcome { int code = -1; std::string out, err; int64_t peakBytes = 0; };

class ImportProgram : public testing::Test {
  protected:
    pid_t start(const std::vector<std::string>& arguments)
    {
        const pid_t pid = ::fork();
        if (pid != 0)
            return pid;
        std::vector<char*> argv;
        std::string program = MEGAGRAPH_BIN_DIR "/megagraph";
        argv.push_back(program.data());
        auto copy = arguments;
        for (auto& argument : copy)
            argv.push_back(argument.data());
        argv.push_back(nullptr);
        ::setenv("MEGAGRAPH_HOME", scratch_.home().c_str(), 1);
        if (!std::freopen(scratch_.path("out").c_str(), "w", stdout) || !std::freopen(scratch_.path("err").c_str(), "w", stderr))
            ::_exit(126);
        ::execv(program.c_str(), argv.data());
        ::_exit(127);
    }
    Outcome finish(pid_t pid)
    {
        int status = 0;
        rusage used{};
        EXPECT_EQ(::wait4(pid, &status, 0, &used), pid);
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), scratch_.read("out"), scratch_.read("err"),
                int64_t(used.ru_maxrss) * 1024};
    }
    Outcome run(const std::vector<std::string>& arguments) { return finish(start(arguments)); }

    /// One line on stderr with every piece; the exit code; no home folder at all.
    void expectRefused(const std::vector<std::string>& arguments, int code, const std::vector<std::string>& pieces)
    {
        const Outcome outcome = run(arguments);
        EXPECT_EQ(outcome.code, code) << outcome.err;
        for (const auto& piece : pieces)
            EXPECT_NE(outcome.err.find(piece), std::string::npos) << "no \"" << piece << "\" in: " << outcome.err;
        EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
        EXPECT_TRUE(scratch_.storedSets().empty());
    }
    std::string copyOfCora()
    {
        scratch_.copyFolder(sharedData() + "/cora-ogb", "cora");
        return scratch_.path("cora");
    }
    void replaceFile(const std::string& name, const std::string& bytes)
    {
        std::filesystem::remove(scratch_.path(name));
        scratch_.write(name, bytes);
    }
    Scratch scratch_;
};

TEST_F(ImportProgram, ImportsCoraAndInspectShowsItsCounts)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Outcome imported = run({"import", sharedData() + "/cora-ogb", "--name", "cora"});
    ASSERT_EQ(imported.code, 0) << imported.err;
    EXPECT_NE(imported.out.find("--direction keep"), std::string::npos) << imported.out;
    const Outcome inspected = run({"inspect", "cora", "--json"});
    ASSERT_EQ(inspected.code, 0) << inspected.err;
    const auto parsed = parseJson(inspected.out, "stdout");
    ASSERT_TRUE(parsed.ok());
    const Json& json = *parsed;
    EXPECT_EQ(json["format"], "megagraph.dataset");
    EXPECT_EQ(json["counts"]["nodes"], 2708);
    EXPECT_EQ(json["counts"]["undirected_edges"], 5278);
    EXPECT_EQ(json["features"]["width"], 1433);
    EXPECT_EQ(json["task"]["classes"].size(), 7u);
    EXPECT_EQ(json["splits"][0]["train"], 140);
    EXPECT_EQ(json["splits"][0]["valid"], 500);
    EXPECT_EQ(json["splits"][0]["test"], 1000);
    EXPECT_EQ(inspected.out.find(scratch_.path()), std::string::npos) << "an absolute path is stored";
    const Outcome verified = run({"inspect", "cora", "--verify"});
    EXPECT_EQ(verified.code, 0);
    EXPECT_NE(verified.out.find("verified: 6 arrays"), std::string::npos) << verified.out;
    EXPECT_EQ(run({"import", sharedData() + "/cora-ogb", "--name", "cora"}).code, 11);
    EXPECT_EQ(run({"import", sharedData() + "/cora-ogb", "--name", "cora", "--replace", "--json"}).code, 0);
}

TEST_F(ImportProgram, ATruncatedEdgeFileIsOneMessageAndCodeThree)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const std::string cora = copyOfCora();
    const std::string whole = scratch_.read("cora/raw/edge.csv.gz");
    replaceFile("cora/raw/edge.csv.gz", whole.substr(0, whole.size() / 2));
    expectRefused({"import", cora, "--name", "cora"}, 3, {"edge.csv.gz: line ", "got 9063 bytes", "expected 5278 lines", "; the file is cut short"});
}

TEST_F(ImportProgram, ALabelFileOneLineShortIsOneMessageAndCodeThree)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const std::string cora = copyOfCora();
    std::string labels = gunzipped(scratch_.read("cora/raw/node-label.csv.gz"));
    labels.erase(labels.rfind('\n', labels.size() - 2) + 1);
    replaceFile("cora/raw/node-label.csv.gz", gzipped(labels));
    expectRefused({"import", cora, "--name", "cora"}, 3, {"node-label.csv.gz: line 2708", "got 2707", "expected 2708", "; get the complete file"});
}

TEST_F(ImportProgram, AnEdgeIdBeyondTheNodesIsOneMessageAndCodeThree)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const std::string cora = copyOfCora();
    std::string edges = gunzipped(scratch_.read("cora/raw/edge.csv.gz"));
    edges.replace(0, edges.find('\n'), "0,2708");
    replaceFile("cora/raw/edge.csv.gz", gzipped(edges));
    expectRefused({"import", cora, "--name", "cora"}, 3, {"edge.csv.gz: line 1", "got 2708", "expected 0..2707", "; correct the id"});
}

TEST_F(ImportProgram, OtherRefusalsHaveTheirOwnCodes)
{
    expectRefused({"import", scratch_.path("absent"), "--name", "x"}, 4, {"absent", "check the path"});
    scratch_.write("x.pkl", std::string("\x80\x04", 2));
    expectRefused({"import", scratch_.path("x.pkl"), "--name", "x"}, 5, {"pickle"});
    expectRefused({"import", scratch_.path("x.pkl"), "--name", "../x"}, 2, {"--name"});
    expectRefused({"inspect", "nosuch"}, 4, {"nosuch", "import it"});
    EXPECT_EQ(run({"import"}).code, 2);
    for (const char* verb : {"import", "inspect", "generate"}) {
        const Outcome help = run({verb, "--help"});
        EXPECT_EQ(help.code, 0);
        EXPECT_NE(help.out.find("Example:"), std::string::npos) << verb;
    }
}

TEST_F(ImportProgram, GeneratesTheSampleAndListsItInTheLibrary)
{
    const Outcome made = run({"generate", "community", "--name", "sample", "--json"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.err, "");
    const auto json = parseJson(made.out, "stdout");
    ASSERT_TRUE(json.ok());
    EXPECT_EQ((*json)["nodes"], 2003);
    EXPECT_TRUE(std::filesystem::exists(scratch_.home() + "/library.db"));
    EXPECT_EQ(run({"inspect", "sample"}).code, 0);
}

TEST_F(ImportProgram, SparseFeaturesOfAGigabyteDenseStaySmallInMemory)
{
    MEGAGRAPH_NEEDS_SHARED_DATA();
    const Outcome outcome = run({"import", sharedData() + "/npz-csr-coauthor-physics", "--name", "physics"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_LT(outcome.peakBytes, 150'000'000);
}

TEST_F(ImportProgram, AnInterruptOrAKillNeverLeavesHalfASet)
{
    // large enough to be hit in the middle; whenever the signal lands, the set is whole or absent
    for (const int signal : {SIGINT, SIGKILL})
        for (const int delay : {5, 30, 120}) {
            const pid_t pid = start({"generate", "community", "--nodes", "60000", "--name", "big", "--replace"});
            std::this_thread::sleep_for(std::chrono::milliseconds(delay)); // the moment is arbitrary on purpose
            ::kill(pid, signal);
            const Outcome outcome = finish(pid);
            if (outcome.code == 10) { // Cancelled
                EXPECT_NE(outcome.err.find("stopped by request"), std::string::npos) << outcome.err;
            }
            for (const auto& name : scratch_.storedSets()) {
                if (name != "big") {
                    EXPECT_EQ(signal, SIGKILL) << name << " left after an interrupt";
                } else {
                    EXPECT_EQ(run({"inspect", "big", "--verify"}).code, 0);
                }
            }
        }
    EXPECT_EQ(run({"generate", "path", "--nodes", "10", "--name", "small"}).code, 0);
    for (const auto& name : scratch_.storedSets())
        EXPECT_FALSE(name.starts_with(".tmp-")) << "a dead import's folder was not removed";
}

} // namespace
} // namespace megagraph::test
