// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/peaks.h"

#include "core/clock.h"
#include "kernels/types.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace megagraph::runtime::bench {
namespace {

using kernels::ForkJoinFor;

struct Loop {
    void (*run)(int64_t turns) = nullptr; // null: not on this processor
    double flopsPerTurn = 0;
};

#if defined(__x86_64__)

// Twelve chains hide four cycles of latency on two ports with room to spare. All registers start as 0: no denormal, no NaN.
#define MEGAGRAPH_TWELVE(op, w)                                                                                                    \
    op " %%" w "0,%%" w "0,%%" w "1\n" op " %%" w "0,%%" w "0,%%" w "2\n" op " %%" w "0,%%" w "0,%%" w "3\n"                       \
    op " %%" w "0,%%" w "0,%%" w "4\n" op " %%" w "0,%%" w "0,%%" w "5\n" op " %%" w "0,%%" w "0,%%" w "6\n"                       \
    op " %%" w "0,%%" w "0,%%" w "7\n" op " %%" w "0,%%" w "0,%%" w "8\n" op " %%" w "0,%%" w "0,%%" w "9\n"                       \
    op " %%" w "0,%%" w "0,%%" w "10\n" op " %%" w "0,%%" w "0,%%" w "11\n" op " %%" w "0,%%" w "0,%%" w "12\n"
#define MEGAGRAPH_LOOP(op, w)                                                                                                      \
    asm volatile("mov %0,%%rcx\n vzeroall\n 1:\n" MEGAGRAPH_TWELVE(op, w) "dec %%rcx\n jnz 1b\n vzeroupper\n" ::"r"(turns)         \
                 : "rcx", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",  \
                   "xmm12", "xmm13", "xmm14", "xmm15")

void fma512(int64_t turns) { MEGAGRAPH_LOOP("vfmadd231ps", "zmm"); }
void fma256(int64_t turns) { MEGAGRAPH_LOOP("vfmadd231ps", "ymm"); }
void dot512(int64_t turns) { MEGAGRAPH_LOOP("vdpbf16ps", "zmm"); }

struct alignas(64) TileConfiguration {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t columnBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Four accumulators, two left and two right operands, as a real kernel would hold them.
void tiles(int64_t turns)
{
    const TileConfiguration configuration;
    asm volatile("ldtilecfg (%1)\n tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n tilezero %%tmm4\n"
                 "tilezero %%tmm5\n tilezero %%tmm6\n tilezero %%tmm7\n mov %0,%%rcx\n 1:\n"
                 "tdpbf16ps %%tmm6,%%tmm4,%%tmm0\n tdpbf16ps %%tmm7,%%tmm4,%%tmm1\n tdpbf16ps %%tmm6,%%tmm5,%%tmm2\n"
                 "tdpbf16ps %%tmm7,%%tmm5,%%tmm3\n dec %%rcx\n jnz 1b\n tilerelease\n" ::"r"(turns),
                 "r"(&configuration)
                 : "rcx", "cc", "memory");
}

bool requestTiles()
{
    constexpr long kRequest = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM
    return ::syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

unsigned leaf7(unsigned sub, unsigned what) // what: 0 = eax, 3 = edx
{
    unsigned r[4] = {};
    return __get_cpuid_count(7, sub, &r[0], &r[1], &r[2], &r[3]) != 0 ? r[what] : 0;
}

#endif

/// Turns of `loop` that take about `seconds` on one thread.
int64_t turnsFor(const Loop& loop, double seconds)
{
    constexpr int64_t kProbe = 20'000;
    const double start = monotonicSeconds();
    loop.run(kProbe);
    return std::max<int64_t>(kProbe, int64_t(double(kProbe) * seconds / std::max(1e-7, monotonicSeconds() - start)));
}

/// GFLOP/s of `threads` threads that each run `loop` for about `seconds`.
double rate(int32_t threads, double seconds, const Loop& loop)
{
    const int64_t turns = turnsFor(loop, seconds);
    const double start = monotonicSeconds();
    ForkJoinFor(threads).run(threads, [&](int64_t, int32_t) { loop.run(turns); });
    return double(turns) * loop.flopsPerTurn * threads * 1e-9 / (monotonicSeconds() - start);
}

double copyRate(int32_t threads)
{
    constexpr size_t kBytes = size_t(192) << 20; // each way; per thread a share
    std::vector<char> from(kBytes, 1), to(kBytes, 2);
    const size_t share = kBytes / size_t(threads) / 64 * 64;
    double best = 0;
    for (int i = 0; i < 4; ++i) {
        const double start = monotonicSeconds();
        ForkJoinFor(threads).run(threads, [&](int64_t t, int32_t) { std::memcpy(to.data() + size_t(t) * share, from.data() + size_t(t) * share, share); });
        best = std::max(best, 2e-9 * double(share) * threads / (monotonicSeconds() - start));
    }
    return best;
}

void raise(Ceiling& ceiling, int32_t threads, const std::function<double(int32_t)>& measure)
{
    ceiling.one = std::max(ceiling.one, measure(1));
    ceiling.all = threads == 1 ? ceiling.one : std::max(ceiling.all, measure(threads));
}

} // namespace

#if defined(__x86_64__)

bool hasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool hasAvx512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"); }

bool hasAvx512Bf16Dot() { return hasAvx512() && (leaf7(1, 0) >> 5 & 1u) != 0; }

bool hasAmxBf16()
{
    static const bool has = hasAvx512() && (leaf7(0, 3) >> 22 & 1u) != 0 && (leaf7(0, 3) >> 24 & 1u) != 0 && requestTiles();
    return has;
}

// One turn in floating-point operations: 12 instructions of (lanes) multiply-adds; 4 tiles of 16 x 16 x 32.
static Loop loopOf(CeilingKind kind)
{
    switch (kind) {
    case CeilingKind::Fp32: return hasAvx512() ? Loop{fma512, 12 * 16 * 2} : loopOf(CeilingKind::Avx2);
    case CeilingKind::Avx2: return hasAvx2() ? Loop{fma256, 12 * 8 * 2} : Loop{};
    case CeilingKind::Bf16: return hasAvx512Bf16Dot() ? Loop{dot512, 12 * 32 * 2} : Loop{};
    case CeilingKind::Amx: return hasAmxBf16() ? Loop{tiles, 4 * 16 * 16 * 32 * 2} : Loop{};
    }
    return {};
}

#else

static Loop loopOf(CeilingKind) { return {}; }
bool hasAvx2() { return false; }
bool hasAvx512() { return false; }
bool hasAvx512Bf16Dot() { return false; }
bool hasAmxBf16() { return false; }

#endif

void Peaks::refine(bool withCopy, double seconds)
{
    const auto raiseTo = [&](Ceiling& ceiling, CeilingKind kind) {
        if (const Loop loop = loopOf(kind); loop.run != nullptr)
            raise(ceiling, threads, [&](int32_t t) { return rate(t, seconds, loop); });
    };
    raiseTo(avx2, CeilingKind::Avx2);
    raiseTo(fp32, CeilingKind::Fp32);
    raiseTo(bf16, CeilingKind::Bf16);
    raiseTo(amx, CeilingKind::Amx);
    if (withCopy)
        raise(copy, threads, copyRate);
}

CeilingLoop ceilingLoop(CeilingKind kind, int32_t threads, double seconds)
{
    const Loop loop = loopOf(kind);
    if (loop.run == nullptr)
        return {};
    const int64_t turns = turnsFor(loop, seconds);
    const auto side = [loop, turns, threads] {
        const double start = monotonicSeconds();
        ForkJoinFor(threads).run(threads, [&](int64_t, int32_t) { loop.run(turns); });
        return 1e3 * (monotonicSeconds() - start);
    };
    return {side, double(turns) * loop.flopsPerTurn * threads};
}

} // namespace megagraph::runtime::bench
