// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <vector>

namespace megagraph::runtime {
namespace {

class Allocator : public testing::Test {
  protected:
    void SetUp() override
    {
        installCountingAllocator();
        setMemoryBudget(0, 0);
        before_ = memoryState();
    }
    void TearDown() override { setMemoryBudget(0, 0); }
    int64_t grown(MemoryCategory category) const
    {
        return memoryState().categories[size_t(category)] - before_.categories[size_t(category)];
    }
    MemoryState before_;
};

TEST_F(Allocator, CountsEachRequestRoundedUpTo64Bytes)
{
    const MemoryScope scope(MemoryCategory::Weights);
    const at::Tensor one = at::empty({1}, at::kFloat), many = at::empty({17}, at::kFloat), none = at::empty({0}, at::kFloat);
    EXPECT_EQ(grown(MemoryCategory::Weights), 64 + 128);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(many.const_data_ptr()) % 64, 0u);
}

TEST_F(Allocator, LargeBlocksStartOnAHugePageAndCountAsRequested)
{
    constexpr int64_t kHuge = 2 << 20;
    const MemoryScope scope(MemoryCategory::Weights);
    int64_t expected = 0;
    std::vector<at::Tensor> blocks;
    for (const int64_t bytes : {kHuge - 64, kHuge, kHuge + 1, 3 * kHuge + 100, 5 * kHuge}) {
        blocks.push_back(at::empty({bytes}, at::kByte));
        expected += (bytes + 63) / 64 * 64;
        EXPECT_EQ(grown(MemoryCategory::Weights), expected) << bytes;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().const_data_ptr()) % uintptr_t(bytes >= kHuge ? kHuge : 64), 0u) << bytes;
        blocks.back().fill_(7); // all of it can be written
    }
    for (const at::Tensor& block : blocks)
        EXPECT_EQ(block.min().item<int>(), 7); // and no block lies in another
    blocks.clear();
    EXPECT_EQ(grown(MemoryCategory::Weights), 0);
}

TEST_F(Allocator, KeepsFreedLargeBlocksForTheNextRequestOfTheirSize)
{
    constexpr int64_t kSize = 48 << 20;
    at::Tensor block = at::empty({kSize}, at::kByte).fill_(7);
    const int64_t current = memoryState().current;
    block.reset();
    EXPECT_EQ(memoryState().current, current - kSize) << "a kept block is not in use";
    block = at::empty({kSize}, at::kByte);
    EXPECT_EQ(block[kSize / 2].item<int>(), 7) << "pages fresh from the system would be cleared";
}

TEST_F(Allocator, KeptBlocksAndThoseInUseStayUnderTheCountedPeak)
{
    constexpr int64_t kSize = 64 << 20;
    at::empty({kSize}, at::kByte).fill_(1);
    resetMemoryPeak(); // what is kept now has to go first
    const int64_t before = residentBytes();
    for (int64_t i = 1; i <= 8; ++i) // no size twice: each would be kept beside the others
        at::empty({kSize + i * 64}, at::kByte).fill_(1);
    EXPECT_LE(residentBytes() - before, kSize / 2);
}

TEST_F(Allocator, KeptBlocksGiveWayToSmallBlocksAndToCharges)
{
    constexpr int64_t kSize = 64 << 20;
    const auto keepOne = [] {
        at::empty({kSize}, at::kByte).fill_(1);
        resetMemoryPeak();
        return residentBytes();
    };
    int64_t before = keepOne();
    std::vector<at::Tensor> small; // each below the size that is kept
    for (int i = 0; i < 16; ++i)
        small.push_back(at::empty({1 << 20}, at::kByte).fill_(1));
    EXPECT_LE(residentBytes() - before, -kSize / 2) << "the kept block went when the first small one came";
    before = keepOne();
    const MemoryCharge charge(MemoryCategory::Topology, 1 << 20, "edges");
    EXPECT_LE(residentBytes() - before, -kSize / 2);
}

TEST_F(Allocator, ChargesTheInnermostScopeAndReturnsToTheOuterOne)
{
    const MemoryScope outer(MemoryCategory::Optimizer);
    at::Tensor a, b;
    {
        const MemoryScope inner(MemoryCategory::Workspace);
        a = at::empty({16}, at::kFloat);
    }
    b = at::empty({16}, at::kFloat);
    EXPECT_EQ(grown(MemoryCategory::Workspace), 64);
    EXPECT_EQ(grown(MemoryCategory::Optimizer), 64);
    a.reset(); // freed outside of its scope, still from its own category
    EXPECT_EQ(grown(MemoryCategory::Workspace), 0);
}

TEST_F(Allocator, KeepsThePeakAndItsCategoriesAfterTheMemoryIsFree)
{
    resetMemoryPeak();
    const int64_t base = memoryState().current;
    {
        const MemoryScope scope(MemoryCategory::Activations);
        const at::Tensor big = at::empty({1024}, at::kFloat);
    }
    const MemoryState state = memoryState();
    EXPECT_EQ(state.peak - base, 4096);
    EXPECT_EQ(state.current, base);
    int64_t sum = 0;
    for (const int64_t bytes : state.atPeak)
        sum += bytes;
    EXPECT_EQ(sum, state.peak);
}

TEST_F(Allocator, ARequestBeyondTheBudgetNamesTensorLayerAndCategory)
{
    const int64_t base = 1 << 20;
    setMemoryBudget(base + memoryState().current + 8192, base);
    const MemoryScope scope(MemoryCategory::Workspace, "attention", "probabilities", 2);
    const at::Tensor fits = at::empty({1024}, at::kFloat);
    EXPECT_THROW(at::empty({2048}, at::kFloat), c10::OutOfMemoryError);
    const OutOfMemoryReport report = lastOutOfMemory();
    EXPECT_EQ(report.requested, 8192);
    EXPECT_EQ(report.tensor, "probabilities");
    EXPECT_EQ(report.op, "attention");
    EXPECT_EQ(report.layer, 2);
    EXPECT_EQ(report.category, MemoryCategory::Workspace);
    EXPECT_EQ(report.categories[size_t(MemoryCategory::Base)], base);
    EXPECT_EQ(report.inUse, memoryState().current + base);
    EXPECT_NO_THROW(at::empty({64}, at::kFloat)); // a refused request leaves nothing counted
}

TEST_F(Allocator, AnOperationThatDoesNotFitThrowsFromInsideTorchAndLeavesNoBytes)
{
    const int64_t now = memoryState().current;
    const at::Tensor x = at::ones({256, 256}, at::kFloat);
    setMemoryBudget(memoryState().current + 1024, 0);
    EXPECT_THROW(at::mm(x, x), c10::OutOfMemoryError);
    EXPECT_EQ(memoryState().current - now, 256 * 256 * 4);
}

TEST_F(Allocator, ChargesOutsideOfTensorsCountUntilTheyEnd)
{
    MemoryCharge kept;
    {
        MemoryCharge charge(MemoryCategory::Topology, 1000, "lists");
        EXPECT_EQ(grown(MemoryCategory::Topology), 1024);
        kept = std::move(charge);
    }
    EXPECT_EQ(grown(MemoryCategory::Topology), 1024);
    kept = MemoryCharge();
    EXPECT_EQ(grown(MemoryCategory::Topology), 0);
    setMemoryBudget(memoryState().current + 100, 0);
    EXPECT_THROW(MemoryCharge(MemoryCategory::Topology, 1000, "lists"), c10::OutOfMemoryError);
    EXPECT_EQ(grown(MemoryCategory::Topology), 0);
}

TEST_F(Allocator, CountsAreExactWhenSeveralThreadsAllocate)
{
    const int64_t now = memoryState().current;
    at::parallel_for(0, 64, 1, [](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            for (int k = 0; k < 20; ++k)
                at::empty({100}, at::kFloat);
    });
    EXPECT_EQ(memoryState().current, now);
}

TEST_F(Allocator, BackwardAddsIntoPreallocatedGradientsWithoutKeepingMore)
{
    at::Tensor w = at::ones({64, 64}, at::kFloat).requires_grad_(true);
    {
        const MemoryScope scope(MemoryCategory::Gradients);
        w.mutable_grad() = at::zeros({64, 64}, at::kFloat);
    }
    const void* const place = w.grad().const_data_ptr();
    const int64_t now = memoryState().current;
    for (int i = 0; i < 2; ++i)
        at::mm(at::ones({8, 64}, at::kFloat), w).sum().backward();
    EXPECT_EQ(memoryState().current, now);
    EXPECT_EQ(w.grad().const_data_ptr(), place);
    EXPECT_EQ(w.grad()[0][0].item<float>(), 16.0f);
}

} // namespace
} // namespace megagraph::runtime
