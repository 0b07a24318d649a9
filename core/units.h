// SPDX-License-Identifier: Apache-2.0
// Strong types where two quantities could be mixed, typed indices, and the one text form of bytes and times for
// terminals. Values only. Memory is binary (KiB, MiB, GiB); rates are decimal.
#pragma once

#include "core/result.h"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace megagraph {

template <class Tag> struct Index {
    int64_t value = 0;
    constexpr Index() = default;
    constexpr explicit Index(int64_t v) : value(v) {}
    auto operator<=>(const Index&) const = default;
};
using Rank = Index<struct RankTag>;
using StageId = Index<struct StageTag>;
using DeviceId = Index<struct DeviceTag>;

/// "142 ms", "1.31 s", "412 us": three significant digits.
std::string durationText(int64_t nanoseconds);
/// "61.2 GiB", "812 KiB", "12 B": three significant digits, binary units.
std::string bytesText(int64_t bytes);
/// "1GiB", "512 MiB", "2GB", "4096" (bytes) -> bytes. Errors: InvalidInput naming the text and the units accepted.
Result<int64_t> parseBytes(std::string_view text);
/// UTC now as "2026-01-05T10:11:12.345Z".
std::string utcNow();

} // namespace megagraph
