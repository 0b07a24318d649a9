// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/dispatch.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

namespace megagraph::kernels::cpu {

extern const CpuKernels portableKernels;
#if defined(__x86_64__)
extern const CpuKernels avx2Kernels;
extern const CpuKernels avx512Kernels;
#endif

namespace {

#if defined(__x86_64__)
const std::array<const CpuKernels*, 3> kSets{&avx512Kernels, &avx2Kernels, &portableKernels};
#else
const std::array<const CpuKernels*, 1> kSets{&portableKernels};
#endif

std::string names()
{
    std::string list;
    for (const CpuKernels* set : kSets) {
        if (set->supported())
            list += (list.empty() ? "" : ", ") + std::string(set->name);
    }
    return list;
}

Result<const CpuKernels*> find(std::string_view name, std::string_view place)
{
    for (const CpuKernels* set : kSets) {
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
    for (const CpuKernels* set : kSets) {
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
    return kSets;
}

const CpuKernels& kernels()
{
    return *current().load(std::memory_order_acquire);
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
