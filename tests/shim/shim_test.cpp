// SPDX-License-Identifier: Apache-2.0
// The shim itself: little kernels that are right pass under every order of fibers, planted faults are caught, each with
// the kernel, the block, the thread and the line.
#include "tests/shim/cuda_on_cpu.h"

#include "kernels/cuda/launch.h"

#include <gtest/gtest.h>
#include <numeric>

namespace megagraph::kernels::cuda {
namespace {

// ---- right kernels
// --------------------------------------------------------------------------------------------------------
constexpr int kThreads = 128;

__global__ void reduceBlocks(const float* x, int64_t count, float* sums)
{
    __shared__ float part[kThreads];
    const int t = int(threadIdx.x);
    const int64_t i = int64_t(blockIdx.x) * kThreads + t;
    part[t] = i < count ? x[i] : 0.0f;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0)
        sums[blockIdx.x] = part[0];
}

/// Fault = true: without the barrier.
template <bool Fault> __global__ void transpose(const float* x, float* y, int rows, int cols)
{
    auto* tile = reinterpret_cast<float*>(shim::dynamicShared()); // [16][17]
    const int r = int(threadIdx.x) / 16, c = int(threadIdx.x) % 16;
    const int blocksAcross = (cols + 15) / 16;
    const int r0 = int(blockIdx.x) / blocksAcross * 16, c0 = int(blockIdx.x) % blocksAcross * 16;
    if (r0 + r < rows && c0 + c < cols)
        tile[r * 17 + c] = x[(r0 + r) * cols + c0 + c];
    if (!Fault)
        __syncthreads();
    if (c0 + r < cols && r0 + c < rows)
        y[(c0 + r) * rows + r0 + c] = tile[c * 17 + r];
}

__global__ void scanWarps(const int* x, int* y)
{
    const int lane = int(threadIdx.x) % 32;
    int sum = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int step = 1; step < 32; step *= 2) {
        const int below = __shfl_xor_sync(0xFFFFFFFFu, sum, 0) - sum +
                          __shfl_sync(0xFFFFFFFFu, sum, lane - step < 0 ? lane : lane - step);
        sum += lane >= step ? below : 0;
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/// Half warps with masks of their own, votes, and data handed over by __syncwarp.
__global__ void halves(const int* x, unsigned* y)
{
    __shared__ int passed[64];
    const int lane = int(threadIdx.x) % 32;
    const unsigned mask = lane < 16 ? 0x0000FFFFu : 0xFFFF0000u;
    const int value = x[threadIdx.x];
    unsigned bits = 0;
    if (lane < 16)
        bits = __ballot_sync(mask, value > 0);
    else
        bits = unsigned(__shfl_down_sync(mask, value, 3));
    passed[threadIdx.x] = value;
    __syncwarp();
    y[threadIdx.x] = bits + unsigned(passed[threadIdx.x ^ 31]);
}

/// Producer and consumer warps over named barriers, two slots.
template <bool Fault> __global__ void pipeline(const unsigned* x, unsigned* y, int steps)
{
    auto* slot = reinterpret_cast<unsigned*>(shim::dynamicShared()); // [2][32]
    const int lane = int(threadIdx.x) % 32;
    const bool producer = threadIdx.x < 32;
    unsigned sum = 0;
    for (int step = 0; step < steps; ++step) {
        const int s = step % 2;
        if (producer) {
            if (step >= 2)
                shim::namedBarrier(3 + s, 64); // empty
            slot[s * 32 + lane] = x[step * 32 + lane];
            shim::namedBarrierArrive(1 + s, 64); // full
        } else {
            if (!Fault)
                shim::namedBarrier(1 + s, 64);
            sum += slot[s * 32 + 31 - lane];
            if (step + 2 < steps)
                shim::namedBarrierArrive(3 + s, 64);
        }
    }
    if (!producer)
        y[lane] = sum;
}

/// Copies in two stages; Fault: waits for one group too few.
template <bool Fault> __global__ void staged(const float* x, float* y, int tiles)
{
    auto* stage = reinterpret_cast<float*>(shim::dynamicShared()); // [2][128]
    const int t = int(threadIdx.x);                                // 32 threads, 4 floats each
    const auto fetch = [&](int tile) {
        shim::copyAsync(stage + tile % 2 * 128 + 4 * t, x + tile * 128 + 4 * t, 16, __LINE__);
        shim::commitCopies();
    };
    fetch(0);
    float sum = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) {
            fetch(tile + 1);
            shim::waitCopies(Fault ? 2 : 1);
        } else {
            shim::waitCopies(0);
        }
        __syncthreads();
        sum += stage[tile % 2 * 128 + (t + 1) % 32 * 4];
        __syncthreads();
    }
    y[t] = sum;
}

__global__ void bulk(const float* x, float* y, int tiles)
{
    auto* barrier = reinterpret_cast<uint64_t*>(shim::dynamicShared());
    auto* stage = reinterpret_cast<float*>(shim::dynamicShared() + 16); // [64]
    if (threadIdx.x == 0)
        shim::barrierInit(barrier, 1);
    __syncthreads();
    float sum = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        if (threadIdx.x == 0) {
            shim::barrierArriveExpect(barrier, 256);
            shim::bulkCopy(stage, x + tile * 64, 256, barrier);
        }
        shim::barrierWait(barrier, tile & 1);
        sum += stage[threadIdx.x ^ 63];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}

// ---- planted faults
// -------------------------------------------------------------------------------------------------------
__global__ void skipsBarrier()
{
    if (threadIdx.x != 5)
        __syncthreads();
}
__global__ void twoBarriers()
{
    if (threadIdx.x < 16) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}
__global__ void shuffleWithoutLane(int* y)
{
    if (threadIdx.x != 7)
        y[threadIdx.x] = __shfl_sync(0xFFFFFFFFu, 1, 0);
}
__global__ void shuffleFromOutside(int* y)
{
    if (threadIdx.x < 8)
        y[threadIdx.x] = __shfl_sync(0xFFu, 1, 9);
}
__global__ void shufflesThatDiffer(int* y)
{
    if (threadIdx.x == 3)
        y[0] = __any_sync(0xFFFFFFFFu, 1);
    else
        y[threadIdx.x] = __shfl_sync(0xFFFFFFFFu, 1, 0);
}
__global__ void surplusArrival()
{
    shim::namedBarrierArrive(1, 64);
    shim::namedBarrierArrive(1, 64);
}
__global__ void incompleteBarrier()
{
    if (threadIdx.x < 32)
        shim::namedBarrierArrive(2, 64);
}
__global__ void reads(const int* x, int* y, int64_t at)
{
    y[threadIdx.x] = x[at];
}
__global__ void writes(int* y, int64_t at)
{
    y[at] = 1;
}
__global__ void countsAt(int* y, int64_t at)
{
    atomicAdd(y + at, 1);
}
__global__ void writesAll(int* y)
{
    y[0] = int(threadIdx.x);
}
__global__ void readsBehindShared(int* y)
{
    y[threadIdx.x] = reinterpret_cast<int*>(shim::dynamicShared())[int(threadIdx.x)];
}
__global__ void copiesWithoutWait(const float* x, float* y)
{
    auto* stage = reinterpret_cast<float*>(shim::dynamicShared());
    shim::copyAsync(stage + 4 * threadIdx.x, x + 4 * threadIdx.x, 16, __LINE__);
    shim::commitCopies();
    y[threadIdx.x] = stage[4 * threadIdx.x];
}
/// Each thread waits for its own copy, then reads that of its neighbour without a barrier.
__global__ void waitsButNoBarrier(const float* x, float* y)
{
    auto* stage = reinterpret_cast<float*>(shim::dynamicShared());
    shim::copyAsync(stage + 4 * threadIdx.x, x + 4 * threadIdx.x, 16, __LINE__);
    shim::commitCopies();
    shim::waitCopies(0);
    y[threadIdx.x] = stage[4 * (threadIdx.x ^ 1)];
}
__global__ void accumulatorTooEarly(float* y)
{
    float sum[4] = {0, 0, 0, 0};
    shim::defer(sum, sizeof sum, [p = &sum[0]] { p[0] += 1; });
    shim::deferCommit();
    y[threadIdx.x] = sum[0];
    shim::deferWait(0);
}
__global__ void accumulatorInTime(float* y)
{
    float sum[4] = {0, 0, 0, 0};
    for (int i = 0; i < 3; ++i)
        shim::defer(sum, sizeof sum, [p = &sum[0], i] { p[0] += float(i); });
    shim::deferCommit();
    shim::deferWait(0);
    y[threadIdx.x] = sum[0];
}
__global__ void blocksShareAWord(int* y)
{
    y[0] = int(blockIdx.x);
}
__global__ void freshShared(float* y)
{
    y[threadIdx.x] = reinterpret_cast<float*>(shim::dynamicShared())[threadIdx.x];
}
/// The neighbour's word is read after __syncthreads, then overwritten without one: a race of a write after a read.
__global__ void writesAfterReads(int* y)
{
    __shared__ int word[64];
    word[threadIdx.x] = 1;
    __syncthreads();
    const int next = word[(threadIdx.x + 1) % 64];
    word[threadIdx.x] = 2;
    __syncthreads();
    y[threadIdx.x] = next;
}

// ---- helpers
// --------------------------------------------------------------------------------------------------------------
void* const kStream = nullptr;

template <class F> void underAllOrders(F&& body)
{
    for (const shim::Order order : shim::allOrders()) {
        SCOPED_TRACE(shim::describe(order));
        shim::setOrder(order);
        body();
    }
    shim::setOrder({});
}

/// The launch must fail under every order with all of these words in its text.
template <class F> void expectFault(const std::vector<std::string>& words, F&& body)
{
    underAllOrders([&] {
        try {
            body();
            ADD_FAILURE() << "no fault was noticed, expected " << words.front();
        } catch (const shim::Fault& fault) {
            for (const std::string& word : words)
                EXPECT_NE(std::string(fault.what()).find(word), std::string::npos)
                    << word << " is not in: " << fault.what();
        }
    });
}

std::vector<float> ramp(size_t count)
{
    std::vector<float> x(count);
    std::iota(x.begin(), x.end(), 1.0f);
    return x;
}
std::vector<int> rampInts(size_t count)
{
    std::vector<int> x(count);
    std::iota(x.begin(), x.end(), 1);
    return x;
}

#define MEGAGRAPH_NEEDS_SHADOW()                                                                                       \
    if (!shim::shadowCompiled())                                                                                       \
    GTEST_SKIP() << "loads and stores are not instrumented together with the address sanitizer"

TEST(Shim, ReducesUnderEveryOrder)
{
    underAllOrders([] {
        shim::Buffer<float> x(ramp(300), "x", true), sums(3, "sums");
        MEGAGRAPH_LAUNCH(reduceBlocks, 3, kThreads, 0, kStream, x.data(), int64_t(300), sums.data());
        EXPECT_EQ(sums.values(),
                  (std::vector<float>{128 * 129 / 2, 128 * 128 + 128 * 129 / 2, 44 * 256 + 44 * 45 / 2}));
        EXPECT_TRUE(sums.guardsIntact());
    });
}

TEST(Shim, TransposesUnderEveryOrder)
{
    underAllOrders([] {
        shim::Buffer<float> x(ramp(40 * 21), "x", true), y(40 * 21, "y");
        const auto* from = x.data();
        auto* to = y.data();
        MEGAGRAPH_LAUNCH((transpose<false>), 6, 256, 16 * 17 * 4, kStream, from, to, 40, 21);
        const std::vector<float> got = y.values();
        for (int r = 0; r < 40; ++r) {
            for (int c = 0; c < 21; ++c)
                ASSERT_EQ(got[size_t(c * 40 + r)], float(r * 21 + c + 1));
        }
    });
}

TEST(Shim, ScansWarpsUnderEveryOrder)
{
    underAllOrders([] {
        shim::Buffer<int> x(std::vector<int>(256, 1), "x", true), y(256, "y");
        const int* from = x.data();
        int* to = y.data();
        MEGAGRAPH_LAUNCH(scanWarps, 2, 128, 0, kStream, from, to);
        for (int i = 0; i < 256; ++i)
            ASSERT_EQ(y.values()[size_t(i)], i % 32 + 1);
    });
}

TEST(Shim, HalvesOfAWarpMeetOnTheirOwn)
{
    underAllOrders([] {
        shim::Buffer<int> x(rampInts(64), "x", true);
        shim::Buffer<unsigned> y(64, "y");
        const int* from = x.data();
        unsigned* to = y.data();
        MEGAGRAPH_LAUNCH(halves, 1, 64, 0, kStream, from, to);
        for (unsigned t = 0; t < 64; ++t) {
            const unsigned lane = t % 32, bits = lane < 16 ? 0xFFFFu : lane + 3 < 32 ? t + 3 + 1 : t + 1;
            ASSERT_EQ(y.values()[t], bits + (t ^ 31) + 1) << t;
        }
    });
}

TEST(Shim, ProducersAndConsumersMeetAtNamedBarriers)
{
    underAllOrders([] {
        shim::Buffer<unsigned> x(std::vector<unsigned>(7 * 32, 2), "x", true), y(32, "y");
        const unsigned* from = x.data();
        unsigned* to = y.data();
        MEGAGRAPH_LAUNCH((pipeline<false>), 1, 64, 256, kStream, from, to, 7);
        EXPECT_EQ(y.values(), std::vector<unsigned>(32, 14));
    });
}

TEST(Shim, StagedAndBulkCopiesLandAtTheirWait)
{
    underAllOrders([] {
        shim::Buffer<float> x(ramp(5 * 128), "x", true), y(64, "y");
        const float* from = x.data();
        float* to = y.data();
        MEGAGRAPH_LAUNCH((staged<false>), 1, 32, 1024, kStream, from, to, 5);
        for (int t = 0; t < 32; ++t)
            ASSERT_EQ(y.values()[size_t(t)], float(5 * ((t + 1) % 32 * 4 + 1) + 128 * 10));
        MEGAGRAPH_LAUNCH(bulk, 1, 64, 16 + 256, kStream, from, to, 5);
        for (int t = 0; t < 64; ++t)
            ASSERT_EQ(y.values()[size_t(t)], float(5 * ((t ^ 63) + 1) + 64 * 10));
    });
}

TEST(Shim, AccumulatorsMayBeReadAfterTheirWait)
{
    underAllOrders([] {
        shim::Buffer<float> y(32, "y");
        float* to = y.data();
        MEGAGRAPH_LAUNCH(accumulatorInTime, 1, 32, 0, kStream, to);
        EXPECT_EQ(y.values(), std::vector<float>(32, 3.0f));
    });
}

TEST(Shim, FreshSharedMemoryIsNan)
{
    underAllOrders([] {
        shim::Buffer<float> y(std::vector<float>(32, 0.0f), "y");
        float* to = y.data();
        MEGAGRAPH_LAUNCH(freshShared, 1, 32, 128, kStream, to);
        for (const float x : y.values())
            ASSERT_TRUE(std::isnan(x));
    });
}

TEST(ShimFaults, AThreadThatSkipsABarrierIsNamed)
{
    expectFault({"kernel skipsBarrier, block 0, thread ", "__syncthreads shim_test.cpp:"},
                [] { MEGAGRAPH_LAUNCH(skipsBarrier, 1, 64, 0, kStream); });
}

TEST(ShimFaults, BarriersOfTwoBranchesDoNotMeet)
{
    expectFault({"twoBarriers", "others wait at __syncthreads shim_test.cpp:"},
                [] { MEGAGRAPH_LAUNCH(twoBarriers, 1, 32, 0, kStream); });
}

TEST(ShimFaults, ShufflesNeedExactlyTheLanesOfTheirMask)
{
    shim::Buffer<int> y(32, "y");
    int* to = y.data();
    expectFault({"shuffleWithoutLane", "__shfl_sync shim_test.cpp:"},
                [&] { MEGAGRAPH_LAUNCH(shuffleWithoutLane, 1, 32, 0, kStream, to); });
    expectFault({"shuffleFromOutside", "reads lane 9, which is not in the mask"},
                [&] { MEGAGRAPH_LAUNCH(shuffleFromOutside, 1, 32, 0, kStream, to); });
    expectFault({"shufflesThatDiffer", "__shfl_sync", "__ballot_sync"},
                [&] { MEGAGRAPH_LAUNCH(shufflesThatDiffer, 1, 32, 0, kStream, to); });
    expectFault({"scanWarps", "lane 31"}, [&] { MEGAGRAPH_LAUNCH(scanWarps, 1, 31, 0, kStream, to, to); });
}

TEST(ShimFaults, NamedBarriersCountTheirThreads)
{
    expectFault({"surplusArrival", "surplus"}, [] { MEGAGRAPH_LAUNCH(surplusArrival, 1, 64, 0, kStream); });
    expectFault({"incompleteBarrier", "32 of 64 threads"},
                [] { MEGAGRAPH_LAUNCH(incompleteBarrier, 1, 64, 0, kStream); });
}

TEST(ShimFaults, AMissingBarrierIsARace)
{
    MEGAGRAPH_NEEDS_SHADOW();
    shim::Buffer<float> x(ramp(16 * 16), "x", true), y(16 * 16, "y");
    const float* from = x.data();
    float* to = y.data();
    expectFault({"transpose<true>", "race on dynamic shared memory", "no barrier between", "shim_test.cpp:"},
                [&] { MEGAGRAPH_LAUNCH((transpose<true>), 1, 256, 16 * 17 * 4, kStream, from, to, 16, 16); });
}

TEST(ShimFaults, AWriteAfterAReadIsARace)
{
    MEGAGRAPH_NEEDS_SHADOW();
    shim::Buffer<int> y(64, "y");
    int* to = y.data();
    expectFault({"race on a __shared__ variable", "no barrier between"},
                [&] { MEGAGRAPH_LAUNCH(writesAfterReads, 1, 64, 0, kStream, to); });
}

TEST(ShimFaults, AMissingWaitIsCaughtForCopies)
{
    MEGAGRAPH_NEEDS_SHADOW();
    shim::Buffer<float> x(ramp(5 * 128), "x", true), y(32, "y");
    const float* from = x.data();
    float* to = y.data();
    expectFault({"copiesWithoutWait", "before the wait for the copy"},
                [&] { MEGAGRAPH_LAUNCH(copiesWithoutWait, 1, 32, 512, kStream, from, to); });
    expectFault({"waitsButNoBarrier", "dynamic shared memory"},
                [&] { MEGAGRAPH_LAUNCH(waitsButNoBarrier, 1, 32, 512, kStream, from, to); });
    expectFault({"staged<true>", "before the wait for the copy"},
                [&] { MEGAGRAPH_LAUNCH((staged<true>), 1, 32, 1024, kStream, from, to, 5); });
}

TEST(ShimFaults, AMissingWaitIsCaughtForNamedBarriersAndAccumulators)
{
    MEGAGRAPH_NEEDS_SHADOW();
    shim::Buffer<unsigned> x(std::vector<unsigned>(7 * 32, 2), "x", true), y(32, "y");
    const unsigned* from = x.data();
    unsigned* to = y.data();
    expectFault({"pipeline<true>"}, [&] { MEGAGRAPH_LAUNCH((pipeline<true>), 1, 64, 256, kStream, from, to, 2); });
    shim::Buffer<float> sums(32, "sums");
    float* s = sums.data();
    expectFault({"accumulator", "before the wait"},
                [&] { MEGAGRAPH_LAUNCH(accumulatorTooEarly, 1, 32, 0, kStream, s); });
}

TEST(ShimFaults, BadIndicesNameTheBufferAndTheDistance)
{
    MEGAGRAPH_NEEDS_SHADOW();
    shim::Buffer<int> x(rampInts(10), "x", true), y(64, "y");
    const int* from = x.data();
    int* to = y.data();
    expectFault({"kernel reads", "bad address: reads 4 bytes", "0 bytes behind 'x'"},
                [&] { MEGAGRAPH_LAUNCH(reads, 1, 1, 0, kStream, from, to, int64_t(10)); });
    expectFault({"bad address: reads 4 bytes", "4 bytes before 'x'"},
                [&] { MEGAGRAPH_LAUNCH(reads, 1, 1, 0, kStream, from, to, int64_t(-1)); });
    expectFault({"kernel writes", "bad address: writes 4 bytes", "behind 'y'"},
                [&] { MEGAGRAPH_LAUNCH(writes, 1, 1, 0, kStream, to, int64_t(64)); });
    int* input = x.data();
    expectFault({"writes to 'x', an input"}, [&] { MEGAGRAPH_LAUNCH(writes, 1, 1, 0, kStream, input, int64_t(0)); });
    expectFault({"readsBehindShared"}, [&] { MEGAGRAPH_LAUNCH(readsBehindShared, 1, 64, 128, kStream, to); });
    expectFault({"kernel countsAt", "bad address", "behind 'y'", "shim_test.cpp:"},
                [&] { MEGAGRAPH_LAUNCH(countsAt, 1, 1, 0, kStream, to, int64_t(64)); });
}

TEST(ShimFaults, ThreadsAndBlocksDoNotShareAWordOfGlobalMemory)
{
    MEGAGRAPH_NEEDS_SHADOW();
    shim::Buffer<int> y(64, "y");
    int* to = y.data();
    expectFault({"race on 'y' byte 0", "no barrier between"},
                [&] { MEGAGRAPH_LAUNCH(writesAll, 1, 32, 0, kStream, to); });
    expectFault({"race on 'y' byte 0", "in another block"},
                [&] { MEGAGRAPH_LAUNCH(blocksShareAWord, 2, 1, 0, kStream, to); });
}

TEST(Shim, AtomicsOfManyThreadsAndBlocksAddUp)
{
    underAllOrders([] {
        shim::Buffer<int> y(std::vector<int>(1, 0), "y");
        MEGAGRAPH_LAUNCH(countsAt, 3, 64, 0, kStream, y.data(), int64_t(0));
        EXPECT_EQ(y.values()[0], 192);
    });
}

TEST(ShimFaults, TheNextLaunchIsSoundAfterAFault)
{
    EXPECT_THROW(MEGAGRAPH_LAUNCH(skipsBarrier, 1, 64, 0, kStream), shim::Fault);
    shim::Buffer<float> x(ramp(128), "x", true), sums(1, "sums");
    MEGAGRAPH_LAUNCH(reduceBlocks, 1, kThreads, 0, kStream, x.data(), int64_t(128), sums.data());
    EXPECT_EQ(sums.values()[0], 128.0f * 129 / 2);
}

} // namespace
} // namespace megagraph::kernels::cuda
