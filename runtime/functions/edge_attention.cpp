// SPDX-License-Identifier: Apache-2.0
#include "runtime/functions/support.h"

#include "kernels/attention.h"
#include "runtime/functions/edge_attention.h"

namespace megagraph::runtime {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct State { kernels::EdgeGraph graph; AttentionOptions options; };

double scaleOf(const at::Tensor& q, const State& state)
{
    return 1.0 / std::sqrt(double(q.size(1) / state.options.heads));
}

class EdgeFunction : public Function<EdgeFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, State state)
    {
        const Stopwatch watch(state.options.seconds);
        const kernels::ForkJoinFor parallel{int32_t(state.options.threads)};
        const int32_t h = state.options.heads;
        at::Tensor o = at::empty_like(q), lse = at::empty({h, q.size(0)}, at::kFloat);
        require(kernels::edgeAttentionForward(state.graph, scaleOf(q, state), heads(q, h), heads(k, h), heads(v, h),
                                              state.options.dropout, heads(o, h), lse.data_ptr<float>(), parallel));
        context->save_for_backward({q, k, v, o, lse});
        keep(context, std::move(state));
        return o;
    }

    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        const State& state = kept<State>(context);
        const Stopwatch watch(state.options.seconds);
        const kernels::ForkJoinFor parallel{int32_t(state.options.threads)};
        const variable_list saved = context->get_saved_variables();
        const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
        const int32_t h = state.options.heads;
        const at::Tensor dO = gradients[0].contiguous();
        at::Tensor delta = at::empty({h, q.size(0)}, at::kFloat);
        kernels::attentionDelta(heads(saved[3], h), heads(dO, h), delta.data_ptr<float>());
        at::Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
        require(kernels::edgeAttentionBackward(state.graph, scaleOf(q, state), heads(q, h), heads(k, h), heads(v, h), heads(dO, h),
                                               saved[4].data_ptr<float>(), delta.data_ptr<float>(), state.options.dropout,
                                               dq.data_ptr<float>(), dk.data_ptr<float>(), dv.data_ptr<float>(), parallel));
        return {dq, dk, dv, at::Tensor()};
    }
};

} // namespace

at::Tensor edgeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const kernels::EdgeGraph& graph,
                         const AttentionOptions& options)
{
    return EdgeFunction::apply(q.contiguous(), k.contiguous(), v.contiguous(), State{graph, options});
}

} // namespace megagraph::runtime
