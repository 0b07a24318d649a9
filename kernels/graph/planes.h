// SPDX-License-Identifier: Apache-2.0
// Policies `planes` and `strips` of the distance structure (models design, 2.3): bit planes per tile, stored for all own rows,
// or made again for 512 query rows at a time. `graph` symmetric, in token order; same bytes for any thread count. A
// TilePlanes is read-only after building; a StripPlanes belongs to one thread.
#pragma once

#include "core/result.h"
#include "kernels/graph/search.h"
#include "kernels/strips.h"
#include "kernels/types.h"

#include <memory>
#include <stop_token>
#include <vector>

namespace megagraph::kernels {

/// Memory that its owner writes before anyone reads: gigabytes of planes are not cleared first, on one thread, deaf to a stop.
template <class T> struct Unwritten : std::allocator<T> {
    template <class U> struct rebind { using other = Unwritten<U>; };
    template <class U> void construct(U* place) { ::new (static_cast<void*>(place)) U; }
    template <class U, class... Arguments> void construct(U* place, Arguments&&... arguments)
    {
        ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
    }
};

/// Owner of one TilePlanesView.
struct TilePlanes {
    int64_t queryBlocks = 0, keyBlocks = 0;
    int32_t planes = 0;
    std::vector<uint64_t, Unwritten<uint64_t>> words;
    std::vector<int64_t> tileFirst;
    std::vector<int32_t> keyBlockBegin, keyBlockEnd;
    int64_t bytes() const;
    TilePlanesView view() const;
};

/// Query rows [queryBegin, queryEnd), key intervals [keyCuts[c], keyCuts[c+1]) as in buildTileLists. `segment` (packs; empty: one
/// graph): segment per token of the sequence, not falling; only tiles inside the union of a query block's segments are stored.
/// Errors: InvalidInput (K > 27, rows, cuts, segments), Cancelled.
Result<std::vector<TilePlanes>> buildTilePlanes(CsrView graph, int32_t hops, int64_t queryBegin, int64_t queryEnd,
                                                std::span<const int64_t> keyCuts, std::span<const int32_t> segment,
                                                const ParallelFor& parallel, std::stop_token stop);

/// Policy `strips`: planes of 512 query rows by one search, for the keys [keyBegin, keyEnd), until the next strip is asked for.
class StripPlanes final : public StripSource {
  public:
    /// Errors: InvalidInput (K > 27, rows, keys). `graph`, `parallel` outlive the strips.
    static Result<StripPlanes> create(CsrView graph, int32_t hops, int64_t queryBegin, int64_t queryEnd, int64_t keyBegin,
                                      int64_t keyEnd, const ParallelFor& parallel, std::stop_token stop);

    Result<TilePlanesView> stripPlanes(int64_t strip) override;
    /// Bytes held, the search included.
    int64_t bytes() const { return Search::bytes(graph_.nodes, hops_); }

  private:
    StripPlanes(CsrView graph, int32_t hops, const ParallelFor& parallel, std::stop_token stop)
        : graph_(graph), hops_(hops), parallel_(&parallel), stop_(std::move(stop)) {}

    CsrView graph_;
    int32_t hops_;
    const ParallelFor* parallel_;
    std::stop_token stop_;
    int64_t queryBegin_ = 0, queryEnd_ = 0, keyBegin_ = 0, keyEnd_ = 0, held_ = -1;
    std::unique_ptr<Search> search_; // made at the first strip
    std::vector<int32_t> sources_;
    TilePlanesView view_;
};

} // namespace megagraph::kernels
