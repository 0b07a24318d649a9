// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of dense attention, unchanged, as CPU code: held against the fp64 reference under several orders of
// fibers and blocks and of asynchronous copies, with equal bits in all of them.
#include "tests/shim/cuda_on_cpu.h"

#include "kernels/cuda/attention_backward.cu"
#include "kernels/cuda/attention_forward.cu"
#include "kernels/cuda/attention_forward90.cu"
#include "kernels/cuda/attention_ops.cu"
#include "kernels/cuda/edge_attention.cu"
#include "kernels/cuda/module.cu"

#include "kernels/edge_attention.h"
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
            EXPECT_TRUE(equalBits(out.edges, first.edges)) << "edge values";
        }
        first = have ? first : std::move(out);
        have = true;
    }
    shim::setOrder({});
    return first;
}

void expectReference(const Problem& p, Range rows, Range keys, const Outputs& out, const EdgePairs* edges = nullptr)
{
    reference::Dense dense = referenceOf(p, rows, keys);
    std::vector<float> edgeGradient;
    for (size_t i = 0; edges != nullptr && i < edges->pairs.size(); ++i) { // all of them lie in the block, or few do
        const int64_t row = edges->pairs[i] / p.world->tokens - rows.begin,
                      key = edges->pairs[i] % p.world->tokens - keys.begin;
        if (row >= 0 && row < rows.size() && key >= 0 && key < keys.size())
            dense.pairs.push_back(row * keys.size() + key);
    }
    for (int32_t h = 0; edges != nullptr && h < p.heads; ++h) {
        for (size_t i = 0; i < edges->pairs.size(); ++i) {
            const int64_t row = edges->pairs[i] / p.world->tokens, key = edges->pairs[i] % p.world->tokens;
            if (row < rows.begin || row >= rows.end || key < keys.begin || key >= keys.end)
                continue;
            const size_t at = size_t(h) * edges->pairs.size() + i;
            dense.pairValues.push_back(double(edges->values[at]));
            if (!out.edges.empty())
                edgeGradient.push_back(out.edges[at]);
        }
    }
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
    if (edges != nullptr) {
        EXPECT_LE(relativeError(edgeGradient, g.pairValues, 1e-2), kGradients) << "edge values";
    }
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

/// While it lives, dense forward takes this path.
class Path {
  public:
    explicit Path(int32_t path) { EXPECT_EQ(table().forceDensePath(path, nullptr), MegagraphCudaOk); }
    Path(const Path&) = delete;
    Path& operator=(const Path&) = delete;
    ~Path() { EXPECT_EQ(table().forceDensePath(80, nullptr), MegagraphCudaOk); }
};
const int32_t kStart = table().forceDensePath(80, nullptr); // all other tests: mma.sync

TEST(CudaAttention, WarpGroupProductsEqualTheReference)
{
    const Path path(90);
    struct Case {
        int64_t tokens;
        int32_t dim;
        bool bias;
        double drop;
    };
    for (const Case& c :
         {Case{150, 64, true, 0.5}, Case{100, 48, false, 0}, Case{150, 128, true, 0}, Case{70, 100, false, 0.1}}) {
        SCOPED_TRACE("N " + std::to_string(c.tokens) + " d_h " + std::to_string(c.dim));
        const World w = makeWorld(c.tokens, 2, 2, true, 19);
        Problem p = problemOf(w, 1, c.dim, c.bias, 23);
        p.dropout.p = c.drop;
        p.dropout.seed = 3;
        p.dropout.site = kSiteAttention;
        Options options;
        options.backward = false;
        const Range all{0, c.tokens};
        const Outputs groups = runInAllOrders(p, all, all, options);
        expectReference(p, all, all, groups);
        table().forceDensePath(80, nullptr);
        EXPECT_LE(relativeError(groups.o, run(p, all, all, options).o), 1e-3) << "the same sums in another order";
        table().forceDensePath(90, nullptr);
    }
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
        EXPECT_TRUE(equalBits(out.summed, planes.summed)) << "table sums";
        if (storage != Storage::PlanesInRanges) {
            EXPECT_GT(out.kinds[0], 0) << "tiles of base pairs";
            EXPECT_GT(out.kinds[2], 0) << "dense tiles";
        }
        if (storage == Storage::Lists) {
            EXPECT_GT(out.kinds[1], 0) << "list tiles";
        }
    }
}

Dropout dropoutAt(double p)
{
    Dropout d;
    d.p = p;
    d.seed = 5;
    d.step = 7;
    d.item = 3;
    d.layer = 2;
    d.site = kSiteAttention;
    return d;
}

TEST(CudaAttention, DropsTheSamePairsAsTheReferenceAtAlignedAndOddOffsets)
{
    struct Case {
        int32_t dim;
        Range rows, keys;
        double p;
    };
    for (const Case& c :
         {Case{32, {0, 70}, {0, 130}, 0.5}, Case{64, {13, 90}, {8, 100}, 0.1}, Case{64, {13, 90}, {3, 100}, 0.5},
          Case{128, {5, 80}, {64, 130}, 0.5}, Case{128, {5, 80}, {63, 130}, 0.1}, Case{16, {0, 40}, {0, 40}, 1.0}}) {
        SCOPED_TRACE("d_h " + std::to_string(c.dim) + " keys from " + std::to_string(c.keys.begin));
        const World w = makeWorld(130, 2, 1, true, 4);
        Problem p = problemOf(w, 2, c.dim, true, 6);
        p.dropout = dropoutAt(c.p);
        expectReference(p, c.rows, c.keys, runInAllOrders(p, c.rows, c.keys));
    }
}

TEST(CudaAttention, TilesOfOneClassAreUniformInListsAndInPlanes)
{
    World w = makeWorld(256, 2, 1, false, 9);
    for (int64_t i = 0; i < 256;
         ++i) { // four cliques of 64: constant tiles on the diagonal, far or unreachable tiles elsewhere
        w.component[size_t(i)] = i < 192 ? 0 : 1;
        for (int64_t j = 0; j < 256; ++j) {
            const bool reached = (i < 192) == (j < 192);
            w.classOf[size_t(i * 256 + j)] = uint8_t(i / 64 == j / 64 ? 1 : reached ? w.hops + 1 : w.hops + 2);
        }
    }
    const Problem p = problemOf(w, 1, 16, true, 5);
    const Range all{0, 256};
    const Outputs planes = run(p, all, all);
    EXPECT_EQ(planes.kinds[3], 4);
    expectReference(p, all, all, planes);
    for (const Storage storage : {Storage::PlanesWithKinds, Storage::PlanesInRanges, Storage::Lists}) {
        Options options;
        options.storage = storage;
        const Outputs out = run(p, all, all, options);
        EXPECT_TRUE(equalBits(out.o, planes.o)) << "o";
        EXPECT_TRUE(equalBits(out.dq, planes.dq)) << "dq";
        EXPECT_TRUE(equalBits(out.summed, planes.summed)) << "table sums";
    }
}

TEST(CudaAttention, EdgeValuesAndTheirGradientEqualTheReference)
{
    struct Case {
        int64_t tokens;
        int32_t heads, dim;
        bool table;
        double drop;
        Range rows, keys;
    };
    for (const Case& c :
         {Case{1, 1, 8, true, 0, {0, 1}, {0, 1}}, Case{130, 2, 16, true, 0.3, {0, 130}, {0, 130}},
          Case{200, 1, 64, true, 0, {13, 200}, {3, 190}}, Case{150, 2, 64, false, 0, {0, 150}, {0, 150}},
          Case{150, 1, 128, true, 0.1, {0, 150}, {0, 150}}}) {
        SCOPED_TRACE("N " + std::to_string(c.tokens) + " d_h " + std::to_string(c.dim));
        const World w = makeWorld(c.tokens, 2, 2, c.tokens > 1, 41);
        Problem p = problemOf(w, c.heads, c.dim, c.table, 7);
        p.dropout = dropoutAt(c.drop);
        const EdgePairs edges = makeEdgePairs(w, c.heads, 43);
        Options options;
        options.edges = &edges;
        const Outputs planes = runInAllOrders(p, c.rows, c.keys, options);
        expectReference(p, c.rows, c.keys, planes, &edges);
        options.storage = Storage::Lists;
        const Outputs lists = run(p, c.rows, c.keys, options);
        EXPECT_TRUE(equalBits(lists.o, planes.o)) << "o";
        EXPECT_TRUE(equalBits(lists.edges, planes.edges)) << "edge values";
        if (c.dim < 33)
            continue;
        const Path path(90);
        options.backward = false;
        expectReference(p, c.rows, c.keys, runInAllOrders(p, c.rows, c.keys, options), &edges);
    }
}

TEST(CudaAttention, ATileMayBeFullOfEdgesAndAValueMayMaskItsPair)
{
    World w = makeWorld(150, 2, 1, false, 9);
    kernels::testing::cutIntoSegments(w, {70, 150}); // pairs with a value that are masked anyway
    for (const int32_t dim : {32, 128}) {
        const Problem p = problemOf(w, 1, dim, true, 8);
        EdgePairs edges;
        for (int64_t at = 0; at < 150 * 150; ++at) { // all pairs of 64 x 64 tiles, 70 of the others
            const int64_t row = at / 150, key = at % 150;
            if ((row < 64 && key < 64) || (row >= 128 && key >= 100) || at % 321 == 0)
                edges.pairs.push_back(at);
        }
        edges.values = kernels::testing::randomFloats(edges.pairs.size(), 3, 1, 2.0f);
        for (size_t i = 0; i < edges.values.size(); i += 7)
            edges.values[i] = -std::numeric_limits<float>::infinity();
        Options options;
        options.edges = &edges;
        const Range all{0, 150};
        expectReference(p, all, all, runInAllOrders(p, all, all, options), &edges);
    }
}

TEST(CudaAttention, EdgeTilesAreFoundAmongMany)
{
    // 2,300 keys: 36 tiles of one row block with pairs, so the search narrows before it looks
    World w;
    w.tokens = 2300;
    w.hops = 0;
    w.classes = 4;
    w.component.assign(2300, 0);
    w.classOf.assign(size_t(2300) * 2300, 1);
    for (size_t i = 0; i < 2300; ++i)
        w.classOf[i * 2300 + i] = 0;
    Problem p = problemOf(w, 1, 8, true, 5);
    for (const int64_t every : {1, 3}) {
        EdgePairs edges;
        for (int64_t key = 5; key < 2300; key += 64 * every)
            edges.pairs.push_back(2290 * 2300 + key);
        edges.values = kernels::testing::randomFloats(edges.pairs.size(), 6, 1, 3.0f);
        Options options;
        options.storage = Storage::Lists;
        options.edges = &edges;
        const Range rows{2280, 2300}, keys{0, 2300};
        expectReference(p, rows, keys, run(p, rows, keys, options), &edges);
    }
}

TEST(CudaAttention, MasksThePairsOfOtherGraphsInAPack)
{
    World w = makeWorld(150, 2, 1, false, 9);
    kernels::testing::cutIntoSegments(w, {30, 64, 66, 100, 150});
    for (const bool bias : {true, false}) {
        SCOPED_TRACE(bias ? "table" : "no table");
        const Problem p = problemOf(w, 2, 16, bias, 8);
        const Range all{0, 150};
        Options options;
        options.storage = Storage::PlanesInRanges;
        expectReference(p, all, all, runInAllOrders(p, all, all, options));
    }
}

TEST(CudaAttention, RowsWithoutKeysAreZeroAndDisturbNothing)
{
    World w = makeWorld(140, 2, 1, false, 9);
    kernels::testing::cutIntoSegments(w, {40, 140});
    for (const int32_t dim : {32, 128}) {
        const Problem p = problemOf(w, 1, dim, true, 8);
        const Range rows{0, 140}, keys{60, 140}; // the first 40 rows see no key
        const Outputs out = runInAllOrders(p, rows, keys);
        expectReference(p, rows, keys, out);
        for (int64_t i = 0; i < 40; ++i) {
            EXPECT_EQ(out.lse[size_t(i)], -std::numeric_limits<float>::infinity());
            for (int64_t x = 0; x < dim; ++x) {
                EXPECT_EQ(out.o[size_t(i * dim + x)], 0.0f);
                EXPECT_EQ(out.dq[size_t(i * dim + x)], 0.0f);
            }
        }
    }
    const Problem p = problemOf(w, 1, 16, true, 8); // no keys, and no rows, at all
    const Outputs none = run(p, {0, 70}, {20, 20});
    EXPECT_EQ(none.lse[69], -std::numeric_limits<float>::infinity());
    EXPECT_EQ(none.o[0], 0.0f);
    EXPECT_EQ(none.dq[5], 0.0f);
    EXPECT_EQ(run(p, {20, 20}, {0, 70}).dk[3], 0.0f);
}

TEST(CudaAttention, HoldsAtExtremeTablesAndScores)
{
    const World w = makeWorld(90, 2, 2, true, 21);
    Problem p = problemOf(w, 2, 32, true, 3);
    const Range all{0, 90};
    for (int32_t h = 0; h < 2; ++h) {
        p.table[size_t(h * w.classes + 0)] = -1e4f; // own key
        p.table[size_t(h * w.classes + 1)] = -std::numeric_limits<float>::infinity();
        p.table[size_t(h * w.classes + w.hops + 2)] = -std::numeric_limits<float>::infinity(); // whole tiles and rows
    }
    expectReference(p, all, all, runInAllOrders(p, all, all));
    Problem big = problemOf(w, 1, 32, false, 3);
    for (float& x : big.q)
        x *= 1024.0f;
    const Outputs out = run(big, all, all);
    expectReference(big, all, all, out);
}

/// Values of tokens outside of `reach` keep their bits; o (or dq) of `token` is not a number, of all in reach if they
/// read it.
void expectStaysInside(const Problem& clean, const std::vector<bool>& reach, int64_t token, const Options& options,
                       const std::vector<float>& values = {std::numeric_limits<float>::quiet_NaN()})
{
    const Range all{0, clean.world->tokens};
    const int64_t width = int64_t(clean.heads) * clean.dim;
    const Outputs expected = run(clean, all, all, options);
    for (const float value : values) {
        for (int which = 0; which < (options.backward ? 4 : 3); ++which) {
            SCOPED_TRACE("tensor " + std::to_string(which) + ", value " + std::to_string(value));
            Problem bad = clean;
            std::vector<float>* const tensors[] = {&bad.q, &bad.k, &bad.v, &bad.dO};
            (*tensors[which])[size_t(token * width + 1)] = value;
            const Outputs got = runInAllOrders(bad, all, all, options, 0);
            for (int64_t t = 0; t < all.size(); ++t) {
                const auto same = [&](const std::vector<float>& a, const std::vector<float>& b) {
                    return a.empty() ||
                           std::memcmp(&a[size_t(t * width)], &b[size_t(t * width)], size_t(width) * 4) == 0;
                };
                if (!reach[size_t(t)]) {
                    EXPECT_TRUE(same(got.o, expected.o) && same(got.dq, expected.dq) && same(got.dk, expected.dk) &&
                                same(got.dv, expected.dv))
                        << "token " << t;
                }
                const std::vector<float>& readers = which == 3 ? got.dq : got.o;
                if (t == token || (reach[size_t(t)] && (which == 1 || which == 2))) {
                    EXPECT_TRUE(std::isnan(readers[size_t(t * width)])) << "token " << t;
                }
            }
            if (options.backward) {
                EXPECT_TRUE(std::isnan(got.dk[size_t(token * width)]) && std::isnan(got.table[size_t(0)]))
                    << "own class";
            }
        }
    }
}

TEST(CudaAttention, NotANumberStaysWithItsReadersInsideATile)
{
    World pack = makeWorld(100, 2, 1, false, 9);
    kernels::testing::cutIntoSegments(pack, {30, 64, 66, 100});
    const World apart = makeWorld(100, 2, 3, false, 9);
    std::vector<bool> samePack(100), sameComponent(100);
    for (size_t t = 0; t < 100; ++t) {
        samePack[t] = pack.segment[t] == pack.segment[40];
        sameComponent[t] = apart.component[t] == apart.component[50];
    }
    for (const Storage storage : {Storage::Planes, Storage::Lists}) {
        Options options;
        options.storage = storage;
        expectStaysInside(problemOf(pack, 1, 16, true, 3), samePack, 40, options);
        Problem p = problemOf(apart, 1, 16, true, 4);
        p.table[size_t(apart.hops + 2)] = -std::numeric_limits<float>::infinity(); // unreachable
        expectStaysInside(p, sameComponent, 50, options);
    }
    const float infinity = std::numeric_limits<float>::infinity();
    expectStaysInside(problemOf(pack, 1, 128, true, 3), samePack, 40, {}, {-infinity});
    const Path path(90);
    Options options;
    options.backward = false;
    expectStaysInside(problemOf(pack, 1, 64, true, 3), samePack, 40, options, {infinity});
}

TEST(CudaAttention, ReadsStridedFloatsAndFrozenTables)
{
    const World w = makeWorld(100, 2, 2, false, 2);
    const Problem p = problemOf(w, 3, 10, true, 12);
    const Range all{0, 100};
    Options options;
    const Outputs plain = run(p, all, all, options);
    options.bf16 = false;
    options.spread = 3; // a slice of one [N, 3, H, d_h] projection, padded rows, NaN between
    const Outputs strided = run(p, all, all, options);
    EXPECT_TRUE(equalBits(plain.o, strided.o));
    EXPECT_TRUE(equalBits(plain.dk, strided.dk));
    options.learned = false;
    const Outputs frozen = run(p, all, all, options);
    EXPECT_TRUE(equalBits(plain.dq, frozen.dq));
    EXPECT_TRUE(frozen.table.empty());
}

TEST(CudaAttention, ClosedTableGradientSumsToZero)
{
    const World w = makeWorld(120, 3, 3, true, 17);
    const Problem p = problemOf(w, 2, 32, true, 5);
    const Range all{0, 120};
    const Outputs out = run(p, all, all);
    for (int32_t h = 0; h < 2; ++h) {
        double sum = 0, size = 0;
        for (int32_t c = 0; c < w.classes; ++c) {
            sum += double(out.table[size_t(h * w.classes + c)]);
            size += std::abs(double(out.table[size_t(h * w.classes + c)]));
            EXPECT_TRUE(c != w.hops + 1 || out.summed[size_t(h * w.classes + c)] == 0.0) << "the far bin is left open";
        }
        EXPECT_LE(std::abs(sum), 1e-5 * size);
    }
}

/// Ring of key intervals, one of them empty: partial states in place or combined, backward with += over the steps.
TEST(CudaAttention, RingStepsEqualOnePass)
{
    const World w = makeWorld(200, 2, 2, true, 31);
    Problem p = problemOf(w, 2, 32, true, 13);
    p.dropout = dropoutAt(0.1);
    const EdgePairs edges = makeEdgePairs(w, 2, 43);
    Options options;
    options.edges = &edges;
    const Range rows{40, 130}, all{0, 200};
    const std::vector<Range> intervals = {{77, 200}, {0, 0}, {0, 77}};
    const size_t qn = size_t(rows.size() * 64), states = size_t(rows.size() * 2);
    MegagraphCudaError error{};
    const auto partial = [&](Range keys, bool first, const MegagraphCudaState& state) {
        DeviceBlock b(p, rows, keys, options);
        const int64_t bytes = table().attentionForwardWorkspace(&b.shape);
        Device<unsigned char> workspace(size_t(bytes), "workspace");
        expectQueued(table().attentionPartial(&b.shape, &b.q.view, &b.k.view, &b.v.view, &b.bias->bias, &b.dropout,
                                              first ? 1 : 0, &state, workspace.data(), bytes, nullptr, &error),
                     error);
    };
    const auto finish = [&](const MegagraphCudaState& state) {
        Device<float> o(qn, "o"), lse(states, "lse");
        const MegagraphCudaView view = outputView(o, deviceShape(p, rows, all));
        expectQueued(table().attentionFinish(&state, &view, lse.data(), nullptr, &error), error);
        Outputs out;
        out.o = o.values();
        out.lse = lse.values();
        return out;
    };
    const Outputs once = run(p, rows, all, options);
    Device<float> m(states), l(states), acc(qn), m2(states), l2(states), acc2(qn);
    const MegagraphCudaState state{m.data(), l.data(), acc.data()}, other{m2.data(), l2.data(), acc2.data()};
    for (size_t i = 0; i < intervals.size(); ++i)
        partial(intervals[i], i == 0, state);
    const Outputs ring = finish(state);
    EXPECT_LE(relativeError(ring.o, once.o), 4e-3) << "P is rounded to bf16 under another maximum";
    EXPECT_LE(relativeError(ring.lse, once.lse), 1e-6);
    expectReference(p, rows, all, ring, &edges);

    partial(intervals[1], true, state); // an empty state on the left
    for (const size_t i : {2, 0}) {
        partial(intervals[i], true, other);
        expectQueued(table().attentionCombine(rows.size(), 2, 32, &state, &other, nullptr, &error), error);
    }
    const Outputs combined = finish(state);
    EXPECT_LE(relativeError(combined.lse, once.lse), 1e-6);
    expectReference(p, rows, all, combined, &edges);

    Device<float> o(ring.o, "o"), lse(ring.lse, "lse"), delta(states, "delta"), dq(std::vector<float>(qn, 0.0f), "dq");
    Device<double> summed(std::vector<double>(size_t(2 * w.classes), 0.0), "sums");
    Outputs back;
    back.dk.assign(size_t(200 * 64), 0.0f);
    back.dv = back.dk;
    for (const Range keys : intervals) {
        DeviceBlock b(p, rows, keys, options);
        const MegagraphCudaView view = outputView(o, b.shape);
        expectQueued(table().attentionDelta(&view, &b.dO.view, delta.data(), nullptr, &error), error);
        Device<float> dk(std::vector<float>(size_t(keys.size() * 64), 0.0f)),
            dv(std::vector<float>(size_t(keys.size() * 64), 0.0f));
        runBackward(b, lse, delta, dq, dk, dv, &summed);
        back.addEdgeGradient(&edges, *b.bias, 2);
        const std::vector<float> k = dk.values(), v = dv.values();
        std::copy(k.begin(), k.end(), back.dk.begin() + keys.begin * 64);
        std::copy(v.begin(), v.end(), back.dv.begin() + keys.begin * 64);
    }
    EXPECT_LE(relativeError(dq.values(), once.dq), 5e-3);
    EXPECT_LE(relativeError(back.dk, once.dk), 5e-3);
    EXPECT_LE(relativeError(back.dv, once.dv), 5e-3);
    EXPECT_LE(relativeError(summed.values(), once.summed), 5e-3);
    EXPECT_LE(relativeError(back.edges, once.edges), 5e-3);
}

TEST(CudaAttention, GtFinishesAStateWithItsTerm)
{
    const float none = -std::numeric_limits<float>::infinity();
    const std::vector<float> m = {2.5f, none, -18.0f, 0.0f}, l = {3.0f, 0.0f, 1.0f, 2.0f}; // [1 head, 4 rows]
    std::vector<float> acc = kernels::testing::randomFloats(4 * 8, 3, 1);
    std::fill(acc.begin() + 8, acc.begin() + 16, 0.0f);
    Device<float> deviceM(m, "m"), deviceL(l, "l"), deviceAcc(acc, "acc"), o(4 * 8, "o"), lse(4, "lse");
    const MegagraphCudaState state{deviceM.data(), deviceL.data(), deviceAcc.data()};
    const MegagraphCudaView view{o.data(), 4, 1, 8, 8, 8, MegagraphCudaFloat, 0};
    for (const bool gt : {false, true}) {
        MegagraphCudaError error{};
        expectQueued(table().edgeAttentionFinish(gt ? 1 : 0, &state, &view, lse.data(), nullptr, &error), error);
        std::vector<float> hostM = m, hostL = l, hostAcc = acc, expected(4 * 8), expectedLse(4);
        kernels::edgeAttentionFinish(4, 1, 8, gt ? EdgeBiasKind::Gt : EdgeBiasKind::None,
                                     {hostM.data(), hostL.data(), hostAcc.data()},
                                     contiguousHeads(expected.data(), 4, 1, 8), expectedLse.data());
        EXPECT_LE(relativeError(o.values(), kernels::testing::widened(expected)), 1e-6);
        EXPECT_LE(relativeError(lse.values(), kernels::testing::widened(expectedLse)), 1e-6);
    }
}

TEST(CudaAttention, PacksPanelsInTheSwizzle)
{
    const World w = makeWorld(70, 1, 1, false, 1);
    for (const int32_t dim : {10, 40, 128}) {
        const Problem p = problemOf(w, 2, dim, false, 3);
        const int32_t width = dim <= 32 ? 32 : dim <= 64 ? 64 : 128;
        DeviceView view(p.q, {0, 70}, p, false, 1);
        const int64_t bytes = table().packedBytes(70, 2, dim);
        ASSERT_EQ(bytes, 128 * 2 * width * 2);
        Device<uint16_t> packed(size_t(bytes / 2), "packed");
        MegagraphCudaError error{};
        expectQueued(table().packHeads(&view.view, packed.data(), nullptr, &error), error);
        const std::vector<uint16_t> got = packed.values();
        for (int64_t row = 0; row < 128; ++row) {
            for (int32_t column = 0; column < width;
                 ++column) { // the layout in words of 16 bits, written out once more
                const int64_t chunk = column / 8 % (width == 32 ? 4 : 8);
                const int64_t swizzled = width == 32 ? chunk ^ (row / 2 % 4) : chunk ^ row % 8;
                const int64_t inRow = width == 32 ? row % 64 * 32 : column / 64 * 4096 + row % 64 * 64;
                const int64_t at = 128 * width + row / 64 * 64 * width + inRow + swizzled * 8 + column % 8; // head 1
                const float expected = row < 70 && column < dim ? p.q[size_t((row * 2 + 1) * dim + column)] : 0.0f;
                ASSERT_EQ(bf16Value(got[size_t(at)]), expected) << row << " " << column;
            }
        }
    }
}

TEST(CudaAttention, RefusesWrongArgumentsBeforeItWrites)
{
    const World w = makeWorld(64, 2, 1, false, 1);
    const Problem p = problemOf(w, 1, 16, true, 3);
    DeviceBlock b(p, {0, 64}, {0, 64}, {});
    Device<float> o(64 * 16, "o"), lse(64, "lse");
    const MegagraphCudaView view = outputView(o, b.shape);
    const int64_t bytes = table().attentionForwardWorkspace(&b.shape);
    Device<unsigned char> workspace(size_t(bytes), "workspace");
    MegagraphCudaError error{};
    const auto forward = [&](const MegagraphCudaShape& shape, const MegagraphCudaView& q, const MegagraphCudaBias& bias,
                             int64_t space) {
        const int32_t code = table().attentionForward(&shape, &q, &b.k.view, &b.v.view, &bias, &b.dropout, &view,
                                                      lse.data(), workspace.data(), space, nullptr, &error);
        return std::string(error.text).substr(0, code == 0 ? 0 : 90);
    };
    MegagraphCudaShape wide = b.shape;
    wide.dim = 130;
    EXPECT_NE(forward(wide, b.q.view, b.bias->bias, bytes).find("head width: got 130, expected 1 to 128"),
              std::string::npos);
    MegagraphCudaView tight = b.q.view;
    tight.rowStride = 8;
    EXPECT_NE(forward(b.shape, tight, b.bias->bias, bytes).find("q: strides, got row 8"), std::string::npos);
    MegagraphCudaBias planes = b.bias->bias;
    planes.planes.planes = 3;
    EXPECT_NE(forward(b.shape, b.q.view, planes, bytes).find("bias planes: got 3"), std::string::npos);
    MegagraphCudaBias edges = b.bias->bias;
    edges.edges.values = o.data();
    EXPECT_NE(forward(b.shape, b.q.view, edges, bytes).find("edge tiles: got 0 x 0 blocks, expected 1 x 1"),
              std::string::npos);
    EXPECT_NE(forward(b.shape, b.q.view, b.bias->bias, bytes - 1).find("workspace: got"), std::string::npos);
    for (const float x : o.values())
        EXPECT_TRUE(std::isnan(x)) << "nothing is written after a refusal";
    EXPECT_EQ(forward(b.shape, b.q.view, b.bias->bias, bytes), "");
    EXPECT_EQ(megagraphCudaTable(MegagraphCudaVersion + 1), nullptr);
}

} // namespace
} // namespace megagraph::kernels::cuda::testing
