// SPDX-License-Identifier: Apache-2.0
// CRC32C (Castagnoli), SHA-256, FNV-1a 64. Pure functions and one streaming hasher.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace megagraph {

uint32_t crc32c(const void* data, size_t size, uint32_t seed = 0);
uint64_t fnv1a64(std::string_view text);

class Sha256 {
  public:
    Sha256();
    void update(const void* data, size_t size);
    std::array<uint8_t, 32> digest(); ///< ends the stream
    std::string hex();                ///< ends the stream; 64 lower-case digits

  private:
    uint32_t state_[8];
    uint8_t block_[64];
    uint64_t total_ = 0;
};
std::string sha256Hex(std::string_view bytes);

} // namespace megagraph
