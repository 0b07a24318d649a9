// SPDX-License-Identifier: Apache-2.0
#include "core/json.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace megagraph {

namespace {

constexpr size_t kMaxBytes = 8 << 20;
constexpr int kMaxDepth = 32;

std::string placeOf(const std::string& text, size_t byte)
{
    const size_t end = std::min(byte, text.size());
    const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    const size_t lineStart = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
    const size_t column = lineStart == std::string::npos ? end : end - lineStart - 1;
    return fmt::format("line {}, column {}", lines + 1, std::max<size_t>(column, 1));
}

/// Position of the bracket that goes deeper than the limit; nullopt when there is none. Brackets inside strings don't count.
std::optional<size_t> tooDeepAt(const std::string& text)
{
    int depth = 0;
    bool inString = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (inString) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                inString = false;
        } else if (c == '"') {
            inString = true;
        } else if (c == '{' || c == '[') {
            if (++depth > kMaxDepth)
                return i;
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    return std::nullopt;
}

/// The part of the parser's message that says what it expected, without its own position.
std::string syntaxFault(const std::string& what)
{
    const size_t at = what.find(": ");
    return at == std::string::npos ? what : what.substr(at + 2);
}

void appendString(std::string& out, const std::string& text)
{
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void appendNumber(std::string& out, double value)
{
    if (!std::isfinite(value)) { // JSON has no such numbers; documents never hold them, their text form is a string
        out += std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
        return;
    }
    char buffer[40];
    const bool integral = value == std::floor(value) && std::abs(value) < 9007199254740992.0;
    const auto end = integral ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<int64_t>(value))
                              : std::to_chars(buffer, buffer + sizeof buffer, value);
    out.append(buffer, end.ptr);
}

void appendCanonical(std::string& out, const Json& value)
{
    if (value.is_object()) {
        std::map<std::string, const Json*> sorted;
        for (const auto& [key, item] : value.items())
            sorted[key] = &item;
        char separator = '{';
        for (const auto& [key, item] : sorted) {
            out += separator;
            appendString(out, key);
            out += ':';
            appendCanonical(out, *item);
            separator = ',';
        }
        out += sorted.empty() ? "{}" : "}";
    } else if (value.is_array()) {
        out += '[';
        for (size_t i = 0; i < value.size(); ++i) {
            if (i > 0)
                out += ',';
            appendCanonical(out, value[i]);
        }
        out += ']';
    } else if (value.is_string()) {
        appendString(out, value.get_ref<const std::string&>());
    } else if (value.is_number_float()) {
        appendNumber(out, value.get<double>());
    } else {
        out += value.dump();
    }
}

size_t editDistance(const std::string& a, const std::string& b)
{
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

Error ioError(const std::string& path, const char* doing, int number)
{
    const ErrorCode code = number == ENOENT ? ErrorCode::NotFound : ErrorCode::Io;
    return {code, fmt::format("{}: cannot {}: {}", path, doing, std::strerror(number))};
}

class Descriptor {
  public:
    explicit Descriptor(int value) : value_(value) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(); }
    int get() const { return value_; }
    int close() { return value_ < 0 ? 0 : ::close(std::exchange(value_, -1)); }

  private:
    int value_;
};

Result<Ok> writeAll(int descriptor, const std::string& path, const std::string& bytes)
{
    size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t n = ::write(descriptor, bytes.data() + done, bytes.size() - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ioError(path, "write", errno);
        done += static_cast<size_t>(n);
    }
    return Ok{};
}

} // namespace

Result<Json> parseJson(const std::string& text, const std::string& file)
{
    if (text.size() > kMaxBytes)
        return Error{ErrorCode::InvalidInput,
                     fmt::format("{}: too large, got {} bytes, expected at most {}", file, text.size(), kMaxBytes)};
    if (const auto deep = tooDeepAt(text))
        return Error{ErrorCode::InvalidInput, fmt::format("{}: {}: nested too deeply, expected at most {} levels", file,
                                                          placeOf(text, *deep + 1), kMaxDepth)};
    std::vector<std::set<std::string>> keys(kMaxDepth + 2);
    std::string repeated;
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
        // a key of the object at depth d arrives with depth d + 1
        if (event == Json::parse_event_t::object_start)
            keys[static_cast<size_t>(depth) + 1].clear();
        else if (event == Json::parse_event_t::key && repeated.empty() &&
                 !keys[static_cast<size_t>(depth)].insert(parsed.get<std::string>()).second)
            repeated = parsed.get<std::string>();
        return true;
    };
    try {
        Json value = Json::parse(text, watch);
        if (!repeated.empty())
            return Error{ErrorCode::InvalidInput,
                         fmt::format("{}: key \"{}\" occurs twice in one object, expected once", file, repeated)};
        return value;
    } catch (const Json::parse_error& fault) {
        return Error{ErrorCode::InvalidInput,
                     fmt::format("{}: {}: not JSON: {}", file, placeOf(text, fault.byte), syntaxFault(fault.what()))};
    } catch (const Json::exception& fault) {
        return Error{ErrorCode::InvalidInput, fmt::format("{}: not JSON: {}", file, fault.what())};
    }
}

Result<Json> readJsonFile(const std::string& path)
{
    // O_NONBLOCK: opening a pipe that nobody writes must not hang
    const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (descriptor.get() < 0)
        return ioError(path, "open", errno);
    struct stat info {};
    if (::fstat(descriptor.get(), &info) != 0)
        return ioError(path, "read", errno);
    if (!S_ISREG(info.st_mode))
        return Error{ErrorCode::InvalidInput, fmt::format("{}: not a regular file, expected a JSON document", path)};
    if (static_cast<uint64_t>(info.st_size) > kMaxBytes)
        return Error{ErrorCode::InvalidInput,
                     fmt::format("{}: too large, got {} bytes, expected at most {}", path, info.st_size, kMaxBytes)};
    std::string text(static_cast<size_t>(info.st_size), '\0');
    size_t done = 0;
    while (done < text.size()) {
        const ssize_t n = ::pread(descriptor.get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ioError(path, "read", errno);
        if (n == 0)
            break;
        done += static_cast<size_t>(n);
    }
    text.resize(done);
    return parseJson(text, path);
}

std::string canonicalText(const Json& value)
{
    std::string out;
    appendCanonical(out, value);
    return out;
}

Result<Ok> writeFileAtomically(const std::string& path, const std::string& bytes)
{
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
    std::string temporary = path + ".tmp-XXXXXX";
    Descriptor descriptor(::mkostemp(temporary.data(), O_CLOEXEC)); // mode 0600
    if (descriptor.get() < 0)
        return ioError(path, "create", errno);
    const auto giveUp = [&](Error error) {
        ::unlink(temporary.c_str());
        return error;
    };
    if (auto written = writeAll(descriptor.get(), path, bytes); !written)
        return giveUp(written.error());
    if (::fsync(descriptor.get()) != 0 || descriptor.close() != 0)
        return giveUp(ioError(path, "write", errno));
    if (::rename(temporary.c_str(), path.c_str()) != 0)
        return giveUp(ioError(path, "replace", errno));
    const Descriptor parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (parent.get() >= 0 && ::fsync(parent.get()) != 0 && errno != EINVAL)
        return ioError(folder, "sync", errno);
    return Ok{};
}

std::string nearestName(const std::string& name, const std::vector<std::string>& names)
{
    std::string best;
    size_t bestDistance = std::max<size_t>(2, name.size() / 3) + 1;
    for (const auto& candidate : names) {
        const size_t distance = editDistance(name, candidate);
        if (distance < bestDistance && distance < candidate.size()) {
            best = candidate;
            bestDistance = distance;
        }
    }
    return best;
}

} // namespace megagraph
