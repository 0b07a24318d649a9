// SPDX-License-Identifier: Apache-2.0
#include "runtime/functions/support.h"

#include "kernels/dropout.h"
#include "runtime/allocator.h"
#include "runtime/functions/basic.h"

namespace megagraph::runtime {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct DropoutState { kernels::Dropout dropout; int64_t row0, threads; };

at::Tensor applied(const at::Tensor& x, const DropoutState& s)
{
    const at::Tensor in = x.contiguous();
    at::Tensor out = at::empty_like(in);
    const kernels::ForkJoinFor parallel{int32_t(s.threads)};
    kernels::dropoutApply(s.dropout, in.size(0), in.size(1), s.row0, 0, in.data_ptr<float>(), out.data_ptr<float>(), parallel);
    return out;
}

class DropoutFunction : public Function<DropoutFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x, DropoutState state)
    {
        keep(context, state);
        return applied(x, state);
    }
    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        return {applied(gradients[0], kept<DropoutState>(context)), at::Tensor()};
    }
};

struct GatherState { std::vector<int64_t> rows; Communicator* context; };

class GatherFunction : public Function<GatherFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& x, GatherState state)
    {
        at::Tensor all = state.context->allGatherRows(x.contiguous(), state.rows);
        keep(context, std::move(state));
        return all;
    }
    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        const GatherState& state = kept<GatherState>(context);
        return {state.context->reduceScatterRows(gradients[0].contiguous(), state.rows), at::Tensor()};
    }
};

at::Tensor packed(const at::Tensor& a, const at::Tensor& b)
{
    const MemoryScope scope(MemoryCategory::Buffers, "gather", "keys and values");
    return at::cat({a, b}, 1);
}

class GatherPairFunction : public Function<GatherPairFunction> {
  public:
    static variable_list forward(AutogradContext* context, const at::Tensor& k, const at::Tensor& v, GatherState state)
    {
        const int64_t d = k.size(1);
        const at::Tensor all = state.context->allGatherRows(packed(k, v), state.rows);
        keep(context, std::move(state));
        return {all.narrow(1, 0, d).contiguous(), all.narrow(1, d, d).contiguous()};
    }
    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        const GatherState& state = kept<GatherState>(context);
        const int64_t d = gradients[0].size(1);
        const at::Tensor own = state.context->reduceScatterRows(packed(gradients[0], gradients[1]), state.rows);
        return {own.narrow(1, 0, d).contiguous(), own.narrow(1, d, d).contiguous(), at::Tensor()};
    }
};

struct ProductState { SparsePattern pattern; int64_t threads; };

constexpr int64_t kRowsPerTask = 64;

/// out[r, :] = sum over entries of row r of value * x[other end, :], entries in order.
template <class Entry>
void gatherSum(int64_t rows, std::span<const int64_t> indptr, int64_t width, const float* x, float* out, int64_t threads, const Entry& entry)
{
    kernels::ForkJoinFor(int32_t(threads)).run((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int32_t) {
        for (int64_t r = task * kRowsPerTask; r < std::min(rows, (task + 1) * kRowsPerTask); ++r) {
            float* to = out + r * width;
            std::fill(to, to + width, 0.0f);
            for (int64_t e = indptr[size_t(r)]; e < indptr[size_t(r) + 1]; ++e) {
                const auto [source, value] = entry(e);
                const float* from = x + source * width;
                for (int64_t c = 0; c < width; ++c)
                    to[c] += value * from[c];
            }
        }
    });
}

class ProductFunction : public Function<ProductFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& values, const at::Tensor& x, ProductState state)
    {
        const SparsePattern& p = state.pattern;
        const at::Tensor in = x.contiguous();
        at::Tensor out = at::empty({p.rows, in.size(1)}, at::kFloat);
        const float* value = values.data_ptr<float>();
        gatherSum(p.rows, p.indptr, in.size(1), in.data_ptr<float>(), out.data_ptr<float>(), state.threads,
                  [&](int64_t e) { return std::pair(int64_t(p.indices[size_t(e)]), value[e]); });
        context->save_for_backward({values});
        keep(context, state);
        return out;
    }
    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        const ProductState& state = kept<ProductState>(context);
        const SparsePattern& p = state.pattern;
        const at::Tensor values = context->get_saved_variables()[0], gradient = gradients[0].contiguous();
        at::Tensor dx = at::empty({p.columns, gradient.size(1)}, at::kFloat);
        const float* value = values.data_ptr<float>();
        gatherSum(p.columns, p.transposedIndptr, gradient.size(1), gradient.data_ptr<float>(), dx.data_ptr<float>(), state.threads,
                  [&](int64_t e) { return std::pair(int64_t(p.transposedRows[size_t(e)]), value[p.transposedEntries[size_t(e)]]); });
        return {at::Tensor(), dx, at::Tensor()};
    }
};

using Run = std::function<at::Tensor(const at::Tensor&)>;

class RecomputeFunction : public Function<RecomputeFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& h, at::TensorList parameters, Run run)
    {
        at::Tensor out = run(h);
        variable_list saved{h};
        saved.insert(saved.end(), parameters.begin(), parameters.end());
        context->save_for_backward(saved);
        keep(context, std::move(run));
        return out;
    }
    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        variable_list inputs = context->get_saved_variables();
        inputs[0] = inputs[0].detach().requires_grad_(true);
        variable_list result;
        {
            const at::AutoGradMode enabled(true);
            const at::Tensor out = kept<Run>(context)(inputs[0]);
            result = torch::autograd::grad({out}, inputs, {gradients[0]}, std::nullopt, false, true);
        }
        result.emplace_back();
        return result;
    }
};

} // namespace

at::Tensor dropout(const at::Tensor& x, const kernels::Dropout& dropout, int64_t row0, int64_t threads)
{
    return dropout.p > 0 ? DropoutFunction::apply(x, DropoutState{dropout, row0, threads}) : x;
}

at::Tensor gatherRows(const at::Tensor& x, const std::vector<int64_t>& rows, Communicator* context)
{
    return context && context->size() > 1 ? GatherFunction::apply(x, GatherState{rows, context}) : x;
}

std::pair<at::Tensor, at::Tensor> gatherPair(const at::Tensor& k, const at::Tensor& v, const std::vector<int64_t>& rows,
                                             Communicator* context)
{
    if (!context || context->size() == 1)
        return {k, v};
    const variable_list all = GatherPairFunction::apply(k, v, GatherState{rows, context});
    return {all[0], all[1]};
}

at::Tensor sparseProduct(const SparsePattern& pattern, const at::Tensor& values, const at::Tensor& x, int64_t threads)
{
    return ProductFunction::apply(values, x, ProductState{pattern, threads});
}

at::Tensor dropoutEntries(const SparsePattern& pattern, const at::Tensor& values, const kernels::Dropout& dropout, int64_t row0)
{
    if (dropout.p <= 0)
        return values;
    at::Tensor out = values.clone();
    float* to = out.data_ptr<float>();
    const float scale = kernels::dropoutScale(dropout.p);
    for (int64_t r = 0; r < pattern.rows; ++r) {
        for (int64_t e = pattern.indptr[size_t(r)]; e < pattern.indptr[size_t(r) + 1]; ++e) {
            const int32_t column = pattern.indices[size_t(e)];
            const uint8_t keep = kernels::dropoutKeep8(dropout, 0, uint64_t(row0 + r), uint64_t(column) >> 3);
            to[e] *= (keep >> (column & 7) & 1) ? scale : 0.0f;
        }
    }
    return out;
}

at::Tensor recomputed(const Run& run, const at::Tensor& h, const std::vector<at::Tensor>& parameters)
{
    return RecomputeFunction::apply(h, at::TensorList(parameters), run);
}

} // namespace megagraph::runtime
