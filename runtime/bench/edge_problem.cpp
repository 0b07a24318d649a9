// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/edge_problem.h"

#include "core/random.h"
#include "kernels/attention.h"
#include "runtime/functions/support.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace megagraph::runtime::bench {
namespace {

using kernels::HeadView;

HeadView<float> view(const at::Tensor& t)
{
    return kernels::contiguousHeads(t.data_ptr<float>(), t.size(0), 1, int32_t(t.size(1)));
}

at::Tensor longs(const std::vector<int64_t>& v) { return at::tensor(at::ArrayRef<int64_t>(v), at::kLong); }
at::Tensor longs(const std::vector<int32_t>& v) { return at::tensor(at::ArrayRef<int32_t>(v), at::kInt).to(at::kLong); }

double dot(const float* a, const float* b, int32_t dim)
{
    double sum = 0;
    for (int32_t x = 0; x < dim; ++x)
        sum += double(a[x]) * double(b[x]);
    return sum;
}

} // namespace

EdgeProblem::EdgeProblem(kernels::Csr graph, int32_t dim)
    : csr_(std::move(graph)), nodes_(csr_.view().nodes), dim_(dim), scale_(1 / std::sqrt(double(dim)))
{
    transposed_ = kernels::transposed(csr_.view(), nodes_);
    graph_.rows = graph_.keys = nodes_;
    graph_.indptr = csr_.indptr, graph_.indices = csr_.indices;
    graph_.transposedIndptr = transposed_.indptr, graph_.transposedRows = transposed_.rows, graph_.transposedEntries = transposed_.entries;
    at::manual_seed(1);
    q_ = at::randn({nodes_, dim}), k_ = at::randn({nodes_, dim}), v_ = at::randn({nodes_, dim}), dO_ = at::randn({nodes_, dim});
    indptr_ = longs(csr_.indptr);
    column_ = longs(csr_.indices);
    row_ = at::repeat_interleave(at::arange(nodes_), indptr_.slice(0, 1) - indptr_.slice(0, 0, -1));
    transposedIndptr_ = longs(transposed_.indptr);
    transposedColumn_ = longs(transposed_.rows);
    transposedEntry_ = longs(transposed_.entries);
}

void EdgeProblem::forward(const kernels::ParallelFor& parallel)
{
    o_ = lse_ = at::Tensor();
    o_ = at::empty_like(q_);
    lse_ = at::empty({1, nodes_});
    require(kernels::edgeAttentionForward(graph_, scale_, view(q_), view(k_), view(v_), kernels::Dropout{}, view(o_), lse_.data_ptr<float>(), parallel));
}

void EdgeProblem::backward(const kernels::ParallelFor& parallel)
{
    const at::Tensor delta = at::empty({1, nodes_}), dk = at::empty_like(k_), dv = at::empty_like(v_);
    dq_ = at::Tensor();
    dq_ = at::empty_like(q_);
    kernels::attentionDelta(HeadView<const float>(view(o_)), HeadView<const float>(view(dO_)), delta.data_ptr<float>());
    const at::Tensor work = at::empty({kernels::edgeAttentionBackwardWorkspace(nodes_, 1) + 64}, at::kByte);
    const auto aligned = (reinterpret_cast<uintptr_t>(work.data_ptr()) + 63) / 64 * 64;
    require(kernels::edgeAttentionBackward(graph_, scale_, view(q_), view(k_), view(v_), view(dO_), lse_.data_ptr<float>(), delta.data_ptr<float>(),
                                           kernels::EdgeBias{}, kernels::Dropout{}, dq_.data_ptr<float>(), dk.data_ptr<float>(), dv.data_ptr<float>(),
                                           {}, reinterpret_cast<void*>(aligned), parallel));
}

double EdgeProblem::error(bool gradient) const
{
    const float *q = q_.const_data_ptr<float>(), *k = k_.const_data_ptr<float>(), *v = v_.const_data_ptr<float>(), *dO = dO_.const_data_ptr<float>();
    const float* const got = gradient ? dq_.const_data_ptr<float>() : o_.const_data_ptr<float>();
    double difference = 0, norm = 0;
    for (uint64_t sample = 0; sample < 64; ++sample) {
        const auto i = int64_t(drawBelow(7, 1, sample, uint64_t(nodes_)));
        const int64_t begin = csr_.indptr[size_t(i)], end = csr_.indptr[size_t(i) + 1];
        std::vector<double> p, expected(size_t(dim_), 0.0);
        double most = -1e300, sum = 0, delta = 0;
        for (int64_t e = begin; e < end; ++e)
            most = std::max(most, p.emplace_back(scale_ * dot(q + i * dim_, k + int64_t(csr_.indices[size_t(e)]) * dim_, dim_)));
        for (double& x : p)
            sum += x = std::exp(x - most);
        for (int64_t e = begin; e < end; ++e)
            delta += (p[size_t(e - begin)] /= sum) * dot(dO + i * dim_, v + int64_t(csr_.indices[size_t(e)]) * dim_, dim_);
        for (int64_t e = begin; e < end; ++e) {
            const int64_t j = csr_.indices[size_t(e)];
            const double weight = gradient ? scale_ * p[size_t(e - begin)] * (dot(dO + i * dim_, v + j * dim_, dim_) - delta) : p[size_t(e - begin)];
            for (int32_t x = 0; x < dim_; ++x)
                expected[size_t(x)] += weight * double((gradient ? k : v)[j * dim_ + x]);
        }
        for (int32_t x = 0; x < dim_; ++x) {
            const double off = double(got[i * dim_ + x]) - expected[size_t(x)];
            difference += off * off;
            norm += expected[size_t(x)] * expected[size_t(x)];
        }
    }
    return std::sqrt(difference / std::max(1e-300, norm));
}

at::Tensor EdgeProblem::gatherScatter(bool withBackward)
{
    const at::AutoGradMode mode(withBackward);
    const auto leaf = [&](const at::Tensor& t) { return t.detach().requires_grad_(withBackward); };
    const at::Tensor q = leaf(q_), k = leaf(k_), v = leaf(v_);
    const at::Tensor s = (q.index_select(0, row_) * k.index_select(0, column_)).sum(1) * scale_;
    const at::Tensor most = at::full({nodes_}, -1e30).scatter_reduce(0, row_, s.detach(), "amax");
    const at::Tensor w = (s - most.index_select(0, row_)).exp();
    const at::Tensor sum = at::zeros({nodes_}).index_add(0, row_, w);
    const at::Tensor a = w / sum.index_select(0, row_);
    const at::Tensor o = at::zeros({nodes_, dim_}).index_add(0, row_, a.unsqueeze(1) * v.index_select(0, column_));
    if (!withBackward)
        return o;
    o.backward(dO_);
    return q.grad();
}

at::Tensor EdgeProblem::matrix(const at::Tensor& values, bool transposed) const
{
    if (!transposed)
        return at::_sparse_csr_tensor_unsafe(indptr_, column_, values, {nodes_, nodes_}, at::kFloat);
    return at::_sparse_csr_tensor_unsafe(transposedIndptr_, transposedColumn_, values.index_select(0, transposedEntry_), {nodes_, nodes_}, at::kFloat);
}

at::Tensor EdgeProblem::sparseProducts(bool withBackward)
{
    const at::NoGradGuard none;
    const auto sampled = [&](const at::Tensor& a, const at::Tensor& b, double factor) {
        return at::sparse_sampled_addmm(matrix(at::zeros({entries()}), false), a, b.t(), 0, factor).values();
    };
    const auto perRow = [&](const at::Tensor& x, const char* how, double empty) {
        return at::segment_reduce(x, how, {}, {}, indptr_, 0, true, empty).index_select(0, row_);
    };
    const at::Tensor s = sampled(q_, k_, scale_);
    const at::Tensor w = (s - perRow(s, "max", -1e30)).exp();
    const at::Tensor p = w / perRow(w, "sum", 0);
    const at::Tensor o = at::mm(matrix(p, false), v_);
    if (!withBackward)
        return o;
    const at::Tensor dv = at::mm(matrix(p, true), dO_);
    const at::Tensor delta = (o * dO_).sum(1).index_select(0, row_);
    const at::Tensor dS = p * (sampled(dO_, v_, 1) - delta) * scale_;
    const at::Tensor dk = at::mm(matrix(dS, true), q_);
    return at::mm(matrix(dS, false), k_);
}

} // namespace megagraph::runtime::bench
