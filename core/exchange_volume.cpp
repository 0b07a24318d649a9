// SPDX-License-Identifier: Apache-2.0
#include "core/exchange_volume.h"

namespace megagraph {

namespace {

ExchangeBytes ringBytes(std::span<const int64_t> rows, int64_t context, int64_t width, int64_t element)
{
    const auto ranks = static_cast<int64_t>(rows.size());
    int64_t passing = 0, all = 0;
    for (int64_t step = 0; step < ranks; ++step) {
        const int64_t n = rows[static_cast<size_t>((context - step % ranks + ranks) % ranks)];
        all += n;
        if (step + 1 < ranks)
            passing += n;
    }
    const int64_t keysValues = 2 * passing * width * element;
    return {keysValues, keysValues + 2 * all * width * 4};
}

ExchangeBytes gatherBytes(std::span<const int64_t> rows, int64_t context, int64_t width, int64_t element)
{
    const auto ranks = static_cast<int64_t>(rows.size());
    int64_t all = 0;
    for (int64_t n : rows)
        all += n;
    const int64_t own = rows[static_cast<size_t>(context)];
    return {2 * own * width * element * (ranks - 1), 2 * (all - own) * width * 4};
}

} // namespace

ExchangeBytes exchangeBytes(Exchange exchange, std::span<const int64_t> cuts, int64_t context, int64_t width, int64_t heads,
                            int64_t headWidth, int64_t element)
{
    if (cuts.size() < 3 || context < 0 || context + 1 >= static_cast<int64_t>(cuts.size()))
        return {}; // one rank: nothing moves
    std::vector<int64_t> rows;
    for (size_t c = 0; c + 1 < cuts.size(); ++c)
        rows.push_back(cuts[c + 1] - cuts[c]);
    switch (exchange) {
    case Exchange::Ring: return ringBytes(rows, context, width, element);
    case Exchange::Gather: return gatherBytes(rows, context, width, element);
    case Exchange::Reduce: {
        const int64_t state = heads * headWidth * headWidth + heads * headWidth;
        return {4 * (state + 2), 4 * state};
    }
    case Exchange::None:
    case Exchange::Ulysses:
    case Exchange::UlyssesRing:
    case Exchange::Halo: break; // not executed by this version; checkPlan refuses them
    }
    return {};
}

ExchangeBytes convolutionBytes(std::span<const int64_t> cuts, int64_t context, int64_t width, int64_t element)
{
    if (cuts.size() < 3 || context < 0 || context + 1 >= static_cast<int64_t>(cuts.size()))
        return {};
    const auto ranks = static_cast<int64_t>(cuts.size()) - 1;
    const int64_t own = cuts[static_cast<size_t>(context) + 1] - cuts[static_cast<size_t>(context)];
    return {own * width * element * (ranks - 1), (cuts.back() - cuts.front() - own) * width * 4};
}

} // namespace megagraph
