// SPDX-License-Identifier: Apache-2.0
// C8, B4 and B6: distance classes and Laplacian encodings; C9 and G1 to G8, which cannot run here, with the reason.
#include "runtime/bench/cases.h"

#include "core/bias_storage.h"
#include "core/clock.h"
#include "kernels/encodings.h"
#include "kernels/graph/planes.h"
#include "kernels/graph/tiles.h"
#include "runtime/allocator.h"
#include "runtime/bench/graphs.h"
#include "runtime/bench/machine.h"
#include "runtime/functions/support.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <malloc.h>
#include <memory>

namespace megagraph::runtime::bench {
namespace {

using kernels::Csr;
using kernels::ForkJoinFor;
using kernels::SerialFor;

/// Classes 0..hops of all pairs, one thread, as policy `strips` makes them: the planes of 512 rows at a time.
void allPairs(const Csr& graph, int32_t hops)
{
    const int64_t nodes = graph.view().nodes;
    const SerialFor serial;
    kernels::StripPlanes strips = require(kernels::StripPlanes::create(graph.view(), hops, 0, nodes, 0, nodes, serial, {}));
    for (int64_t strip = 0; strip * kernels::kStripRows < nodes; ++strip)
        require(strips.stripPlanes(strip));
}

/// Pairs at distance 0..hops in those planes.
std::vector<int64_t> pairCounts(const Csr& graph, int32_t hops)
{
    const int64_t nodes = graph.view().nodes;
    std::vector<int64_t> counts(size_t(hops) + 1, 0);
    const SerialFor serial;
    kernels::StripPlanes strips = require(kernels::StripPlanes::create(graph.view(), hops, 0, nodes, 0, nodes, serial, {}));
    for (int64_t strip = 0; strip * kernels::kStripRows < nodes; ++strip) {
        const kernels::TilePlanesView view = require(strips.stripPlanes(strip));
        const int64_t rows = std::min(kernels::kStripRows, nodes - strip * kernels::kStripRows);
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < nodes; ++j) {
                const int64_t tile = view.tileFirst.empty() ? i / 64 * view.keyBlocks + j / 64
                                                            : view.tileFirst[size_t(i / 64)] + j / 64 - view.keyBlockBegin[size_t(i / 64)];
                size_t code = 0;
                for (int32_t p = 0; p < view.planes; ++p)
                    code |= size_t(view.words[size_t((tile * view.planes + p) * 64 + i % 64)] >> (j % 64) & 1) << p;
                if (code < counts.size())
                    ++counts[code];
            }
    }
    return counts;
}

at::Tensor asTensor(const std::vector<int64_t>& v) { return at::tensor(at::ArrayRef<int64_t>(v), at::kLong); }
at::Tensor asTensor(const std::vector<int32_t>& v) { return at::tensor(at::ArrayRef<int32_t>(v), at::kInt); }

/// What Graphormer's data loader does: Floyd-Warshall over int64 distances with the predecessor kept, one thread. Every call
/// runs the next `steps` outer steps; each costs the same.
class FloydWarshall {
  public:
    explicit FloydWarshall(const Csr& graph) : nodes_(graph.view().nodes), distance_(size_t(nodes_ * nodes_), kFar), via_(size_t(nodes_ * nodes_), -1)
    {
        for (int64_t i = 0; i < nodes_; ++i) {
            distance_[size_t(i * nodes_ + i)] = 0;
            for (int64_t e = graph.indptr[size_t(i)]; e < graph.indptr[size_t(i) + 1]; ++e)
                distance_[size_t(i * nodes_ + graph.indices[size_t(e)])] = 1;
        }
    }
    void run(int64_t steps)
    {
        for (; steps > 0; --steps, next_ = (next_ + 1) % nodes_)
            for (int64_t i = 0, k = next_; i < nodes_; ++i) {
                const int64_t first = distance_[size_t(i * nodes_ + k)];
                int64_t* const row = distance_.data() + i * nodes_;
                int64_t* const via = via_.data() + i * nodes_;
                const int64_t* const second = distance_.data() + k * nodes_;
                for (int64_t j = 0; j < nodes_; ++j)
                    if (const int64_t through = first + second[j]; row[j] > through) {
                        row[j] = through;
                        via[j] = k;
                    }
            }
    }
    /// Pairs at distance `hops`, after all steps.
    int64_t pairsAt(int64_t hops) const { return std::count(distance_.begin(), distance_.end(), hops); }

  private:
    static constexpr int64_t kFar = 510; // the published "unreachable"
    int64_t nodes_, next_ = 0;
    std::vector<int64_t> distance_, via_;
};

Row distanceRow(const std::string& what, int64_t nodes, int64_t oursThreads, const Context& context)
{
    Row row;
    row.id = "C8";
    row.what = what;
    row.n = nodes;
    row.dtype = "classes";
    row.threads = int32_t(oursThreads);
    row.judged = !context.quick();
    return row;
}

/// `share`: the part of the peer's work that one round does; its times are divided by it.
void addScaled(Context& context, Row row, const std::vector<Times>& times, double share)
{
    row.ours = times[0], row.peer = times[1];
    for (double& ms : row.peer.ms)
        ms /= share;
    context.add(row);
}

void floydWarshall(Context& context, const Csr& graph, int32_t hops)
{
    const int64_t nodes = graph.view().nodes, steps = context.size(16, nodes);
    Row row = distanceRow(fmt::format("distance classes of all pairs, K = {}, one thread", hops), nodes, 1, context);
    row.bar = 1000;
    row.peerName = "Floyd-Warshall as in Graphormer";
    row.peerBackend = steps == nodes ? "C++, one thread" : fmt::format("C++, one thread; {} of {} outer steps timed and scaled", steps, nodes);
    FloydWarshall peer(graph);
    const auto times = context.compare({timed([&] { allPairs(graph, hops); }), timed([&] { peer.run(steps); })});
    if (steps == nodes) { // a quick run is small enough to check that both found the same
        const std::vector<int64_t> ours = pairCounts(graph, hops);
        for (int32_t h = 0; h <= hops; ++h)
            if (ours[size_t(h)] != peer.pairsAt(h))
                throw std::runtime_error(fmt::format("pairs at distance {}: ours {}, Floyd-Warshall {}", h, ours[size_t(h)], peer.pairsAt(h)));
    }
    addScaled(context, row, times, double(steps) / double(nodes));
}

void pythonDistances(Context& context, PythonPeer& python, const Csr& graph, int32_t hops, const std::string& name)
{
    const int64_t nodes = graph.view().nodes, sources = name == "scipy" ? nodes : context.size(64, 16);
    Row row = distanceRow(fmt::format("distance classes of all pairs, K = {}, one thread", hops), nodes, 1, context);
    row.bar = 50;
    row.judged = row.judged && name == "scipy";
    row.peerName = name == "scipy" ? "SciPy unweighted shortest paths" : "networkx, breadth-first with cutoff";
    const auto ready = python.prepare(name, {{"indptr", asTensor(graph.indptr)}, {"indices", asTensor(graph.indices)}}, {{"sources", sources}, {"hops", hops}});
    if (!ready.ok())
        return context.notRun(row, ready.error().message);
    row.peerBackend = *ready + (sources == nodes ? "" : fmt::format("; {} of {} sources timed and scaled", sources, nodes));
    RoundLimits limits = context.limits();
    limits.warmUps = 1;
    const auto times = interleave(limits, {timed([&] { allPairs(graph, hops); }), python.side()});
    addScaled(context, row, times, double(sources) / double(nodes));
}

void searchSpeed(Context& context)
{
    const int64_t nodes = context.size(65536, 1024);
    constexpr int32_t hops = 5;
    const Csr graph = metisOrder(communities(nodes, 14, 1).view());
    Row row = distanceRow("distance classes of all pairs, K = 5, one core", nodes, 1, context);
    row.id = "B4";
    row.measure = "seconds";
    row.bar = 3.5;
    row.atMost = true;
    row.ours = context.compare({timed([&] { allPairs(graph, hops); })})[0];
    row.ratio = 1e-3 * row.ours.median();
    row.more["mean_degree"] = double(graph.indices.size()) / double(nodes);
    row.more["edge_sources_per_s"] = double(graph.indices.size()) * double(nodes) * hops / *row.ratio;
    context.add(row);
}

void listBytes(Context& context)
{
    const int64_t nodes = context.size(262144, 4096);
    const Csr graph = metisOrder(communities(nodes, 14, 1).view());
    Row row = distanceRow("lists for K = 2: bytes against the formula", nodes, context.threads(), context);
    row.id = "B4";
    row.measure = "|bytes / formula - 1|";
    row.bar = 0.10;
    row.atMost = true;
    const std::vector<int64_t> cuts{0, nodes};
    kernels::TileLists lists;
    row.ours.ms.push_back(timed([&] {
        lists = std::move(require(kernels::buildTileLists(graph.view(), 2, 0, nodes, cuts, ForkJoinFor(context.threads()), {}))[0]);
    })());
    // models design, 2.3: a Dense tile holds its planes, 512 bytes each, in place of 2 bytes per pair
    const double n = double(nodes);
    const double formula = double(listBytesEstimate(nodes, nodes, lists.listPairs, lists.touchedTiles) + 512 * biasPlanes(2) * lists.denseTiles);
    row.more["topology_bytes"] = lists.bytes();
    row.more["dense_tiles"] = lists.denseTiles;
    row.more["touched_tiles"] = lists.touchedTiles;
    row.more["near_pairs_per_node"] = double(lists.nearPairs) / n;
    row.more["formula_bytes"] = formula;
    row.ratio = std::abs(double(lists.bytes()) / formula - 1);
    context.add(row);
}

void laplacian(Context& context)
{
    const int64_t nodes = context.size(100'000, 1000);
    const Csr graph = communities(nodes, 14, 1);
    Row row;
    row.id = "B6";
    row.what = "Laplacian encodings, k = 16";
    row.n = nodes;
    row.dtype = "fp64";
    row.judged = !context.quick();
    row.measure = "largest residual ||L u - lambda u||";
    row.bar = 1e-5;
    row.atMost = true;
    kernels::LaplacianOptions options;
    options.vectors = 16;
    ::malloc_trim(0); // what earlier cases have freed must not hide what this one takes
    std::ofstream("/proc/self/clear_refs") << 5; // the resident peak starts anew
    const int64_t before = residentBytes();
    kernels::LaplacianVectors found;
    row.ours.ms.push_back(timed([&] {
        found = require(kernels::laplacianVectors(graph.view(), options, ForkJoinFor(context.threads()),
                                                  [](const std::string&, int64_t, int64_t) {}, {}));
    })());
    row.extraBytes = std::max<int64_t>(0, residentPeakBytes() - before);
    row.ratio = *std::max_element(found.residuals.begin(), found.residuals.end());
    row.more["products"] = found.products;
    row.more["smallest_eigenvalue"] = found.eigenvalues.front();
    row.more["dense_matrix_bytes"] = 8.0 * double(nodes) * double(nodes);
    context.add(row);
}

} // namespace

void distanceCases(Context& context, PythonPeer& python)
{
    if (!context.wants("C8"))
        return;
    constexpr int32_t hops = 5;
    const Csr graph = metisOrder(communities(context.size(4096, 320), 14, 1).view());
    context.guard("C8", "distances beside Floyd-Warshall", [&] { floydWarshall(context, graph, hops); });
    context.guard("C8", "distances beside SciPy", [&] { pythonDistances(context, python, graph, hops, "scipy"); });
    context.guard("C8", "distances beside networkx", [&] { pythonDistances(context, python, graph, hops, "networkx"); });
}

void searchCases(Context& context)
{
    context.guard("B4", "distance search", [&] { searchSpeed(context); });
    context.guard("B4", "bytes of lists", [&] { listBytes(context); });
}

void laplacianCases(Context& context)
{
    context.guard("B6", "Laplacian encodings", [&] { laplacian(context); });
}

void absentCases(Context& context)
{
    const auto absent = [&](const std::string& id, const std::string& what, const std::string& reason) {
        if (!context.wants(id))
            return;
        Row row;
        row.id = id;
        row.what = what;
        context.notRun(row, reason);
    };
    absent("C9", "ring over two Gloo processes", "the ring benchmark is part of milestone 3");
    const std::string gpu = gpuName();
    const std::string reason = gpu.empty() ? "no GPU" : fmt::format("{} is there, but this verb measures CPU kernels: run packaging/gpu_check.sh", gpu);
    const char* const whats[] = {"SDPA flash and cuDNN without bias", "SDPA cuDNN, frozen bf16 bias", "SDPA memory-efficient, learned bias",
                                 "compiled FlexAttention with table", "FlexAttention on its FA-4 back end", "cuDNN backward with bias gradient",
                                 "PyG TransformerConv; cuSPARSE SDDMM + SpMM", "8192^3 bf16 product; 8 GB copy"};
    for (int i = 0; i < 8; ++i)
        absent(fmt::format("G{}", i + 1), whats[i], reason);
}

} // namespace megagraph::runtime::bench
