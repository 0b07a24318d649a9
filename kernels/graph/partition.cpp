// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/partition.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <metis.h>
#include <numeric>

namespace megagraph::kernels {
namespace {

static_assert(sizeof(idx_t) == 4 || sizeof(idx_t) == 8, "METIS index width");

bool fitsMetis(CsrView graph)
{
    constexpr int64_t limit = std::numeric_limits<int32_t>::max();
    return int64_t(graph.indices.size()) < limit && graph.nodes < limit;
}

/// Parts of a connected-node graph by METIS; empty when the library reports a fault.
std::vector<int32_t> metisParts(CsrView graph, int64_t parts, int64_t seed, bool balanceEdges, bool nested)
{
    std::vector<idx_t> xadj(graph.indptr.begin(), graph.indptr.end());
    std::vector<idx_t> adjncy(graph.indices.begin(), graph.indices.end());
    idx_t nodes = idx_t(graph.nodes), k = idx_t(parts), constraints = balanceEdges ? 2 : 1, cut = 0;
    std::vector<idx_t> weights;
    if (balanceEdges) {
        for (int64_t v = 0; v < graph.nodes; ++v) {
            weights.push_back(1);
            weights.push_back(idx_t(graph.indptr[size_t(v) + 1] - graph.indptr[size_t(v)]));
        }
    }
    idx_t options[METIS_NOPTIONS];
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = idx_t(seed);
    options[METIS_OPTION_NUMBERING] = 0;
    std::vector<idx_t> part(size_t(graph.nodes), 0);
    // recursive bisection where k-way is known to leave parts empty (few nodes a part), and for few parts
    const bool recursive = nested || parts <= 8 || parts > graph.nodes / 8;
    const auto call = recursive ? METIS_PartGraphRecursive : METIS_PartGraphKway;
    const int status = call(&nodes, &constraints, xadj.data(), adjncy.data(), balanceEdges ? weights.data() : nullptr, nullptr,
                            nullptr, &k, nullptr, nullptr, options, &cut, part.data());
    if (status != METIS_OK)
        return {};
    std::vector<int32_t> out(part.begin(), part.end());
    const bool inRange = std::all_of(out.begin(), out.end(), [&](int32_t p) { return p >= 0 && p < parts; });
    return inRange ? out : std::vector<int32_t>{};
}

/// Streaming greedy: nodes by falling degree, each to the part with most neighbours less its load share.
std::vector<int32_t> greedyParts(CsrView graph, int64_t parts)
{
    std::vector<int32_t> byDegree(size_t(graph.nodes));
    std::iota(byDegree.begin(), byDegree.end(), 0);
    const auto degree = [&](int32_t v) { return graph.indptr[size_t(v) + 1] - graph.indptr[size_t(v)]; };
    std::stable_sort(byDegree.begin(), byDegree.end(), [&](int32_t a, int32_t b) { return degree(a) > degree(b); });
    std::vector<int32_t> part(size_t(graph.nodes), -1);
    std::vector<int64_t> load(size_t(parts), 0), gain(size_t(parts), 0);
    const double capacity = double(graph.nodes) / double(parts) * 1.05 + 1;
    for (const int32_t v : byDegree) {
        for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e) {
            const int32_t p = part[size_t(graph.indices[size_t(e)])];
            if (p >= 0)
                ++gain[size_t(p)];
        }
        int64_t best = 0;
        double bestScore = -std::numeric_limits<double>::infinity();
        for (int64_t p = 0; p < parts; ++p) {
            const double room = 1.0 - double(load[size_t(p)]) / capacity;
            const double score = room > 0 ? (double(gain[size_t(p)]) + 1e-3) * room : room;
            if (score > bestScore) {
                bestScore = score;
                best = p;
            }
        }
        part[size_t(v)] = int32_t(best);
        ++load[size_t(best)];
        std::fill(gain.begin(), gain.end(), 0);
    }
    return part;
}

int64_t cutEdges(CsrView graph, std::span<const int32_t> part)
{
    int64_t cut = 0;
    for (int64_t v = 0; v < graph.nodes; ++v) {
        for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e)
            cut += part[size_t(v)] != part[size_t(graph.indices[size_t(e)])];
    }
    return cut / 2;
}

/// Every empty part takes, from the largest part, the node whose move adds the least cut. Returns nodes moved.
int64_t fillEmptyParts(CsrView graph, std::vector<int32_t>& part, int64_t parts)
{
    std::vector<int64_t> size(size_t(parts), 0);
    for (const int32_t p : part)
        ++size[size_t(p)];
    int64_t moved = 0;
    for (int64_t empty = 0; empty < parts; ++empty) {
        if (size[size_t(empty)] > 0)
            continue;
        const int64_t from = std::max_element(size.begin(), size.end()) - size.begin();
        int64_t best = -1, bestInner = std::numeric_limits<int64_t>::max();
        for (int64_t v = 0; v < graph.nodes; ++v) {
            if (part[size_t(v)] != from)
                continue;
            int64_t inner = 0;
            for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e)
                inner += part[size_t(graph.indices[size_t(e)])] == from;
            if (inner < bestInner) {
                bestInner = inner;
                best = v;
            }
        }
        part[size_t(best)] = int32_t(empty);
        --size[size_t(from)];
        ++size[size_t(empty)];
        ++moved;
    }
    return moved;
}

std::vector<int32_t> equalRanges(int64_t nodes, int64_t parts)
{
    std::vector<int32_t> part(size_t(nodes), 0);
    for (int64_t v = 0; v < nodes; ++v)
        part[size_t(v)] = int32_t(v * parts / nodes);
    return part;
}

/// Isolated nodes go to the lightest parts, in node order.
void placeIsolated(std::vector<int32_t>& part, std::span<const int32_t> isolated, int64_t parts)
{
    std::vector<int64_t> size(size_t(parts), 0);
    for (const int32_t p : part)
        if (p >= 0)
            ++size[size_t(p)];
    for (const int32_t v : isolated) {
        const int64_t lightest = std::min_element(size.begin(), size.end()) - size.begin();
        part[size_t(v)] = int32_t(lightest);
        ++size[size_t(lightest)];
    }
}

} // namespace

Result<Partition> partition(CsrView graph, const PartitionOptions& options)
{
    if (options.parts < 1 || options.parts > std::max<int64_t>(graph.nodes, 1))
        return Error{ErrorCode::InvalidInput,
                     fmt::format("partition: parts: cannot split {} nodes, got {}, expected 1 to {}; ask for fewer parts", graph.nodes,
                                 options.parts, std::max<int64_t>(graph.nodes, 1))};
    Partition out;
    out.method = options.method;
    const int64_t n = graph.nodes, k = options.parts;
    if (k == 1 || k == n) { // never handed to METIS
        out.part.resize(size_t(n));
        for (int64_t v = 0; v < n; ++v)
            out.part[size_t(v)] = k == 1 ? 0 : int32_t(v);
        const Csr prepared = symmetrised(graph);
        out.cut = cutEdges(prepared.view(), out.part);
        return out;
    }
    const Csr prepared = symmetrised(graph);
    if (prepared.indices.empty() || options.method == "blocks") {
        out.part = equalRanges(n, k);
        out.method = "blocks";
        out.cut = cutEdges(prepared.view(), out.part);
        return out;
    }
    std::vector<int32_t> connected, isolated;
    for (int64_t v = 0; v < n; ++v)
        (prepared.indptr[size_t(v) + 1] > prepared.indptr[size_t(v)] ? connected : isolated).push_back(int32_t(v));
    const Csr core = induced(prepared.view(), connected);
    std::vector<int32_t> parts;
    if (options.method == "metis" && fitsMetis(core.view()) && int64_t(connected.size()) > k)
        parts = metisParts(core.view(), k, options.seed, options.balanceEdges, options.nested);
    if (parts.empty()) {
        parts = greedyParts(core.view(), std::min<int64_t>(k, int64_t(connected.size())));
        out.method = "greedy";
    }
    out.part.assign(size_t(n), -1);
    for (size_t i = 0; i < connected.size(); ++i)
        out.part[size_t(connected[i])] = parts[i];
    placeIsolated(out.part, isolated, k);
    out.repaired = fillEmptyParts(prepared.view(), out.part, k);
    out.cut = cutEdges(prepared.view(), out.part);
    return out;
}

std::string partitionerVersion()
{
    return fmt::format("{}.{}.{}", METIS_VER_MAJOR, METIS_VER_MINOR, METIS_VER_SUBMINOR);
}

} // namespace megagraph::kernels
