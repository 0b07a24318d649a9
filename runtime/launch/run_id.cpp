// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/supervisor.h"

#include <ctime>
#include <fmt/format.h>
#include <random>

namespace megagraph::launch {

std::string newRunId()
{
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    std::random_device entropy;
    return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{:06x}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                       utc.tm_min, utc.tm_sec, entropy() & 0xffffffu);
}

} // namespace megagraph::launch
