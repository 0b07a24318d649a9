// SPDX-License-Identifier: Apache-2.0
#include "core/io/structure.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_set>

namespace megagraph {

namespace {

struct Rows {
    std::vector<int64_t> indptr;
    std::vector<int32_t> indices;

    std::span<const int32_t> row(int64_t r) const
    {
        const auto begin = static_cast<size_t>(indptr[static_cast<size_t>(r)]), end = static_cast<size_t>(indptr[static_cast<size_t>(r) + 1]);
        return std::span(indices).subspan(begin, end - begin);
    }
    int64_t count() const { return static_cast<int64_t>(indptr.size()) - 1; }
};

/// Counting sort of the lines by source; loops left out unless wanted.
Rows bySource(int64_t nodes, std::span<const int32_t> sources, std::span<const int32_t> targets, bool loops)
{
    Rows rows;
    rows.indptr.assign(static_cast<size_t>(nodes) + 1, 0);
    for (size_t i = 0; i < sources.size(); ++i)
        if (loops || sources[i] != targets[i])
            ++rows.indptr[static_cast<size_t>(sources[i]) + 1];
    std::partial_sum(rows.indptr.begin(), rows.indptr.end(), rows.indptr.begin());
    rows.indices.resize(static_cast<size_t>(rows.indptr.back()));
    std::vector<int64_t> next(rows.indptr.begin(), rows.indptr.end() - 1);
    for (size_t i = 0; i < sources.size(); ++i)
        if (loops || sources[i] != targets[i])
            rows.indices[static_cast<size_t>(next[static_cast<size_t>(sources[i])]++)] = targets[i];
    return rows;
}

/// Sorts each row and merges repeats in place; returns how many entries went away.
int64_t sortAndMerge(Rows& rows)
{
    int64_t out = 0, begin = 0;
    const auto total = static_cast<int64_t>(rows.indices.size());
    for (int64_t r = 0; r < rows.count(); ++r) {
        const int64_t end = rows.indptr[static_cast<size_t>(r) + 1];
        const auto first = rows.indices.begin() + begin;
        std::sort(first, rows.indices.begin() + end);
        const auto last = std::unique(first, rows.indices.begin() + end);
        const auto kept = last - first;
        std::move(first, last, rows.indices.begin() + out);
        begin = end;
        out += kept;
        rows.indptr[static_cast<size_t>(r) + 1] = out;
    }
    rows.indices.resize(static_cast<size_t>(out));
    return total - out;
}

Rows transposed(const Rows& rows)
{
    Rows result;
    result.indptr.assign(rows.indptr.size(), 0);
    for (const int32_t column : rows.indices)
        ++result.indptr[static_cast<size_t>(column) + 1];
    std::partial_sum(result.indptr.begin(), result.indptr.end(), result.indptr.begin());
    result.indices.resize(rows.indices.size());
    std::vector<int64_t> next(result.indptr.begin(), result.indptr.end() - 1);
    for (int64_t r = 0; r < rows.count(); ++r) // rows in order, so that the result is sorted
        for (const int32_t column : rows.row(r))
            result.indices[static_cast<size_t>(next[static_cast<size_t>(column)]++)] = static_cast<int32_t>(r);
    return result;
}

Rows united(const Rows& a, const Rows& b)
{
    Rows result;
    result.indptr.reserve(a.indptr.size());
    result.indptr.push_back(0);
    result.indices.reserve(a.indices.size());
    for (int64_t r = 0; r < a.count(); ++r) {
        const auto x = a.row(r), y = b.row(r);
        std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(result.indices));
        result.indptr.push_back(static_cast<int64_t>(result.indices.size()));
    }
    return result;
}

int64_t commonEntries(const Rows& a, const Rows& b, bool loops)
{
    int64_t common = 0;
    for (int64_t r = 0; r < a.count(); ++r) {
        const auto x = a.row(r), y = b.row(r);
        for (size_t i = 0, j = 0; i < x.size() && j < y.size();) {
            if (x[i] == y[j]) {
                common += loops || x[i] != r;
                ++i, ++j;
            } else {
                x[i] < y[j] ? ++i : ++j;
            }
        }
    }
    return common;
}

void countComponents(const Rows& rows, Structure& s)
{
    std::vector<int32_t> parent(static_cast<size_t>(rows.count()));
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](int32_t v) {
        while (parent[static_cast<size_t>(v)] != v)
            v = parent[static_cast<size_t>(v)] = parent[static_cast<size_t>(parent[static_cast<size_t>(v)])];
        return v;
    };
    for (int64_t r = 0; r < rows.count(); ++r)
        for (const int32_t c : rows.row(r)) {
            const int32_t a = root(static_cast<int32_t>(r)), b = root(c);
            parent[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
        }
    std::vector<int64_t> size(parent.size(), 0);
    for (int64_t r = 0; r < rows.count(); ++r)
        ++size[static_cast<size_t>(root(static_cast<int32_t>(r)))];
    for (const int64_t nodes : size) {
        s.components += nodes > 0;
        s.largestComponent = std::max(s.largestComponent, nodes);
    }
}

void countDegrees(const Rows& rows, const Rows& reverse, Structure& s)
{
    s.smallestDegree = rows.count() > 0 ? std::numeric_limits<int64_t>::max() : 0;
    for (int64_t r = 0; r < rows.count(); ++r) {
        const auto row = rows.row(r);
        const bool loop = std::binary_search(row.begin(), row.end(), static_cast<int32_t>(r));
        const int64_t degree = static_cast<int64_t>(row.size()) - loop;
        const auto back = reverse.indptr.empty() ? std::span<const int32_t>() : reverse.row(r);
        s.keptLoops += loop;
        if (degree == 0 && static_cast<int64_t>(back.size()) <= loop) {
            s.isolated += 1;
            if (s.firstIsolated < 0)
                s.firstIsolated = r;
        }
        s.smallestDegree = std::min(s.smallestDegree, degree);
        if (degree > s.largestDegree || s.largestDegreeNode < 0) {
            s.largestDegree = degree;
            s.largestDegreeNode = r;
        }
    }
}

/// Index of the first line whose (source, target) occurred before.
int64_t firstRepeatedLine(std::span<const int32_t> sources, std::span<const int32_t> targets, bool loops)
{
    std::unordered_set<uint64_t> seen;
    for (size_t i = 0; i < sources.size(); ++i)
        if ((loops || sources[i] != targets[i]) &&
            !seen.insert(uint64_t(static_cast<uint32_t>(sources[i])) << 32 | static_cast<uint32_t>(targets[i])).second)
            return static_cast<int64_t>(i);
    return -1;
}

} // namespace

Result<Structure> buildStructure(int64_t nodes, std::span<const int32_t> sources, std::span<const int32_t> targets, const ImportRun& run)
{
    Structure s;
    const bool loops = run.options.selfLoops == "keep", mirror = run.options.direction != "keep";
    s.lines = static_cast<int64_t>(sources.size());
    for (size_t i = 0; i < sources.size(); ++i)
        if (sources[i] == targets[i] && s.loopLines++ == 0)
            s.firstLoop = static_cast<int64_t>(i);
    MEGAGRAPH_TRY(std::ignore, run.tick("sorting edges", 0, 0));
    Rows forward = bySource(nodes, sources, targets, loops);
    s.repeatedLines = sortAndMerge(forward);
    if (s.repeatedLines > 0)
        s.firstRepeat = firstRepeatedLine(sources, targets, loops);
    MEGAGRAPH_TRY(std::ignore, run.tick("adding reverse edges", 0, 0));
    Rows reverse = transposed(forward);
    s.reciprocalLines = commonEntries(forward, reverse, false);
    Rows both;
    if (mirror) {
        both = united(forward, reverse);
        forward = {};
        reverse = {};
        countComponents(both, s);
        countDegrees(both, {}, s);
    } else {
        countComponents(forward, s);
        countDegrees(forward, reverse, s);
        both = std::move(forward);
    }
    const auto entries = static_cast<int64_t>(both.indices.size());
    s.directedEdges = mirror ? 0 : entries - s.keptLoops;
    s.undirectedEdges = mirror ? (entries - s.keptLoops) / 2 : s.directedEdges - s.reciprocalLines / 2;
    s.indptr = std::move(both.indptr);
    s.indices = std::move(both.indices);
    return run.tick("sorting edges", 1, 1).ok() ? Result<Structure>(std::move(s))
                                                : Error{ErrorCode::Cancelled, "import: stopped by request; nothing was written"};
}

} // namespace megagraph
