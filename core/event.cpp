// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"

#include "core/hash.h"

#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace megagraph {
namespace {

constexpr std::string_view kCrcKey = ",\"crc\":\"";
constexpr size_t kCrcTail = kCrcKey.size() + 8 + 2; // key, 8 digits, `"}`

/// JSON has no nan or inf; the library would write null, which hides what happened.
void spellNonFinite(Json& value)
{
    if (value.is_structured()) {
        for (auto& item : value)
            spellNonFinite(item);
    } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
        value = numberJson(value.get<double>());
    }
}

std::string dumped(const Json& fields)
{
    Json copy = fields;
    spellNonFinite(copy);
    return copy.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// What is left of an object whose line would be over-long: its scalars, long texts cut.
Json shortened(const Json& fields)
{
    Json out = Json::object();
    for (const auto& [key, value] : fields.items()) {
        if (value.is_string())
            out[key] = value.get<std::string>().substr(0, 1024);
        else if (!value.is_structured())
            out[key] = value;
    }
    out["cut"] = true;
    return out;
}

Error bad(const std::string& what)
{
    return {ErrorCode::Corrupt, what};
}

} // namespace

std::string encodeJournalLine(int64_t seq, const Json& fields)
{
    Json line = Json::object();
    line["seq"] = seq;
    line.update(fields);
    std::string text = dumped(line);
    if (text.size() + kCrcTail > kMaxEventLine)
        text = dumped(shortened(line));
    text.pop_back(); // the closing brace comes after the checksum
    const uint32_t crc = crc32c(text.data(), text.size());
    return fmt::format("{}{}{:08x}\"}}\n", text, kCrcKey, crc);
}

Result<Json> decodeJournalLine(std::string_view line)
{
    if (line.empty() || line.back() != '\n')
        return bad("line does not end in a newline");
    line.remove_suffix(1);
    if (line.size() + 1 > kMaxEventLine)
        return bad(fmt::format("line has {} bytes, expected at most {}", line.size() + 1, kMaxEventLine));
    if (line.size() <= kCrcTail || line.substr(line.size() - 2) != "\"}" ||
        line.substr(line.size() - kCrcTail, kCrcKey.size()) != kCrcKey)
        return bad("line has no checksum at its end");
    const std::string_view body = line.substr(0, line.size() - kCrcTail);
    const std::string_view written = line.substr(line.size() - 10, 8);
    const std::string computed = fmt::format("{:08x}", crc32c(body.data(), body.size()));
    if (written != computed)
        return bad(fmt::format("checksum is {}, expected {}", written, computed));
    Json value = Json::parse(line.begin(), line.end(), nullptr, false);
    if (!value.is_object() || !value.contains("seq") || !value["seq"].is_number_integer())
        return bad("line is not an object with a sequence number");
    return value;
}

std::string encodeLine(const Json& fields)
{
    std::string text = dumped(fields);
    if (text.size() + 1 > kMaxEventLine)
        text = dumped(shortened(fields));
    return text + "\n";
}

Result<Json> decodeLine(std::string_view line)
{
    if (!line.empty() && line.back() == '\n')
        line.remove_suffix(1);
    if (line.size() + 1 > kMaxEventLine)
        return bad(fmt::format("line has {} bytes, expected at most {}", line.size() + 1, kMaxEventLine));
    Json value = Json::parse(line.begin(), line.end(), nullptr, false);
    if (!value.is_object())
        return bad("line is not a JSON object");
    return value;
}

double numberOf(const Json& value)
{
    if (value.is_number())
        return value.get<double>();
    if (value.is_string()) {
        const auto& text = value.get_ref<const std::string&>();
        if (text == "inf")
            return std::numeric_limits<double>::infinity();
        if (text == "-inf")
            return -std::numeric_limits<double>::infinity();
    }
    return std::numeric_limits<double>::quiet_NaN();
}

Json numberJson(double value)
{
    if (std::isnan(value))
        return "nan";
    if (std::isinf(value))
        return value > 0 ? "inf" : "-inf";
    return value;
}

} // namespace megagraph
