// SPDX-License-Identifier: Apache-2.0
// Every hardware operation that the CUDA kernels use: PTX for sm_80 and later, and an emulation with the real register layouts
// for the CPU shim (launch.h). Kernels above this file are plain C++. All functions run on the device; "warp" functions must be
// reached by all 32 lanes together.
#pragma once

#include "kernels/cuda/launch.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace megagraph::kernels::cuda {

constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// ---- memory ----------------------------------------------------------------------------------------------------------

/// Dynamic shared memory of the block, 1,024-byte aligned.
__device__ __forceinline__ unsigned char* dynamicShared()
{
#if defined(__CUDACC__)
    extern __shared__ __align__(1024) unsigned char megagraphShared[];
    return megagraphShared;
#else
    return shim::dynamicShared();
#endif
}

/// Memory that no block writes during the kernel.
template <class T> __device__ __forceinline__ T readGlobal(const T* at)
{
    return __ldg(at);
}
/// Past the first-level cache, which does not see the writes of other blocks.
template <class T> __device__ __forceinline__ T readGlobalFresh(const T* at)
{
    return __ldcg(at);
}

// ---- asynchronous copies (cp.async) ------------------------------------------------------------------------------------

/// 16 bytes, both sides 16-byte aligned; visible to this thread after waitCopies, to others after a barrier behind it.
__device__ __forceinline__ void copyAsync(void* shared, const void* global MEGAGRAPH_LINE)
{
#if defined(__CUDACC__)
    const uint32_t to = uint32_t(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
#else
    shim::copyAsync(shared, global, 16, line);
#endif
}
__device__ __forceinline__ void commitCopies()
{
#if defined(__CUDACC__)
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    shim::commitCopies();
#endif
}
/// Until at most `kLeft` groups of this thread are in flight.
template <int kLeft> __device__ __forceinline__ void waitCopies()
{
#if defined(__CUDACC__)
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#else
    shim::waitCopies(kLeft);
#endif
}

// ---- barriers and flags ------------------------------------------------------------------------------------------------

/// Barrier `id` (1..15) among `threads` threads, a multiple of 32. Id 0 is __syncthreads.
__device__ __forceinline__ void namedBarrier(int id, int threads)
{
#if defined(__CUDACC__)
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
    shim::namedBarrier(id, threads);
#endif
}
/// Spins until another block has published `value`; its writes before that are visible to this thread afterwards.
__device__ __forceinline__ void waitForValue(const int32_t* flag, int32_t value)
{
#if defined(__CUDACC__)
    int32_t seen;
    do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    } while (seen != value);
#else
    while (*flag != value)
        shim::waitBlock();
#endif
}
/// The writes of the block must lie behind __threadfence() and a barrier.
__device__ __forceinline__ void publishValue(int32_t* flag, int32_t value)
{
#if defined(__CUDACC__)
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#else
    *flag = value;
#endif
}

// ---- warp --------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float shuffleXor(float value, int lanes)
{
    return __shfl_xor_sync(kAllLanes, value, lanes);
}
__device__ __forceinline__ uint32_t shuffleXor(uint32_t value, int lanes)
{
    return __shfl_xor_sync(kAllLanes, value, lanes);
}
__device__ __forceinline__ uint32_t shuffleFrom(uint32_t value, int lane)
{
    return __shfl_sync(kAllLanes, value, lane);
}

// ---- arithmetic --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float negativeInfinity()
{
    return -INFINITY;
}
/// A copy of x that the compiler cannot trace back: what is computed from it inside a loop is not kept in registers around it.
__device__ __forceinline__ uint32_t recomputed(uint32_t x)
{
#if defined(__CUDACC__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}
/// 2^x, about 2 ulp; 0 for -inf.
__device__ __forceinline__ float exp2Fast(float x)
{
#if defined(__CUDACC__)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}
/// Two bf16 in a word, rounded to nearest even; `low` in the low half.
__device__ __forceinline__ uint32_t packBf16(float low, float high)
{
#if defined(__CUDACC__)
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    const auto round = [](float x) {
        uint32_t bits;
        std::memcpy(&bits, &x, 4);
        if (x != x)
            return uint32_t(0x7FFFu);
        return (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    };
    return round(low) | round(high) << 16;
#endif
}
__device__ __forceinline__ float bf16Value(uint32_t bits)
{
#if defined(__CUDACC__)
    return __uint_as_float(bits << 16);
#else
    const uint32_t word = bits << 16;
    float x;
    std::memcpy(&x, &word, 4);
    return x;
#endif
}

// ---- matrix products (warp) --------------------------------------------------------------------------------------------

#if !defined(__CUDACC__)
namespace emulated {

// Out of line and without the shadow's calls: `all` is the shim's own memory.
[[gnu::noinline, gnu::no_sanitize("thread")]] inline void mma16816(float* d, const uint32_t* all, int lane)
{
    const int g = lane >> 2, t = lane & 3;
    const auto value = [](uint32_t word, int half) {
        const uint32_t bits = half == 0 ? word << 16 : word & 0xFFFF0000u;
        float x;
        __builtin_memcpy(&x, &bits, 4);
        return x;
    };
    for (int pair = 0; pair < 8; ++pair) {
        const int source = pair & 3, high = pair >> 2;
        for (int i = 0; i < 4; ++i) {
            const uint32_t left = all[(4 * g + source) * 6 + 2 * high + (i >> 1)];
            const uint32_t right = all[(4 * (2 * t + (i & 1)) + source) * 6 + 4 + high];
            d[i] += value(left, 0) * value(right, 0) + value(left, 1) * value(right, 1);
        }
    }
}

[[gnu::noinline, gnu::no_sanitize("thread")]] inline void ldmatrix(bool transposed, uint32_t* words, const uint32_t* all, int lane)
{
    const int g = lane >> 2, t = lane & 3;
    for (int m = 0; m < 4; ++m) {
        const auto element = [&](int row, int column) {
            const uint32_t* at = all + (8 * m + row) * 2;
            return uint32_t(reinterpret_cast<const uint16_t*>(uint64_t(at[0]) | uint64_t(at[1]) << 32)[column]);
        };
        words[m] = transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16 : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
    }
}

} // namespace emulated
#endif

/// Registers of lane 4 g + t for the 16 x 8 x 16 product, each word two neighbouring columns k of A, rows k of B:
///   a[0..3] = A[g][2t..], A[g+8][2t..], A[g][2t+8..], A[g+8][2t+8..];  b[0..1] = B[2t..][g], B[2t+8..][g];
///   d[0..3] = D[g][2t], D[g][2t+1], D[g+8][2t], D[g+8][2t+1].
/// d += a b, bf16 factors, fp32 sums.
__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#if defined(__CUDACC__)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    emulated::mma16816(d, shim::warpGather(mine, 6), int(threadIdx.x & 31));
#endif
}

/// Four 8 x 8 matrices of 16-bit elements; lane 8 m + r names the 16-byte row r of matrix m. Word m of lane 4 g + t gets
/// elements (g, 2t) and (g, 2t+1) of matrix m, or with kTransposed (2t, g) and (2t+1, g).
template <bool kTransposed> __device__ __forceinline__ void ldmatrix(uint32_t (&words)[4], const void* row MEGAGRAPH_LINE)
{
#if defined(__CUDACC__)
    const uint32_t at = uint32_t(__cvta_generic_to_shared(row));
    if constexpr (kTransposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(at)
                     : "memory");
#else
    shim::noteShared(row, 16, false, line);
    const auto address = reinterpret_cast<uint64_t>(row);
    const uint32_t mine[2] = {uint32_t(address), uint32_t(address >> 32)};
    emulated::ldmatrix(kTransposed, words, shim::warpGather(mine, 2), int(threadIdx.x & 31));
#endif
}

} // namespace megagraph::kernels::cuda
