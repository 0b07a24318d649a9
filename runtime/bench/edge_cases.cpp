// SPDX-License-Identifier: Apache-2.0
// C6, C7 and B5: attention over edges beside message passing and sparse products; what METIS order buys.
#include "runtime/bench/cases.h"

#include "runtime/bench/edge_problem.h"
#include "runtime/bench/graphs.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <stdexcept>

namespace megagraph::runtime::bench {
namespace {

using kernels::Csr;
using kernels::ForkJoinFor;
using kernels::SerialFor;

constexpr int32_t kDim = 64;

Row edgeRow(const std::string& id, const std::string& what, const EdgeProblem& p, const Context& context)
{
    Row row;
    row.id = id;
    row.what = what;
    row.n = p.nodes();
    row.heads = 1;
    row.headSize = kDim;
    row.judged = !context.quick();
    row.more["entries"] = p.entries();
    return row;
}

double difference(const at::Tensor& ours, const at::Tensor& peer) { return ((ours - peer).norm() / peer.norm()).item<double>(); }

void mustAgree(Row& row, const at::Tensor& ours, const at::Tensor& peer)
{
    const double off = difference(ours, peer);
    if (!(off < 1e-3))
        throw std::runtime_error(fmt::format("results differ from the peer's by {:.2e} relative: nothing was compared", off));
    row.more["peer_difference"] = off;
}

void bothWays(EdgeProblem& p, const kernels::ParallelFor& parallel)
{
    p.forward(parallel);
    p.backward(parallel);
}

/// Forward + backward beside a peer in this process.
void besideLibTorch(Context& context, EdgeProblem& p, Row row, const std::function<at::Tensor()>& peer)
{
    const ForkJoinFor parallel(context.threads());
    row.extraBytes = countedPeakOf(p, [&] { bothWays(p, parallel); });
    row.peerExtraBytes = countedPeak([&] { peer(); });
    mustAgree(row, p.queryGradient(), peer());
    row.error = p.error(true);
    const auto times = context.compare({timed([&] { bothWays(p, parallel); }), timed([&] { peer(); })});
    row.ours = times[0], row.peer = times[1];
    row.flops = p.forwardFlops() + p.backwardFlops();
    row.peak = peakOf(context, false, false);
    context.add(row);
}

void pyg(Context& context, PythonPeer& python, EdgeProblem& p)
{
    Row row = edgeRow("C6", "edges, forward + backward", p, context);
    row.bar = 3.0;
    row.peerName = "PyG TransformerConv";
    const auto ready = python.prepare("pyg",
                                      {{"q", p.q()}, {"k", p.k()}, {"v", p.v()}, {"dO", p.dO()}, {"row", p.rows()}, {"column", p.columns()}},
                                      {{"head_size", kDim}});
    if (!ready.ok())
        return context.notRun(row, ready.error().message);
    row.peerBackend = *ready;
    const ForkJoinFor parallel(context.threads());
    row.extraBytes = countedPeakOf(p, [&] { bothWays(p, parallel); });
    row.error = p.error(true);
    if (const int64_t bytes = python.extraBytes(); bytes >= 0)
        row.peerExtraBytes = bytes;
    const auto result = python.result();
    if (!result.ok())
        return context.notRun(row, result.error().message);
    mustAgree(row, p.output(), *result);
    const auto times = context.compare({timed([&] { bothWays(p, parallel); }), python.side()});
    row.ours = times[0], row.peer = times[1];
    row.flops = p.forwardFlops() + p.backwardFlops();
    row.peak = peakOf(context, false, false);
    context.add(row);
}

/// Forward on one core in METIS order beside the shuffled numbering: a C7 row, and with `speed` the B5 rows.
void orders(Context& context, const std::string& graphName, const Csr& shuffled, bool judged)
{
    EdgeProblem random(shuffled, kDim), metis(metisOrder(shuffled.view()), kDim);
    const SerialFor serial;
    const auto times = context.compare({timed([&] { metis.forward(serial); }), timed([&] { random.forward(serial); })});
    Row row = edgeRow("C7", fmt::format("edges, forward, METIS over random order, {}", graphName), metis, context);
    row.threads = 1;
    row.judged = row.judged && judged;
    row.ours = times[0], row.peer = times[1];
    row.flops = metis.forwardFlops();
    row.peak = peakOf(context, false, true);
    row.error = metis.error(false);
    row.peerName = "ours, random order";
    row.measure = "time in random order / in METIS order";
    row.bar = 1.5;
    row.more["edges_per_s"] = 1e3 * double(metis.entries()) / times[0].median();
    for (const char* id : {"C7", "B5"})
        if (row.id = id; context.wants(id))
            context.add(row);
    if (!context.wants("B5"))
        return;
    // alone: beside another problem of the same size every round would begin with caches that hold none of its rows
    row.ours = context.compare({timed([&] { metis.forward(serial); })})[0];
    row.what = fmt::format("edges, forward, per core in METIS order, {}", graphName);
    row.measure = "million edges per second and core";
    row.ratio = 1e-3 * double(metis.entries()) / row.ours.median();
    row.more["edges_per_s"] = 1e6 * *row.ratio;
    row.bar = 60;
    row.peer = {};
    row.peerName.clear();
    context.add(row);
}

void forwardBesideGather(Context& context, EdgeProblem& p)
{
    Row row = edgeRow("B5", "edges, forward", p, context);
    row.bar = 3.0;
    row.peerName = "gather, softmax, scatter";
    row.peerBackend = "ATen operations";
    const ForkJoinFor parallel(context.threads());
    row.extraBytes = countedPeakOf(p, [&] { p.forward(parallel); });
    row.peerExtraBytes = countedPeak([&] { p.gatherScatter(false); });
    mustAgree(row, p.output(), p.gatherScatter(false));
    row.error = p.error(false);
    const auto times = context.compare({timed([&] { p.forward(parallel); }), timed([&] { p.gatherScatter(false); })});
    row.ours = times[0], row.peer = times[1];
    row.flops = p.forwardFlops();
    row.peak = peakOf(context, false, false);
    context.add(row);
}

} // namespace

void edgeCases(Context& context, PythonPeer& python)
{
    if (!context.wants("C6") && !context.wants("C7") && !context.wants("B5"))
        return;
    const int64_t nodes = context.size(65536, 1024);
    EdgeProblem p(metisOrder(communities(nodes, 14, 1).view()), kDim);
    const auto row = [&](const char* id, const char* peer) {
        Row r = edgeRow(id, "edges, forward + backward", p, context);
        r.bar = 3.0;
        r.peerName = peer;
        return r;
    };
    context.guard("C6", "gather, softmax, scatter", [&] {
        Row r = row("C6", "gather, softmax, scatter");
        r.peerBackend = "ATen operations with autograd";
        besideLibTorch(context, p, r, [&] { return p.gatherScatter(true); });
    });
    context.guard("C6", "PyG TransformerConv", [&] { pyg(context, python, p); });
    context.guard("C7", "CSR sampled product", [&] {
        Row r = row("C7", "CSR sampled product, softmax, product");
        r.peerBackend = "ATen sparse operations";
        besideLibTorch(context, p, r, [&] { return p.sparseProducts(true); });
    });
    context.guard("C7", "FusedMM", [&] {
        Row r = row("C7", "FusedMM");
        r.what = "edges, forward";
        r.bar = 1.0;
        context.notRun(r, "FusedMM is not built in: it comes as source, without a package");
    });
    const std::string id = context.wants("C7") ? "C7" : "B5";
    context.guard(id, "METIS over random order, communities of degree 14", [&] { orders(context, "communities of degree 14", communities(nodes, 14, 1), true); });
    if (!context.quick()) {
        context.guard(id, "METIS over random order, communities of degree 14, 262k nodes", [&] { orders(context, "communities of degree 14", communities(262144, 14, 1), false); });
        context.guard(id, "METIS over random order, communities of degree 46", [&] { orders(context, "communities of degree 46", communities(65536, 46, 1), false); });
        context.guard(id, "METIS over random order, R-MAT", [&] { orders(context, "R-MAT of degree 16", rmat(16, 16, 1), false); });
        context.guard(id, "METIS over random order, grid", [&] { orders(context, "grid", grid(512, 512, 1), false); });
    }
    context.guard("B5", "gather, softmax, scatter", [&] { forwardBesideGather(context, p); });
}

} // namespace megagraph::runtime::bench
