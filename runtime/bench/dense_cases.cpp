// SPDX-License-Identifier: Apache-2.0
// C1 to C5: dense attention beside LibTorch's own kernels and the formula written out.
#include "runtime/bench/cases.h"

#include "kernels/cpu/dispatch.h"
#include "runtime/bench/graphs.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <stdexcept>
#include <string_view>

namespace megagraph::runtime::bench {
namespace {

using kernels::ForkJoinFor;

/// Words of LibTorch's own choice function for these inputs.
std::string backendOf(const DenseProblem& p, const std::optional<at::Tensor>& mask, bool gradients)
{
    const at::AutoGradMode mode(gradients);
    switch (at::SDPBackend(at::_fused_sdp_choice(p.q(), p.k(), p.v(), mask))) {
    case at::SDPBackend::math: return "math";
    case at::SDPBackend::flash_attention: return "flash";
    case at::SDPBackend::efficient_attention: return "memory-efficient";
    case at::SDPBackend::cudnn_attention: return "cuDNN";
    default: return "unknown";
    }
}

at::Tensor attend(const DenseProblem& p, const std::optional<at::Tensor>& mask)
{
    return at::scaled_dot_product_attention(p.q(), p.k(), p.v(), mask);
}

/// [1, H, N, N] in the type of the problem.
at::Tensor buildMask(DenseProblem& p)
{
    const at::Tensor bias = p.table().index({at::indexing::Slice(), p.classes()}).unsqueeze(0);
    return p.size().bf16 ? bias.to(at::kBFloat16) : bias;
}

double differenceTo(const DenseProblem& p, const at::Tensor& peer) // peer [N, H, d_h]
{
    const at::Tensor ours = p.output().to(at::kFloat), theirs = peer.to(at::kFloat);
    return ((ours - theirs).norm() / theirs.norm()).item<double>();
}

at::Tensor stored(const at::Tensor& result) { return result.squeeze(0).transpose(0, 1); } // [1, H, N, d] -> [N, H, d]

/// A peer that computes something else is no peer.
void mustAgree(double difference, bool bf16)
{
    if (!(difference < (bf16 ? 3e-2 : 1e-3)))
        throw std::runtime_error(fmt::format("results differ from the peer's by {:.2e} relative: nothing was compared", difference));
}

constexpr const char* kNoBf16 = "this processor has no bf16 instructions (avx512_bf16)";

bool hasBf16(const Context& context) { return context.quick() || hasAvx512Bf16Dot(); }

const char* typeName(bool bf16) { return bf16 ? "bf16" : "fp32"; }

void plainForward(Context& context, SizedCase sized, bool bf16)
{
    sized.size.bf16 = bf16;
    Row row = denseRow("C1", "forward without bias", sized.size, context);
    row.judged = row.judged && sized.judged;
    row.bar = 1.0;
    row.peerName = "SDPA without bias";
    if (bf16 && !hasBf16(context))
        return context.notRun(row, kNoBf16);
    DenseProblem p(sized.size, context.threads(), nullptr);
    const ForkJoinFor parallel(context.threads());
    const auto ours = [&] { p.forward(BiasUse::None, parallel); };
    const auto peer = [&] { attend(p, {}); };
    row.extraBytes = countedPeakOf(p, ours);
    row.peerExtraBytes = countedPeak(peer);
    row.more["peer_difference"] = differenceTo(p, stored(attend(p, {})));
    mustAgree(row.more["peer_difference"].get<double>(), bf16);
    row.error = p.forwardError(BiasUse::None);
    row.peerBackend = backendOf(p, {}, false);
    const auto times = context.compare({timed(ours), timed(peer)});
    row.ours = times[0], row.peer = times[1];
    row.flops = sized.size.forwardFlops();
    row.peak = peakOf(context, bf16, false);
    context.add(row);
}

/// LibTorch's backward alone: its forward is outside of the clock.
Side peerBackward(DenseProblem& p, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)
{
    return [&p, q, k, v] {
        const at::AutoGradMode mode(true);
        for (const at::Tensor& leaf : {q, k, v})
            leaf.mutable_grad() = at::Tensor();
        const at::Tensor out = at::scaled_dot_product_attention(q, k, v);
        return timed([&] { out.backward(p.dO()); })();
    };
}

void oneHeadBackward(Context& context)
{
    const DenseSize size{context.size(8192, 256), 1, 64};
    Row row = denseRow("C1", "one-head backward without bias, all threads", size, context);
    row.judged = row.judged && context.threads() == 2;
    row.bar = 1.8;
    row.peerName = "SDPA backward without bias";
    DenseProblem p(size, context.threads(), nullptr);
    const ForkJoinFor parallel(context.threads());
    p.forward(BiasUse::None, parallel);
    const auto ours = [&] { p.backward(BiasUse::None, parallel); };
    row.extraBytes = countedPeak(ours);
    row.error = p.backwardError(BiasUse::None);
    const auto leaf = [](const at::Tensor& t) { return t.detach().clone().requires_grad_(true); };
    const at::Tensor q = leaf(p.q()), k = leaf(p.k()), v = leaf(p.v());
    row.peerBackend = backendOf(p, {}, true);
    const auto times = context.compare({timed(ours), peerBackward(p, q, k, v)});
    row.ours = times[0], row.peer = times[1];
    row.flops = size.backwardFlops();
    row.peak = peakOf(context, false, false);
    context.add(row);
}

void frozenForward(Context& context, DenseGraphs& graphs, SizedCase sized, bool bf16)
{
    sized.size.bf16 = bf16;
    const DenseSize& size = sized.size;
    Row row = denseRow("C2", "forward with table; the peer's dense bias is built already", size, context);
    row.judged = row.judged && sized.judged;
    row.bar = bf16 ? 2.0 : 1.2;
    row.peerName = "SDPA with frozen dense bias";
    if (bf16 && !hasBf16(context))
        return context.notRun(row, kNoBf16);
    if (bf16 && std::string_view(kernels::cpu::kernels().name) == "amxbf16")
        row.note = "both sides may use AMX here; the bar is for processors without: --no-amx measures that";
    if (!context.fits(double(size.tokens) * double(size.tokens) * (4.0 + 6.0 * size.heads)))
        return context.notRun(row, "the peer's bias does not fit the memory that is free");
    DenseProblem p(size, context.threads(), &graphs.of(size.tokens));
    const ForkJoinFor parallel(context.threads());
    const at::Tensor mask = buildMask(p);
    const auto ours = [&] { p.forward(BiasUse::Frozen, parallel); };
    row.extraBytes = countedPeakOf(p, ours) + p.topologyBytes();
    row.peerExtraBytes = countedPeak([&] { attend(p, mask); }) + int64_t(mask.nbytes());
    row.more["topology_bytes"] = p.topologyBytes();
    row.more["peer_difference"] = differenceTo(p, stored(attend(p, mask)));
    mustAgree(row.more["peer_difference"].get<double>(), bf16);
    row.error = p.forwardError(BiasUse::Frozen);
    row.peerBackend = backendOf(p, mask, false);
    const auto times = context.compare({timed(ours), timed([&] { attend(p, mask); }), timed([&] { attend(p, buildMask(p)); })});
    row.ours = times[0], row.peer = times[1];
    row.flops = size.forwardFlops();
    row.peak = peakOf(context, bf16, false);
    context.add(row);
    if (bf16)
        return;
    row.what = "forward with table; the peer builds its dense bias";
    row.peer = times[2];
    row.bar = 1.5;
    context.add(row);
}

void frozenMemory(Context& context, DenseGraphs& graphs)
{
    const DenseSize size{context.size(16384, 512), 1, 64};
    Row row = denseRow("C2", "extra memory of a forward with table, one head", size, context);
    row.judged = !context.quick();
    row.bar = 0.01;
    row.atMost = true;
    row.measure = "extra bytes of ours / of peer, each with its topology and output";
    row.peerName = "SDPA with frozen dense bias, built from classes";
    if (!context.fits(double(size.tokens) * double(size.tokens) * 16))
        return context.notRun(row, "the peer's bias does not fit the memory that is free");
    DenseProblem p(size, context.threads(), &graphs.of(size.tokens));
    row.extraBytes = countedPeakOf(p, [&] { p.forward(BiasUse::Frozen, ForkJoinFor(context.threads())); }) + p.topologyBytes();
    row.error = p.forwardError(BiasUse::Frozen);
    row.peerExtraBytes = int64_t(p.classes().nbytes());
    row.peerExtraBytes = *row.peerExtraBytes + countedPeak([&] { attend(p, buildMask(p)); });
    row.peerBackend = backendOf(p, at::empty({1, 1, size.tokens, size.tokens}), false);
    row.ratio = double(*row.extraBytes) / double(*row.peerExtraBytes);
    row.more["topology_bytes"] = p.topologyBytes();
    context.add(row);
}

void learnedStep(Context& context, DenseGraphs& graphs, const SizedCase& sized)
{
    const DenseSize& size = sized.size;
    Row row = denseRow("C3", "forward + backward with learned table", size, context);
    row.judged = row.judged && sized.judged;
    row.bar = 2.0;
    row.peerName = "SDPA with a bias that needs a gradient";
    if (!context.fits(double(size.tokens) * double(size.tokens) * size.heads * 4.0 * 6))
        return context.notRun(row, "the peer's N x N arrays do not fit the memory that is free");
    DenseProblem p(size, context.threads(), &graphs.of(size.tokens));
    const ForkJoinFor parallel(context.threads());
    const auto ours = [&] {
        p.forward(BiasUse::Learned, parallel);
        p.backward(BiasUse::Learned, parallel);
    };
    const auto leaf = [](const at::Tensor& t) { return t.detach().clone().requires_grad_(true); };
    const at::Tensor q = leaf(p.q()), k = leaf(p.k()), v = leaf(p.v()), table = leaf(p.table()), classes = p.classes();
    const auto peer = [&] {
        const at::AutoGradMode mode(true);
        for (const at::Tensor& t : {q, k, v, table})
            t.mutable_grad() = at::Tensor();
        const at::Tensor bias = table.index({at::indexing::Slice(), classes}).unsqueeze(0);
        at::scaled_dot_product_attention(q, k, v, bias).backward(p.dO());
    };
    {
        const at::AutoGradMode mode(true);
        row.peerBackend = backendOf(p, at::empty({1, size.heads, size.tokens, size.tokens}).requires_grad_(true), true);
    }
    row.extraBytes = countedPeakOf(p, ours) + p.topologyBytes();
    row.peerExtraBytes = countedPeak(peer) + int64_t(classes.nbytes());
    row.more["topology_bytes"] = p.topologyBytes();
    row.error = p.backwardError(BiasUse::Learned);
    const auto times = context.compare({timed(ours), timed(peer)});
    row.ours = times[0], row.peer = times[1];
    row.flops = size.forwardFlops() + size.backwardFlops();
    row.peak = peakOf(context, false, false);
    context.add(row);
}

at::Tensor formula(DenseProblem& p)
{
    const at::Tensor scores = at::matmul(p.q(), p.k().transpose(-1, -2)).mul_(1 / std::sqrt(double(p.size().dim)));
    return at::matmul(at::softmax(scores + p.table().index({at::indexing::Slice(), p.classes()}), -1), p.v());
}

/// Ours beside a Python peer that gets the same tensors by file.
void pythonForward(Context& context, PythonPeer& python, DenseProblem& p, Row row, const std::string& name)
{
    const std::map<std::string, at::Tensor> tensors{{"q", p.storedQ()}, {"k", p.storedK()}, {"v", p.storedV()}, {"table", p.table()}, {"classes", p.classes()}};
    context.progress(row.id + " " + row.peerName + ", compiling");
    const auto ready = python.prepare(name, tensors, {{"scale", 1 / std::sqrt(double(p.size().dim))}});
    if (!ready.ok())
        return context.notRun(row, ready.error().message);
    row.peerBackend = *ready;
    const ForkJoinFor parallel(context.threads());
    const auto ours = [&] { p.forward(BiasUse::Frozen, parallel); };
    row.extraBytes = countedPeakOf(p, ours) + p.topologyBytes();
    row.error = p.forwardError(BiasUse::Frozen);
    const auto result = python.result();
    if (!result.ok())
        return context.notRun(row, result.error().message);
    row.more["peer_difference"] = differenceTo(p, *result);
    mustAgree(row.more["peer_difference"].get<double>(), false);
    if (const int64_t bytes = python.extraBytes(); bytes >= 0)
        row.peerExtraBytes = bytes + int64_t(p.classes().nbytes());
    const auto times = context.compare({timed(ours), python.side()});
    row.ours = times[0], row.peer = times[1];
    row.flops = p.size().forwardFlops();
    row.peak = peakOf(context, false, false);
    context.add(row);
}

} // namespace

const Ceiling& bf16Ceiling(const Peaks& peaks)
{
    const std::string_view set = kernels::cpu::kernels().name;
    if (set == "amxbf16")
        return peaks.amx;
    return set == "avx512bf16" ? peaks.bf16 : peaks.fp32; // other sets widen the blocks and run their fp32 code
}

const kernels::Csr& DenseGraphs::of(int64_t nodes)
{
    const auto found = made_.find(nodes);
    return found != made_.end() ? found->second : made_.emplace(nodes, metisOrder(communities(nodes, 14, 1).view())).first->second;
}

std::vector<SizedCase> denseSizes(const Context& context)
{
    if (context.quick())
        return {{{320, 2, 64}, false}};
    return {{{4096, 8, 64}, true}, {{8192, 8, 64}, true}, {{4096, 4, 32}, false}, {{1024, 8, 64}, false}};
}

Row denseRow(const std::string& id, const std::string& what, const DenseSize& size, const Context& context)
{
    Row row;
    row.id = id;
    row.what = what;
    row.n = size.tokens;
    row.heads = size.heads;
    row.headSize = size.dim;
    row.dtype = typeName(size.bf16);
    row.judged = !context.quick();
    return row;
}

double peakOf(Context& context, bool bf16, bool oneThread)
{
    Peaks& peaks = context.peaks();
    peaks.refine(false, context.quick() ? 0.002 : 0.03);
    const Ceiling& ceiling = bf16 ? bf16Ceiling(peaks) : peaks.fp32;
    return oneThread ? ceiling.one : ceiling.all;
}

void plainCases(Context& context)
{
    for (const SizedCase& sized : denseSizes(context))
        for (const bool bf16 : {false, true})
            context.guard("C1", fmt::format("forward without bias, N = {}, {}", sized.size.tokens, typeName(bf16)),
                          [&] { plainForward(context, sized, bf16); });
    context.guard("C1", "one-head backward", [&] { oneHeadBackward(context); });
}

void frozenBiasCases(Context& context, DenseGraphs& graphs)
{
    for (const SizedCase& sized : denseSizes(context))
        for (const bool bf16 : {false, true})
            context.guard("C2", fmt::format("forward with table, N = {}, {}", sized.size.tokens, typeName(bf16)),
                          [&] { frozenForward(context, graphs, sized, bf16); });
    context.guard("C2", "extra memory", [&] { frozenMemory(context, graphs); });
}

void learnedBiasCases(Context& context, DenseGraphs& graphs)
{
    for (const SizedCase& sized : denseSizes(context))
        context.guard("C3", fmt::format("forward + backward with learned table, N = {}", sized.size.tokens),
                      [&] { learnedStep(context, graphs, sized); });
}

void formulaCases(Context& context, DenseGraphs& graphs, PythonPeer& python)
{
    if (!context.wants("C4") && !context.wants("C5"))
        return;
    const DenseSize size = context.quick() ? DenseSize{320, 2, 64} : DenseSize{4096, 8, 64};
    std::unique_ptr<DenseProblem> p;
    const auto problem = [&]() -> DenseProblem& {
        if (!p)
            p = std::make_unique<DenseProblem>(size, context.threads(), &graphs.of(size.tokens));
        return *p;
    };
    const auto row = [&](const char* id, const char* peer) {
        Row r = denseRow(id, "forward with table", size, context);
        r.bar = 1.5;
        r.peerName = peer;
        return r;
    };
    context.guard("C4", "the formula, eager", [&] {
        Row r = row("C4", "softmax(q k^T s + b[c]) v, eager");
        r.peerBackend = "ATen operations";
        const ForkJoinFor parallel(context.threads());
        const auto ours = [&] { problem().forward(BiasUse::Frozen, parallel); };
        r.extraBytes = countedPeakOf(problem(), ours) + problem().topologyBytes();
        r.peerExtraBytes = int64_t(problem().classes().nbytes());
        r.peerExtraBytes = *r.peerExtraBytes + countedPeak([&] { formula(problem()); });
        mustAgree(differenceTo(problem(), stored(formula(problem()))), false);
        r.error = problem().forwardError(BiasUse::Frozen);
        const auto times = context.compare({timed(ours), timed([&] { formula(problem()); })});
        r.ours = times[0], r.peer = times[1];
        r.flops = size.forwardFlops();
        r.peak = peakOf(context, false, false);
        context.add(r);
    });
    context.guard("C4", "the formula, compiled",
                  [&] { pythonForward(context, python, problem(), row("C4", "softmax(q k^T s + b[c]) v, compiled"), "compiled"); });
    context.guard("C5", "FlexAttention", [&] { pythonForward(context, python, problem(), row("C5", "FlexAttention with table, compiled"), "flex"); });
}

} // namespace megagraph::runtime::bench
