// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/primitives.h"

#include "core/hash.h"
#include "core/random.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace megagraph::kernels::goldens {
namespace {

constexpr char kMagic[] = "MGPRIM01";

constexpr Primitive kPrimitives[] = {
    {"mma16816", 8, 32, 32 * 10, 32 * 4, 0},
    {"ldmatrix", 4, 128, 2 * 2048, 4 * 2 * 32 * 4 * 4, 0},
    {"named_barrier", 4, 128, 128, 128, 0},
    {"shuffles", 4, 64, 128, 64 * 12, 0},
    {"pack_bf16", 4, 128, 256, 128 * 3, 0},
    {"exp2", 4, 128, 128, 128, 2},
    {"ticket_chain", 16, 32, 32, 1, 0},
    {"group_products", 1, 128, 5 * 2048, 128 * 128, 0, 90},
};

/// Two small whole numbers in bf16: sums of products stay exact in fp32.
uint32_t smallPair(uint32_t bits)
{
    const auto number = [](uint32_t b) { return std::bit_cast<uint32_t>(float(int32_t(b % 17) - 8)) >> 16; };
    return number(bits & 0xFFu) | number(bits >> 8 & 0xFFu) << 16;
}

uint32_t word(const Primitive& p, uint32_t bits, int64_t index)
{
    const std::string_view name = p.name;
    if (name == "mma16816") // per lane: 4 + 2 factors, then 4 sums
        return index % 10 < 6 ? smallPair(bits) : std::bit_cast<uint32_t>(float(int32_t(bits % 1001) - 500));
    if (name == "group_products")
        return smallPair(bits);
    if (name == "exp2")
        return std::bit_cast<uint32_t>(float(int32_t(bits % 2000001) - 1000000) * 1e-4f);
    if (name == "shuffles")
        return bits & 0x7F7FFFFFu; // as floats, too: no NaN
    return bits;
}

float asFloat(uint32_t word)
{
    return std::bit_cast<float>(word);
}

} // namespace

std::span<const Primitive> allPrimitives()
{
    return kPrimitives;
}

std::vector<uint32_t> primitiveInput(const Primitive& p)
{
    std::vector<uint32_t> words(size_t(p.blocks) * size_t(p.inWords));
    const uint64_t seed = fnv1a64(p.name);
    for (size_t i = 0; i < words.size(); ++i)
        words[i] = word(p, drawWords(seed, 1, i)[0], int64_t(i));
    if (std::string_view(p.name) == "pack_bf16") { // halves, largest numbers, infinities, a NaN, signed zeros
        const uint32_t special[] = {0x3F808000u, 0x3F818000u, 0x7F7FFFFFu, 0x7F800000u, 0xFF800000u, 0x7FC00001u, 0x80000000u, 1u};
        std::copy(std::begin(special), std::end(special), words.begin());
    }
    return words;
}

Result<std::vector<uint32_t>> runPrimitive(const Primitive& p, DeviceMemory& memory)
{
    const DeviceArray<uint32_t> in(memory, primitiveInput(p)), out(memory, int64_t(p.blocks) * p.outWords);
    DeviceArray<int32_t> words(memory, 2);
    if (!in.ok() || !out.ok() || !words.ok())
        return Error{ErrorCode::OutOfMemory, std::string("primitives: ") + p.name + ": the device has no room"};
    words.clear();
    std::string failure = launchPrimitive(p, in.data(), out.data(), words.data(), words.data() + 1);
    if (failure.empty())
        failure = memory.finish();
    if (!failure.empty())
        return Error{ErrorCode::Internal, std::string("primitives: ") + p.name + ": " + failure};
    return out.values();
}

std::string encodeWords(const std::vector<StoredWords>& entries)
{
    std::string out(kMagic, 8);
    const auto put = [&](const void* data, size_t size) { out.append(static_cast<const char*>(data), size); };
    const auto count = uint32_t(entries.size());
    put(&count, 4);
    for (const StoredWords& e : entries) {
        char name[16] = {};
        std::memcpy(name, e.name.data(), std::min<size_t>(e.name.size(), 15));
        const auto words = uint32_t(e.words.size());
        put(name, 16);
        put(&words, 4);
        put(e.words.data(), e.words.size() * 4);
    }
    const uint32_t sum = crc32c(out.data(), out.size());
    put(&sum, 4);
    return out;
}

Result<std::vector<StoredWords>> decodeWords(const std::string& file, std::string_view bytes)
{
    const auto corrupt = [&](const char* text) {
        return Error{ErrorCode::Corrupt, "primitives: " + file + ": " + text + "; make the file again with make_primitives."};
    };
    uint32_t count = 0, sum = 0;
    if (bytes.size() < 16 || std::memcmp(bytes.data(), kMagic, 8) != 0)
        return corrupt("first bytes, got others, expected MGPRIM01");
    std::memcpy(&sum, bytes.data() + bytes.size() - 4, 4);
    bytes.remove_suffix(4);
    if (crc32c(bytes.data(), bytes.size()) != sum)
        return corrupt("CRC32C does not fit the bytes");
    std::memcpy(&count, bytes.data() + 8, 4);
    bytes.remove_prefix(12);
    std::vector<StoredWords> entries;
    for (uint32_t i = 0; i < count; ++i) {
        char name[17] = {};
        uint32_t words = 0;
        if (bytes.size() < 20)
            return corrupt("an entry does not fit the file");
        std::memcpy(name, bytes.data(), 16);
        std::memcpy(&words, bytes.data() + 16, 4);
        bytes.remove_prefix(20);
        if (words > bytes.size() / 4)
            return corrupt("an entry does not fit the file");
        StoredWords e{name, std::vector<uint32_t>(words)};
        std::memcpy(e.words.data(), bytes.data(), size_t(words) * 4);
        bytes.remove_prefix(size_t(words) * 4);
        entries.push_back(std::move(e));
    }
    return entries;
}

std::string differsFrom(const Primitive& p, std::span<const uint32_t> stored, std::span<const uint32_t> got)
{
    if (stored.size() != got.size())
        return "got " + std::to_string(got.size()) + " words, expected " + std::to_string(stored.size());
    for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] == stored[i])
            continue;
        const double a = double(asFloat(got[i])), b = double(asFloat(stored[i]));
        const double ulp = std::max(std::ldexp(1.0, std::ilogb(b == 0 ? 1e-38 : b) - 23), std::ldexp(1.0, -126));
        if (p.ulps == 0 || !std::isfinite(a) || !std::isfinite(b) || std::abs(a - b) > p.ulps * ulp) {
            char text[96];
            std::snprintf(text, sizeof text, "word %zu: got %08x, expected %08x", i, got[i], stored[i]);
            return text;
        }
    }
    return {};
}

} // namespace megagraph::kernels::goldens
