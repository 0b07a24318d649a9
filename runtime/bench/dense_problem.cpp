// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/dense_problem.h"

#include "core/random.h"
#include "kernels/reference/attention.h"
#include "runtime/functions/support.h"

#include <algorithm>
#include <cmath>

namespace megagraph::runtime::bench {
namespace {

using namespace kernels;

template <class T> HeadView<T> view(const at::Tensor& t)
{
    return contiguousHeads<T>(static_cast<T*>(t.data_ptr()), t.size(0), int32_t(t.size(1)), int32_t(t.size(2)));
}

void* aligned(const at::Tensor& work)
{
    const auto address = reinterpret_cast<uintptr_t>(work.data_ptr());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
}

std::vector<double> wide(const at::Tensor& t)
{
    const at::Tensor d = t.to(at::kDouble).contiguous();
    const double* const p = d.const_data_ptr<double>();
    return {p, p + d.numel()};
}

double relativeError(const at::Tensor& got, const std::vector<int64_t>& rows, const std::vector<double>& expected)
{
    const std::vector<double> values = wide(got.index_select(0, at::tensor(at::ArrayRef<int64_t>(rows), at::kLong)));
    double difference = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        difference += (values[i] - expected[i]) * (values[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

template <class T>
void runForward(const AttentionShape& shape, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Bias& bias, at::Tensor& o,
                at::Tensor& lse, const at::Tensor& work, const ParallelFor& parallel)
{
    require(attentionForward(shape, view<const T>(q), view<const T>(k), view<const T>(v), bias, {}, view<T>(o), lse.data_ptr<float>(),
                             aligned(work), parallel));
}

template <class T>
void runBackward(const AttentionShape& shape, const at::Tensor (&in)[5], const at::Tensor& lse, const at::Tensor& delta, const Bias& bias,
                 const at::Tensor (&out)[3], double* partials, const at::Tensor& work, const ParallelFor& parallel)
{
    attentionDelta(view<const T>(in[4]), view<const T>(in[3]), delta.data_ptr<float>());
    require(attentionBackward(shape, view<const T>(in[0]), view<const T>(in[1]), view<const T>(in[2]), view<const T>(in[3]),
                              lse.data_ptr<float>(), delta.data_ptr<float>(), bias, {}, out[0].data_ptr<float>(),
                              out[1].data_ptr<float>(), out[2].data_ptr<float>(), partials, aligned(work), parallel));
}

} // namespace

DenseProblem::DenseProblem(const DenseSize& size, int32_t threads, const Csr* graph) : size_(size), threads_(threads)
{
    const auto random = [&](int64_t rows) {
        return at::randn({rows, size.heads, size.dim}).to(size.bf16 ? at::kBFloat16 : at::kFloat);
    };
    at::manual_seed(1);
    q_ = random(size.rows()), k_ = random(size.tokens), v_ = random(size.tokens), dO_ = random(size.rows());
    table_ = at::randn({size.heads, kHops + 4});
    shifted_ = (table_ - table_.select(1, kHops + 1).unsqueeze(1)).contiguous();
    component_.assign(size_t(size.tokens), 0); // pairs of other components count as far, for the peer too
    if (graph == nullptr)
        return;
    graph_ = *graph;
    const std::vector<int64_t> cuts{0, size.tokens};
    lists_ = std::move(require(buildTileLists(graph_.view(), kHops, 0, size.rows(), cuts, ForkJoinFor(threads), {}))[0]);
}

Bias DenseProblem::bias(BiasUse use) const
{
    Bias b;
    if (use == BiasUse::None)
        return b;
    b.hops = kHops;
    b.classes = kHops + 4;
    b.table = shifted_.const_data_ptr<float>();
    b.queryComponent = std::span(component_).first(size_t(size_.rows()));
    b.keyComponent = component_;
    b.lists = lists_.view();
    return b;
}

AttentionShape DenseProblem::shape() const
{
    AttentionShape s;
    s.queries = size_.rows();
    s.keys = size_.tokens;
    s.heads = size_.heads;
    s.dim = size_.dim;
    s.scale = 1.0 / std::sqrt(double(size_.dim));
    // the rule of the design: fixed by the plan, not by the threads of one call
    s.kvSplits = size_.heads >= 2 * threads_ ? 1 : std::min(16, (2 * threads_ + size_.heads - 1) / size_.heads);
    return s;
}

void DenseProblem::forward(BiasUse use, const ParallelFor& parallel)
{
    const AttentionShape s = shape();
    o_ = lse_ = at::Tensor();
    o_ = at::empty_like(q_);
    lse_ = at::empty({size_.heads, s.queries});
    const at::Tensor work = at::empty({attentionForwardWorkspace(s, parallel.slots()) + 64}, at::kByte);
    if (size_.bf16)
        runForward<Bfloat16>(s, q_, k_, v_, bias(use), o_, lse_, work, parallel);
    else
        runForward<float>(s, q_, k_, v_, bias(use), o_, lse_, work, parallel);
}

void DenseProblem::backward(BiasUse use, const ParallelFor& parallel)
{
    const AttentionShape s = shape();
    dq_ = at::Tensor();
    const auto zeros = [&](int64_t rows) { return at::zeros({rows, size_.heads, size_.dim}); };
    const at::Tensor in[5] = {q_, k_, v_, dO_, o_}, out[3] = {zeros(s.queries), zeros(s.keys), zeros(s.keys)};
    const at::Tensor delta = at::empty({size_.heads, s.queries});
    const at::Tensor work = at::empty({attentionBackwardWorkspace(s, parallel.slots()) + 64}, at::kByte);
    std::vector<double> partials(use == BiasUse::Learned ? size_t(size_.heads) * size_t(s.kvSplits) * size_t(kHops + 4) : 0, 0.0);
    double* const table = use == BiasUse::Learned ? partials.data() : nullptr;
    if (size_.bf16)
        runBackward<Bfloat16>(s, in, lse_, delta, bias(use), out, table, work, parallel);
    else
        runBackward<float>(s, in, lse_, delta, bias(use), out, table, work, parallel);
    dq_ = out[0];
    if (table == nullptr)
        return;
    std::vector<double> summed(size_t(size_.heads) * size_t(kHops + 4));
    const at::Tensor gradient = at::empty_like(table_);
    tableGradient(size_.heads, s.kvSplits, kHops + 4, table, summed.data());
    closeFarBin(size_.heads, kHops, summed.data(), gradient.data_ptr<float>());
}

const at::Tensor& DenseProblem::classes()
{
    if (classes_.defined())
        return classes_;
    classes_ = at::empty({size_.rows(), size_.tokens}, at::kInt);
    int32_t* const out = classes_.data_ptr<int32_t>();
    ForkJoinFor(threads_).run(size_.rows(), [&](int64_t i, int32_t) {
        const std::vector<uint8_t> row = plainDistances(graph_.view(), i, kHops);
        std::copy(row.begin(), row.end(), out + i * size_.tokens);
    });
    return classes_;
}

const DenseProblem::Sampled& DenseProblem::sampled(bool withBias, bool withGradient)
{
    Sampled& sample = reference_[withBias ? 1 : 0];
    if (!sample.o.empty() && (!withGradient || !sample.dq.empty()))
        return sample;
    const int64_t count = std::min<int64_t>(64, size_.rows());
    sample.rows.clear();
    for (int64_t i = 0; i < count; ++i)
        sample.rows.push_back(int64_t(drawBelow(7, 1, uint64_t(i), uint64_t(size_.rows()))));
    const auto heads = size_t(size_.heads), dim = size_t(size_.dim);
    sample.o.assign(size_t(count) * heads * dim, 0.0);
    sample.dq.assign(withGradient ? sample.o.size() : 0, 0.0);
    std::vector<uint8_t> classes;
    for (const int64_t row : sample.rows)
        if (withBias) {
            const std::vector<uint8_t> line = plainDistances(graph_.view(), row, kHops);
            classes.insert(classes.end(), line.begin(), line.end());
        }
    const at::Tensor index = at::tensor(at::ArrayRef<int64_t>(sample.rows), at::kLong);
    ForkJoinFor(threads_).run(size_.heads, [&](int64_t h, int32_t) {
        const auto head = [&](const at::Tensor& t) { return wide(t.select(1, h)); };
        reference::Dense p;
        p.queries = count, p.keys = size_.tokens, p.heads = 1, p.dim = size_.dim, p.scale = shape().scale;
        p.q = head(q_.index_select(0, index)), p.k = head(k_), p.v = head(v_);
        if (withBias) {
            p.classes = classes;
            p.classCount = kHops + 4;
            p.table = wide(table_.select(0, h));
        }
        const auto put = [&](const std::vector<double>& from, std::vector<double>& to) {
            for (size_t i = 0; i < size_t(count); ++i)
                std::copy_n(from.begin() + std::ptrdiff_t(i * dim), dim, to.begin() + std::ptrdiff_t((i * heads + size_t(h)) * dim));
        };
        put(reference::denseForward(p).o, sample.o);
        if (withGradient)
            put(reference::denseBackward(p, head(dO_.index_select(0, index))).dq, sample.dq);
    });
    return sample;
}

double DenseProblem::forwardError(BiasUse use)
{
    const Sampled& expected = sampled(use != BiasUse::None, false);
    return relativeError(o_, expected.rows, expected.o);
}

double DenseProblem::backwardError(BiasUse use)
{
    const Sampled& expected = sampled(use != BiasUse::None, true);
    return relativeError(dq_, expected.rows, expected.dq);
}

} // namespace megagraph::runtime::bench
