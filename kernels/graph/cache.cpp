// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/cache.h"

#include "core/hash.h"
#include "core/json.h"
#include "core/places.h"

#include <cstring>
#include <filesystem>
#include <fstream>

namespace megagraph::kernels {
namespace {

constexpr char kMagic[8] = {'M', 'G', 'C', 'A', 'C', 'H', 'E', '1'};
constexpr size_t kHeader = sizeof kMagic + sizeof(uint32_t);

} // namespace

std::string cachePath(const std::string& home, const std::string& kind, const std::vector<std::string>& keyParts)
{
    std::string joined = kind;
    for (const std::string& part : keyParts)
        joined += '\n' + part;
    return home + "/cache/" + kind + "-" + sha256Hex(joined).substr(0, 24) + ".bin";
}

std::optional<std::string> readCache(const std::string& path)
{
    std::error_code fault;
    const auto size = std::filesystem::file_size(path, fault);
    if (fault || size < kHeader)
        return std::nullopt;
    std::string bytes(size, '\0');
    std::ifstream in(path, std::ios::binary);
    if (!in.read(bytes.data(), std::streamsize(size)) || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
        return std::nullopt;
    uint32_t stored = 0;
    std::memcpy(&stored, bytes.data() + sizeof kMagic, sizeof stored);
    if (stored != crc32c(bytes.data() + kHeader, size - kHeader))
        return std::nullopt;
    return bytes.substr(kHeader);
}

Result<Ok> writeCache(const std::string& path, const std::string& payload)
{
    auto folder = makeFolders(std::filesystem::path(path).parent_path().string());
    if (!folder)
        return std::move(folder).error();
    const uint32_t checksum = crc32c(payload.data(), payload.size());
    std::string bytes(kMagic, sizeof kMagic);
    bytes.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
    bytes += payload;
    return writeFileAtomically(path, bytes);
}

} // namespace megagraph::kernels
