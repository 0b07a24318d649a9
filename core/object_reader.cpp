// SPDX-License-Identifier: Apache-2.0
#include "core/json.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace megagraph {

namespace {

/// A value as messages show it: one line, at most 60 bytes, control characters escaped.
std::string shown(const Json& value)
{
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 60)
        text = text.substr(0, 57) + "...";
    return text;
}

} // namespace

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
