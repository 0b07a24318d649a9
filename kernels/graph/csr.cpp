// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/csr.h"

#include <algorithm>
#include <numeric>

namespace megagraph::kernels {

Csr permute(CsrView graph, std::span<const int32_t> order)
{
    std::vector<int32_t> position(size_t(graph.nodes));
    for (int64_t t = 0; t < graph.nodes; ++t)
        position[size_t(order[size_t(t)])] = int32_t(t);
    Csr out;
    out.indptr.resize(size_t(graph.nodes) + 1, 0);
    out.indices.resize(graph.indices.size());
    int64_t at = 0;
    for (int64_t t = 0; t < graph.nodes; ++t) {
        const int64_t node = order[size_t(t)];
        const int64_t begin = at;
        for (int64_t e = graph.indptr[size_t(node)]; e < graph.indptr[size_t(node) + 1]; ++e)
            out.indices[size_t(at++)] = position[size_t(graph.indices[size_t(e)])];
        std::sort(out.indices.begin() + begin, out.indices.begin() + at);
        out.indptr[size_t(t) + 1] = at;
    }
    return out;
}

std::vector<int64_t> permutedEntries(CsrView graph, std::span<const int32_t> order)
{
    std::vector<int32_t> position(size_t(graph.nodes));
    for (int64_t t = 0; t < graph.nodes; ++t)
        position[size_t(order[size_t(t)])] = int32_t(t);
    std::vector<int64_t> out(graph.indices.size());
    std::iota(out.begin(), out.end(), 0);
    int64_t at = 0;
    for (int64_t t = 0; t < graph.nodes; ++t) {
        const size_t node = size_t(order[size_t(t)]);
        const int64_t begin = at;
        for (int64_t e = graph.indptr[node]; e < graph.indptr[node + 1]; ++e)
            out[size_t(at++)] = e;
        std::sort(out.begin() + begin, out.begin() + at, [&](int64_t a, int64_t b) {
            return position[size_t(graph.indices[size_t(a)])] < position[size_t(graph.indices[size_t(b)])];
        });
    }
    return out;
}

Csr induced(CsrView graph, std::span<const int32_t> tokens)
{
    std::vector<int32_t> position(size_t(graph.nodes), -1);
    for (size_t i = 0; i < tokens.size(); ++i)
        position[size_t(tokens[i])] = int32_t(i);
    Csr out;
    out.indptr.resize(tokens.size() + 1, 0);
    for (size_t i = 0; i < tokens.size(); ++i) {
        const size_t node = size_t(tokens[i]);
        for (int64_t e = graph.indptr[node]; e < graph.indptr[node + 1]; ++e) {
            const int32_t local = position[size_t(graph.indices[size_t(e)])];
            if (local >= 0)
                out.indices.push_back(local);
        }
        std::sort(out.indices.begin() + out.indptr[i], out.indices.end());
        out.indptr[i + 1] = int64_t(out.indices.size());
    }
    return out;
}

Csr rows(CsrView graph, int64_t begin, int64_t end)
{
    Csr out;
    const int64_t first = graph.indptr[size_t(begin)];
    out.indptr.reserve(size_t(end - begin) + 1);
    for (int64_t r = begin; r <= end; ++r)
        out.indptr.push_back(graph.indptr[size_t(r)] - first);
    const auto entries = graph.indices.subspan(size_t(first), size_t(out.indptr.back()));
    out.indices.assign(entries.begin(), entries.end());
    return out;
}

Csr symmetrised(CsrView graph)
{
    const Transposed back = transposed(graph, graph.nodes);
    Csr out;
    out.indptr.resize(size_t(graph.nodes) + 1, 0);
    out.indices.reserve(graph.indices.size());
    std::vector<int32_t> row;
    for (int64_t v = 0; v < graph.nodes; ++v) {
        row.clear();
        for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e)
            row.push_back(graph.indices[size_t(e)]);
        for (int64_t e = back.indptr[size_t(v)]; e < back.indptr[size_t(v) + 1]; ++e)
            row.push_back(back.rows[size_t(e)]);
        std::sort(row.begin(), row.end());
        row.erase(std::unique(row.begin(), row.end()), row.end());
        std::erase(row, int32_t(v));
        out.indices.insert(out.indices.end(), row.begin(), row.end());
        out.indptr[size_t(v) + 1] = int64_t(out.indices.size());
    }
    return out;
}

Transposed transposed(CsrView graph, int64_t keys)
{
    Transposed out;
    out.indptr.resize(size_t(keys) + 1, 0);
    for (const int32_t column : graph.indices)
        ++out.indptr[size_t(column) + 1];
    std::partial_sum(out.indptr.begin(), out.indptr.end(), out.indptr.begin());
    out.rows.resize(graph.indices.size());
    out.entries.resize(graph.indices.size());
    std::vector<int64_t> next(out.indptr.begin(), out.indptr.end() - 1);
    for (int64_t v = 0; v < graph.nodes; ++v) {
        for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e) {
            const int64_t at = next[size_t(graph.indices[size_t(e)])]++;
            out.rows[size_t(at)] = int32_t(v);
            out.entries[size_t(at)] = e;
        }
    }
    return out;
}

std::vector<int32_t> components(CsrView graph)
{
    // union-find with path halving: works for directed input too, in one pass
    std::vector<int32_t> parent(size_t(graph.nodes));
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](int32_t v) {
        while (parent[size_t(v)] != v) {
            parent[size_t(v)] = parent[size_t(parent[size_t(v)])];
            v = parent[size_t(v)];
        }
        return v;
    };
    for (int64_t v = 0; v < graph.nodes; ++v) {
        for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e) {
            const int32_t a = root(int32_t(v)), b = root(graph.indices[size_t(e)]);
            parent[size_t(std::max(a, b))] = std::min(a, b); // the smallest node is the root
        }
    }
    std::vector<int32_t> number(size_t(graph.nodes), -1);
    std::vector<int32_t> out(size_t(graph.nodes));
    int32_t next = 0;
    for (int64_t v = 0; v < graph.nodes; ++v) {
        int32_t& id = number[size_t(root(int32_t(v)))];
        if (id < 0)
            id = next++;
        out[size_t(v)] = id;
    }
    return out;
}

} // namespace megagraph::kernels
