// SPDX-License-Identifier: Apache-2.0
#include "runtime/functions/support.h"

#include "runtime/functions/linear_attention.h"

namespace megagraph::runtime {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct State { int64_t heads, total; Communicator* context; double* seconds; double a = 0, b = 0; };

/// [n, H d] -> [H, n, d].
at::Tensor perHead(const at::Tensor& t, int64_t heads)
{
    return t.view({t.size(0), heads, t.size(1) / heads}).transpose(0, 1);
}
/// [H, n, d] -> [n, H d].
at::Tensor joined(const at::Tensor& t)
{
    return t.transpose(0, 1).reshape({t.size(1), t.size(0) * t.size(2)});
}

void sumOverRanks(at::Tensor& payload, const State& state)
{
    if (state.context && state.context->size() > 1)
        state.context->allReduce(payload);
}

double inverseNorm(double squared) { return squared > 0 ? 1.0 / std::sqrt(squared) : 0.0; }

class LinearFunction : public Function<LinearFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& q_, const at::Tensor& k_, const at::Tensor& v_, State state)
    {
        const Stopwatch watch(state.seconds);
        const at::Tensor q = perHead(q_, state.heads), k = perHead(k_, state.heads), v = perHead(v_, state.heads);
        const int64_t h = state.heads, d = q.size(2);
        at::Tensor payload = at::cat({at::bmm(k.transpose(1, 2), v).flatten(), k.sum(1).flatten(), q_.square().sum().view({1}),
                                      k_.square().sum().view({1})});
        sumOverRanks(payload, state);
        const at::Tensor S = payload.narrow(0, 0, h * d * d).view({h, d, d}), s1 = payload.narrow(0, h * d * d, h * d).view({h, d, 1});
        state.a = inverseNorm(payload[h * d * d + h * d].item<double>());
        state.b = inverseNorm(payload[h * d * d + h * d + 1].item<double>());
        const double ab = state.a * state.b, n = double(state.total);
        const at::Tensor den = at::bmm(q, s1).mul_(ab).add_(n); // [H, n, 1]
        const at::Tensor y = at::bmm(q, S).mul_(ab).add_(v, n).div_(den);
        context->save_for_backward({q_, k_, v_, payload, den, y});
        keep(context, state);
        return y.mean(0);
    }

    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        const State& state = kept<State>(context);
        const Stopwatch watch(state.seconds);
        const variable_list saved = context->get_saved_variables();
        const at::Tensor q = perHead(saved[0], state.heads), k = perHead(saved[1], state.heads), v = perHead(saved[2], state.heads);
        const int64_t h = state.heads, d = q.size(2);
        const at::Tensor S = saved[3].narrow(0, 0, h * d * d).view({h, d, d}), s1 = saved[3].narrow(0, h * d * d, h * d).view({h, d, 1});
        const at::Tensor &den = saved[4], &y = saved[5];
        const at::Tensor dy = (gradients[0] / double(h)).unsqueeze(0).expand_as(y);
        const at::Tensor dn = dy / den, dd = (dy * y).sum(2, true).neg_().div_(den); // [H, n, d], [H, n, 1]
        at::Tensor payload = at::cat({at::bmm(q.transpose(1, 2), dn).flatten(), at::bmm(q.transpose(1, 2), dd).flatten()});
        sumOverRanks(payload, state);
        const at::Tensor G = payload.narrow(0, 0, h * d * d).view({h, d, d}), g1 = payload.narrow(0, h * d * d, h * d).view({h, d, 1});
        const double ab = state.a * state.b;
        const double gamma = ab * ((S * G).sum(at::kDouble) + (s1 * g1).sum(at::kDouble)).item<double>();
        const at::Tensor dq = at::bmm(dn, S.transpose(1, 2)).add_(at::bmm(dd, s1.transpose(1, 2))).mul_(ab).sub_(q, gamma * state.a * state.a);
        const at::Tensor dk = at::bmm(v, G.transpose(1, 2)).add_(g1.transpose(1, 2)).mul_(ab).sub_(k, gamma * state.b * state.b);
        const at::Tensor dv = at::bmm(k, G).mul_(ab).add_(dn, double(state.total));
        return {joined(dq), joined(dk), joined(dv), at::Tensor()};
    }
};

} // namespace

at::Tensor linearAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads, int64_t total,
                           Communicator* context, double* seconds)
{
    return LinearFunction::apply(q.contiguous(), k.contiguous(), v.contiguous(), State{heads, total, context, seconds});
}

} // namespace megagraph::runtime
