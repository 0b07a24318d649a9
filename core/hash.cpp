// SPDX-License-Identifier: Apache-2.0
#include "core/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace megagraph {

namespace {

constexpr uint32_t kCastagnoli = 0x82F63B78u; // reflected polynomial

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables makeCrcTables()
{
    CrcTables tables{};
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? kCastagnoli : 0u);
        tables[0][i] = crc;
    }
    for (size_t t = 1; t < 8; ++t)
        for (size_t i = 0; i < 256; ++i)
            tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFFu];
    return tables;
}

constexpr CrcTables kCrcTables = makeCrcTables();

constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void sha256Block(uint32_t* state, const uint8_t* block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; ++i)
        w[i] = uint32_t(block[4 * i]) << 24 | uint32_t(block[4 * i + 1]) << 16 | uint32_t(block[4 * i + 2]) << 8 |
               uint32_t(block[4 * i + 3]);
    for (int i = 16; i < 64; ++i) {
        const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; ++i) {
        const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
        const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const uint32_t sum[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i)
        state[i] += sum[i];
}

} // namespace

uint32_t crc32c(const void* data, size_t size, uint32_t seed)
{
    const auto* bytes = static_cast<const uint8_t*>(data);
    uint32_t crc = ~seed;
    for (; size >= 8; size -= 8, bytes += 8) { // slicing by 8; bytes are combined by hand, so any byte order works
        const uint32_t low = crc ^ (uint32_t(bytes[0]) | uint32_t(bytes[1]) << 8 | uint32_t(bytes[2]) << 16 | uint32_t(bytes[3]) << 24);
        crc = kCrcTables[7][low & 0xFFu] ^ kCrcTables[6][(low >> 8) & 0xFFu] ^ kCrcTables[5][(low >> 16) & 0xFFu] ^
              kCrcTables[4][low >> 24] ^ kCrcTables[3][bytes[4]] ^ kCrcTables[2][bytes[5]] ^ kCrcTables[1][bytes[6]] ^
              kCrcTables[0][bytes[7]];
    }
    for (; size > 0; --size, ++bytes)
        crc = (crc >> 8) ^ kCrcTables[0][(crc ^ *bytes) & 0xFFu];
    return ~crc;
}

uint64_t fnv1a64(std::string_view text)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (const char c : text)
        hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
    return hash;
}

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, block_{}
{
}

void Sha256::update(const void* data, size_t size)
{
    const auto* bytes = static_cast<const uint8_t*>(data);
    size_t held = total_ % 64;
    total_ += size;
    if (held > 0) {
        const size_t take = std::min(size, 64 - held);
        std::memcpy(block_ + held, bytes, take);
        bytes += take;
        size -= take;
        held += take;
        if (held < 64)
            return;
        sha256Block(state_, block_);
    }
    for (; size >= 64; size -= 64, bytes += 64)
        sha256Block(state_, bytes);
    if (size > 0)
        std::memcpy(block_, bytes, size);
}

std::array<uint8_t, 32> Sha256::digest()
{
    const uint64_t bits = total_ * 8;
    const size_t held = total_ % 64;
    uint8_t padding[72] = {0x80};
    const size_t zeros = (held < 56 ? 56 : 120) - held;
    for (size_t i = 0; i < 8; ++i)
        padding[zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
    update(padding, zeros + 8);
    std::array<uint8_t, 32> out{};
    for (size_t i = 0; i < 32; ++i)
        out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return out;
}

std::string Sha256::hex()
{
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (const uint8_t byte : digest()) {
        out += kDigits[byte >> 4];
        out += kDigits[byte & 15];
    }
    return out;
}

std::string sha256Hex(std::string_view bytes)
{
    Sha256 hasher;
    hasher.update(bytes.data(), bytes.size());
    return hasher.hex();
}

} // namespace megagraph
