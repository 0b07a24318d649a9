// SPDX-License-Identifier: Apache-2.0
// Every hardware operation that the CUDA kernels use: PTX for sm_80 and later, and an emulation with the real register
// layouts for the CPU shim (launch.h). Kernels above this file are plain C++. All functions run on the device; "warp"
// functions must be reached by all 32 lanes together.
#pragma once

#include "kernels/cuda/launch.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace megagraph::kernels::cuda {

constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

// ---- memory
// ----------------------------------------------------------------------------------------------------------

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

// ---- asynchronous copies (cp.async)
// ------------------------------------------------------------------------------------

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

// ---- barriers and flags
// ------------------------------------------------------------------------------------------------

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

// ---- warp
// --------------------------------------------------------------------------------------------------------------

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

// ---- arithmetic
// --------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float negativeInfinity()
{
    return -INFINITY;
}
/// A copy of x that the compiler cannot trace back: what is computed from it inside a loop is not kept in registers
/// around it.
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

// ---- matrix products (warp)
// --------------------------------------------------------------------------------------------

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

[[gnu::noinline, gnu::no_sanitize("thread")]] inline void ldmatrix(bool transposed, uint32_t* words,
                                                                   const uint32_t* all, int lane)
{
    const int g = lane >> 2, t = lane & 3;
    for (int m = 0; m < 4; ++m) {
        const auto element = [&](int row, int column) {
            const uint32_t* at = all + (8 * m + row) * 2;
            return uint32_t(reinterpret_cast<const uint16_t*>(uint64_t(at[0]) | uint64_t(at[1]) << 32)[column]);
        };
        words[m] = transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                              : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
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

/// Four 8 x 8 matrices of 16-bit elements; lane 8 m + r names the 16-byte row r of matrix m. Word m of lane 4 g + t
/// gets elements (g, 2t) and (g, 2t+1) of matrix m, or with kTransposed (2t, g) and (2t+1, g).
template <bool kTransposed>
__device__ __forceinline__ void ldmatrix(uint32_t (&words)[4], const void* row MEGAGRAPH_LINE)
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

// ---- matrix products of a warp group (sm_90a)
// --------------------------------------------------------------------------

/// Shared memory operand in the 128-byte swizzle, its panel 1,024-byte aligned: start address, bytes from one 64-column
/// panel to the next (operands whose contiguous side is N), bytes between groups of 8 rows.
__device__ __forceinline__ uint64_t panelDescriptor(const unsigned char* shared, int panelStride)
{
#if defined(__CUDACC__)
    const auto at = uint32_t(__cvta_generic_to_shared(shared));
#else
    const auto at = uint32_t(shared - shim::dynamicShared());
#endif
    return uint64_t(at >> 4 & 0x3FFFu) | uint64_t(uint32_t(panelStride) >> 4) << 16 | uint64_t(1024 >> 4) << 32 |
           uint64_t(1) << 62;
}

#if !defined(__CUDACC__)
namespace emulated {

/// One lane's part of D[64][N] += A[64][16] B[16][N]: rows g and g + 8 of its warp, columns 8j + 2t + b.
template <int N> struct GroupProduct {
    float* d;
    uint64_t left, right; // descriptors; left 0: A in registers
    uint32_t a[4][4];     // of the lanes of this quad
    int warp, lane;
    bool accumulate, columnsContiguous;

    /// As the hardware finds it: the address of the plain layout, then bits 4..6 xor bits 7..9.
    [[gnu::no_sanitize("thread")]] static float element(uint64_t descriptor, int index, int k, bool contiguousIndex)
    {
        const uint32_t start = uint32_t(descriptor & 0x3FFFu) << 4, panel = uint32_t(descriptor >> 16 & 0x3FFFu) << 4;
        const uint32_t group = uint32_t(descriptor >> 32 & 0x3FFFu) << 4;
        const int row = contiguousIndex ? k : index, column = contiguousIndex ? index : k;
        uint32_t at = start + uint32_t(column / 64) * panel + uint32_t(row / 8) * group + uint32_t(row % 8) * 128 +
                      uint32_t(column % 64) * 2;
        at ^= (at >> 7 & 7u) << 4;
        uint16_t bits;
        __builtin_memcpy(&bits, shim::dynamicShared() + at, 2);
        const uint32_t word = uint32_t(bits) << 16;
        float x;
        __builtin_memcpy(&x, &word, 4);
        return x;
    }
    [[gnu::no_sanitize("thread")]] void operator()() const
    {
        const int g = lane >> 2, t = lane & 3;
        float factor[2][16];
        for (int k = 0; k < 16; ++k) {
            for (int r = 0; r < 2; ++r) {
                const uint32_t word = a[k % 8 / 2][2 * (k / 8) + r];
                const uint32_t bits = k % 2 == 0 ? word << 16 : word & 0xFFFF0000u;
                __builtin_memcpy(&factor[r][k], &bits, 4);
                if (left != 0)
                    factor[r][k] = element(left, 16 * warp + g + 8 * r, k, false);
            }
        }
        for (int j = 0; j < N / 8; ++j) {
            for (int b = 0; b < 2; ++b) {
                float sum[2] = {};
                for (int k = 0; k < 16; ++k) {
                    const float other = element(right, 8 * j + 2 * t + b, k, columnsContiguous);
                    sum[0] += factor[0][k] * other;
                    sum[1] += factor[1][k] * other;
                }
                for (int r = 0; r < 2; ++r)
                    d[4 * j + 2 * r + b] = (accumulate ? d[4 * j + 2 * r + b] : 0.0f) + sum[r];
            }
        }
    }
};

template <int N>
void queue(float (&d)[N / 8][4], uint64_t left, const uint32_t* a, uint64_t right, bool accumulate,
           bool columnsContiguous)
{
    static const uint32_t none[4] = {};
    const uint32_t* all = shim::warpGather(a == nullptr ? none : a, 4);
    GroupProduct<N> work{
        &d[0][0], left, right, {}, int(threadIdx.x >> 5 & 3), int(threadIdx.x & 31), accumulate, columnsContiguous};
    for (int i = 0; i < 16; ++i)
        work.a[i / 4][i % 4] = all[((work.lane & ~3) + i / 4) * 4 + i % 4];
    shim::defer(&d[0][0], sizeof d, work);
}

} // namespace emulated
#endif

/// Before the first product of a group: registers written by the warp group are visible to the products.
__device__ __forceinline__ void beginGroupProducts()
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
/// Ends the group and waits for it: the accumulators may be touched again.
__device__ __forceinline__ void finishGroupProducts()
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#elif !defined(__CUDACC__)
    shim::deferCommit();
    shim::deferWait(0);
#endif
}
/// Writes of this thread to shared memory become visible to group products behind the next barrier.
__device__ __forceinline__ void fenceProxy()
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// d [64][64] (+)= A B^T, both operands 64 rows with k contiguous. Registers of a lane as in mma16816, warp w has rows
/// 16 w. Other devices than sm_90a: a trap; the launcher never comes here.
__device__ __forceinline__ void wgmma64x64x16(float (&d)[8][4], uint64_t left, uint64_t right, int accumulate)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
                 "%24,%25,%26,%27,%28,%29,%30,%31}"
                 ", %32, %33, p, 1, 1, 0, 0;}"
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                   "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                   "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                   "+f"(d[7][2]), "+f"(d[7][3])
                 : "l"(left), "l"(right), "r"(accumulate));
#elif defined(__CUDACC__)
    __trap();
#else
    emulated::queue<64>(d, left, nullptr, right, accumulate != 0, false);
#endif
}

/// d [64][N] += a B, a in registers as in mma16816, B 16 rows with its N columns contiguous.
template <int N>
__device__ __forceinline__ void wgmma64xNx16(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t right)
{
    static_assert(N == 64 || N == 128);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    if constexpr (N == 64)
        asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0;"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                     "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
                     "%24,%25,%26,%27,%28,%29,%30,%31}"
                     ", {%32,%33,%34,%35}, %36, p, 1, 1, 1;}"
                     : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                       "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                       "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                       "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                       "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                       "+f"(d[7][2]), "+f"(d[7][3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right), "r"(1));
    else
        asm volatile("{.reg .pred p; setp.ne.b32 p, %69, 0;"
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                     "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"
                     "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,"
                     "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
                     ", {%64,%65,%66,%67}, %68, p, 1, 1, 1;}"
                     : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
                       "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
                       "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
                       "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
                       "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
                       "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),
                       "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),
                       "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]),
                       "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]),
                       "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]),
                       "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right), "r"(1));
#elif defined(__CUDACC__)
    __trap();
#else
    emulated::queue<N>(d, 0, a, right, true, true);
#endif
}

} // namespace megagraph::kernels::cuda
