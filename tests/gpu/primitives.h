// SPDX-License-Identifier: Apache-2.0
// Every operation of kernels/cuda/primitives.cuh on random data, each by a kernel of its own (primitive_kernels.cuh). The CPU
// emulation's results are stored in tests/data/kernels/primitives.words; a GPU must give the same words.
// File, little-endian: "MGPRIM01", uint32 entries; per entry char name[16], uint32 count, words; at the end CRC32C of all before.
#pragma once

#include "core/result.h"
#include "tests/gpu/device_memory.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megagraph::kernels::goldens {

struct Primitive {
    const char* name;
    int32_t blocks, threads;
    int32_t inWords, outWords; // per block
    /// Largest difference of two finite results as floats in units of the last place; 0 = equal bits.
    int32_t ulps;
    int32_t capability = 80; // least compute capability, times 10
};
std::span<const Primitive> allPrimitives();
/// Random words of the primitive, from seeds.
std::vector<uint32_t> primitiveInput(const Primitive& p);

/// Queues the kernel of `p`; "" or why it could not. In primitives.cu for a GPU, in a shim source for the CPU.
/// ticket: one cleared word per primitive; flags: one cleared word.
std::string launchPrimitive(const Primitive& p, const uint32_t* in, uint32_t* out, int32_t* ticket, int32_t* flag);

Result<std::vector<uint32_t>> runPrimitive(const Primitive& p, DeviceMemory& memory);

struct StoredWords {
    std::string name;
    std::vector<uint32_t> words;
};
std::string encodeWords(const std::vector<StoredWords>& entries);
Result<std::vector<StoredWords>> decodeWords(const std::string& file, std::string_view bytes);
/// "" if the words agree within the primitive's limit, else the first place that does not.
std::string differsFrom(const Primitive& p, std::span<const uint32_t> stored, std::span<const uint32_t> got);

} // namespace megagraph::kernels::goldens
