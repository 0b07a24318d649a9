// SPDX-License-Identifier: Apache-2.0
// B2 and B3: our dense kernels against the ceilings of the machine, threads, and memory. No peer but ourselves.
#include "runtime/bench/cases.h"

#include "kernels/cpu/dispatch.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <stdexcept>
#include <string_view>

namespace megagraph::runtime::bench {
namespace {

using kernels::ForkJoinFor;

/// The ceiling that a set of kernels is held against, and its loop as one more side of the rounds.
struct Yardstick {
    std::string name;
    CeilingLoop loop;
    Times times;

    Yardstick(std::string what, CeilingKind kind, const Context& context)
        : name(std::move(what)), loop(ceilingLoop(kind, context.threads(), context.quick() ? 0.002 : 0.03))
    {
    }
    /// The sides with the loop in front, where there is one.
    std::vector<Times> beside(const Context& context, std::vector<Side> sides)
    {
        if (!loop.side)
            return context.compare(sides);
        sides.insert(sides.begin(), loop.side);
        std::vector<Times> found = context.compare(sides);
        times = found.front();
        found.erase(found.begin());
        return found;
    }
    double gflops() const { return times.empty() ? 0 : loop.flops * 1e-6 / times.median(); }
};

/// A row whose ratio is the share of a ceiling: medians of the same rounds.
void addShare(Context& context, Row row, const Times& times, double flops, const Yardstick& yardstick, double bar)
{
    row.ours = times;
    row.flops = flops;
    row.peak = yardstick.gflops();
    row.peer = yardstick.times;
    row.bar = bar;
    row.measure = "share of peak";
    row.peerName = yardstick.name;
    row.peerBackend = "register-only loop in the same rounds";
    if (*row.peak > 0 && times.median() > 0)
        row.ratio = flops * 1e-6 / times.median() / *row.peak;
    else
        row.note = "the peak of this processor is not known";
    row.more["peak_gflops"] = *row.peak;
    context.add(row);
}

Yardstick yardstickFor(bool bf16, const Context& context)
{
    const std::string_view set = kernels::cpu::kernels().name;
    if (bf16 && set == "amxbf16")
        return {"AMX bf16 peak", CeilingKind::Amx, context};
    if (bf16 && set == "avx512bf16")
        return {"bf16 dot product peak", CeilingKind::Bf16, context};
    return {"fp32 multiply-add peak", CeilingKind::Fp32, context};
}

/// Another set of kernels while it lives. Throws when this machine does not run it.
class ForcedSet {
  public:
    explicit ForcedSet(std::string_view name) : before_(kernels::cpu::kernels().name)
    {
        if (const auto forced = kernels::cpu::forceKernels(name); !forced.ok())
            throw std::runtime_error(forced.error().message);
    }
    ~ForcedSet() { (void)kernels::cpu::forceKernels(before_).ok(); }
    ForcedSet(const ForcedSet&) = delete;
    ForcedSet& operator=(const ForcedSet&) = delete;

  private:
    std::string_view before_;
};

bool runsHere(std::string_view name)
{
    for (const kernels::cpu::CpuKernels* set : kernels::cpu::allKernels())
        if (name == set->name && set->supported())
            return true;
    return false;
}

void shares(Context& context, DenseGraphs& graphs, const SizedCase& sized)
{
    const DenseSize& size = sized.size;
    const std::string suffix = size.bf16 ? fmt::format(", set {}", kernels::cpu::kernels().name) : std::string();
    const auto row = [&](const std::string& what) {
        Row r = denseRow("B2", what + suffix, size, context);
        r.judged = r.judged && sized.judged;
        return r;
    };
    DenseProblem p(size, context.threads(), &graphs.of(size.tokens));
    const ForkJoinFor parallel(context.threads());
    const auto forward = [&](BiasUse use) { return timed([&p, &parallel, use] { p.forward(use, parallel); }); };
    const auto backward = [&](BiasUse use) { return timed([&p, &parallel, use] { p.backward(use, parallel); }); };
    // backward reads what the second forward left
    Yardstick peak = yardstickFor(size.bf16, context);
    const auto times = peak.beside(context, {forward(BiasUse::None), forward(BiasUse::Frozen), backward(BiasUse::Frozen), backward(BiasUse::Learned)});
    const double flops = size.forwardFlops();
    Row uniform = row("forward, uniform tiles"), classes = row("forward, class tiles");
    classes.extraBytes = countedPeakOf(p, [&] { p.forward(BiasUse::Frozen, parallel); });
    classes.error = p.forwardError(BiasUse::Frozen);
    addShare(context, uniform, times[0], flops, peak, 0.60);
    addShare(context, classes, times[1], flops, peak, size.bf16 ? 0.55 : 0.57);
    Row frozen = row("backward, frozen table"), learned = row("backward, learned table");
    learned.extraBytes = countedPeak([&] { p.backward(BiasUse::Learned, parallel); });
    learned.error = p.backwardError(BiasUse::Learned);
    addShare(context, frozen, times[2], size.backwardFlops(), peak, size.bf16 ? 0.45 : 0.60);
    addShare(context, learned, times[3], size.backwardFlops(), peak, size.bf16 ? 0.40 : 0.55);
    Row table = row("backward, table gradient over frozen bias");
    table.ours = times[3], table.peer = times[2];
    table.peerName = "ours, frozen bias";
    table.measure = "time with table gradient / with frozen bias";
    table.ratio = times[3].median() / std::max(1e-9, times[2].median());
    table.bar = 1.15;
    table.atMost = true;
    context.add(table);
}

/// All threads beside one thread; the bar is for two cores.
void threadCases(Context& context)
{
    const DenseSize one{context.size(8192, 256), 1, 64}, eight{context.size(4096, 256), 8, 64};
    const auto compare = [&](const DenseSize& size, const std::string& what, bool backward) {
        Row row = denseRow("B2", what, size, context);
        row.bar = 1.8;
        row.judged = row.judged && context.threads() == 2;
        row.peerName = "ours, one thread";
        row.measure = "time with one thread / with all";
        if (context.threads() < 2)
            return context.notRun(row, "the run has one thread");
        DenseProblem p(size, context.threads(), nullptr);
        const ForkJoinFor all(context.threads());
        const kernels::SerialFor serial;
        p.forward(BiasUse::None, all);
        const auto run = [&](const kernels::ParallelFor& parallel) { backward ? p.backward(BiasUse::None, parallel) : p.forward(BiasUse::None, parallel); };
        // what two cores of this machine are worth just now: other programs, or other guests of the host, may hold a part of them
        const CeilingLoop loops[] = {ceilingLoop(CeilingKind::Fp32, context.threads()), ceilingLoop(CeilingKind::Fp32, 1)};
        std::vector<Side> sides{timed([&] { run(all); }), timed([&] { run(serial); })};
        for (const CeilingLoop& loop : loops)
            if (loop.side)
                sides.push_back(loop.side);
        const auto times = context.compare(sides);
        row.ours = times[0], row.peer = times[1];
        row.flops = backward ? size.backwardFlops() : size.forwardFlops();
        if (sides.size() == 4) {
            row.peak = loops[0].flops * 1e-6 / times[2].median();
            row.more["register_loop_all_over_one"] = *row.peak / (loops[1].flops * 1e-6 / times[3].median());
        }
        context.add(row);
    };
    context.guard("B2", "one-head backward, all threads over one", [&] { compare(one, "one-head backward, all threads over one", true); });
    context.guard("B2", "forward, all threads over one", [&] { compare(eight, "forward, all threads over one", false); });
}

/// The AVX2 set on a processor that has more: against the peak of 256-bit code.
void narrowSet(Context& context, DenseGraphs& graphs)
{
    const DenseSize size{context.size(4096, 320), context.quick() ? 2 : 8, 64};
    Row row = denseRow("B2", "forward, class tiles, AVX2 set", size, context);
    const ForcedSet forced("avx2");
    DenseProblem p(size, context.threads(), &graphs.of(size.tokens));
    const ForkJoinFor parallel(context.threads());
    Yardstick peak("AVX2 multiply-add peak", CeilingKind::Avx2, context);
    const auto times = peak.beside(context, {timed([&] { p.forward(BiasUse::Frozen, parallel); })});
    row.error = p.forwardError(BiasUse::Frozen);
    addShare(context, row, times[0], size.forwardFlops(), peak, 0.5);
}

/// Ours alone on sizes that no peer reaches: one head, all rows of 64k, a slice of rows of 262k.
void largeCase(Context& context, DenseGraphs& graphs, int64_t tokens, int64_t rows)
{
    DenseSize size{tokens, 1, 64};
    size.queries = rows;
    Row row = denseRow("B2", rows > 0 ? fmt::format("forward, class tiles, {} query rows", rows) : std::string("forward, class tiles, ours alone"), size, context);
    row.judged = false;
    DenseProblem p(size, context.threads(), &graphs.of(tokens));
    const ForkJoinFor parallel(context.threads());
    row.extraBytes = countedPeakOf(p, [&] { p.forward(BiasUse::Frozen, parallel); });
    row.more["topology_bytes"] = p.topologyBytes();
    Yardstick peak = yardstickFor(false, context);
    const auto times = peak.beside(context, {timed([&] { p.forward(BiasUse::Frozen, parallel); })});
    row.error = p.forwardError(BiasUse::Frozen);
    addShare(context, row, times[0], size.forwardFlops(), peak, 0.57);
}

void linearMemory(Context& context, DenseGraphs& graphs)
{
    const ForkJoinFor parallel(context.threads());
    Row row = denseRow("B3", "extra memory of forward + backward, one head, per token", {context.size(65536, 1024), 1, 64}, context);
    row.measure = "largest bytes per token / smallest, over N";
    row.bar = 1.10;
    row.atMost = true;
    Json sizes = Json::array();
    double least = 1e300, most = 0;
    double rate = 0; // flop/s of the last size
    const int64_t largest = row.n;
    for (int64_t n = context.size(2048, 256); n <= largest; n *= 2) {
        const DenseSize size{n, 1, 64};
        const double flops = size.forwardFlops() + size.backwardFlops();
        if (rate > 0 && flops / rate > 2 * context.options().mostSeconds) {
            row.note = fmt::format("stopped at N = {}: the next size would take {:.0f} s", n / 2, flops / rate);
            row.judged = false;
            break;
        }
        context.progress(fmt::format("B3 N = {}", n));
        DenseProblem p(size, context.threads(), &graphs.of(n));
        int64_t bytes = 0;
        const double ms = timed([&] {
            bytes = countedPeak([&] {
                p.forward(BiasUse::Learned, parallel);
                p.backward(BiasUse::Learned, parallel);
            });
        })();
        rate = 1e3 * flops / ms;
        sizes.push_back({{"n", n}, {"extra_bytes", bytes}, {"topology_bytes", p.topologyBytes()}});
        least = std::min(least, double(bytes) / double(n));
        most = std::max(most, double(bytes) / double(n));
        row.extraBytes = bytes;
        row.n = n;
    }
    row.more["sizes"] = sizes;
    row.ratio = most / least;
    context.add(row);
}

/// The baseline plan's operations with autograd: dense bias from classes, softmax, products.
void materialised(DenseProblem& p)
{
    const at::AutoGradMode mode(true);
    const auto leaf = [](const at::Tensor& t) { return t.detach().requires_grad_(true); };
    const at::Tensor q = leaf(p.q()), k = leaf(p.k()), v = leaf(p.v()), table = leaf(p.table());
    const at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) * (1 / std::sqrt(double(p.size().dim)));
    at::matmul(at::softmax(scores + table.index({at::indexing::Slice(), p.classes()}), -1), v).backward(p.dO());
}

void materialisedMemory(Context& context, DenseGraphs& graphs)
{
    const DenseSize size{context.size(16384, 512), 1, 64};
    Row row = denseRow("B3", "extra memory of forward + backward with learned table, one head", size, context);
    row.measure = "extra bytes of ours / of peer, each with its topology and output";
    row.bar = 0.01;
    row.atMost = true;
    row.peerName = "materialised path";
    row.peerBackend = "ATen operations with autograd";
    if (!context.fits(double(size.tokens) * double(size.tokens) * 4 * 8))
        return context.notRun(row, "the peer's N x N arrays do not fit the memory that is free");
    DenseProblem p(size, context.threads(), &graphs.of(size.tokens));
    const ForkJoinFor parallel(context.threads());
    row.more["topology_bytes"] = p.topologyBytes();
    row.extraBytes = p.topologyBytes() + countedPeakOf(p, [&] {
        p.forward(BiasUse::Learned, parallel);
        p.backward(BiasUse::Learned, parallel);
    });
    row.peerExtraBytes = int64_t(p.classes().nbytes());
    row.peerExtraBytes = *row.peerExtraBytes + countedPeak([&] { materialised(p); });
    row.ratio = double(*row.extraBytes) / double(*row.peerExtraBytes);
    context.add(row);
}

} // namespace

void ceilingCases(Context& context, DenseGraphs& graphs)
{
    if (!context.wants("B2"))
        return;
    std::vector<SizedCase> sizes{{{4096, 8, 64}, true}, {{8192, 8, 64}, true}, {{4096, 8, 32}, false}, {{4096, 4, 64}, false}};
    if (context.quick())
        sizes = {{{320, 2, 64}, false}};
    for (const SizedCase& base : sizes)
        context.guard("B2", fmt::format("share of peak, H = {}, d = {}, fp32", base.size.heads, base.size.dim), [&] { shares(context, graphs, base); });
    // the targets are shares of the dot product peak; AMX has a far higher one that the softmax between the products never lets it reach
    for (const SizedCase& base : sizes)
        for (const char* set : {"avx512bf16", "amxbf16"}) {
            SizedCase sized = base;
            sized.size.bf16 = true;
            sized.judged = sized.judged && std::string_view(set) == "avx512bf16";
            const std::string what = fmt::format("share of peak, H = {}, d = {}, bf16, set {}", base.size.heads, base.size.dim, set);
            context.guard("B2", what, [&] {
                if (!runsHere(set))
                    return context.notRun(denseRow("B2", what, sized.size, context), fmt::format("this machine does not run the set {}", set));
                const ForcedSet forced(set);
                shares(context, graphs, sized);
            });
        }
    threadCases(context);
    context.guard("B2", "AVX2 set", [&] { narrowSet(context, graphs); });
    if (context.quick())
        return;
    context.guard("B2", "forward, 64k", [&] { largeCase(context, graphs, 65536, 0); });
    context.guard("B2", "forward, 262k keys", [&] { largeCase(context, graphs, 262144, 8192); });
}

void memoryCases(Context& context, DenseGraphs& graphs)
{
    context.guard("B3", "extra memory over N", [&] { linearMemory(context, graphs); });
    context.guard("B3", "extra memory beside the materialised path", [&] { materialisedMemory(context, graphs); });
}

} // namespace megagraph::runtime::bench
