// SPDX-License-Identifier: Apache-2.0
// safetensors files: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, raw data.
// Reading checks everything against the file size before it allocates: header <= 16 MiB, at most 8 dimensions, known dtype,
// offsets inside the data, no overlap, bytes = elements * element size. Values only; no threads.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace megagraph {

constexpr int64_t kMaxSafetensorsHeader = 16 << 20;

struct SafetensorsEntry {
    std::string name, dtype; // "F32" "F64" "I64" "I32" "U8" "F16" "BF16"
    std::vector<int64_t> shape;
    int64_t begin = 0, end = 0; // bytes in the data part

    int64_t elements() const;
};
struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;       // in file order
    std::map<std::string, std::string> metadata; // "__metadata__"
    int64_t dataOffset = 0;                      // bytes in front of the data
};

/// Bytes of one element; 0 = unknown dtype.
int64_t elementBytes(const std::string& dtype);
/// The bytes in front of the data; begin and end of the entries are filled in, in order, without gaps. The header is padded
/// with spaces so that the data begins on a multiple of 64.
std::string encodeSafetensorsHeader(std::vector<SafetensorsEntry>& entries, const std::map<std::string, std::string>& metadata);
/// `head` holds the first bytes of a file of `fileBytes` bytes (at least 8 + header length). Corrupt names `file`, entry and rule.
Result<SafetensorsHeader> decodeSafetensorsHeader(const std::string& head, int64_t fileBytes, const std::string& file);
Result<SafetensorsHeader> readSafetensorsHeader(const std::string& path);

} // namespace megagraph
