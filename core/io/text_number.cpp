// SPDX-License-Identifier: Apache-2.0
#include "core/io/text_number.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace megagraph {

std::string_view trimCell(std::string_view cell)
{
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!cell.empty() && blank(cell.front()))
        cell.remove_prefix(1);
    while (!cell.empty() && blank(cell.back()))
        cell.remove_suffix(1);
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
        return cell.substr(1, cell.size() - 2);
    return cell;
}

namespace {

template <class T> std::optional<T> parseWhole(std::string_view cell)
{
    cell = trimCell(cell);
    if (cell.size() > 1 && cell.front() == '+' && cell[1] != '-')
        cell.remove_prefix(1);
    T value{};
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size())
        return std::nullopt;
    return value;
}

} // namespace

std::optional<int64_t> parseInteger(std::string_view cell)
{
    return parseWhole<int64_t>(cell);
}

std::optional<double> parseNumber(std::string_view cell)
{
    return parseWhole<double>(cell);
}

std::string quotedCell(std::string_view cell)
{
    std::string text = "\"";
    for (size_t i = 0; i < cell.size() && i < 40; ++i) {
        const auto c = static_cast<unsigned char>(cell[i]);
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            text += fmt::format("\\x{:02x}", c);
        else
            text += cell[i];
    }
    return text + (cell.size() > 40 ? "...\"" : "\"");
}

std::string numberText(double value)
{
    if (std::isnan(value))
        return "nan";
    if (std::abs(value) < 9e15 && value == std::floor(value))
        return fmt::format("{}", static_cast<int64_t>(value));
    return fmt::format("{}", value);
}

} // namespace megagraph
