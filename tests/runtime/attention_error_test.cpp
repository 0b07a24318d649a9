// SPDX-License-Identifier: Apache-2.0
// Rounding of the dense kernels beside LibTorch's own on the same input, both against fp64 (models design, section 8: never
// over twice its error).
#include "runtime/pch.h"

#include "core/random.h"
#include "kernels/attention.h"
#include "kernels/graph/tiles.h"
#include "runtime/functions/support.h"

#include <gtest/gtest.h>

namespace megagraph::runtime {
namespace {

constexpr int32_t kHops = 3, kClasses = kHops + 4;

kernels::Csr graphOf(int64_t nodes)
{
    kernels::Csr csr;
    csr.indptr.push_back(0);
    for (int64_t i = 0; i < nodes; ++i) { // a path with two chords per node
        csr.indices.push_back(int32_t((i + 1) % nodes));
        for (uint64_t e = 0; e < 2; ++e)
            csr.indices.push_back(int32_t(drawBelow(1, 1, uint64_t(i) * 2 + e, uint64_t(nodes))));
        csr.indptr.push_back(int64_t(csr.indices.size()));
    }
    return kernels::symmetrised(csr.view());
}

struct Problem {
    int64_t tokens;
    int32_t heads, dim;
    at::Tensor q, k, v, dO; // [N, H, d_h] in the type under test
    at::Tensor table;       // [H, B] fp32; its values are bf16 numbers, so that a bf16 bias is no rounding of the peer's
    at::Tensor classes;     // int64 [N, N]
    kernels::TileLists lists;
    std::vector<int32_t> component;
};

Problem makeProblem(int64_t tokens, int32_t heads, int32_t dim, at::ScalarType type)
{
    at::manual_seed(3);
    Problem p{tokens, heads, dim, {}, {}, {}, {}, {}, {}, {}, std::vector<int32_t>(size_t(tokens), 0)};
    for (at::Tensor* t : {&p.q, &p.k, &p.v, &p.dO})
        *t = at::randn({tokens, heads, dim}).to(type);
    p.table = at::randn({heads, kClasses}).to(at::kBFloat16).to(at::kFloat);
    const kernels::Csr graph = graphOf(tokens);
    const std::vector<int64_t> cuts{0, tokens};
    p.lists = std::move(require(kernels::buildTileLists(graph.view(), kHops, 0, tokens, cuts, kernels::SerialFor(), {}))[0]);
    p.classes = at::empty({tokens, tokens}, at::kLong);
    for (int64_t i = 0; i < tokens; ++i) {
        const std::vector<uint8_t> row = kernels::plainDistances(graph.view(), i, kHops);
        std::copy(row.begin(), row.end(), p.classes.data_ptr<int64_t>() + i * tokens);
    }
    return p;
}

using Results = std::map<std::string, at::Tensor>; // o, dq, dk, dv [N, H, d_h]; db [H, B]

at::Tensor headsFirst(const at::Tensor& t) { return t.transpose(0, 1).unsqueeze(0); } // -> [1, H, N, d_h]

/// LibTorch in `type`: its attention, or in fp64 the formula written out.
Results byLibTorch(const Problem& p, at::ScalarType type)
{
    const at::AutoGradMode mode(true);
    const auto leaf = [&](const at::Tensor& t) { return t.detach().to(type).clone().requires_grad_(true); };
    const at::Tensor q = leaf(p.q), k = leaf(p.k), v = leaf(p.v), table = leaf(p.table);
    const at::Tensor bias = table.index({at::indexing::Slice(), p.classes}).unsqueeze(0);
    at::Tensor o;
    if (type == at::kDouble) {
        const at::Tensor scores = at::matmul(headsFirst(q), headsFirst(k).transpose(-1, -2)) / std::sqrt(double(p.dim)) + bias;
        o = at::matmul(at::softmax(scores, -1), headsFirst(v));
    } else {
        o = at::scaled_dot_product_attention(headsFirst(q), headsFirst(k), headsFirst(v), bias);
    }
    const at::Tensor stored = o.squeeze(0).transpose(0, 1);
    stored.backward(p.dO.to(type));
    return {{"o", stored.detach()}, {"dq", q.grad()}, {"dk", k.grad()}, {"dv", v.grad()}, {"db", table.grad()}};
}

template <class T> kernels::HeadView<T> view(const at::Tensor& t)
{
    return kernels::contiguousHeads<T>(static_cast<T*>(t.data_ptr()), t.size(0), int32_t(t.size(1)), int32_t(t.size(2)));
}

template <class T> Results byKernels(const Problem& p)
{
    kernels::AttentionShape shape;
    shape.queries = shape.keys = p.tokens;
    shape.heads = p.heads;
    shape.dim = p.dim;
    shape.scale = 1 / std::sqrt(double(p.dim));
    const at::Tensor shifted = (p.table - p.table.narrow(1, kHops + 1, 1)).contiguous();
    kernels::Bias bias;
    bias.hops = kHops;
    bias.classes = kClasses;
    bias.table = shifted.const_data_ptr<float>();
    bias.queryComponent = bias.keyComponent = p.component;
    bias.lists = p.lists.view();
    const kernels::SerialFor serial;
    const auto zeros = [&] { return at::zeros({p.tokens, p.heads, p.dim}); };
    const at::Tensor o = at::empty_like(p.q), lse = at::empty({p.heads, p.tokens}), delta = at::empty_like(lse);
    const at::Tensor dq = zeros(), dk = zeros(), dv = zeros(), db = at::empty_like(p.table);
    std::vector<double> partials(size_t(p.heads) * kClasses, 0.0), sums(partials.size(), 0.0);
    at::Tensor work = at::empty({kernels::attentionForwardWorkspace(shape, 1)}, at::kByte);
    require(kernels::attentionForward(shape, view<const T>(p.q), view<const T>(p.k), view<const T>(p.v), bias, {}, view<T>(o),
                                      lse.data_ptr<float>(), work.data_ptr(), serial));
    kernels::attentionDelta(view<const T>(o), view<const T>(p.dO), delta.data_ptr<float>());
    work = at::empty({kernels::attentionBackwardWorkspace(shape, 1)}, at::kByte);
    require(kernels::attentionBackward(shape, view<const T>(p.q), view<const T>(p.k), view<const T>(p.v), view<const T>(p.dO),
                                       lse.data_ptr<float>(), delta.data_ptr<float>(), bias, {}, dq.data_ptr<float>(),
                                       dk.data_ptr<float>(), dv.data_ptr<float>(), partials.data(), work.data_ptr(), serial));
    kernels::tableGradient(p.heads, 1, kClasses, partials.data(), sums.data());
    kernels::closeFarBin(p.heads, kHops, sums.data(), db.data_ptr<float>());
    return {{"o", o}, {"dq", dq}, {"dk", dk}, {"dv", dv}, {"db", db}};
}

double errorOf(const at::Tensor& got, const at::Tensor& exact)
{
    return ((got.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

template <class T> void neverTwiceTheError(at::ScalarType type)
{
    for (const auto& [tokens, heads, dim] : {std::tuple{int64_t(257), 3, 64}, std::tuple{int64_t(640), 2, 32}, std::tuple{int64_t(130), 1, 128}}) {
        const Problem p = makeProblem(tokens, heads, dim, type);
        const Results exact = byLibTorch(p, at::kDouble), theirs = byLibTorch(p, type), ours = byKernels<T>(p);
        for (const auto& [name, value] : exact)
            EXPECT_LE(errorOf(ours.at(name), value), 2 * errorOf(theirs.at(name), value))
                << name << ", N = " << tokens << ", H = " << heads << ", d_h = " << dim << ", " << toString(type);
    }
}

TEST(AttentionError, OfFp32IsNeverTwiceThatOfLibTorch) { neverTwiceTheError<float>(at::kFloat); }

TEST(AttentionError, OfBf16IsNeverTwiceThatOfLibTorch) { neverTwiceTheError<kernels::Bfloat16>(at::kBFloat16); }

} // namespace
} // namespace megagraph::runtime
