// SPDX-License-Identifier: Apache-2.0
#include "core/cuts.h"

#include <algorithm>

namespace megagraph {

namespace {

/// Offset t whose prefix sum is nearest to total * part / parts; ties to the lower token. `prefix` has n + 1 values.
int64_t nearestOffset(const std::vector<int64_t>& prefix, int64_t part, int64_t parts)
{
    const auto target = static_cast<__int128>(prefix.back()) * part; // compared with prefix * parts: no division, no rounding
    const auto scaled = [&](int64_t value) { return static_cast<__int128>(value) * parts; };
    const auto above = std::lower_bound(prefix.begin(), prefix.end(), target,
                                        [&](int64_t value, __int128 wanted) { return scaled(value) < wanted; });
    const int64_t t = above - prefix.begin();
    if (t == 0)
        return 0;
    const auto over = scaled(prefix[static_cast<size_t>(t)]) - target;
    const auto under = target - scaled(prefix[static_cast<size_t>(t - 1)]);
    if (over < under)
        return t;
    // the lowest token with this prefix sum: tokens that cost nothing go to the later part
    const auto first = std::lower_bound(prefix.begin(), prefix.end(), prefix[static_cast<size_t>(t - 1)]);
    return over == under || under < over ? first - prefix.begin() : t;
}

} // namespace

std::vector<int64_t> costCuts(std::span<const int64_t> cost, int64_t parts)
{
    const auto n = static_cast<int64_t>(cost.size());
    std::vector<int64_t> prefix(static_cast<size_t>(n) + 1, 0);
    for (int64_t t = 0; t < n; ++t)
        prefix[static_cast<size_t>(t + 1)] = prefix[static_cast<size_t>(t)] + std::max<int64_t>(0, cost[static_cast<size_t>(t)]);
    if (prefix.back() == 0) // nothing costs anything: equal counts
        for (int64_t t = 0; t <= n; ++t)
            prefix[static_cast<size_t>(t)] = t;
    std::vector<int64_t> cuts{0};
    for (int64_t c = 1; c < parts; ++c)
        cuts.push_back(std::max(cuts.back(), nearestOffset(prefix, c, parts)));
    cuts.push_back(n);
    return cuts;
}

std::vector<int64_t> tokenCost(bool dense, int64_t tokens, std::span<const int64_t> degree)
{
    std::vector<int64_t> cost(static_cast<size_t>(std::max<int64_t>(0, tokens)), 1);
    if (!dense)
        for (size_t t = 0; t < cost.size() && t < degree.size(); ++t)
            cost[t] += degree[t];
    return cost;
}

} // namespace megagraph
