// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/planes.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace megagraph::kernels {
namespace {

constexpr int64_t kWords = cpu::kSearchWords; // query blocks of one search

int64_t blocksOf(int64_t tokens)
{
    return (tokens + kTile - 1) / kTile;
}

Result<Ok> check(CsrView graph, int32_t hops, int64_t begin, int64_t end, std::span<const int64_t> cuts, std::span<const int32_t> segment)
{
    const auto invalid = [](const std::string& text) { return Error{ErrorCode::InvalidInput, "distance planes: " + text}; };
    if (hops < 0 || hops > kMostPlaneHops)
        return invalid(fmt::format("hops: out of range, got {}, expected 0 to {}; cut distances earlier", hops, kMostPlaneHops));
    if (begin < 0 || begin > end || end > graph.nodes + 1)
        return invalid(fmt::format("query rows: got [{}, {}), expected an interval of {} tokens", begin, end, graph.nodes));
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        if (cuts[c] < 0 || cuts[c] > cuts[c + 1] || cuts[c + 1] > graph.nodes + 1)
            return invalid(fmt::format("key cuts: got [{}, {}) at {}, expected rising offsets up to {}", cuts[c], cuts[c + 1], c, graph.nodes));
    }
    if (segment.empty())
        return Ok{};
    const int64_t last = std::max(end, cuts.empty() ? 0 : cuts.back());
    if (int64_t(segment.size()) < last)
        return invalid(fmt::format("segments: got {}, expected one for each of {} tokens", segment.size(), last));
    const auto fall = std::is_sorted_until(segment.begin(), segment.end());
    if (fall != segment.end())
        return invalid(fmt::format("segments: token {} falls from {} to {}, expected rising numbers; lay the graphs of a pack one behind another",
                                   fall - segment.begin(), *(fall - 1), *fall));
    return Ok{};
}

/// Key blocks of an interval that a query block's segments touch, for all query blocks.
void setRanges(TilePlanes& out, int64_t queryBegin, int64_t queryEnd, int64_t keyBegin, int64_t keyEnd, std::span<const int32_t> segment)
{
    int64_t tiles = 0;
    for (int64_t qb = 0; qb < out.queryBlocks; ++qb) {
        const int64_t row = queryBegin + qb * kTile, last = std::min(queryEnd, row + kTile) - 1;
        const auto low = std::lower_bound(segment.begin(), segment.end(), segment[size_t(row)]) - segment.begin();
        const auto high = std::upper_bound(segment.begin(), segment.end(), segment[size_t(last)]) - segment.begin();
        const int64_t first = std::clamp(int64_t(low), keyBegin, keyEnd), behind = std::clamp(int64_t(high), keyBegin, keyEnd);
        const bool none = first >= behind;
        out.tileFirst.push_back(tiles);
        out.keyBlockBegin.push_back(none ? 0 : int32_t((first - keyBegin) / kTile));
        out.keyBlockEnd.push_back(none ? 0 : int32_t(blocksOf(behind - keyBegin)));
        tiles += out.keyBlockEnd.back() - out.keyBlockBegin.back();
    }
    out.words.resize(size_t(tiles * out.planes * kTile));
}

/// Planes of 8 query blocks (from `block`) over the key interval.
bool fill(const Search& search, int64_t block, int64_t keyBegin, int64_t keyEnd, int64_t nodes, const std::stop_token& stop, TilePlanes& out)
{
    for (int64_t kb = 0; kb < out.keyBlocks; ++kb) {
        if (kb % 256 == 0 && stop.stop_requested())
            return false;
        uint64_t* to[kWords] = {};
        for (int64_t t = 0; t < kWords && block + t < out.queryBlocks; ++t) {
            const size_t qb = size_t(block + t);
            if (out.tileFirst.empty())
                to[t] = out.words.data() + (int64_t(qb) * out.keyBlocks + kb) * out.planes * kTile;
            else if (kb >= out.keyBlockBegin[qb] && kb < out.keyBlockEnd[qb])
                to[t] = out.words.data() + (out.tileFirst[qb] + kb - out.keyBlockBegin[qb]) * out.planes * kTile;
        }
        const int64_t key = keyBegin + kb * kTile;
        search.planesOut(key, std::clamp<int64_t>(std::min(keyEnd, nodes) - key, 0, kTile), to);
    }
    return true;
}

void sourcesOf(int64_t first, int64_t rows, int64_t nodes, std::vector<int32_t>& sources)
{
    sources.resize(size_t(std::clamp<int64_t>(nodes - first, 0, rows))); // a graph token has no near pairs
    std::iota(sources.begin(), sources.end(), int32_t(first));
}

} // namespace

int64_t TilePlanes::bytes() const
{
    return int64_t(words.size() * sizeof(uint64_t) + tileFirst.size() * sizeof(int64_t) +
                   (keyBlockBegin.size() + keyBlockEnd.size()) * sizeof(int32_t));
}

TilePlanesView TilePlanes::view() const
{
    return {queryBlocks, keyBlocks, planes, words, tileFirst, keyBlockBegin, keyBlockEnd};
}

Result<std::vector<TilePlanes>> buildTilePlanes(CsrView graph, int32_t hops, int64_t queryBegin, int64_t queryEnd,
                                                std::span<const int64_t> keyCuts, std::span<const int32_t> segment,
                                                const ParallelFor& parallel, std::stop_token stop)
{
    if (auto legal = check(graph, hops, queryBegin, queryEnd, keyCuts, segment); !legal)
        return std::move(legal).error();
    std::vector<TilePlanes> out(keyCuts.empty() ? 0 : keyCuts.size() - 1);
    for (size_t c = 0; c < out.size(); ++c) {
        out[c].queryBlocks = blocksOf(queryEnd - queryBegin);
        out[c].keyBlocks = blocksOf(keyCuts[c + 1] - keyCuts[c]);
        out[c].planes = planeCount(hops);
        if (segment.empty())
            out[c].words.resize(size_t(out[c].queryBlocks * out[c].keyBlocks * out[c].planes * kTile));
        else
            setRanges(out[c], queryBegin, queryEnd, keyCuts[c], keyCuts[c + 1], segment);
    }
    struct Place { Search search; std::vector<int32_t> sources; };
    std::vector<std::unique_ptr<Place>> places(size_t(parallel.slots()));
    parallel.run((queryEnd - queryBegin + kSources - 1) / kSources, [&](int64_t batch, int32_t slot) {
        if (stop.stop_requested())
            return;
        auto& place = places[size_t(slot)];
        if (!place)
            place.reset(new Place{Search(graph, hops), {}});
        const int64_t first = queryBegin + batch * kSources;
        sourcesOf(first, std::min(kSources, queryEnd - first), graph.nodes, place->sources);
        if (!place->search.run(place->sources, SerialFor(), stop))
            return;
        for (size_t c = 0; c < out.size(); ++c) {
            if (!fill(place->search, batch * kWords, keyCuts[c], keyCuts[c + 1], graph.nodes, stop, out[c]))
                return;
        }
    });
    if (stop.stop_requested())
        return Error{ErrorCode::Cancelled, "distance planes: cancelled"};
    return out;
}

Result<StripPlanes> StripPlanes::create(CsrView graph, int32_t hops, int64_t queryBegin, int64_t queryEnd, int64_t keyBegin,
                                        int64_t keyEnd, const ParallelFor& parallel, std::stop_token stop)
{
    const int64_t cuts[] = {keyBegin, keyEnd};
    if (auto legal = check(graph, hops, queryBegin, queryEnd, cuts, {}); !legal)
        return std::move(legal).error();
    StripPlanes out(graph, hops, parallel, std::move(stop));
    out.queryBegin_ = queryBegin;
    out.queryEnd_ = queryEnd;
    out.keyBegin_ = keyBegin;
    out.keyEnd_ = keyEnd;
    return out;
}

Result<TilePlanesView> StripPlanes::stripPlanes(int64_t strip)
{
    const int64_t first = queryBegin_ + strip * kStripRows, rows = std::min(kStripRows, queryEnd_ - first);
    if (strip < 0 || rows <= 0)
        return Error{ErrorCode::InvalidInput, fmt::format("distance strips: strip: got {}, expected 0 to {}", strip, (queryEnd_ - queryBegin_ + kStripRows - 1) / kStripRows - 1)};
    if (strip == held_)
        return view_;
    held_ = -1;
    if (!search_)
        search_ = std::make_unique<Search>(graph_, hops_);
    sourcesOf(first, rows, graph_.nodes, sources_);
    if (!search_->run(sources_, *parallel_, stop_))
        return Error{ErrorCode::Cancelled, "distance strips: cancelled"};
    const int64_t queryBlocks = blocksOf(rows), keyBlocks = blocksOf(keyEnd_ - keyBegin_), tileWords = search_->planes() * kTile;
    const std::span<uint64_t> words = search_->spare();
    constexpr int64_t kChunk = 64; // key blocks per task
    parallel_->run((keyBlocks + kChunk - 1) / kChunk, [&](int64_t chunk, int32_t) {
        for (int64_t kb = chunk * kChunk; kb < std::min(keyBlocks, (chunk + 1) * kChunk) && !stop_.stop_requested(); ++kb) {
            uint64_t* to[kWords] = {};
            for (int64_t qb = 0; qb < queryBlocks; ++qb)
                to[qb] = words.data() + (qb * keyBlocks + kb) * tileWords;
            const int64_t key = keyBegin_ + kb * kTile;
            search_->planesOut(key, std::clamp<int64_t>(std::min(keyEnd_, graph_.nodes) - key, 0, kTile), to);
        }
    });
    if (stop_.stop_requested())
        return Error{ErrorCode::Cancelled, "distance strips: cancelled"};
    view_ = {queryBlocks, keyBlocks, search_->planes(), words.first(size_t(queryBlocks * keyBlocks * tileWords)), {}, {}, {}};
    held_ = strip;
    return view_;
}

} // namespace megagraph::kernels
