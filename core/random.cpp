// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

namespace megagraph {

PhiloxBlock drawWords(uint64_t seed, uint64_t stream, uint64_t index)
{
    const PhiloxBlock counter{uint32_t(index), uint32_t(index >> 32), uint32_t(stream), uint32_t(stream >> 32)};
    return philox4x32(counter, {uint32_t(seed), uint32_t(seed >> 32)}, 10);
}

double drawUniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    const PhiloxBlock words = drawWords(seed, stream, index);
    const uint64_t bits = uint64_t(words[0]) << 32 | words[1];
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

uint64_t drawBelow(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound)
{
    const PhiloxBlock words = drawWords(seed, stream, index);
    const uint64_t bits = uint64_t(words[0]) << 32 | words[1];
    // high half of the 128-bit product bits * bound, from 32-bit halves (no compiler extension)
    const uint64_t bitsLow = bits & 0xFFFFFFFFu, bitsHigh = bits >> 32;
    const uint64_t boundLow = bound & 0xFFFFFFFFu, boundHigh = bound >> 32;
    const uint64_t cross = bitsHigh * boundLow + (bitsLow * boundLow >> 32);
    const uint64_t carry = (cross & 0xFFFFFFFFu) + bitsLow * boundHigh;
    return bitsHigh * boundHigh + (cross >> 32) + (carry >> 32);
}

} // namespace megagraph
