// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of dense attention, unchanged, as CPU code: held against the fp64 reference under several orders of
// fibers and blocks and of asynchronous copies, with equal bits in all of them.
#include "tests/shim/cuda_on_cpu.h"

#include "kernels/cuda/attention_backward.cu"
#include "kernels/cuda/attention_forward.cu"
#include "kernels/cuda/attention_ops.cu"
#include "kernels/cuda/edge_attention.cu"
#include "kernels/cuda/module.cu"

#include "tests/shim/attention_cuda_cases.h"

namespace megagraph::kernels::cuda::testing {
namespace {

using kernels::testing::makeProblem;
using kernels::testing::makeWorld;
using kernels::testing::relativeError;

// design 01, section 8: bf16
constexpr double kValues = 1e-2, kGradients = 2e-2;

template <class T> bool equalBits(const std::vector<T>& a, const std::vector<T>& b)
{
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Every order of the shim gives the same bits; returns them.
Outputs runInAllOrders(const Problem& p, Range rows, Range keys, const Options& options = {}, int random = 1)
{
    Outputs first;
    bool have = false;
    for (const shim::Order& order : shim::allOrders(random)) {
        SCOPED_TRACE(shim::describe(order));
        shim::setOrder(order);
        Outputs out = run(p, rows, keys, options);
        if (have) {
            EXPECT_TRUE(equalBits(out.o, first.o)) << "o";
            EXPECT_TRUE(equalBits(out.lse, first.lse)) << "lse";
            EXPECT_TRUE(equalBits(out.dq, first.dq)) << "dq";
            EXPECT_TRUE(equalBits(out.dk, first.dk)) << "dk";
            EXPECT_TRUE(equalBits(out.dv, first.dv)) << "dv";
            EXPECT_TRUE(equalBits(out.summed, first.summed)) << "table sums";
        }
        first = have ? first : std::move(out);
        have = true;
    }
    shim::setOrder({});
    return first;
}

void expectReference(const Problem& p, Range rows, Range keys, const Outputs& out)
{
    reference::Dense dense = referenceOf(p, rows, keys);
    dense.table = kernels::testing::widened(p.shifted()); // kernels get b' = b - b[far], which moves lse
    const reference::Output expected = reference::denseForward(dense);
    EXPECT_LE(relativeError(out.o, expected.o, 1e-3), kValues) << "o";
    EXPECT_LE(relativeError(out.lse, expected.lse, 1e-3), 1e-3) << "lse";
    if (out.dq.empty() && out.dk.empty())
        return;
    const reference::Gradients g = reference::denseBackward(
        dense, kernels::testing::widened(kernels::testing::slice(p.dO, rows, int64_t(p.heads) * p.dim)));
    EXPECT_LE(relativeError(out.dq, g.dq, 1e-2), kGradients) << "dq";
    EXPECT_LE(relativeError(out.dk, g.dk, 1e-2), kGradients) << "dk";
    EXPECT_LE(relativeError(out.dv, g.dv, 1e-2), kGradients) << "dv";
    if (!out.table.empty()) {
        EXPECT_LE(relativeError(out.table, g.table, 1e-2), kGradients) << "table";
    }
}

Problem problemOf(const World& w, int32_t heads, int32_t dim, bool bias, uint64_t seed)
{
    Problem p = makeProblem(w, heads, dim, bias, seed);
    roundInputs(p);
    return p;
}

TEST(CudaAttention, EqualsTheReferenceForAllWidthsAndRaggedSizes)
{
    struct Case {
        int64_t tokens;
        int32_t heads, dim, hops;
    };
    for (const Case& c : {Case{1, 1, 8, 0}, Case{17, 3, 10, 2}, Case{64, 2, 16, 1}, Case{100, 2, 24, 2},
                          Case{130, 1, 32, 3}, Case{100, 1, 96, 2}, Case{257, 2, 64, 2}, Case{150, 1, 128, 4}}) {
        SCOPED_TRACE("N " + std::to_string(c.tokens) + " d_h " + std::to_string(c.dim));
        const World w = makeWorld(c.tokens, c.hops, 2, c.tokens > 64, uint64_t(c.tokens));
        const Problem p = problemOf(w, c.heads, c.dim, true, uint64_t(c.dim));
        const Range all{0, c.tokens};
        expectReference(p, all, all, runInAllOrders(p, all, all));
    }
}

TEST(CudaAttention, EqualsTheReferenceWithoutBias)
{
    for (const int32_t dim : {32, 64, 128}) {
        SCOPED_TRACE(dim);
        const World w = makeWorld(200, 1, 1, false, 3);
        const Problem p = problemOf(w, 1, dim, false, uint64_t(dim));
        const Range rows{30, 200}, keys{0, 197};
        expectReference(p, rows, keys, runInAllOrders(p, rows, keys));
    }
}

TEST(CudaAttention, EveryStorageOfNearPairsGivesTheSameBits)
{
    const World w = makeWorld(300, 3, 2, true, 11, 0.2);
    Problem p = problemOf(w, 1, 32, true, 5);
    p.denseAbove = 300; // list and dense tiles
    const Range rows{0, 200}, keys{70, 300};
    const Outputs planes = runInAllOrders(p, rows, keys);
    expectReference(p, rows, keys, planes);
    for (const Storage storage : {Storage::PlanesWithKinds, Storage::PlanesInRanges, Storage::Lists}) {
        SCOPED_TRACE(int(storage));
        Options options;
        options.storage = storage;
        const Outputs out = runInAllOrders(p, rows, keys, options);
        EXPECT_TRUE(equalBits(out.o, planes.o)) << "o";
        EXPECT_TRUE(equalBits(out.dq, planes.dq)) << "dq";
        EXPECT_TRUE(equalBits(out.dk, planes.dk)) << "dk";
        EXPECT_LE(relativeError(out.table, planes.table, 1e-3), 1e-5) << "table";
        if (storage != Storage::PlanesInRanges) {
            EXPECT_GT(out.kinds[0], 0) << "tiles of base pairs";
            EXPECT_GT(out.kinds[2], 0) << "dense tiles";
        }
        if (storage == Storage::Lists) {
            EXPECT_GT(out.kinds[1], 0) << "list tiles";
        }
    }
}

} // namespace
} // namespace megagraph::kernels::cuda::testing
