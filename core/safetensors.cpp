// SPDX-License-Identifier: Apache-2.0
#include "core/safetensors.h"

#include "core/file.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <tuple>

namespace megagraph {
namespace {

constexpr size_t kMaxDimensions = 8;
constexpr int64_t kMaxElements = int64_t(1) << 48;
constexpr size_t kDataAlignment = 64;

Error corrupt(const std::string& file, const std::string& what)
{
    return {ErrorCode::Corrupt, fmt::format("{}: safetensors: {}", file, what)};
}

/// Product of the dimensions, -1 when one is negative or the product is out of range.
int64_t product(const std::vector<int64_t>& shape)
{
    int64_t total = 1;
    for (const int64_t size : shape) {
        if (size < 0 || size > kMaxElements || (size > 0 && total > kMaxElements / size))
            return -1;
        total *= size;
    }
    return total;
}

Result<std::vector<int64_t>> integers(const Json& value, const std::string& file, const std::string& place, size_t most)
{
    if (!value.is_array() || value.size() > most)
        return corrupt(file, fmt::format("{}: expected an array of at most {} integers, got {}", place, most, value.dump().substr(0, 80)));
    std::vector<int64_t> out;
    for (const Json& item : value) {
        if (!item.is_number_integer() || item.get<int64_t>() < 0)
            return corrupt(file, fmt::format("{}: expected integers >= 0, got {}", place, item.dump().substr(0, 80)));
        out.push_back(item.get<int64_t>());
    }
    return out;
}

Result<SafetensorsEntry> decodeEntry(const std::string& name, const Json& value, int64_t dataBytes, const std::string& file)
{
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() || !value.contains("shape") ||
        !value.contains("data_offsets"))
        return corrupt(file, fmt::format("{}: expected dtype, shape and data_offsets", name));
    SafetensorsEntry entry;
    entry.name = name;
    entry.dtype = value["dtype"].get<std::string>();
    MEGAGRAPH_TRY(entry.shape, integers(value["shape"], file, name + ".shape", kMaxDimensions));
    MEGAGRAPH_TRY(const auto offsets, integers(value["data_offsets"], file, name + ".data_offsets", 2));
    const int64_t size = elementBytes(entry.dtype), elements = product(entry.shape);
    if (size == 0)
        return corrupt(file, fmt::format("{}: unknown dtype {}", name, entry.dtype));
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > dataBytes)
        return corrupt(file, fmt::format("{}: data_offsets lie outside the {} bytes of data", name, dataBytes));
    if (elements < 0 || offsets[1] - offsets[0] != elements * size)
        return corrupt(file, fmt::format("{}: {} bytes of data, expected {} for its shape", name, offsets[1] - offsets[0], elements * size));
    entry.begin = offsets[0];
    entry.end = offsets[1];
    return entry;
}

Result<Ok> checkOverlap(const std::vector<SafetensorsEntry>& entries, const std::string& file)
{
    std::vector<const SafetensorsEntry*> sorted;
    for (const auto& entry : entries)
        if (entry.end > entry.begin)
            sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
    for (size_t i = 1; i < sorted.size(); ++i)
        if (sorted[i]->begin < sorted[i - 1]->end)
            return corrupt(file, fmt::format("{} and {} overlap", sorted[i - 1]->name, sorted[i]->name));
    return Ok{};
}

} // namespace

int64_t SafetensorsEntry::elements() const
{
    return product(shape);
}

int64_t elementBytes(const std::string& dtype)
{
    constexpr std::pair<const char*, int64_t> table[] = {{"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4}, {"U32", 4},
                                                         {"F16", 2}, {"BF16", 2}, {"I16", 2}, {"U8", 1}, {"I8", 1}, {"BOOL", 1}};
    for (const auto& [name, bytes] : table)
        if (dtype == name)
            return bytes;
    return 0;
}

std::string encodeSafetensorsHeader(std::vector<SafetensorsEntry>& entries, const std::map<std::string, std::string>& metadata)
{
    Json header = Json::object();
    if (!metadata.empty())
        header["__metadata__"] = metadata;
    int64_t at = 0;
    for (auto& entry : entries) {
        entry.begin = at;
        entry.end = at += entry.elements() * elementBytes(entry.dtype);
        header[entry.name] = Json{{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
    }
    std::string text = header.dump();
    text.append((kDataAlignment - (8 + text.size()) % kDataAlignment) % kDataAlignment, ' ');
    const uint64_t size = text.size();
    std::string out(8, '\0');
    for (int byte = 0; byte < 8; ++byte)
        out[size_t(byte)] = char(size >> (8 * byte));
    return out + text;
}

Result<SafetensorsHeader> decodeSafetensorsHeader(const std::string& head, int64_t fileBytes, const std::string& file)
{
    if (head.size() < 8)
        return corrupt(file, fmt::format("file has {} bytes, expected at least 8", head.size()));
    uint64_t size = 0;
    for (int byte = 0; byte < 8; ++byte)
        size |= uint64_t(uint8_t(head[size_t(byte)])) << (8 * byte);
    if (size > uint64_t(kMaxSafetensorsHeader) || int64_t(size) + 8 > fileBytes || head.size() < size + 8)
        return corrupt(file, fmt::format("header length is {}, expected at most {} and at most the file's {} bytes", size,
                                         kMaxSafetensorsHeader, fileBytes));
    const Json value = Json::parse(head.begin() + 8, head.begin() + 8 + std::ptrdiff_t(size), nullptr, false);
    if (!value.is_object())
        return corrupt(file, "header is not a JSON object");
    SafetensorsHeader header;
    header.dataOffset = int64_t(size) + 8;
    for (const auto& [name, item] : value.items()) {
        if (name == "__metadata__") {
            for (const auto& [key, text] : item.items())
                if (text.is_string())
                    header.metadata[key] = text.get<std::string>();
            continue;
        }
        MEGAGRAPH_TRY(auto entry, decodeEntry(name, item, fileBytes - header.dataOffset, file));
        header.entries.push_back(std::move(entry));
    }
    MEGAGRAPH_TRY(std::ignore, checkOverlap(header.entries, file));
    return header;
}

Result<SafetensorsHeader> readSafetensorsHeader(const std::string& path)
{
    MEGAGRAPH_TRY(const FileDescriptor file, openFile(path, O_RDONLY | O_NOFOLLOW));
    const int64_t bytes = fileSize(file.get());
    uint8_t length[8] = {};
    MEGAGRAPH_TRY(std::ignore, readAt(file.get(), 0, length, sizeof length, path));
    uint64_t size = 0;
    for (int byte = 0; byte < 8; ++byte)
        size |= uint64_t(length[byte]) << (8 * byte);
    if (size > uint64_t(kMaxSafetensorsHeader) || int64_t(size) + 8 > bytes)
        return corrupt(path, fmt::format("header length is {}, expected at most {} and at most the file's {} bytes", size,
                                         kMaxSafetensorsHeader, bytes));
    std::string head(size + 8, '\0');
    MEGAGRAPH_TRY(std::ignore, readAt(file.get(), 0, head.data(), head.size(), path));
    return decodeSafetensorsHeader(head, bytes, path);
}

} // namespace megagraph
