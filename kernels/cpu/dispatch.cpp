// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/search.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace megagraph::kernels::cpu {

extern const CpuKernels portableKernels;
extern const SearchKernels portableSearch;
#if defined(__x86_64__)
extern const CpuKernels avx2Kernels;
extern const CpuKernels avx512Kernels;
extern const DenseKernels avx512bf16Pairs;
extern const DenseKernels amxbf16Pairs;
extern const SearchKernels avx2Search, avx512Search;
#endif

namespace {

#if defined(__x86_64__)
bool dotsSupported()
{
    return avx512Kernels.supported() && __builtin_cpu_supports("avx512bf16");
}

/// The CPU has AMX tiles and bf16 products, and the kernel grants the tile registers to this process.
bool tilesSupported()
{
    constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
    constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!dotsSupported() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxBf16) == 0 || (d & kAmxTile) == 0)
        return false;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// The set avx512 with products of bf16 pairs.
CpuKernels withPairs(const char* name, bool (*supported)(), const DenseKernels& pairs)
{
    CpuKernels set = avx512Kernels;
    set.name = name;
    set.supported = supported;
    set.pairs = &pairs;
    return set;
}

std::span<const CpuKernels* const> sets()
{
    static const CpuKernels tiles = withPairs("amxbf16", tilesSupported, amxbf16Pairs);
    static const CpuKernels dots = withPairs("avx512bf16", dotsSupported, avx512bf16Pairs);
    static const std::array<const CpuKernels*, 5> all{&tiles, &dots, &avx512Kernels, &avx2Kernels, &portableKernels};
    return all;
}
#else
std::span<const CpuKernels* const> sets()
{
    static const std::array<const CpuKernels*, 1> all{&portableKernels};
    return all;
}
#endif

std::string names()
{
    std::string list;
    for (const CpuKernels* set : sets()) {
        if (set->supported())
            list += (list.empty() ? "" : ", ") + std::string(set->name);
    }
    return list;
}

Result<const CpuKernels*> find(std::string_view name, std::string_view place)
{
    for (const CpuKernels* set : sets()) {
        if (name == set->name && set->supported())
            return set;
    }
    return Error{ErrorCode::Unsupported, std::string(place) + ": no such set of kernels on this machine, got \"" +
                                             std::string(name) + "\", expected one of " + names() + "; unset it or name one."};
}

const CpuKernels* choose()
{
    if (const char* name = std::getenv("MEGAGRAPH_CPU_KERNELS"); name != nullptr && *name != 0) {
        if (auto forced = find(name, "MEGAGRAPH_CPU_KERNELS"); forced.ok())
            return *forced;
    }
    for (const CpuKernels* set : sets()) {
        if (set->supported())
            return set;
    }
    return &portableKernels;
}

std::atomic<const CpuKernels*>& current()
{
    static std::atomic<const CpuKernels*> set{choose()};
    return set;
}

} // namespace

std::span<const CpuKernels* const> allKernels()
{
    return sets();
}

const CpuKernels& kernels()
{
    return *current().load(std::memory_order_acquire);
}

const SearchKernels& searchKernels()
{
#if defined(__x86_64__)
    const std::string_view name = kernels().name;
    if (name.starts_with("avx512") || name.starts_with("amx"))
        return avx512Search;
    if (name == avx2Search.name)
        return avx2Search;
#endif
    return portableSearch;
}

Result<Ok> forcedKernels()
{
    const char* name = std::getenv("MEGAGRAPH_CPU_KERNELS");
    if (name == nullptr || *name == 0)
        return Ok{};
    if (auto set = find(name, "MEGAGRAPH_CPU_KERNELS"); !set.ok())
        return set.error();
    return Ok{};
}

Result<Ok> forceKernels(std::string_view name)
{
    auto set = find(name, "CPU kernels");
    if (!set.ok())
        return set.error();
    current().store(*set, std::memory_order_release);
    return Ok{};
}

} // namespace megagraph::kernels::cpu
