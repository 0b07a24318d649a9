// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of sparse attention on the CPU, against the fp64 reference and under every order of threads and
// blocks with equal bits. Loads, stores, races and bounds are watched by the shadow.
#include "tests/shim/cuda_on_cpu.h"

#include "kernels/cuda/edge_calls.cuh"
#include "tests/kernels/edge_cases.h"

namespace megagraph::kernels::cuda {
namespace {

using testing::EdgeFast;
using testing::EdgeProblem;

constexpr double kFp32Limit = 2e-5;

struct Numbers {
    bool bf16 = false, bf16Out = false;
};

float rounded(float x)
{
    return bf16Value(packBf16(x, 0.0f) & 0xFFFFu);
}

/// The tensors as bf16 would hold them, so that the reference sees what the kernels see.
void roundTensors(EdgeProblem& p)
{
    for (std::vector<float>* x : {&p.q, &p.k, &p.v, &p.dO}) {
        for (float& value : *x)
            value = rounded(value);
    }
    p.edges.q = testing::widened(p.q);
    p.edges.k = testing::widened(p.k);
    p.edges.v = testing::widened(p.v);
}

/// A [rows, heads, dim] tensor in device memory.
class Tensor {
  public:
    Tensor(const std::vector<float>& x, int64_t rows, int32_t heads, int32_t dim, bool bf16, const char* name,
           bool input = true)
        : floats_(bf16 ? std::vector<float>() : x, name, input),
          halves_(bf16 ? packed(x) : std::vector<uint16_t>(), name, input)
    {
        view_ = {bf16 ? static_cast<void*>(halves_.data()) : static_cast<void*>(floats_.data()),
                 rows,
                 heads,
                 dim,
                 int64_t(heads) * dim,
                 dim,
                 bf16 ? MegagraphCudaBf16 : MegagraphCudaFloat,
                 0};
    }
    const MegagraphCudaView* view() const { return &view_; }
    std::vector<float> values() const
    {
        if (view_.type == MegagraphCudaFloat)
            return floats_.values();
        std::vector<float> out;
        for (const uint16_t word : halves_.values())
            out.push_back(bf16Value(word));
        return out;
    }

  private:
    static std::vector<uint16_t> packed(const std::vector<float>& x)
    {
        std::vector<uint16_t> words;
        for (const float value : x)
            words.push_back(uint16_t(packBf16(value, 0.0f)));
        return words;
    }
    shim::Buffer<float> floats_;
    shim::Buffer<uint16_t> halves_;
    MegagraphCudaView view_;
};

/// Device copy of a graph and its bias.
struct Graph {
    explicit Graph(const EdgeProblem& p)
        : indptr(p.edges.indptr, "indptr", true), transposedIndptr(p.transposedIndptr, "transposedIndptr", true),
          transposedEntries(p.transposedEntries, "transposedEntries", true), indices(p.edges.indices, "indices", true),
          transposedRows(p.transposedRows, "transposedRows", true), keyNumbers(p.edges.keyNumbers, "keyNumbers", true),
          classes(p.edges.classes, "classes", true), table(p.table, "table", true), values(p.w, "values", true)
    {
        const reference::Edges& e = p.edges;
        g.rows = e.rows;
        g.keys = e.keys;
        g.entries = p.entries();
        g.indptr = indptr.data();
        g.indices = indices.data();
        g.transposedIndptr = transposedIndptr.data();
        g.transposedRows = transposedRows.data();
        g.transposedEntries = transposedEntries.data();
        g.selfKey = e.selfKey ? 1 : 0;
        g.selfClass = e.selfClass;
        g.classes = e.classCount;
        g.headOffset = e.headOffset;
        g.selfOffset = e.selfOffset;
        g.queryOffset = e.queryOffset;
        g.keyOffset = e.keyOffset;
        g.keyNumbers = e.keyNumbers.empty() ? nullptr : keyNumbers.data();
        g.entryClass = e.kind == EdgeBiasKind::Classes ? classes.data() : nullptr;
        g.table = e.kind == EdgeBiasKind::Classes ? table.data() : nullptr;
        g.entryBias = e.kind == EdgeBiasKind::Values ? values.data() : nullptr;
    }
    shim::Buffer<int64_t> indptr, transposedIndptr, transposedEntries;
    shim::Buffer<int32_t> indices, transposedRows, keyNumbers;
    shim::Buffer<uint8_t> classes;
    shim::Buffer<float> table, values;
    MegagraphCudaEdgeGraph g{};
};

void expectQueued(int32_t code, const MegagraphCudaError& error)
{
    EXPECT_EQ(code, MegagraphCudaOk) << error.text;
}

EdgeFast runCuda(const EdgeProblem& p, Numbers numbers)
{
    const reference::Edges& e = p.edges;
    const size_t rowHeads = size_t(e.heads) * size_t(e.rows), bins = size_t(e.heads) * size_t(e.classCount);
    const Graph graph(p);
    const Tensor q(p.q, e.rows, e.heads, e.dim, numbers.bf16, "q"), k(p.k, e.keys, e.heads, e.dim, numbers.bf16, "k"),
        v(p.v, e.keys, e.heads, e.dim, numbers.bf16, "v"), dO(p.dO, e.rows, e.heads, e.dim, numbers.bf16, "dO");
    const Tensor o(std::vector<float>(p.q.size(), NAN), e.rows, e.heads, e.dim, numbers.bf16Out, "o", false);
    shim::Buffer<float> lse(rowHeads, "lse"), dq(p.q.size(), "dq"), dk(p.k.size(), "dk"), dv(p.v.size(), "dv"),
        dw(p.w.size(), "dw");
    const MegagraphCudaDropout dropout{
        e.dropout.p, e.dropout.seed, e.dropout.step, e.dropout.item, e.dropout.layer, e.dropout.site, 0};
    MegagraphCudaError error{};
    const int64_t forwardBytes = edgeAttentionForwardWorkspace(&graph.g, e.heads, e.dim);
    shim::Buffer<unsigned char> space(size_t(forwardBytes), "workspace");
    expectQueued(edgeAttentionForward(&graph.g, e.scale, q.view(), k.view(), v.view(), &dropout, o.view(), lse.data(),
                                      space.data(), forwardBytes, nullptr, &error),
                 error);
    const std::vector<float> out = o.values();
    std::vector<float> deltas(rowHeads);
    attentionDelta(contiguousHeads<const float>(out.data(), e.rows, e.heads, e.dim),
                   contiguousHeads<const float>(p.dO.data(), e.rows, e.heads, e.dim), deltas.data());
    const shim::Buffer<float> delta(deltas, "delta", true);
    shim::Buffer<double> table(std::vector<double>(bins, 0.0), "table gradient");
    const int64_t backwardBytes = edgeAttentionBackwardWorkspace(&graph.g, e.heads, e.dim);
    shim::Buffer<unsigned char> backwardSpace(size_t(backwardBytes), "workspace");
    const MegagraphCudaEdgeBiasGradient gradient{bins == 0 ? nullptr : table.data(), p.w.empty() ? nullptr : dw.data()};
    expectQueued(edgeAttentionBackward(&graph.g, e.scale, q.view(), k.view(), v.view(), dO.view(), lse.data(),
                                       delta.data(), &dropout, dq.data(), dk.data(), dv.data(), &gradient,
                                       backwardSpace.data(), backwardBytes, nullptr, &error),
                 error);
    for (const auto* buffer : {&lse, &dq, &dk, &dv, &dw})
        EXPECT_TRUE(buffer->guardsIntact());
    return {out, lse.values(), {}, dq.values(), dk.values(), dv.values(), dw.values(), {}, table.values()};
}

void expectClose(const EdgeFast& got, const EdgeProblem& p, double outLimit = kFp32Limit)
{
    const reference::EdgeOutput out = reference::edgeForward(p.edges);
    const reference::EdgeGradients g = reference::edgeBackward(p.edges, testing::widened(p.dO), {});
    const double limit = std::max(kFp32Limit, outLimit); // delta comes from the rounded o
    EXPECT_LE(testing::relativeError(got.o, out.o), outLimit);
    EXPECT_LE(testing::relativeError(got.lse, out.lse), kFp32Limit);
    EXPECT_LE(testing::relativeError(got.dq, g.dq, 1e-3), limit);
    EXPECT_LE(testing::relativeError(got.dk, g.dk, 1e-3), limit);
    EXPECT_LE(testing::relativeError(got.dv, g.dv), limit);
    EXPECT_LE(testing::relativeError(got.dw, g.dw, 1e-3), limit);
    EXPECT_LE(testing::relativeError(got.table, g.table, 0.1), limit); // with one class the true gradient is 0
}

/// Close to the reference, and equal bits under `random` random orders beside forward and reversed.
void expectSame(const EdgeProblem& p, Numbers numbers = {}, int random = 3)
{
    EdgeFast first;
    bool have = false;
    for (const shim::Order order : shim::allOrders(random)) {
        SCOPED_TRACE(shim::describe(order));
        shim::setOrder(order);
        const EdgeFast got = runCuda(p, numbers);
        if (!have)
            first = got;
        have = true;
        ASSERT_TRUE(got == first) << "bits depend on the order of threads";
    }
    shim::setOrder({});
    expectClose(first, p, numbers.bf16Out ? 1e-2 : kFp32Limit);
}

const std::vector<int64_t> kDegrees{0, 1, 31, 32, 33, 512, 513, 0, 5, 1025};

TEST(CudaEdges, AgreeWithTheReferenceForEveryRowLength)
{
    for (const bool self : {false, true}) {
        for (const int32_t heads : {1, 2, 3}) {
            SCOPED_TRACE(heads);
            EdgeProblem p = testing::makeEdges(kDegrees, 40, heads, 16, uint64_t(heads));
            p.edges.selfKey = self;
            p.edges.selfOffset = 7;
            expectSame(p);
        }
    }
}

TEST(CudaEdges, AgreeWithTheReferenceForEveryHeadWidth)
{
    for (const auto& [heads, dim] : std::vector<std::pair<int32_t, int32_t>>{{1, 8},
                                                                             {3, 8},
                                                                             {33, 8},
                                                                             {2, 10},
                                                                             {1, 24},
                                                                             {3, 32},
                                                                             {8, 16},
                                                                             {1, 64},
                                                                             {2, 64},
                                                                             {5, 64},
                                                                             {1, 96},
                                                                             {1, 128},
                                                                             {3, 128},
                                                                             {2, 1}}) {
        SCOPED_TRACE(std::to_string(heads) + " x " + std::to_string(dim));
        EdgeProblem p = testing::makeEdges({3, 0, 7, 1, 18, 2}, 12, heads, dim, uint64_t(dim));
        p.edges.selfKey = true;
        expectSame(p, {}, 1);
        roundTensors(p);
        expectSame(p, {true, false}, 1);
    }
}

TEST(CudaEdges, Bf16StoresWhatFp32SumsGive)
{
    EdgeProblem p = testing::makeEdges(kDegrees, 40, 2, 64, 4);
    roundTensors(p);
    expectSame(p, {true, false}, 1);
    expectSame(p, {true, true}, 1);
}

TEST(CudaEdges, LongColumnsAreSummedInPieces)
{
    EdgeProblem p = testing::makeEdges({600, 700, 3, 590}, 2, 2, 16, 5);
    p.edges.selfKey = false;
    expectSame(p);
}

TEST(CudaEdges, ClassesHaveATableGradientInFixedOrder)
{
    for (const int32_t classes : {1, 7, 256}) {
        for (const int32_t selfClass : {-1, 0}) {
            SCOPED_TRACE(classes);
            EdgeProblem p = testing::makeEdges({0, 1, 31, 513, 33, 4, 700}, 30, 3, 16, uint64_t(classes));
            testing::addClasses(p, classes, selfClass, 6);
            p.edges.selfKey = true;
            p.edges.selfOffset = 2;
            expectSame(p, {}, 1);
        }
    }
    EdgeProblem narrow = testing::makeEdges({9, 0, 40, 2}, 30, 2, 8, 8); // many groups, blocks of one warp
    testing::addClasses(narrow, 256, 3, 6);
    expectSame(narrow);
}

TEST(CudaEdges, ValuesHaveAGradientPerEntry)
{
    EdgeProblem p = testing::makeEdges({0, 1, 31, 513, 33}, 30, 3, 16, 7);
    testing::addValues(p, 6);
    p.edges.selfKey = true;
    expectSame(p);
    for (size_t e = 0; e < p.w.size(); e += 5)
        p.w[e] = -std::numeric_limits<float>::infinity();
    for (size_t e = 0; e < 31; ++e) // a whole row of the first head
        p.w[1 + e] = -std::numeric_limits<float>::infinity();
    p.edges.w = testing::widened(p.w);
    p.edges.selfKey = false;
    expectSame(p, {}, 1);
}

TEST(CudaEdges, DropoutUsesTheMaskOfTheCpu)
{
    EdgeProblem p = testing::makeEdges({3, 600, 17, 0, 33}, 45, 3, 16, 9);
    p.edges.selfKey = true;
    p.edges.selfOffset = 3;
    p.edges.queryOffset = 1003;
    p.edges.keyOffset = 1000;
    p.edges.headOffset = 5;
    p.edges.dropout = {0.4, 11, 5, 1, 2, kSiteAttention};
    expectSame(p);
    for (int32_t key = 0; key < 45; ++key) // a halo
        p.edges.keyNumbers.push_back(4000 - 13 * key);
    expectSame(p, {}, 1);
}

TEST(CudaEdges, StridedAndUnalignedRowsGiveTheSameBits)
{
    EdgeProblem p = testing::makeEdges({3, 0, 40, 17}, 20, 2, 16, 10);
    const EdgeFast packed = runCuda(p, {});
    // q, k, v of one projection [N, 3, H, dh], shifted by one element: no 16-byte piece is aligned
    const int64_t width = 32, stride = 3 * width;
    std::vector<float> all(size_t(20 * stride + 1), NAN);
    const auto put = [&](const std::vector<float>& x, int64_t rows, int64_t which) {
        for (int64_t r = 0; r < rows; ++r)
            std::copy_n(x.begin() + r * width, width, all.begin() + 1 + r * stride + which * width);
    };
    put(p.q, 4, 0);
    put(p.k, 20, 1);
    put(p.v, 20, 2);
    shim::Buffer<float> buffer(all, "qkv", true);
    shim::Buffer<float> o(p.q.size(), "o"), lse(8, "lse");
    const auto view = [&](int64_t rows, int64_t which) {
        return MegagraphCudaView{buffer.data() + 1 + which * width, rows, 2, 16, stride, 16, MegagraphCudaFloat, 0};
    };
    const MegagraphCudaView q = view(4, 0), k = view(20, 1), v = view(20, 2),
                            out{o.data(), 4, 2, 16, 32, 16, MegagraphCudaFloat, 0};
    const Graph graph(p);
    MegagraphCudaError error{};
    expectQueued(edgeAttentionForward(&graph.g, p.edges.scale, &q, &k, &v, nullptr, &out, lse.data(), nullptr, 0,
                                      nullptr, &error),
                 error);
    EXPECT_EQ(o.values(), packed.o);
    EXPECT_EQ(lse.values(), packed.lse);
}

TEST(CudaEdges, EmptyGraphsAreLegal)
{
    expectSame(testing::makeEdges({0, 0, 0}, 5, 2, 8, 11), {}, 0);
    expectSame(testing::makeEdges({}, 5, 2, 8, 12), {}, 0);
    expectSame(testing::makeEdges({}, 0, 2, 8, 13), {}, 0);
}

TEST(CudaEdges, ChecksComeBeforeTheFirstLaunch)
{
    const EdgeProblem p = testing::makeEdges({3, 600}, 20, 2, 16, 14);
    const Graph graph(p);
    const Tensor q(p.q, 2, 2, 16, false, "q"), k(p.k, 20, 2, 16, false, "k"), v(p.v, 20, 2, 16, false, "v"),
        half(p.v, 20, 2, 16, true, "v"), o(std::vector<float>(p.q.size(), 7.0f), 2, 2, 16, false, "o", false);
    shim::Buffer<float> lse(4, "lse");
    shim::Buffer<unsigned char> space(size_t(edgeAttentionForwardWorkspace(&graph.g, 2, 16)), "workspace");
    const auto refuses = [&](const char* text, const MegagraphCudaEdgeGraph& g, const MegagraphCudaView* qView,
                             const MegagraphCudaView* vView, const MegagraphCudaDropout& dropout, int64_t bytes,
                             int32_t expected = MegagraphCudaInvalidInput) {
        MegagraphCudaError error{};
        EXPECT_EQ(edgeAttentionForward(&g, 1.0, qView, k.view(), vView, &dropout, o.view(), lse.data(), space.data(),
                                       bytes, nullptr, &error),
                  expected);
        EXPECT_EQ(error.code, expected);
        EXPECT_NE(std::string(error.text).find(text), std::string::npos) << error.text;
        EXPECT_EQ(o.values(), std::vector<float>(p.q.size(), 7.0f));
    };
    const int64_t bytes = int64_t(space.size());
    const MegagraphCudaDropout none{};
    MegagraphCudaEdgeGraph bad = graph.g;
    bad.indices = nullptr;
    refuses("indices", bad, q.view(), v.view(), none, bytes);
    bad = graph.g;
    bad.selfKey = 1;
    bad.selfOffset = 19;
    refuses("self keys", bad, q.view(), v.view(), none, bytes);
    bad = graph.g;
    bad.table = lse.data();
    refuses("entryClass", bad, q.view(), v.view(), none, bytes);
    refuses("workspace", graph.g, q.view(), v.view(), none, bytes - 1);
    refuses("types", graph.g, q.view(), half.view(), none, bytes);
    refuses("dropout", graph.g, q.view(), v.view(), {1.5, 0, 0, 0, 0, 0, 0}, bytes);
    MegagraphCudaView wide = *q.view();
    wide.dim = 129;
    refuses("129", graph.g, &wide, v.view(), none, bytes, MegagraphCudaUnsupported);
}

} // namespace
} // namespace megagraph::kernels::cuda
