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

/// A value as messages show it: one line, at most 60 bytes, control characters escaped.
std::string shown(const Json& value)
{
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 60)
        text = text.substr(0, 57) + "...";
    return text;
}

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

struct ObjectReader::Shared {
    struct Visit {
        std::string path;
        std::vector<std::string> known;
        bool allowUnknown = false;
    };
    std::string file;
    std::optional<Error> fault;
    std::vector<std::pair<const Json*, Visit>> visits; // in order of first visit, so the first unknown key is stable

    void report(ErrorCode code, const std::string& path, const std::string& message)
    {
        if (!fault)
            fault = Error{code, path.empty() ? fmt::format("{}: {}", file, message)
                                             : fmt::format("{}: {}: {}", file, path, message)};
    }
    Visit* visit(const Json* value)
    {
        for (auto& [object, visit] : visits)
            if (object == value)
                return &visit;
        return nullptr;
    }
    void open(const Json* value, const std::string& path)
    {
        if (value != nullptr && visit(value) == nullptr)
            visits.emplace_back(value, Visit{path, {}, false});
    }
};

ObjectReader::ObjectReader(const Json& value, std::string file, std::string path)
    : value_(&value), path_(std::move(path)), shared_(std::make_shared<Shared>())
{
    shared_->file = std::move(file);
    if (!value.is_object()) {
        shared_->report(ErrorCode::InvalidInput, path_, fmt::format("wrong type, got {}, expected an object", shown(value)));
        value_ = nullptr;
    }
    shared_->open(value_, path_);
}

ObjectReader::ObjectReader(const Json* value, std::string path, std::shared_ptr<Shared> shared)
    : value_(value), path_(std::move(path)), shared_(std::move(shared))
{
    shared_->open(value_, path_);
}

std::string ObjectReader::pathOf(const char* key) const
{
    return path_.empty() ? std::string(key) : path_ + "." + key;
}

bool ObjectReader::has(const char* key) const
{
    if (value_ == nullptr)
        return false;
    shared_->visit(value_)->known.emplace_back(key);
    return value_->contains(key);
}

const Json* ObjectReader::find(const char* key, const char* expected)
{
    if (value_ == nullptr)
        return nullptr;
    if (has(key))
        return &(*value_)[key];
    std::vector<std::string> present;
    for (const auto& item : value_->items())
        present.push_back(item.key());
    const std::string near = nearestName(key, present);
    const auto& known = shared_->visit(value_)->known;
    const bool misspelt = !near.empty() && std::find(known.begin(), known.end(), near) == known.end();
    shared_->report(ErrorCode::InvalidInput, pathOf(key),
                    fmt::format("missing key \"{}\", expected {}{}", key, expected,
                                misspelt ? fmt::format("; is \"{}\" a misspelling of it?", near) : ""));
    return nullptr;
}

const Json* ObjectReader::raw(const char* key)
{
    return find(key, "a value");
}

void ObjectReader::wrong(const char* key, const char* what, const Json& got, const std::string& expected)
{
    fail(key, fmt::format("{}, got {}, expected {}", what, shown(got), expected));
}

ObjectReader ObjectReader::child(const char* key)
{
    const Json* value = find(key, "an object");
    if (value != nullptr && !value->is_object()) {
        wrong(key, "wrong type", *value, "an object");
        value = nullptr;
    }
    return ObjectReader(value, pathOf(key), shared_);
}

std::vector<ObjectReader> ObjectReader::children(const char* key)
{
    std::vector<ObjectReader> readers;
    const Json* value = find(key, "an array of objects");
    if (value == nullptr)
        return readers;
    if (!value->is_array()) {
        wrong(key, "wrong type", *value, "an array of objects");
        return readers;
    }
    for (size_t i = 0; i < value->size(); ++i) {
        const std::string path = fmt::format("{}[{}]", pathOf(key), i);
        const Json& item = (*value)[i];
        if (item.is_object()) {
            readers.push_back(ObjectReader(&item, path, shared_));
        } else {
            shared_->report(ErrorCode::InvalidInput, path,
                            fmt::format("wrong type, got {}, expected an object", shown(item)));
            return readers;
        }
    }
    return readers;
}

void ObjectReader::get(const char* key, std::string& out)
{
    const Json* value = find(key, "a string");
    if (value == nullptr)
        return;
    if (!value->is_string())
        return wrong(key, "wrong type", *value, "a string");
    out = value->get<std::string>();
}

void ObjectReader::get(const char* key, bool& out)
{
    const Json* value = find(key, "true or false");
    if (value == nullptr)
        return;
    if (!value->is_boolean())
        return wrong(key, "wrong type", *value, "true or false");
    out = value->get<bool>();
}

void ObjectReader::get(const char* key, int64_t& out, int64_t least, int64_t most)
{
    const std::string rule = fmt::format("an integer from {} to {}", least, most);
    const Json* value = find(key, rule.c_str());
    if (value == nullptr)
        return;
    if (!value->is_number_integer())
        return wrong(key, "wrong type", *value, rule);
    const bool huge = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
    const int64_t number = huge ? 0 : value->get<int64_t>();
    if (huge || number < least || number > most)
        return wrong(key, "out of range", *value, rule);
    out = number;
}

void ObjectReader::get(const char* key, double& out, double least, double most)
{
    const std::string rule = fmt::format("a number from {} to {}", least, most);
    const Json* value = find(key, rule.c_str());
    if (value == nullptr)
        return;
    if (!value->is_number())
        return wrong(key, "wrong type", *value, rule);
    const double number = value->get<double>();
    if (!(number >= least && number <= most))
        return wrong(key, "out of range", *value, rule);
    out = number;
}

template <class T> void ObjectReader::getList(const char* key, std::vector<T>& out, const char* expected)
{
    const Json* value = find(key, expected);
    if (value == nullptr)
        return;
    if (!value->is_array())
        return wrong(key, "wrong type", *value, expected);
    std::vector<T> list;
    list.reserve(value->size());
    for (size_t i = 0; i < value->size(); ++i) {
        const Json& item = (*value)[i];
        bool fits = item.is_string();
        if constexpr (std::is_same_v<T, double>)
            fits = item.is_number();
        if constexpr (std::is_same_v<T, int64_t>)
            fits = item.is_number_integer() &&
                   !(item.is_number_unsigned() && item.template get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
        if (!fits)
            return wrong(fmt::format("{}[{}]", key, i).c_str(), "wrong type", item, std::string("part of ") + expected);
        list.push_back(item.template get<T>());
    }
    out = std::move(list);
}

void ObjectReader::get(const char* key, std::vector<int64_t>& out)
{
    getList(key, out, "an array of integers");
}

void ObjectReader::get(const char* key, std::vector<double>& out)
{
    getList(key, out, "an array of numbers");
}

void ObjectReader::get(const char* key, std::vector<std::string>& out)
{
    getList(key, out, "an array of strings");
}

void ObjectReader::getChoice(const char* key, int& out, const std::vector<std::string>& names)
{
    std::string list;
    for (const auto& name : names)
        list += (list.empty() ? "\"" : ", \"") + name + "\"";
    const std::string rule = names.size() == 1 ? list : "one of " + list;
    const Json* value = find(key, rule.c_str());
    if (value == nullptr)
        return;
    if (!value->is_string())
        return wrong(key, "wrong type", *value, rule);
    const auto text = value->get<std::string>();
    const auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) {
        out = static_cast<int>(found - names.begin());
        return;
    }
    const std::string near = nearestName(text, names);
    wrong(key, "unknown value", *value, rule + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

void ObjectReader::expectFormat(const char* format, int version)
{
    int ignored = 0;
    getChoice("format", ignored, {format});
    int64_t found = version;
    get("version", found, 1, 1 << 20);
    if (found > version)
        shared_->report(ErrorCode::VersionMismatch, pathOf("version"),
                        fmt::format("newer than this program, got {}, expected {}; update MegaGraph Studio", found, version));
    else if (found < version)
        fail("version", fmt::format("unknown version, got {}, expected {}", found, version));
}

void ObjectReader::fail(const char* key, const std::string& message)
{
    shared_->report(ErrorCode::InvalidInput, pathOf(key), message);
}

void ObjectReader::allowUnknown()
{
    if (value_ != nullptr)
        shared_->visit(value_)->allowUnknown = true;
}

Result<Ok> ObjectReader::finish()
{
    for (const auto& [object, visit] : shared_->visits) {
        if (shared_->fault || visit.allowUnknown)
            continue;
        for (const auto& item : object->items()) {
            if (std::find(visit.known.begin(), visit.known.end(), item.key()) != visit.known.end())
                continue;
            const std::string near = nearestName(item.key(), visit.known);
            const std::string path = visit.path.empty() ? item.key() : visit.path + "." + item.key();
            shared_->report(ErrorCode::InvalidInput, path,
                            fmt::format("unknown key \"{}\", got {}, expected a key of this document{}", item.key(),
                                        shown(item.value()), near.empty() ? "" : "; did you mean \"" + near + "\"?"));
            break;
        }
    }
    if (shared_->fault)
        return *shared_->fault;
    return Ok{};
}

} // namespace megagraph
