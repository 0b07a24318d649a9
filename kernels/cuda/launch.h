// SPDX-License-Identifier: Apache-2.0
// The seam between kernel files and the machine that runs them. nvcc compiles them as they are; a test includes
// tests/shim/cuda_on_cpu.h first and then the same files, unchanged, as host code (design 01, section 6.1). This header and
// primitives.cuh are the only places with an #ifdef of the compiler.
//
// What kernel files use, and the shim therefore provides when __CUDACC__ is not defined (it defines MEGAGRAPH_CUDA_SHIM):
//   keywords     __global__ __device__ __host__ __forceinline__ __launch_bounds__(...) __align__(n) __restrict__
//   places       threadIdx, blockIdx, blockDim, gridDim (x only is used), dim3
//   vectors      uint2, uint4, float2, float4 and their make_ functions
//   barriers     __syncthreads(), __syncwarp(mask = all), shim::namedBarrier(int id, int threads)
//   warp         __shfl_sync, __shfl_xor_sync, __shfl_down_sync (32 bit), __ballot_sync, __any_sync, __all_sync,
//                __reduce_or_sync; shim::warpGather(const uint32_t* mine, int words): publishes `words` words of the calling
//                lane, meets all 32 lanes and returns [32][words], valid until the lane's next collective
//   memory       atomicAdd (int, unsigned), atomicOr (unsigned), __threadfence(); shim::dynamicShared() -> unsigned char*,
//                1,024-byte aligned, filled with signalling NaN at the start of a block
//   arithmetic   __popc, __popcll, __ffs, __umulhi, exp2f, log2f
//   copies       shim::copyAsync(void* shared, const void* global, int bytes, int line), shim::commitCopies(),
//                shim::waitCopies(int groupsLeft): per thread; a copy takes effect at once or at its wait, at random per seed
//   shadow       shim::noteShared(const void* at, int bytes, bool write, int line), bytes are tracked one by one;
//                shim::noteGlobal(const void* at, int bytes, bool write, int line): aborts outside the registered buffers
//   launch       shim::launch(name, kernel, dim3 grid, int block, int64_t sharedBytes, args...) behind MEGAGRAPH_LAUNCH
//   waiting      shim::waitBlock(): a spin on a flag of another block; blocks of a thread run one after the other, so under
//                the shim such a wait must be over at once, and the call aborts
// All shim:: names live in megagraph::kernels::cuda::shim. Blocks may run in any order.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)

#include <cstdio>
#include <cuda_runtime.h>

namespace megagraph::kernels::cuda {

using Stream = cudaStream_t;
/// Text of the last launch's failure or null.
inline const char* launchFailure()
{
    const cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}
/// Allows a kernel more dynamic shared memory than 48 KB. sm_86 and sm_89 grant 99 KB where sm_80 grants 163: a tile for wide
/// heads may not fit there, and CUDA's own text ("invalid argument") would not say so.
template <class Kernel> const char* allowShared(Kernel kernel, int64_t bytes)
{
    int device = 0, granted = 0;
    if (cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&granted, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess && granted < bytes) {
        thread_local char text[160];
        std::snprintf(text, sizeof text, "a block needs %lld bytes of shared memory, this GPU grants %d; the tiles are made for compute capability 8.0 and 9.0",
                      static_cast<long long>(bytes), granted);
        return text;
    }
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
    return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}
/// The current device runs sm_90a code (wgmma).
inline bool deviceHasWgmma()
{
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major == 9;
}
inline const char* clearBytes(void* at, int64_t bytes, Stream stream)
{
    const cudaError_t status = cudaMemsetAsync(at, 0, size_t(bytes), stream);
    return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

} // namespace megagraph::kernels::cuda

/// kernel: a __global__ function in parentheses if it has template arguments; grid, block: counts in x.
#define MEGAGRAPH_LAUNCH(kernel, grid, block, sharedBytes, stream, ...)                                                \
    kernel<<<dim3(unsigned(grid)), dim3(unsigned(block)), size_t(sharedBytes), stream>>>(__VA_ARGS__)
#define MEGAGRAPH_LINE

#elif defined(MEGAGRAPH_CUDA_SHIM)

#include <cstring>

namespace megagraph::kernels::cuda {

using Stream = void*;
inline const char* launchFailure()
{
    return nullptr;
}
template <class Kernel> const char* allowShared(Kernel, int64_t)
{
    return nullptr;
}
inline bool deviceHasWgmma()
{
    return true; // emulated
}
inline const char* clearBytes(void* at, int64_t bytes, Stream)
{
    std::memset(at, 0, size_t(bytes));
    return nullptr;
}

} // namespace megagraph::kernels::cuda

/// Arguments are evaluated once, on the host's stack, as by nvcc.
#define MEGAGRAPH_LAUNCH(kernel, grid, block, sharedBytes, stream, ...)                                                \
    (void(stream), ::megagraph::kernels::cuda::shim::launch(#kernel, kernel, dim3(unsigned(grid)), int(block),         \
                                                            int64_t(sharedBytes) __VA_OPT__(, ) __VA_ARGS__))
#define MEGAGRAPH_LINE , int line = __builtin_LINE()

#else
#error "kernels/cuda: compile with nvcc, or include tests/shim/cuda_on_cpu.h first (tests only)"
#endif
