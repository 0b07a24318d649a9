// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/token_order.h"

#include "kernels/graph/cache.h"
#include "kernels/graph/partition.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <numeric>

namespace megagraph::kernels {
namespace {

constexpr int64_t kLeafNodes = 64; // one 64 x 64 tile wide
constexpr const char* kOrderVersion = "order-1";
constexpr const char* kClusterVersion = "clusters-1";

/// Nodes of each component, larger components first (ties: smallest node), isolated nodes apart.
struct Grouped {
    std::vector<std::vector<int32_t>> groups;
    std::vector<int32_t> isolated;
};

Grouped groupComponents(CsrView graph)
{
    const std::vector<int32_t> number = components(graph);
    const int32_t count = number.empty() ? 0 : 1 + *std::max_element(number.begin(), number.end());
    std::vector<std::vector<int32_t>> all(static_cast<size_t>(count));
    for (int64_t v = 0; v < graph.nodes; ++v)
        all[size_t(number[size_t(v)])].push_back(int32_t(v));
    Grouped out;
    for (auto& group : all) {
        if (group.size() == 1)
            out.isolated.push_back(group[0]);
        else
            out.groups.push_back(std::move(group));
    }
    std::stable_sort(out.groups.begin(), out.groups.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
    return out;
}

Result<std::vector<int32_t>> orderComponent(CsrView graph, std::vector<int32_t> nodes, int64_t seed)
{
    std::vector<int32_t> part(nodes.size(), 0);
    if (int64_t(nodes.size()) > kLeafNodes) {
        const Csr local = induced(graph, nodes);
        PartitionOptions options;
        options.parts = (int64_t(nodes.size()) + kLeafNodes - 1) / kLeafNodes;
        options.seed = seed;
        options.balanceEdges = false;
        options.nested = true;
        auto split = partition(local.view(), options);
        if (!split)
            return std::move(split).error();
        part = std::move(split->part);
    }
    std::vector<size_t> at(nodes.size());
    std::iota(at.begin(), at.end(), 0);
    const auto degree = [&](size_t i) { return graph.indptr[size_t(nodes[i]) + 1] - graph.indptr[size_t(nodes[i])]; };
    std::stable_sort(at.begin(), at.end(), [&](size_t a, size_t b) {
        return part[a] != part[b] ? part[a] < part[b] : degree(a) > degree(b);
    });
    std::vector<int32_t> out;
    out.reserve(nodes.size());
    for (const size_t i : at)
        out.push_back(nodes[i]);
    return out;
}

/// position and component follow from the order and the graph.
void complete(TokenOrder& result, CsrView graph)
{
    result.position.resize(result.order.size());
    result.component.resize(result.order.size());
    const std::vector<int32_t> number = components(graph);
    for (size_t t = 0; t < result.order.size(); ++t) {
        result.position[size_t(result.order[t])] = int32_t(t);
        result.component[t] = number[size_t(result.order[t])];
    }
}

bool isPermutation(std::span<const int32_t> order)
{
    std::vector<bool> seen(order.size(), false);
    for (const int32_t v : order) {
        if (v < 0 || size_t(v) >= order.size() || seen[size_t(v)])
            return false;
        seen[size_t(v)] = true;
    }
    return true;
}

template <class T> void append(std::string& bytes, std::span<const T> values)
{
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

} // namespace

Result<TokenOrder> buildTokenOrder(CsrView graph, const std::string& kind, int64_t seed, const Progress& progress,
                                   std::stop_token stop)
{
    if (kind != "metis" && kind != "natural")
        return Error{ErrorCode::InvalidInput, fmt::format("order: unknown token order, got {}, expected metis or natural", kind)};
    TokenOrder result;
    result.kind = kind;
    result.order.resize(size_t(graph.nodes));
    std::iota(result.order.begin(), result.order.end(), 0);
    if (kind == "metis") {
        const Csr clean = symmetrised(graph);
        const Grouped grouped = groupComponents(clean.view());
        result.order.clear();
        for (const auto& group : grouped.groups) {
            if (stop.stop_requested())
                return Error{ErrorCode::Cancelled, "token order: cancelled"};
            auto ordered = orderComponent(clean.view(), group, seed);
            if (!ordered)
                return std::move(ordered).error();
            result.order.insert(result.order.end(), ordered->begin(), ordered->end());
            if (progress)
                progress("token order", int64_t(result.order.size()), graph.nodes);
        }
        result.order.insert(result.order.end(), grouped.isolated.begin(), grouped.isolated.end());
    }
    complete(result, graph);
    return result;
}

Result<Clusters> buildClusters(CsrView graph, int64_t tokensPerSequence, int64_t seed)
{
    Clusters out;
    const int64_t tokens = std::max<int64_t>(tokensPerSequence, 1);
    const int64_t count = std::clamp<int64_t>((graph.nodes + tokens / 2) / tokens, 1, std::max<int64_t>(graph.nodes, 1));
    PartitionOptions options;
    options.parts = count;
    options.seed = seed;
    auto split = partition(graph, options);
    if (!split)
        return std::move(split).error();
    out.sequences.resize(size_t(count));
    for (int64_t v = 0; v < graph.nodes; ++v)
        out.sequences[size_t(split->part[size_t(v)])].push_back(int32_t(v));
    int64_t inside = 0;
    for (int64_t v = 0; v < graph.nodes; ++v) {
        for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e)
            inside += split->part[size_t(v)] == split->part[size_t(graph.indices[size_t(e)])];
    }
    out.keptEdges = graph.indices.empty() ? 1.0 : double(inside) / double(graph.indices.size());
    return out;
}

Result<TokenOrder> cachedTokenOrder(const std::string& home, const std::string& structureHash, CsrView graph,
                                    const std::string& kind, int64_t seed, const Progress& progress, std::stop_token stop)
{
    const std::string path =
        cachePath(home, "order", {structureHash, kind, std::to_string(seed), partitionerVersion(), kOrderVersion});
    if (const auto bytes = readCache(path); bytes && bytes->size() == size_t(graph.nodes) * sizeof(int32_t)) {
        TokenOrder result;
        result.kind = kind;
        result.order.resize(size_t(graph.nodes));
        std::memcpy(result.order.data(), bytes->data(), bytes->size());
        if (isPermutation(result.order)) {
            complete(result, graph);
            return result;
        }
    }
    auto built = buildTokenOrder(graph, kind, seed, progress, stop);
    if (!built)
        return built;
    std::string bytes;
    append<int32_t>(bytes, built->order);
    auto written = writeCache(path, bytes);
    if (!written)
        return std::move(written).error();
    return built;
}

Result<Clusters> cachedClusters(const std::string& home, const std::string& structureHash, CsrView ordered,
                                const std::string& kind, int64_t tokensPerSequence, int64_t seed)
{
    const std::string path = cachePath(home, "clusters", {structureHash, kind, std::to_string(tokensPerSequence),
                                                          std::to_string(seed), partitionerVersion(), kClusterVersion});
    // payload: kept share (double), count (int64), then per sequence its length (int64) and tokens (int32)
    if (const auto bytes = readCache(path)) {
        Clusters out;
        int64_t count = 0, total = 0;
        size_t at = sizeof out.keptEdges + sizeof count;
        if (bytes->size() >= at) {
            std::memcpy(&out.keptEdges, bytes->data(), sizeof out.keptEdges);
            std::memcpy(&count, bytes->data() + sizeof out.keptEdges, sizeof count);
            for (int64_t s = 0; s < count && at + sizeof(int64_t) <= bytes->size(); ++s) {
                int64_t length = 0;
                std::memcpy(&length, bytes->data() + at, sizeof length);
                at += sizeof length;
                if (length < 0 || at + size_t(length) * sizeof(int32_t) > bytes->size())
                    break;
                std::vector<int32_t>& tokens = out.sequences.emplace_back(size_t(length));
                std::memcpy(tokens.data(), bytes->data() + at, size_t(length) * sizeof(int32_t));
                at += size_t(length) * sizeof(int32_t);
                total += length;
            }
            if (total == ordered.nodes && int64_t(out.sequences.size()) == count)
                return out;
        }
    }
    auto built = buildClusters(ordered, tokensPerSequence, seed);
    if (!built)
        return built;
    std::string bytes;
    const int64_t count = int64_t(built->sequences.size());
    append(bytes, std::span<const double>(&built->keptEdges, 1));
    append(bytes, std::span<const int64_t>(&count, 1));
    for (const auto& tokens : built->sequences) {
        const int64_t length = int64_t(tokens.size());
        append(bytes, std::span<const int64_t>(&length, 1));
        append<int32_t>(bytes, tokens);
    }
    auto written = writeCache(path, bytes);
    if (!written)
        return std::move(written).error();
    return built;
}

} // namespace megagraph::kernels
