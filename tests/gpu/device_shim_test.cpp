// SPDX-License-Identifier: Apache-2.0
// The kernels step of megagraph-gpu-test without a GPU: the unchanged CUDA kernels as CPU code meet the stored results, through
// the same calls that a GPU will get. Shows too that the step notices wrong kernels. Races are the business of tests/shim.
#include "tests/shim/cuda_on_cpu.h"

#include "kernels/cuda/attention_backward.cu"
#include "kernels/cuda/attention_forward.cu"
#include "kernels/cuda/attention_forward90.cu"
#include "kernels/cuda/attention_ops.cu"
#include "kernels/cuda/edge_attention.cu"
#include "kernels/cuda/module.cu"

#include "tests/gpu/check_kernels.h"

#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <new>

namespace megagraph::kernels::goldens {
namespace {

namespace shim = cuda::shim;

/// Host memory that the shim knows.
class ShimMemory final : public DeviceMemory {
  public:
    void* allocate(int64_t bytes) override
    {
        void* data = ::operator new(size_t(bytes), std::align_val_t(256));
        std::memset(data, 0xFF, size_t(bytes));
        shim::registerGlobal(data, size_t(bytes), "array");
        ++live_;
        return data;
    }
    void release(void* data) override
    {
        shim::unregisterGlobal(data);
        ::operator delete(data, std::align_val_t(256));
        --live_;
    }
    void toDevice(void* device, const void* host, int64_t bytes) override { std::memcpy(device, host, size_t(bytes)); }
    void toHost(void* host, const void* device, int64_t bytes) override { std::memcpy(host, device, size_t(bytes)); }
    void clear(void* device, int64_t bytes) override { std::memset(device, 0, size_t(bytes)); }
    std::string finish() override { return {}; }
    int64_t live() const { return live_; }

  private:
    int64_t live_ = 0;
};

struct Checked {
    std::vector<Json> lines;
    Tally tally;
};

Checked check(const std::vector<std::string>& ids, const MegagraphCudaTable& table, int32_t path = 80)
{
    Checked run;
    ShimMemory memory;
    KernelCheck checks(table, memory, [&](const Json& line) { run.lines.push_back(line); });
    EXPECT_TRUE(checks.choosePath(path));
    const auto manifest = checkedManifest(MEGAGRAPH_TEST_DATA "/kernels");
    EXPECT_TRUE(manifest.ok());
    for (const ManifestEntry& e : manifest.value()) {
        if (std::find(ids.begin(), ids.end(), e.id) != ids.end())
            checks.golden(*findCase(e.id), readGolden(MEGAGRAPH_TEST_DATA "/kernels", e).value());
    }
    run.tally = checks.tally();
    EXPECT_EQ(memory.live(), 0);
    return run;
}

const MegagraphCudaTable& table()
{
    return *megagraphCudaTable(MegagraphCudaVersion);
}

void expectAllPassed(const Checked& run, int64_t least)
{
    EXPECT_GE(run.tally.passed, least);
    EXPECT_EQ(run.tally.failed, 0);
    EXPECT_EQ(run.tally.skipped, 0);
    for (const Json& line : run.lines)
        EXPECT_EQ(line["status"], "passed") << line.dump();
}

TEST(GpuKernelStep, NarrowCasesMeetTheStoredResultsInEveryForm)
{
    expectAllPassed(check({"one_token", "slim_63", "plain_64", "hops0_65", "hops3_129"}, table()), 20);
}

TEST(GpuKernelStep, TheUsualShapeMeetsTheStoredResultsInEveryForm)
{
    expectAllPassed(check({"base_257"}, table()), 5);
}

TEST(GpuKernelStep, WideHeadsMeetTheStoredResultsInEveryForm)
{
    expectAllPassed(check({"wide_dropout_257"}, table()), 5);
}

TEST(GpuKernelStep, MasksOffsetsAndExtremeTablesMeetTheStoredResultsInEveryForm)
{
    expectAllPassed(check({"pack_200", "block_192", "keys_odd", "masked_rows", "huge_table"}, table()), 25);
}

TEST(GpuKernelStep, TheGroupProductPathMeetsTheStoredResultsInEveryForm)
{
    expectAllPassed(check({"block_192", "odd_width_192"}, table(), 90), 10);
    MegagraphCudaError error{};
    EXPECT_EQ(table().forceDensePath(0, &error), MegagraphCudaOk);
}

TEST(GpuKernelStep, SparseCasesMeetTheStoredResults)
{
    expectAllPassed(check({"edges_star", "edges_rings"}, table()), 2);
}

TEST(GpuKernelStep, SizesBeyondTheReferenceAgreeWithTheCpuKernels)
{
    Checked run;
    ShimMemory memory;
    KernelCheck checks(table(), memory, [&](const Json& line) { run.lines.push_back(line); });
    ASSERT_TRUE(checks.choosePath(80));
    checks.big({390, 14, 1, 64, 2, 0.1}, SerialFor());
    checks.big({200, 14, 1, 128, -1}, SerialFor());
    run.tally = checks.tally();
    expectAllPassed(run, 2);
}

TEST(GpuKernelStep, AModuleThatRunsAnotherPathIsSkippedByName)
{
    MegagraphCudaTable without = table();
    without.forceDensePath = nullptr;
    without.edgeAttentionForward = nullptr;
    ShimMemory memory;
    std::vector<Json> lines;
    KernelCheck checks(without, memory, [&](const Json& line) { lines.push_back(line); });
    EXPECT_FALSE(checks.choosePath(90));
    checks.golden(*findCase("edges_rings"), Golden());
    ASSERT_EQ(lines.size(), 2u);
    for (const Json& line : lines) {
        EXPECT_EQ(line["status"], "skipped");
        EXPECT_NE(line["reason"].get<std::string>().find("no such entry"), std::string::npos) << line.dump();
    }
}

/// A wrong kernel: the true one, then one number of its result moved by 5 %.
int32_t wrongDelta(const MegagraphCudaView* o, const MegagraphCudaView* dO, float* delta, void* stream, MegagraphCudaError* error)
{
    const int32_t code = table().attentionDelta(o, dO, delta, stream, error);
    for (int64_t i = 0; i < o->rows * o->heads; ++i)
        delta[i] *= 1.5f;
    return code;
}

int32_t wrongFinish(const MegagraphCudaState* state, const MegagraphCudaView* o, float* lse, void* stream, MegagraphCudaError* error)
{
    const int32_t code = table().attentionFinish(state, o, lse, stream, error);
    lse[3] += 0.5f;
    return code;
}

TEST(GpuKernelStep, WrongKernelsFailTheStep)
{
    MegagraphCudaTable wrong = table();
    wrong.attentionDelta = wrongDelta;
    EXPECT_EQ(check({"hops0_65"}, wrong).tally.failed, 4);
    wrong = table();
    wrong.attentionFinish = wrongFinish;
    const Checked run = check({"hops0_65"}, wrong);
    EXPECT_EQ(run.tally.failed, 2) << "only the ring forms use it";
}

} // namespace
} // namespace megagraph::kernels::goldens
