// SPDX-License-Identifier: Apache-2.0
// Cells of text files: trimming and numbers that do not depend on the locale. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace megagraph {

/// Without spaces, tabs and one pair of enclosing double quotes.
std::string_view trimCell(std::string_view cell);
/// Whole cell as a signed 64-bit integer, with optional sign; nullopt when anything else is in it or it does not fit.
std::optional<int64_t> parseInteger(std::string_view cell);
/// Whole cell as a number: `1e-05`, `-0.0`, `nan`, `NaN`, `inf`, `+3`. Never reads the locale.
std::optional<double> parseNumber(std::string_view cell);
/// The cell for a message: control characters escaped, at most 40 bytes.
std::string quotedCell(std::string_view cell);
/// Shortest text of a number that reads back the same; integers without point: "3", "0.25", "nan".
std::string numberText(double value);

} // namespace megagraph
