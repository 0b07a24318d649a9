// SPDX-License-Identifier: Apache-2.0
// A user's source file, opened once, read-only, without following a link in its last part; only regular files pass.
// Reading is by position, so nothing is mapped that somebody else could cut. One thread per object.
#pragma once

#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

class SourceFile {
  public:
    /// `name` is the file as messages write it (relative to what the user named). NotFound, Io, InvalidInput (no file).
    static Result<SourceFile> open(const std::string& path, const std::string& name);
    SourceFile(SourceFile&& other) noexcept;
    SourceFile& operator=(SourceFile&& other) noexcept;
    ~SourceFile();

    const std::string& name() const { return name_; }
    int64_t size() const { return size_; }
    /// Reads up to `size` bytes at `offset`; fewer only at the end of the file. Io.
    Result<int64_t> read(int64_t offset, void* out, int64_t size) const;
    /// Exactly `size` bytes, else InvalidInput with both counts.
    Result<Ok> readExactly(int64_t offset, void* out, int64_t size) const;
    /// CRC-32 (that of gzip) over the whole file as 8 hex digits.
    Result<std::string> crc32Hex() const;

  private:
    SourceFile(int descriptor, int64_t size, std::string name);
    int descriptor_ = -1;
    int64_t size_ = 0;
    std::string name_;
};

/// "file: place: what; remedy" as InvalidInput.
Error badInput(const std::string& file, const std::string& place, const std::string& what, const std::string& remedy);

} // namespace megagraph
