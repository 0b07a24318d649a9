// SPDX-License-Identifier: Apache-2.0
#include "core/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>
#include <fmt/format.h>

namespace megagraph {

namespace {

struct Unit { const char* name; double factor; };

std::string threeDigits(double value, const char* unit)
{
    const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
}

constexpr std::array<Unit, 9> kByteUnits{{{"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0},
    {"TiB", 1099511627776.0}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}};

bool sameLetters(std::string_view a, std::string_view b)
{
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
               return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
           });
}

Error badBytes(std::string_view text, const char* what)
{
    return {ErrorCode::InvalidInput,
            fmt::format("size \"{}\": {}, expected a number and a unit of B KiB MiB GiB TiB KB MB GB TB, e.g. 1GiB", text, what)};
}

} // namespace

std::string durationText(int64_t nanoseconds)
{
    if (nanoseconds < 0)
        return "-" + durationText(nanoseconds == INT64_MIN ? INT64_MAX : -nanoseconds);
    if (nanoseconds < 1000)
        return fmt::format("{} ns", nanoseconds);
    const double ns = static_cast<double>(nanoseconds);
    if (ns < 999.5e3)
        return threeDigits(ns / 1e3, "us");
    if (ns < 999.5e6)
        return threeDigits(ns / 1e6, "ms");
    if (ns < 120e9)
        return threeDigits(ns / 1e9, "s");
    if (ns < 7200e9)
        return threeDigits(ns / 60e9, "min");
    return threeDigits(ns / 3600e9, "h");
}

std::string bytesText(int64_t bytes)
{
    if (bytes < 0)
        return "-" + bytesText(bytes == INT64_MIN ? INT64_MAX : -bytes);
    if (bytes < 1000)
        return fmt::format("{} B", bytes);
    double value = static_cast<double>(bytes) / 1024;
    static constexpr const char* kNames[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < std::size(kNames)) {
        value /= 1024;
        ++unit;
    }
    return threeDigits(value, kNames[unit]);
}

Result<int64_t> parseBytes(std::string_view text)
{
    std::string_view rest = text;
    while (!rest.empty() && rest.front() == ' ')
        rest.remove_prefix(1);
    while (!rest.empty() && rest.back() == ' ')
        rest.remove_suffix(1);
    if (rest.empty() || !(std::isdigit(static_cast<unsigned char>(rest.front())) || rest.front() == '.'))
        return badBytes(text, "not a size");
    double number = 0;
    const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (fault != std::errc{} || !std::isfinite(number))
        return badBytes(text, "not a number");
    std::string_view name = rest.substr(static_cast<size_t>(end - rest.data()));
    while (!name.empty() && name.front() == ' ')
        name.remove_prefix(1);
    double factor = name.empty() ? 1 : 0;
    for (const auto& unit : kByteUnits)
        if (sameLetters(name, unit.name))
            factor = unit.factor;
    if (factor == 0)
        return badBytes(text, "unknown unit");
    const double bytes = number * factor;
    if (bytes >= 9.2e18)
        return badBytes(text, "too large");
    return static_cast<int64_t>(std::llround(bytes));
}

std::string utcNow()
{
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::tm parts{};
    ::gmtime_r(&now.tv_sec, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                       parts.tm_hour, parts.tm_min, parts.tm_sec, now.tv_nsec / 1000000);
}

} // namespace megagraph
