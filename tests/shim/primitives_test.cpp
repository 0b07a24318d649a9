// SPDX-License-Identifier: Apache-2.0
// The emulated hardware operations of primitives.cuh and the panels of pack.cuh against plain loops, and a planted
// wrong swizzle: the same little product reads its operands through the panel layout, once as packed and once as if not
// swizzled.
#include "tests/shim/cuda_on_cpu.h"

#include "core/random.h"
#include "kernels/cuda/pack.cuh"

#include <gtest/gtest.h>

namespace megagraph::kernels::cuda {
namespace {

/// D[16, 8] = A[16, 16] B[16, 8], each lane loading its registers from row-major fp32 by the layout that mma16816
/// states.
__global__ void productOfRegisters(const float* a, const float* b, float* d)
{
    const int lane = int(threadIdx.x), g = lane / 4, t = lane % 4;
    const auto pairOfA = [&](int row, int column) { return packBf16(a[row * 16 + column], a[row * 16 + column + 1]); };
    const auto pairOfB = [&](int row, int column) { return packBf16(b[row * 8 + column], b[(row + 1) * 8 + column]); };
    const uint32_t words[4] = {pairOfA(g, 2 * t), pairOfA(g + 8, 2 * t), pairOfA(g, 2 * t + 8),
                               pairOfA(g + 8, 2 * t + 8)};
    float sums[4] = {0, 0, 0, 0};
    mma16816(sums, words, pairOfB(2 * t, g), pairOfB(2 * t + 8, g));
    d[g * 8 + 2 * t] = sums[0];
    d[g * 8 + 2 * t + 1] = sums[1];
    d[(g + 8) * 8 + 2 * t] = sums[2];
    d[(g + 8) * 8 + 2 * t + 1] = sums[3];
}

/// Scores of 16 queries and 8 keys out of packed panels: A = rows of the first operand, B = rows of the second.
template <int D, bool kSwizzled>
__global__ void productOfPanels(const unsigned char* panelsA, const unsigned char* panelsB, float* d, int rowA,
                                int rowB)
{
    unsigned char* sharedA = dynamicShared();
    unsigned char* sharedB = sharedA + kBlockBytes<D>;
    const int lane = int(threadIdx.x & 31), g = lane / 4, t = lane % 4;
    for (int at = lane * 16; at < kBlockBytes<D>; at += 32 * 16) {
        copyAsync(sharedA + at, panelsA + at);
        copyAsync(sharedB + at, panelsB + at);
    }
    commitCopies();
    waitCopies<0>();
    __syncthreads();
    const auto place = [](int row, int chunk) {
        return kSwizzled ? panelOffset<D>(row, chunk)
                         : (chunk >> 3) * 8192 + row * (D == 32 ? 64 : 128) + ((chunk & 7) << 4);
    };
    float sums[4] = {0, 0, 0, 0};
    for (int step = 0; step < D / 16; ++step) {
        uint32_t a[4], b[4];
        ldmatrix<false>(a, sharedA + place(rowA + lane % 16, 2 * step + lane / 16));
        ldmatrix<false>(b,
                        sharedB + place(rowB + lane % 8, 2 * step + lane / 8 % 2)); // matrices 2 and 3 repeat 0 and 1
        mma16816(sums, a, b[0], b[1]);
    }
    d[g * 8 + 2 * t] = sums[0];
    d[g * 8 + 2 * t + 1] = sums[1];
    d[(g + 8) * 8 + 2 * t] = sums[2];
    d[(g + 8) * 8 + 2 * t + 1] = sums[3];
}

/// Four 8 x 8 matrices of 16-bit numbers.
template <bool kTransposed> __global__ void loadMatrices(const uint16_t* x, uint32_t* y)
{
    auto* rows = reinterpret_cast<uint16_t*>(dynamicShared());
    for (int i = int(threadIdx.x); i < 256; i += 32)
        rows[i] = x[i];
    __syncthreads();
    uint32_t words[4];
    ldmatrix<kTransposed>(words, rows + 8 * int(threadIdx.x));
    for (int m = 0; m < 4; ++m)
        y[m * 32 + int(threadIdx.x)] = words[m];
}

float draw(uint64_t stream, uint64_t i)
{
    return bf16Value(packBf16(float(2 * drawUniform(3, stream, i) - 1), 0.0f) & 0xFFFFu);
}

std::vector<float> drawAll(size_t count, uint64_t stream)
{
    std::vector<float> x(count);
    for (size_t i = 0; i < count; ++i)
        x[i] = draw(stream, i);
    return x;
}

template <class F> void underAllOrders(F&& body)
{
    for (const shim::Order order : shim::allOrders()) {
        SCOPED_TRACE(shim::describe(order));
        shim::setOrder(order);
        body();
    }
    shim::setOrder({});
}

Stream const kStream = nullptr;

TEST(CudaPrimitives, ProductOfRegistersEqualsAPlainLoop)
{
    underAllOrders([] {
        const std::vector<float> a = drawAll(256, 1), b = drawAll(128, 2);
        shim::Buffer<float> da(a, "a", true), db(b, "b", true), d(128, "d");
        MEGAGRAPH_LAUNCH(productOfRegisters, 1, 32, 0, kStream, da.data(), db.data(), d.data());
        const std::vector<float> got = d.values();
        for (size_t i = 0; i < 16; ++i) {
            for (size_t j = 0; j < 8; ++j) {
                double sum = 0;
                for (size_t k = 0; k < 16; ++k)
                    sum += double(a[i * 16 + k]) * double(b[k * 8 + j]);
                ASSERT_NEAR(got[i * 8 + j], sum, 1e-5) << i << ", " << j;
            }
        }
    });
}

TEST(CudaPrimitives, MatricesAreLoadedAsStatedAndTransposed)
{
    std::vector<uint16_t> x(256);
    for (size_t i = 0; i < 256; ++i)
        x[i] = uint16_t(1000 + i);
    const auto element = [&](size_t m, size_t row, size_t column) { return uint32_t(x[m * 64 + row * 8 + column]); };
    underAllOrders([&] {
        shim::Buffer<uint16_t> from(x, "x", true);
        shim::Buffer<uint32_t> plain(128, "plain"), transposed(128, "transposed");
        MEGAGRAPH_LAUNCH(loadMatrices<false>, 1, 32, 512, kStream, from.data(), plain.data());
        MEGAGRAPH_LAUNCH(loadMatrices<true>, 1, 32, 512, kStream, from.data(), transposed.data());
        const std::vector<uint32_t> p = plain.values(), q = transposed.values();
        for (size_t m = 0; m < 4; ++m) {
            for (size_t lane = 0; lane < 32; ++lane) {
                const size_t g = lane / 4, t = lane % 4;
                ASSERT_EQ(p[m * 32 + lane], element(m, g, 2 * t) | element(m, g, 2 * t + 1) << 16);
                ASSERT_EQ(q[m * 32 + lane], element(m, 2 * t, g) | element(m, 2 * t + 1, g) << 16);
            }
        }
    });
}

/// Largest error of the product of rows [rowA, + 16) and [rowB, + 8) of two random operands.
template <int D, bool kSwizzled> double errorOfPanels(int dim, int rowA, int rowB)
{
    const int rows = 64;
    const std::vector<float> a = drawAll(size_t(rows * dim), 1), b = drawAll(size_t(rows * dim), 2);
    shim::Buffer<float> da(a, "a", true), db(b, "b", true), d(128, "d");
    shim::Buffer<unsigned char> panelsA(size_t(kBlockBytes<D>), "panels a"),
        panelsB(size_t(kBlockBytes<D>), "panels b");
    PackParams p{da.data(), rows, dim, dim, 1, 1, dim, MegagraphCudaFloat, panelsA.data(), nullptr, nullptr};
    MEGAGRAPH_LAUNCH(packPanels<D>, 1, kThreads, 0, kStream, p);
    p.data = db.data();
    p.packed = panelsB.data();
    MEGAGRAPH_LAUNCH(packPanels<D>, 1, kThreads, 0, kStream, p);
    MEGAGRAPH_LAUNCH((productOfPanels<D, kSwizzled>), 1, 32, 2 * kBlockBytes<D>, kStream, panelsA.data(),
                     panelsB.data(), d.data(), rowA, rowB);
    const std::vector<float> got = d.values();
    double worst = 0;
    for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 8; ++j) {
            double sum = 0;
            for (int k = 0; k < dim; ++k)
                sum += double(a[size_t((rowA + i) * dim + k)]) * double(b[size_t((rowB + j) * dim + k)]);
            worst = std::max(worst, std::abs(sum - double(got[size_t(i * 8 + j)])));
        }
    }
    return worst;
}

TEST(CudaPrimitives, PanelsHoldTheRowsThatWerePacked)
{
    underAllOrders([] {
        EXPECT_LE((errorOfPanels<32, true>(32, 16, 8)), 1e-4);
        EXPECT_LE((errorOfPanels<32, true>(10, 0, 40)), 1e-4);
        EXPECT_LE((errorOfPanels<64, true>(64, 48, 56)), 1e-4);
        EXPECT_LE((errorOfPanels<64, true>(40, 16, 0)), 1e-4);
        EXPECT_LE((errorOfPanels<128, true>(128, 32, 24)), 1e-4);
        EXPECT_LE((errorOfPanels<128, true>(96, 0, 16)), 1e-4);
    });
}

TEST(CudaPrimitives, AWrongSwizzleGivesAnotherProduct)
{
    underAllOrders([] {
        EXPECT_GE((errorOfPanels<32, false>(32, 16, 8)), 0.1);
        EXPECT_GE((errorOfPanels<64, false>(64, 48, 56)), 0.1);
        EXPECT_GE((errorOfPanels<128, false>(128, 32, 24)), 0.1);
    });
}

} // namespace
} // namespace megagraph::kernels::cuda
