// SPDX-License-Identifier: Apache-2.0
// packaging/gpu_check.sh as far as a machine without a GPU can run it, and the self tests of its Python parts.
#include "core/file.h"
#include "core/json.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>

namespace {

namespace fs = std::filesystem;
using megagraph::Json;

struct Ended {
    int code = -1;
    std::string text;
};

Ended shell(const std::string& command)
{
    Ended ended;
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr)
        return ended;
    char buffer[4096];
    for (size_t n = fread(buffer, 1, sizeof buffer, pipe); n > 0; n = fread(buffer, 1, sizeof buffer, pipe))
        ended.text.append(buffer, n);
    const int status = pclose(pipe);
    ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ended;
}

const std::string kSource = MEGAGRAPH_SOURCE_DIR, kScript = kSource + "/packaging/gpu_check.sh";

class GpuCheck : public ::testing::Test {
  protected:
    void SetUp() override
    {
        if (shell("python3 --version").code != 0)
            GTEST_SKIP() << "python3 is not installed";
        out_ = ::testing::TempDir() + "/gpu_check_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
        fs::remove_all(out_);
    }
    void TearDown() override { fs::remove_all(out_); }
    std::string out_;
};

class GpuCheckOfTheModule : public GpuCheck {
  protected:
    void SetUp() override
    {
#ifndef MEGAGRAPH_HAS_GPU_TEST
        GTEST_SKIP() << "libmegagraph_cuda.so is not built: no nvcc at configuration";
#endif
        GpuCheck::SetUp();
    }
};

TEST_F(GpuCheck, PythonPartsPassTheirSelfTests)
{
    for (const char* part : {"gpu_report.py", "gpu_peers.py"}) {
        const Ended ended = shell("PYTHONDONTWRITEBYTECODE=1 python3 '" + kSource + "/packaging/gpu/" + part + "' --self-test");
        EXPECT_EQ(ended.code, 0) << part << ":\n" << ended.text;
    }
}

TEST_F(GpuCheck, UnknownOptionsAndStepsAreRefusedWithWhatIsKnown)
{
    const Ended option = shell("'" + kScript + "' --fast");
    EXPECT_EQ(option.code, 64) << option.text;
    EXPECT_NE(option.text.find("--dry-run"), std::string::npos) << option.text;
    const Ended step = shell("'" + kScript + "' --only kernel");
    EXPECT_EQ(step.code, 64) << step.text;
    EXPECT_NE(step.text.find("environment primitives kernels sanitizer benchmarks report"), std::string::npos) << step.text;
}

TEST_F(GpuCheck, ADryRunWithoutProgramsSaysWhatIsMissing)
{
    fs::create_directories(out_ + "/empty");
    const Ended ended = shell("'" + kScript + "' --dry-run --bin '" + out_ + "/empty' --out '" + out_ + "'");
    EXPECT_EQ(ended.code, 1) << ended.text;
    EXPECT_NE(ended.text.find("libmegagraph_cuda.so"), std::string::npos) << ended.text;
    EXPECT_NE(ended.text.find("megagraph-gpu-test"), std::string::npos) << ended.text;
}

TEST_F(GpuCheckOfTheModule, ADryRunPassesAndPrintsThePlan)
{
    const Ended ended = shell("'" + kScript + "' --dry-run --bin '" MEGAGRAPH_BIN_DIR "' --out '" + out_ + "'");
    EXPECT_EQ(ended.code, 0) << ended.text;
    for (const char* step : {"environment", "primitives", "kernels", "sanitizer", "benchmarks", "report"})
        EXPECT_NE(ended.text.find(step), std::string::npos) << step << "\n" << ended.text;
    EXPECT_FALSE(fs::exists(out_ + "/gpu_report.json")) << "a dry run measures nothing";
}

TEST_F(GpuCheckOfTheModule, WithoutAGpuTheRunEndsWithThreeAndAReport)
{
    const Ended ended = shell("CUDA_VISIBLE_DEVICES= '" + kScript + "' --bin '" MEGAGRAPH_BIN_DIR "' --out '" + out_ + "'");
    EXPECT_EQ(ended.code, 3) << ended.text;
    const auto report = megagraph::readJsonFile(out_ + "/gpu_report.json");
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report.value()["format"], "megagraph.gpu_report");
    EXPECT_EQ(report.value()["version"], 1);
    EXPECT_EQ(report.value()["exit_code"], 3);
    ASSERT_EQ(report.value()["steps"].size(), 6u) << report.value().dump(1);
    EXPECT_EQ(report.value()["steps"][0]["status"], "failed");
    EXPECT_EQ(report.value()["steps"][1]["status"], "skipped");
    EXPECT_TRUE(fs::exists(out_ + "/gpu_report.md"));
}

TEST_F(GpuCheckOfTheModule, ABundleRunsFromAnEmptyEnvironmentAndFindsItsLibrariesInside)
{
    const std::string bundle = out_ + "/bundle";
    const Ended made = shell("'" + kScript + "' --bundle '" + bundle + "' --bin '" MEGAGRAPH_BIN_DIR "'");
    ASSERT_EQ(made.code, 0) << made.text;
    EXPECT_NE(made.text.find("MiB"), std::string::npos) << made.text;
    int64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(bundle))
        bytes += entry.is_regular_file() ? int64_t(entry.file_size()) : 0;
    EXPECT_LE(bytes, int64_t(60) << 20);
    const Ended dry = shell("cd / && env -i PATH=/usr/bin:/bin '" + bundle + "/gpu_check.sh' --dry-run --out '" + out_ + "/dry'");
    EXPECT_EQ(dry.code, 0) << dry.text;
    // every library but libc's own, the loader's and the driver's lies in the bundle
    const Ended libraries = shell("env -i PATH=/usr/bin:/bin ldd '" + bundle + "/bin/megagraph-gpu-test'");
    EXPECT_EQ(libraries.text.find("not found"), std::string::npos) << libraries.text;
    for (const char* name : {"libfmt", "libmetis", "libz.", "libstdc++", "libgcc_s"}) {
        const size_t at = libraries.text.find(name);
        if (at != std::string::npos) {
            EXPECT_NE(libraries.text.find("bundle", at), std::string::npos) << libraries.text;
            EXPECT_LT(libraries.text.find("bundle", at), libraries.text.find('\n', at)) << libraries.text;
        }
    }
}

} // namespace
