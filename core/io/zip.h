// SPDX-License-Identifier: Apache-2.0
// Zip archives as NPZ files use them: stored and deflated members, zip64 sizes, no encryption, one disk. Everything is
// checked before memory is taken: at most 1,024 members, names of 255 bytes, central and local headers agree, members do
// not overlap and lie before the directory, a deflated member expands at most 1,032 times (the limit of the method), the
// whole archive at most 200 times beyond its first MiB unless allowed, and the declared bytes fit the budget.
// Nothing is extracted by name. One thread per object.
#pragma once

#include "core/io/source_file.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

struct ZipMember {
    std::string name;
    int64_t size = 0, packedSize = 0, localHeader = 0, dataOffset = 0;
    uint32_t crc32 = 0;
    bool deflated = false;
};

struct ZipLimits { bool allowRatio = false; int64_t budgetBytes = int64_t(1) << 62; };

class ZipArchive {
  public:
    static Result<ZipArchive> open(const std::string& path, const std::string& name, const ZipLimits& limits);

    const std::vector<ZipMember>& members() const { return members_; }
    const ZipMember* find(const std::string& name) const;
    const SourceFile& file() const { return file_; }
    /// The whole member, its length and CRC-32 checked.
    Result<std::vector<uint8_t>> read(const ZipMember& member) const;
    /// The first `bytes` of the member, unchecked: for headers.
    Result<std::vector<uint8_t>> readStart(const ZipMember& member, int64_t bytes) const;

  private:
    explicit ZipArchive(SourceFile file) : file_(std::move(file)) {}
    Result<Ok> readDirectory(const ZipLimits& limits);
    Result<Ok> checkMember(ZipMember& member, int64_t directoryOffset) const;
    Result<Ok> checkArchive(const ZipLimits& limits) const;
    SourceFile file_;
    std::vector<ZipMember> members_;
};

} // namespace megagraph
