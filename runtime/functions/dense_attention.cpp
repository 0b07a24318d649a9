// SPDX-License-Identifier: Apache-2.0
#include "runtime/functions/support.h"

#include "kernels/attention.h"
#include "kernels/strips.h"
#include "runtime/allocator.h"
#include "runtime/functions/dense_attention.h"

namespace megagraph::runtime {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct State {
    const DenseTopology* topology;
    AttentionOptions options;
    Communicator* ring;
};

/// Kernels take b' = b - b[far]: a constant per row changes no softmax, and far pairs need no work.
at::Tensor shiftedTable(const at::Tensor& table, const DenseTopology& topology)
{
    return (table - table.narrow(1, topology.hops + 1, 1)).contiguous();
}

/// One call of a dense kernel: own queries x one interval of keys.
struct Call {
    kernels::AttentionShape shape;
    kernels::Bias bias;
    const DistanceStrips* strips = nullptr; ///< policy `strips`: bias holds neither lists nor planes
};

Call makeCall(const State& state, int64_t queries, int64_t width, const at::Tensor& shifted, int64_t keyBegin, int64_t keyEnd,
              const DistanceStore& store)
{
    const DenseTopology& topology = *state.topology;
    Call call;
    const auto dim = int32_t(width / state.options.heads);
    call.shape = {queries, keyEnd - keyBegin, topology.queryBegin, keyBegin, state.options.heads, dim, 0, 1.0 / std::sqrt(double(dim)), 1};
    call.bias.hops = topology.hops;
    call.bias.classes = topology.classes;
    call.bias.table = shifted.data_ptr<float>();
    call.bias.queryComponent = topology.components.subspan(size_t(topology.queryBegin), size_t(queries));
    call.bias.keyComponent = topology.components.subspan(size_t(keyBegin), size_t(keyEnd - keyBegin));
    if (const auto* lists = std::get_if<kernels::TileLists>(&store)) {
        call.bias.lists = lists->view();
    } else if (const auto* planes = std::get_if<kernels::TilePlanes>(&store)) {
        call.bias.storage = kernels::BiasStorage::Planes;
        call.bias.planes = planes->view();
    } else {
        call.strips = std::get_if<DistanceStrips>(&store);
    }
    return call;
}

kernels::StripPlanes stripsOf(const Call& call, const kernels::ParallelFor& parallel)
{
    const kernels::AttentionShape& s = call.shape;
    return require(kernels::StripPlanes::create(call.strips->graph, call.bias.hops, s.queryOffset, s.queryOffset + s.queries, s.keyOffset,
                                                s.keyOffset + s.keys, parallel, {}));
}

at::Tensor workspace(int64_t bytes, const char* op)
{
    const MemoryScope scope(MemoryCategory::Workspace, op, "workspace");
    return at::empty({bytes}, at::kByte);
}

at::Tensor zeros(std::initializer_list<int64_t> shape)
{
    return at::zeros(at::IntArrayRef(shape), at::kFloat);
}

/// Softmax ignores a constant added to all keys of a row, so keys are taken relative to `reference` [1, d], the mean of own
/// keys: in dq_i = sum_j dS_ij k_j the rows of dS sum to zero only up to rounding, and a common part of all keys would turn
/// that rounding into a visible error (half of the digits of dW_q at the start of training).
at::Tensor referenceKey(const at::Tensor& k)
{
    return k.size(0) > 0 ? k.mean(0, true) : at::zeros({1, k.size(1)});
}

/// Un-normalised softmax state of own rows and what becomes of it.
struct RowState {
    at::Tensor m, l, acc;

    RowState(int64_t rows, int64_t width, int32_t headCount)
    {
        const MemoryScope scope(MemoryCategory::Activations, "attention", "running softmax");
        m = at::empty({headCount, rows}, at::kFloat);
        l = at::empty({headCount, rows}, at::kFloat);
        acc = at::empty({rows, width}, at::kFloat);
    }
    kernels::AttentionState view() const { return {m.data_ptr<float>(), l.data_ptr<float>(), acc.data_ptr<float>()}; }
    void finish(at::Tensor& o, at::Tensor& lse) const
    {
        const auto h = int32_t(m.size(0));
        kernels::attentionFinish(o.size(0), h, int32_t(o.size(1) / h), view(), heads(o, h), lse.data_ptr<float>());
    }
    /// Row sum of the P that the backward pass builds from the rounded lse (which it multiplies by log2 e in fp32): about
    /// 1 +- 1e-6. delta must carry the same factor, else rows of dS sum to delta times that error.
    at::Tensor roundedSums(const at::Tensor& lse) const
    {
        at::Tensor out = at::ones_like(lse);
        const float *mRow = m.data_ptr<float>(), *lRow = l.data_ptr<float>(), *rounded = lse.data_ptr<float>();
        for (int64_t i = 0; i < out.numel(); ++i) {
            const float used = rounded[i] * 1.44269504088896341f;
            if (lRow[i] > 0)
                out.data_ptr<float>()[i] = float(std::exp2(double(mRow[i]) + std::log2(double(lRow[i])) - double(used)));
        }
        return out;
    }
};

/// delta of own rows for the rounded P.
at::Tensor deltaOf(const at::Tensor& o, const at::Tensor& dO, const at::Tensor& sums)
{
    const auto h = int32_t(sums.size(0));
    at::Tensor delta = at::empty_like(sums);
    kernels::attentionDelta(heads(o, h), heads(dO, h), delta.data_ptr<float>());
    return delta.mul_(sums);
}

/// The kernel of a forward step, whatever the bias policy.
void partial(const State& state, const Call& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool first,
             const RowState& rows, const kernels::ForkJoinFor& parallel)
{
    const int32_t h = state.options.heads, slots = parallel.slots();
    const kernels::Dropout& dropout = state.options.dropout;
    if (call.strips == nullptr) {
        const at::Tensor work = workspace(kernels::attentionForwardWorkspace(call.shape, slots), "attention");
        require(kernels::attentionPartial(call.shape, heads(q, h), heads(k, h), heads(v, h), call.bias, dropout, first, rows.view(),
                                          work.data_ptr(), parallel));
        return;
    }
    kernels::StripPlanes strips = stripsOf(call, parallel);
    const at::Tensor work = workspace(kernels::attentionStripsForwardWorkspace(call.shape, slots), "attention");
    require(kernels::attentionPartialStrips(call.shape, heads(q, h), heads(k, h), heads(v, h), call.bias, strips, dropout, first,
                                            rows.view(), work.data_ptr(), parallel));
}

/// What the backward kernel reads besides keys and values, and what it adds to.
struct RowGradients {
    const at::Tensor &q, &dO, &lse, &delta, &dq, &partials;
};

/// The kernel of a backward step, whatever the bias policy; dk, dv [keys, H d_h] +=.
void backwardStep(const State& state, const Call& call, const RowGradients& rows, const at::Tensor& k, const at::Tensor& v,
                  const at::Tensor& dk, const at::Tensor& dv, const kernels::ForkJoinFor& parallel)
{
    const int32_t h = state.options.heads, slots = parallel.slots();
    const kernels::Dropout& dropout = state.options.dropout;
    const float *lse = rows.lse.data_ptr<float>(), *delta = rows.delta.data_ptr<float>();
    float *dq = rows.dq.data_ptr<float>(), *dKeys = dk.data_ptr<float>(), *dValues = dv.data_ptr<float>();
    double* bins = rows.partials.data_ptr<double>();
    if (call.strips == nullptr) {
        const at::Tensor work = workspace(kernels::attentionBackwardWorkspace(call.shape, slots), "attention backward");
        require(kernels::attentionBackward(call.shape, heads(rows.q, h), heads(k, h), heads(v, h), heads(rows.dO, h), lse, delta, call.bias,
                                           dropout, dq, dKeys, dValues, bins, work.data_ptr(), parallel));
        return;
    }
    kernels::StripPlanes strips = stripsOf(call, parallel);
    const at::Tensor work = workspace(kernels::attentionStripsBackwardWorkspace(call.shape, slots), "attention backward");
    require(kernels::attentionBackwardStrips(call.shape, heads(rows.q, h), heads(k, h), heads(v, h), heads(rows.dO, h), lse, delta, call.bias,
                                             strips, dropout, dq, dKeys, dValues, bins, work.data_ptr(), parallel));
}

/// Bins of all steps -> db [H, B], the far bin closed here and nowhere else.
at::Tensor closedTable(const at::Tensor& partials, const State& state)
{
    const int32_t h = state.options.heads, b = state.topology->classes;
    at::Tensor summed = at::zeros({h, b}, at::kDouble), gradient = at::empty({h, b}, at::kFloat);
    kernels::tableGradient(h, 1, b, partials.data_ptr<double>(), summed.data_ptr<double>());
    kernels::closeFarBin(h, state.topology->hops, summed.data_ptr<double>(), gradient.data_ptr<float>());
    return gradient;
}

class FusedFunction : public Function<FusedFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& allKeys, const at::Tensor& v,
                              const at::Tensor& table, State state)
    {
        const Stopwatch watch(state.options.seconds);
        const kernels::ForkJoinFor parallel{int32_t(state.options.threads)};
        const at::Tensor shifted = shiftedTable(table, *state.topology), k = allKeys - referenceKey(allKeys);
        const int32_t h = state.options.heads;
        const Call call = makeCall(state, q.size(0), q.size(1), shifted, 0, k.size(0), state.topology->stores.at(0));
        at::Tensor o = at::empty_like(q), lse = at::empty({h, q.size(0)}, at::kFloat);
        const RowState rows(q.size(0), q.size(1), h);
        partial(state, call, q, k, v, true, rows, parallel);
        rows.finish(o, lse);
        context->save_for_backward({q, k, v, shifted, o, lse, rows.roundedSums(lse)});
        keep(context, state);
        return o;
    }

    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        const State& state = kept<State>(context);
        const Stopwatch watch(state.options.seconds);
        const kernels::ForkJoinFor parallel{int32_t(state.options.threads)};
        const variable_list saved = context->get_saved_variables();
        const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &lse = saved[5];
        const int32_t h = state.options.heads;
        const at::Tensor dO = gradients[0].contiguous(), delta = deltaOf(saved[4], dO, saved[6]);
        const Call call = makeCall(state, q.size(0), q.size(1), saved[3], 0, k.size(0), state.topology->stores.at(0));
        at::Tensor dq = zeros({q.size(0), q.size(1)}), dk = zeros({k.size(0), k.size(1)}), dv = zeros({v.size(0), v.size(1)});
        at::Tensor partials = at::zeros({h, state.topology->classes}, at::kDouble);
        backwardStep(state, call, {q, dO, lse, delta, dq, partials}, k, v, dk, dv, parallel);
        return {dq, dk, dv, closedTable(partials, state), at::Tensor()};
    }
};

/// [n, 2 d]: what travels around the ring.
at::Tensor pack(const at::Tensor& k, const at::Tensor& v)
{
    const MemoryScope scope(MemoryCategory::Buffers, "ring", "keys and values");
    return at::cat({k, v}, 1);
}

at::Tensor buffer(int64_t rows, int64_t columns)
{
    const MemoryScope scope(MemoryCategory::Buffers, "ring", "arriving rows");
    return at::empty({rows, columns}, at::kFloat);
}

/// Interval that this rank holds at a ring step: its own first, then those of the ranks before it.
size_t heldAt(const Communicator& ring, int step)
{
    return size_t((ring.rank() - step + ring.size()) % ring.size());
}

int64_t rowsOf(const DenseTopology& topology, size_t interval)
{
    return topology.cuts[interval + 1] - topology.cuts[interval];
}

class RingFunction : public Function<RingFunction> {
  public:
    static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& table, State state)
    {
        const DenseTopology& topology = *state.topology;
        const kernels::ForkJoinFor parallel{int32_t(state.options.threads)};
        const at::Tensor shifted = shiftedTable(table, topology);
        const int32_t h = state.options.heads;
        const int64_t n = q.size(0), d = q.size(1);
        const RowState rows(n, d, h);
        const at::Tensor reference = referenceKey(k);
        at::Tensor held = pack(k, v), arriving;
        for (int step = 0; step < state.ring->size(); ++step) {
            const bool last = step + 1 == state.ring->size();
            if (!last) {
                arriving = buffer(rowsOf(topology, heldAt(*state.ring, step + 1)), 2 * d);
                state.ring->startRing(held, arriving);
            }
            {
                const Stopwatch watch(state.options.seconds);
                const size_t b = heldAt(*state.ring, step);
                const Call call = makeCall(state, n, d, shifted, topology.cuts[b], topology.cuts[b + 1], topology.stores.at(b));
                partial(state, call, q, held.narrow(1, 0, d) - reference, held.narrow(1, d, d), step == 0, rows, parallel);
            }
            if (!last) {
                state.ring->waitRing();
                held = arriving;
            }
        }
        at::Tensor o = at::empty({n, d}, at::kFloat), lse = at::empty({h, n}, at::kFloat);
        rows.finish(o, lse);
        context->save_for_backward({q, k, v, shifted, o, lse, rows.roundedSums(lse), reference});
        keep(context, state);
        return o;
    }

    // K and V go round once more; the gradients of an interval travel with it, one step behind, and one more hop takes them home.
    static variable_list backward(AutogradContext* context, variable_list gradients)
    {
        const State& state = kept<State>(context);
        const DenseTopology& topology = *state.topology;
        const kernels::ForkJoinFor parallel{int32_t(state.options.threads)};
        const variable_list saved = context->get_saved_variables();
        const at::Tensor &q = saved[0], &lse = saved[5];
        const int32_t h = state.options.heads;
        const int64_t n = q.size(0), d = q.size(1);
        const at::Tensor dO = gradients[0].contiguous(), delta = deltaOf(saved[4], dO, saved[6]);
        at::Tensor dq = zeros({n, d}), partials = at::zeros({h, topology.classes}, at::kDouble);
        at::Tensor held = pack(saved[1], saved[2]), arriving, leaving, returning;
        for (int step = 0; step < state.ring->size(); ++step) {
            const bool last = step + 1 == state.ring->size();
            const size_t b = heldAt(*state.ring, step);
            if (!last) {
                arriving = buffer(rowsOf(topology, heldAt(*state.ring, step + 1)), 2 * d);
                state.ring->startRing(held, arriving);
            }
            const int64_t count = rowsOf(topology, b);
            at::Tensor dk = zeros({count, d}), dv = zeros({count, d});
            {
                const Stopwatch watch(state.options.seconds);
                const Call call = makeCall(state, n, d, saved[3], topology.cuts[b], topology.cuts[b + 1], topology.stores.at(b));
                backwardStep(state, call, {q, dO, lse, delta, dq, partials}, held.narrow(1, 0, d) - saved[7], held.narrow(1, d, d), dk, dv,
                             parallel);
            }
            at::Tensor sum = pack(dk, dv);
            if (step > 0) { // gradients of this interval from the ranks before, sent at the end of their step
                state.ring->waitRing();
                sum = returning.add_(sum);
            }
            if (!last) {
                state.ring->waitRing();
                held = arriving;
            }
            leaving = sum;
            returning = buffer(rowsOf(topology, heldAt(*state.ring, step + 1)), 2 * d);
            state.ring->startRing(leaving, returning);
        }
        state.ring->waitRing();
        return {dq, returning.narrow(1, 0, d).contiguous(), returning.narrow(1, d, d).contiguous(), closedTable(partials, state), at::Tensor()};
    }
};

} // namespace

at::Tensor fusedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& table,
                          const DenseTopology& topology, const AttentionOptions& options)
{
    return FusedFunction::apply(q.contiguous(), k.contiguous(), v.contiguous(), table, State{&topology, options, nullptr});
}

at::Tensor ringAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& table,
                         const DenseTopology& topology, const AttentionOptions& options, Communicator& ring)
{
    return RingFunction::apply(q.contiguous(), k.contiguous(), v.contiguous(), table, State{&topology, options, &ring});
}

} // namespace megagraph::runtime
