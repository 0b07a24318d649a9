// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: Philox4x32 (Salmon et al. 2011). No state, so draws do not depend on ranks, threads or
// order. 7 rounds are the fewest that pass BigCrush; 10 is the published default (known answers are tests).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace megagraph {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::array<uint32_t, 2> key, int rounds)
{
    for (int r = 0; r < rounds; ++r) {
        const uint64_t p0 = uint64_t(0xD2511F53u) * counter[0];
        const uint64_t p1 = uint64_t(0xCD9E8D57u) * counter[2];
        counter = {uint32_t(p1 >> 32) ^ counter[1] ^ key[0], uint32_t(p1), uint32_t(p0 >> 32) ^ counter[3] ^ key[1],
                   uint32_t(p0)};
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return counter;
}

constexpr uint64_t splitmix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/// One draw of a keyed stream: four 32-bit words for (seed, stream, index).
PhiloxBlock drawWords(uint64_t seed, uint64_t stream, uint64_t index);
/// Uniform in [0, 1) with 53 bits, and an unbiased-enough integer in [0, bound) by 64-bit multiply.
double drawUniform(uint64_t seed, uint64_t stream, uint64_t index);
uint64_t drawBelow(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound);

} // namespace megagraph
