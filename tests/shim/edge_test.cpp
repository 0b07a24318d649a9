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
    for (std::vector<float>* x : {&p.q, &p.k, &p.v, &p.dO, &p.u, &p.ds}) {
        for (float& value : *x)
            value = rounded(value);
    }
    p.edges.q = testing::widened(p.q);
    p.edges.k = testing::widened(p.k);
    p.edges.v = testing::widened(p.v);
    p.edges.u = testing::widened(p.u);
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

/// Device copy of a graph and its bias, u in the type of the tensors.
struct Graph {
    explicit Graph(const EdgeProblem& p, bool bf16 = false)
        : indptr(p.edges.indptr, "indptr", true), transposedIndptr(p.transposedIndptr, "transposedIndptr", true),
          transposedEntries(p.transposedEntries, "transposedEntries", true), indices(p.edges.indices, "indices", true),
          transposedRows(p.transposedRows, "transposedRows", true), keyNumbers(p.edges.keyNumbers, "keyNumbers", true),
          classes(p.edges.classes, "classes", true), table(p.table, "table", true), values(p.w, "values", true),
          u(p.u, p.entries(), p.edges.heads, p.edges.dim, bf16, "u")
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
        g.gt = e.kind == EdgeBiasKind::Gt ? 1 : 0;
        g.u = p.u.empty() ? nullptr : u.view()->data;
    }
    shim::Buffer<int64_t> indptr, transposedIndptr, transposedEntries;
    shim::Buffer<int32_t> indices, transposedRows, keyNumbers;
    shim::Buffer<uint8_t> classes;
    shim::Buffer<float> table, values;
    Tensor u;
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
    const Graph graph(p, numbers.bf16);
    const Tensor q(p.q, e.rows, e.heads, e.dim, numbers.bf16, "q"), k(p.k, e.keys, e.heads, e.dim, numbers.bf16, "k"),
        v(p.v, e.keys, e.heads, e.dim, numbers.bf16, "v"), dO(p.dO, e.rows, e.heads, e.dim, numbers.bf16, "dO");
    const Tensor o(std::vector<float>(p.q.size(), NAN), e.rows, e.heads, e.dim, numbers.bf16Out, "o", false);
    const Tensor s(std::vector<float>(p.u.size(), NAN), p.entries(), e.heads, e.dim, numbers.bf16, "s", false),
        ds(p.ds, p.entries(), e.heads, e.dim, numbers.bf16, "ds");
    shim::Buffer<float> du(p.u.size(), "du");
    shim::Buffer<float> lse(rowHeads, "lse"), dq(p.q.size(), "dq"), dk(p.k.size(), "dk"), dv(p.v.size(), "dv"),
        dw(p.w.size(), "dw");
    const MegagraphCudaDropout dropout{
        e.dropout.p, e.dropout.seed, e.dropout.step, e.dropout.item, e.dropout.layer, e.dropout.site, 0};
    MegagraphCudaError error{};
    const int64_t forwardBytes = edgeAttentionForwardWorkspace(&graph.g, e.heads, e.dim);
    shim::Buffer<unsigned char> space(size_t(forwardBytes), "workspace");
    expectQueued(edgeAttentionForward(&graph.g, e.scale, q.view(), k.view(), v.view(), &dropout, o.view(), lse.data(),
                                      p.u.empty() ? nullptr : s.view()->data, space.data(), forwardBytes, nullptr,
                                      &error),
                 error);
    const std::vector<float> out = o.values();
    std::vector<float> deltas(rowHeads);
    attentionDelta(contiguousHeads<const float>(out.data(), e.rows, e.heads, e.dim),
                   contiguousHeads<const float>(p.dO.data(), e.rows, e.heads, e.dim), deltas.data());
    const shim::Buffer<float> delta(deltas, "delta", true);
    shim::Buffer<double> table(std::vector<double>(bins, 0.0), "table gradient");
    const int64_t backwardBytes = edgeAttentionBackwardWorkspace(&graph.g, e.heads, e.dim);
    shim::Buffer<unsigned char> backwardSpace(size_t(backwardBytes), "workspace");
    const MegagraphCudaEdgeBiasGradient gradient{bins == 0 ? nullptr : table.data(), p.w.empty() ? nullptr : dw.data(),
                                                 p.ds.empty() ? nullptr : ds.view()->data,
                                                 p.u.empty() ? nullptr : du.data()};
    expectQueued(edgeAttentionBackward(&graph.g, e.scale, q.view(), k.view(), v.view(), dO.view(), lse.data(),
                                       delta.data(), &dropout, dq.data(), dk.data(), dv.data(), &gradient,
                                       backwardSpace.data(), backwardBytes, nullptr, &error),
                 error);
    for (const auto* buffer : {&lse, &dq, &dk, &dv, &dw, &du})
        EXPECT_TRUE(buffer->guardsIntact());
    return {out,         lse.values(), s.values(),  dq.values(),   dk.values(),
            dv.values(), dw.values(),  du.values(), table.values()};
}

void expectClose(const EdgeFast& got, const EdgeProblem& p, double outLimit, double sLimit)
{
    const reference::EdgeOutput out = reference::edgeForward(p.edges);
    const reference::EdgeGradients g = reference::edgeBackward(p.edges, testing::widened(p.dO), testing::widened(p.ds));
    const double limit = std::max(kFp32Limit, outLimit); // delta comes from the rounded o
    EXPECT_LE(testing::relativeError(got.o, out.o), outLimit);
    EXPECT_LE(testing::relativeError(got.lse, out.lse), kFp32Limit);
    EXPECT_LE(testing::relativeError(got.dq, g.dq, 1e-3), limit);
    EXPECT_LE(testing::relativeError(got.dk, g.dk, 1e-3), limit);
    EXPECT_LE(testing::relativeError(got.dv, g.dv), limit);
    EXPECT_LE(testing::relativeError(got.dw, g.dw, 1e-3), limit);
    EXPECT_LE(testing::relativeError(got.s, out.s), sLimit);
    EXPECT_LE(testing::relativeError(got.du, g.du, 1e-3), limit);
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
    expectClose(first, p, numbers.bf16Out ? 1e-2 : kFp32Limit, numbers.bf16 ? 1e-2 : kFp32Limit);
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

TEST(CudaEdges, GtHasItsClampItsTermAndAnEdgeStream)
{
    for (const bool stream : {true, false}) {
        for (const auto& [heads, dim] : std::vector<std::pair<int32_t, int32_t>>{{3, 16}, {1, 10}, {2, 64}}) {
            SCOPED_TRACE(std::to_string(heads) + " x " + std::to_string(dim) + (stream ? " with u" : ""));
            EdgeProblem p = testing::makeEdges({0, 1, 31, 513, 33, 1025}, 30, heads, dim, 7);
            testing::addGt(p, stream, 6);
            if (!stream) {
                p.edges.selfKey = true;
                p.edges.selfOffset = 3;
            } else if (heads == 3) {
                p.edges.dropout = {0.4, 11, 5, 1, 2, kSiteAttention};
            }
            expectSame(p, {}, heads == 3 ? 3 : 1);
            roundTensors(p);
            expectSame(p, {true, true}, 0);
            if (!stream)
                continue;
            p.ds.clear(); // the last layer: nothing comes back through the edge stream
            expectSame(p, {true, false}, 0);
        }
    }
}

TEST(CudaEdges, StatesOfKeyIntervalsJoinToTheWholeRow)
{
    for (const bool gt : {false, true}) {
        SCOPED_TRACE(gt ? "gt" : "plain");
        const std::vector<int64_t> degrees{0, 3, 700, 40};
        std::vector<EdgeProblem> parts{testing::makeEdges(degrees, 30, 2, 16, 8),
                                       testing::makeEdges({2, 0, 1100, 5}, 20, 2, 16, 9),
                                       testing::makeEdges({0, 0, 0, 0}, 20, 2, 16, 10)};
        EdgeProblem whole = parts[0]; // the keys of the intervals one behind another
        for (EdgeProblem& p : parts) {
            p.q = whole.q;
            if (gt)
                testing::addGt(p, true, 6);
            p.edges.q = testing::widened(p.q);
        }
        whole = parts[0];
        whole.k.clear(), whole.v.clear(), whole.u.clear();
        whole.edges.indices.clear();
        whole.edges.indptr = {0};
        for (size_t n = 0; n < 4; ++n) {
            int64_t before = 0;
            for (const EdgeProblem& p : parts) {
                const auto from = size_t(p.edges.indptr[n]), to = size_t(p.edges.indptr[n + 1]);
                for (size_t e = from; e < to; ++e)
                    whole.edges.indices.push_back(int32_t(before + p.edges.indices[e]));
                if (gt)
                    whole.u.insert(whole.u.end(), p.u.begin() + int64_t(from * 32), p.u.begin() + int64_t(to * 32));
                before += p.edges.keys;
            }
            whole.edges.indptr.push_back(int64_t(whole.edges.indices.size()));
        }
        whole.edges.keys = 0;
        for (const EdgeProblem& p : parts) {
            whole.k.insert(whole.k.end(), p.k.begin(), p.k.end());
            whole.v.insert(whole.v.end(), p.v.begin(), p.v.end());
            whole.edges.keys += p.edges.keys;
        }
        whole.edges.k = testing::widened(whole.k);
        whole.edges.v = testing::widened(whole.v);
        whole.edges.u = testing::widened(whole.u);
        whole.edges.q = parts[0].edges.q;
        const reference::EdgeOutput expected = reference::edgeForward(whole.edges);

        std::vector<float> firstAcc;
        for (const shim::Order order : shim::allOrders(1)) {
            shim::setOrder(order);
            shim::Buffer<float> m(8, "m"), l(8, "l"), acc(4 * 32, "acc");
            const MegagraphCudaState state{m.data(), l.data(), acc.data()};
            for (size_t i = 0; i < parts.size(); ++i) { // one state, updated
                const EdgeProblem& p = parts[i];
                const Graph graph(p);
                const Tensor q(p.q, 4, 2, 16, false, "q"), k(p.k, p.edges.keys, 2, 16, false, "k"),
                    v(p.v, p.edges.keys, 2, 16, false, "v");
                MegagraphCudaError error{};
                const int64_t bytes = edgeAttentionForwardWorkspace(&graph.g, 2, 16);
                shim::Buffer<unsigned char> space(size_t(bytes), "workspace");
                expectQueued(edgeAttentionPartial(&graph.g, p.edges.scale, q.view(), k.view(), v.view(), nullptr,
                                                  i == 0 ? 1 : 0, &state, nullptr, space.data(), bytes, nullptr,
                                                  &error),
                             error);
            }
            std::vector<float> hostM = m.values(), hostL = l.values(), hostAcc = acc.values(), o(4 * 32), lse(8);
            // states are those of the CPU kernels, which finish them
            edgeAttentionFinish(4, 2, 16, gt ? EdgeBiasKind::Gt : EdgeBiasKind::None,
                                {hostM.data(), hostL.data(), hostAcc.data()}, contiguousHeads(o.data(), 4, 2, 16),
                                lse.data());
            EXPECT_LE(testing::relativeError(o, expected.o), kFp32Limit);
            EXPECT_LE(testing::relativeError(lse, expected.lse), kFp32Limit);
            EXPECT_TRUE(firstAcc.empty() || firstAcc == hostAcc) << "bits depend on the order of threads";
            firstAcc = hostAcc;
        }
        shim::setOrder({});
    }
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
    expectQueued(edgeAttentionForward(&graph.g, p.edges.scale, &q, &k, &v, nullptr, &out, lse.data(), nullptr, nullptr,
                                      0, nullptr, &error),
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
        EXPECT_EQ(edgeAttentionForward(&g, 1.0, qView, k.view(), vView, &dropout, o.view(), lse.data(), nullptr,
                                       space.data(), bytes, nullptr, &error),
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
    bad = graph.g;
    bad.u = lse.data();
    refuses("u without gt", bad, q.view(), v.view(), none, bytes);
    bad.gt = 1;
    bad.selfKey = 1;
    refuses("self keys", bad, q.view(), v.view(), none, bytes);
    bad = graph.g;
    bad.gt = 1;
    bad.entryBias = lse.data();
    refuses("gt with", bad, q.view(), v.view(), none, bytes);
    refuses("workspace", graph.g, q.view(), v.view(), none, bytes - 1);
    refuses("types", graph.g, q.view(), half.view(), none, bytes);
    refuses("dropout", graph.g, q.view(), v.view(), {1.5, 0, 0, 0, 0, 0, 0}, bytes);
    MegagraphCudaView wide = *q.view();
    wide.dim = 129;
    refuses("129", graph.g, &wide, v.view(), none, bytes, MegagraphCudaUnsupported);
}

} // namespace
} // namespace megagraph::kernels::cuda
