// SPDX-License-Identifier: Apache-2.0
// `megagraph bench kernels` on the real programs, small sizes: the contract of its document, what it says about variables that
// steer the numbers, how it ends. No timing is asserted.
#include "core/file.h"
#include "core/json.h"
#include "core/process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <poll.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

using namespace megagraph;
namespace fs = std::filesystem;

namespace {

class BenchKernels : public testing::Test {
  protected:
    void SetUp() override
    {
        std::string name = (fs::temp_directory_path() / "megagraph-bench-test-XXXXXX").string();
        root = ::mkdtemp(name.data());
        fs::create_directories(root + "/tmp");
    }
    void TearDown() override { fs::remove_all(root); }

    Child start(std::vector<std::string> arguments, const std::vector<std::pair<std::string, std::string>>& more = {})
    {
        const FileDescriptor out(::open((root + "/out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        const FileDescriptor err(::open((root + "/err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        ChildOptions options;
        options.program = MEGAGRAPH_BIN_DIR "/megagraph";
        options.arguments = {"bench", "kernels"};
        options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
        options.environment = {{"MEGAGRAPH_HOME", root + "/home"}, {"MEGAGRAPH_RESOURCES", MEGAGRAPH_SOURCE_DIR "/resources"},
                               {"HOME", root}, {"TMPDIR", root + "/tmp"}, {"PATH", "/usr/bin:/bin"}};
        options.environment.insert(options.environment.end(), more.begin(), more.end());
        options.descriptors = {{out.get(), 1}, {err.get(), 2}};
        const auto child = spawn(options);
        EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().message);
        return child.ok() ? *child : Child{};
    }
    int finish(const Child& child)
    {
        int status = 0;
        while (::waitpid(pid_t(child.pid), &status, 0) < 0 && errno == EINTR) {
        }
        ::close(child.pidfd);
        std::ifstream out(root + "/out"), err(root + "/err");
        text.assign(std::istreambuf_iterator<char>(out), {});
        errors.assign(std::istreambuf_iterator<char>(err), {});
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    int run(const std::vector<std::string>& arguments, const std::vector<std::pair<std::string, std::string>>& more = {})
    {
        return finish(start(arguments, more));
    }
    Json document() const
    {
        const auto json = parseJson(text, "stdout");
        EXPECT_TRUE(json.ok()) << text;
        return json.ok() ? *json : Json::object();
    }

    std::string root, text, errors;
};

std::set<std::string> keysOf(const Json& object)
{
    std::set<std::string> keys;
    for (const auto& [key, value] : object.items())
        keys.insert(key);
    return keys;
}

void expectKeys(const Json& object, const std::set<std::string>& wanted)
{
    const std::set<std::string> has = keysOf(object);
    for (const std::string& key : wanted)
        EXPECT_TRUE(has.count(key)) << key << " is missing in " << object.dump();
}

void expectCase(const Json& row)
{
    expectKeys(row, {"id", "what", "n", "heads", "head_size", "dtype", "threads", "ours", "peer", "ratio", "bar", "verdict"});
    expectKeys(row["ours"], {"median_ms", "min_ms", "max_ms", "tflops", "share_of_peak", "extra_bytes", "error"});
    expectKeys(row["peer"], {"name", "backend", "median_ms", "min_ms", "max_ms", "extra_bytes"});
    const std::string verdict = row["verdict"];
    ASSERT_TRUE(verdict == "met" || verdict == "missed" || verdict == "not run") << row.dump();
    if (verdict == "not run") {
        EXPECT_FALSE(row.value("reason", std::string()).empty()) << row.dump();
        return;
    }
    ASSERT_TRUE(row["ratio"].is_number() && row["bar"].is_number()) << row.dump();
    const double ratio = row["ratio"], bar = row["bar"];
    EXPECT_EQ(verdict == "met", row["bar_is"] == "at most" ? ratio <= bar : ratio >= bar) << row.dump();
    EXPECT_FALSE(row["judged"].get<bool>()) << "a quick run judges nothing";
}

} // namespace

TEST_F(BenchKernels, TheDocumentOfAQuickRunKeepsTheContract)
{
    ASSERT_EQ(run({"--quick", "--only", "C2", "--json", "--threads", "2"}), 0) << errors;
    const Json json = document();
    EXPECT_EQ(json["format"], "megagraph.kernel_bench");
    EXPECT_EQ(json["version"], 1);
    expectKeys(json["machine"], {"cpu", "cores", "threads", "instruction_set", "memory_bytes", "gpu", "driver", "compiler", "libtorch",
                                 "libtorch_build", "commit", "environment"});
    EXPECT_EQ(json["machine"]["threads"], 2);
    expectKeys(json["peaks"], {"fp32_gflops", "bf16_gflops", "copy_gb_s", "one_thread"});
    EXPECT_GT(json["peaks"]["copy_gb_s"].get<double>(), 0);
    ASSERT_FALSE(json["cases"].empty());
    int compared = 0;
    for (const Json& row : json["cases"]) {
        EXPECT_EQ(row["id"], "C2");
        expectCase(row);
        if (row["verdict"] == "not run" || row["dtype"] != "fp32" || !row["ours"]["median_ms"].is_number())
            continue;
        ++compared;
        EXPECT_EQ(row["peer"]["backend"], "flash") << row.dump(); // a frozen bias stays on the fused kernel
        EXPECT_LT(row["ours"]["error"].get<double>(), 2e-5) << row.dump();
        EXPECT_LT(row["ours"]["peer_difference"].get<double>(), 1e-4) << row.dump();
        EXPECT_GT(row["peer"]["extra_bytes"].get<int64_t>(), row["ours"]["extra_bytes"].get<int64_t>()) << row.dump();
    }
    EXPECT_EQ(compared, 2); // the peer's bias built before, and built in the round
    EXPECT_TRUE(fs::is_empty(root + "/tmp")) << "the folder for tensors stays behind";
}

TEST_F(BenchKernels, RowsThatCannotRunSayWhyAndTheRunIsStillGood)
{
    ASSERT_EQ(run({"--quick", "--only", "C5", "--only", "C9", "--only", "G3", "--json", root + "/rows.json", "--python", root + "/no-such-python"}), 0) << errors;
    const auto json = readJsonFile(root + "/rows.json");
    ASSERT_TRUE(json.ok()) << json.error().message;
    ASSERT_EQ((*json)["cases"].size(), 3u);
    for (const Json& row : (*json)["cases"]) {
        expectCase(row);
        EXPECT_EQ(row["verdict"], "not run");
    }
    EXPECT_NE((*json)["cases"][0]["reason"].get<std::string>().find("no-such-python"), std::string::npos);
    EXPECT_NE((*json)["cases"][1]["reason"].get<std::string>().find("milestone 3"), std::string::npos);
    EXPECT_NE(text.find("not run"), std::string::npos) << "with a file the table is printed, too";
}

TEST_F(BenchKernels, PeersThatUseTheSlowPathAreNamedSo)
{
    ASSERT_EQ(run({"--quick", "--only", "C3", "--json"}), 0) << errors;
    const Json json = document();
    ASSERT_EQ(json["cases"].size(), 1u);
    expectCase(json["cases"][0]);
    EXPECT_EQ(json["cases"][0]["peer"]["backend"], "math"); // what LibTorch does with a bias that needs a gradient
}

TEST_F(BenchKernels, AVariableThatSteersBlasIsReportedAndWarnedOf)
{
    ASSERT_EQ(run({"--quick", "--only", "C9", "--json"}, {{"OPENBLAS_CORETYPE", "Haswell"}, {"MKL_NUM_THREADS", "1"}}), 0) << errors;
    const Json json = document();
    EXPECT_EQ(json["machine"]["environment"]["OPENBLAS_CORETYPE"], "Haswell");
    EXPECT_EQ(json["warnings"].size(), 2u) << json["warnings"].dump();
    EXPECT_NE(errors.find("OPENBLAS_CORETYPE=Haswell"), std::string::npos) << errors;

    ASSERT_EQ(run({"--quick", "--only", "C9", "--json"}), 0) << errors;
    EXPECT_TRUE(document()["warnings"].empty()) << text;
}

TEST_F(BenchKernels, AnUnknownCaseIsAUsageError)
{
    EXPECT_EQ(run({"--quick", "--only", "C77"}), 2);
    EXPECT_NE(errors.find("C77"), std::string::npos) << errors;
}

TEST_F(BenchKernels, CtrlCEndsTheWorkerAndLeavesNothing)
{
    const Child child = start({"--only", "C1"}); // full sizes: minutes
    pollfd wait{child.pidfd, POLLIN, 0};
    for (int i = 0; i < 600 && fs::is_empty(root + "/tmp"); ++i)
        ::poll(&wait, 1, 50);
    ::poll(&wait, 1, 1000);
    ::kill(pid_t(child.pid), SIGINT);
    EXPECT_EQ(finish(child), 10) << errors;
    EXPECT_NE(errors.find("stopped after"), std::string::npos) << errors;
    EXPECT_TRUE(fs::is_empty(root + "/tmp"));
    for (const auto& entry : fs::directory_iterator("/proc")) { // its folder names the worker's command line
        const auto line = readSmallFile(entry.path().string() + "/cmdline", 1 << 16);
        EXPECT_FALSE(line.ok() && line->find(root + "/tmp") != std::string::npos) << *line;
    }
}
