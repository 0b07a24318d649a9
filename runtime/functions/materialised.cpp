// SPDX-License-Identifier: Apache-2.0
// The materialised baseline: bias, scores and probabilities of all pairs lie in memory. Plain Torch operations, and two small
// functions: the look-up b[h, classes] with its gradient summed in fp64, and the counter-based mask on probabilities.
#include "runtime/functions/support.h"

#include "kernels/dropout.h"
#include "runtime/allocator.h"
#include "runtime/functions/dense_attention.h"

namespace megagraph::runtime {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int64_t kRowsPerTask = 64;

int64_t tasksOf(int64_t rows) { return (rows + kRowsPerTask - 1) / kRowsPerTask; }

class LookUpFunction : public Function<LookUpFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& table, const at::Tensor& classes, int64_t threads)
    {
        const MemoryScope scope(MemoryCategory::Activations, "attention", "bias");
        const int64_t h = table.size(0), b = table.size(1), rows = classes.size(0), keys = classes.size(1);
        const at::Tensor values = table.contiguous();
        at::Tensor out = at::empty({h, rows, keys}, at::kFloat);
        const float* from = values.data_ptr<float>();
        const uint8_t* codes = classes.data_ptr<uint8_t>();
        float* to = out.data_ptr<float>();
        kernels::ForkJoinFor(int32_t(threads)).run(h * rows, [&](int64_t task, int32_t) {
            const uint8_t* code = codes + task % rows * keys;
            for (int64_t j = 0; j < keys; ++j)
                to[task * keys + j] = from[task / rows * b + code[j]];
        });
        context->save_for_backward({classes});
        keep(context, std::array<int64_t, 3>{h, b, threads});
        return out;
    }

    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        const auto [h, b, threads] = kept<std::array<int64_t, 3>>(context);
        const at::Tensor classes = context->get_saved_variables()[0], gradient = gradients[0].contiguous();
        const int64_t rows = classes.size(0), keys = classes.size(1), tasks = tasksOf(rows);
        at::Tensor partials = at::zeros({tasks, h, b}, at::kDouble);
        const uint8_t* codes = classes.data_ptr<uint8_t>();
        const float* from = gradient.data_ptr<float>();
        double* to = partials.data_ptr<double>();
        const int64_t headCount = h, binCount = b;
        kernels::ForkJoinFor(int32_t(threads)).run(tasks * h, [&](int64_t task, int32_t) {
            const int64_t block = task / headCount, head = task % headCount;
            double* bins = to + (block * headCount + head) * binCount;
            for (int64_t i = block * kRowsPerTask; i < std::min(rows, (block + 1) * kRowsPerTask); ++i)
                for (int64_t j = 0; j < keys; ++j)
                    bins[codes[i * keys + j]] += double(from[(head * rows + i) * keys + j]);
        });
        return {partials.sum(0).to(at::kFloat), at::Tensor(), at::Tensor()};
    }
};

struct MaskState { kernels::Dropout dropout; int64_t queryBegin, threads; };

at::Tensor masked(const at::Tensor& p, const MaskState& state)
{
    const int64_t rows = p.size(1), keys = p.size(2);
    const at::Tensor in = p.contiguous();
    at::Tensor out = at::empty_like(in);
    const kernels::ForkJoinFor parallel{int32_t(state.threads)};
    for (int64_t head = 0; head < p.size(0); ++head) {
        kernels::Dropout dropout = state.dropout;
        dropout.site |= uint32_t(head) << 8; // the head's bits of the counter
        kernels::dropoutApply(dropout, rows, keys, state.queryBegin, 0, in.data_ptr<float>() + head * rows * keys,
                              out.data_ptr<float>() + head * rows * keys, parallel);
    }
    return out;
}

class MaskFunction : public Function<MaskFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& p, MaskState state)
    {
        const MemoryScope scope(MemoryCategory::Activations, "attention", "probabilities after dropout");
        keep(context, state);
        return masked(p, state);
    }
    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        return {masked(gradients[0], kept<MaskState>(context)), at::Tensor()};
    }
};

at::Tensor perHead(const at::Tensor& t, int32_t count)
{
    return t.view({t.size(0), count, t.size(1) / count}).transpose(0, 1);
}

} // namespace

at::Tensor materialisedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& table,
                                 const at::Tensor& classes, int64_t queryBegin, const AttentionOptions& options)
{
    const Stopwatch watch(options.seconds);
    const int32_t h = options.heads;
    const double scale = 1.0 / std::sqrt(double(q.size(1) / h));
    const at::Tensor bias = LookUpFunction::apply(table, classes, options.threads);
    at::Tensor p;
    {
        const MemoryScope scope(MemoryCategory::Activations, "attention", "scores");
        p = at::softmax(at::baddbmm(bias, perHead(q, h), perHead(k, h).transpose(1, 2), 1.0, scale), -1);
    }
    if (options.dropout.p > 0)
        p = MaskFunction::apply(p, MaskState{options.dropout, queryBegin, options.threads});
    return at::bmm(p, perHead(v, h)).transpose(0, 1).reshape({q.size(0), q.size(1)});
}

} // namespace megagraph::runtime
