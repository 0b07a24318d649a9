// SPDX-License-Identifier: Apache-2.0
// CUDA on the CPU, for tests: g++ compiles the unchanged kernel files when a test .cpp includes this header first. One
// fiber per CUDA thread, one block at a time, one OS thread (a second thread must not launch). Barriers, shuffles and
// votes count their participants; a test source compiled with -fsanitize=thread (megagraph_shim_test does that; nothing
// of the sanitizer's library is linked) also reports every load and store to the shadow of shadow.h: races, bad
// indices, reads before a wait. A fault ends the launch and is thrown on the host's stack as Fault, whose text has
// kernel, block, thread and source lines.
//
// What kernel files may use is listed in kernels/cuda/launch.h. __shared__ is static thread_local, and its bytes are
// NaN patterns from the second block on; dynamic shared memory is NaN at the start of every block.
#pragma once

#define MEGAGRAPH_CUDA_SHIM 1

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct __align__(8) float2
{
    float x, y;
};
struct float3 {
    float x, y, z;
};
struct __align__(16) float4
{
    float x, y, z, w;
};
struct __align__(8) int2
{
    int x, y;
};
struct __align__(16) int4
{
    int x, y, z, w;
};
struct __align__(8) uint2
{
    unsigned x, y;
};
struct __align__(16) uint4
{
    unsigned x, y, z, w;
};
struct __align__(4) ushort2
{
    unsigned short x, y;
};
struct __align__(16) double2
{
    double x, y;
};
inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
inline int2 make_int2(int x, int y)
{
    return {x, y};
}
inline int4 make_int4(int x, int y, int z, int w)
{
    return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
inline double2 make_double2(double x, double y)
{
    return {x, y};
}

extern uint3 threadIdx, blockIdx; // of the running fiber
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace megagraph::kernels::cuda::shim {

/// Where a collective stands in the source; threads that meet in one must stand on one line.
struct Place {
    const char* file;
    int line;
};
#define MEGAGRAPH_SHIM_PLACE ::megagraph::kernels::cuda::shim::Place place = {__builtin_FILE(), __builtin_LINE()}

class Fault : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// In which order fibers and blocks run and when asynchronous work takes effect. Forward and Reversed: async work early
/// / late.
struct Order {
    enum Kind { Forward, Reversed, Random } kind = Forward;
    uint64_t seed = 0;
};
void setOrder(Order order);
/// Forward, reversed and `random` random orders (3 in the whole suite).
std::vector<Order> allOrders(int random = 3);
std::string describe(Order order);

/// Checks of loads and stores; on by default, works only in sources compiled by megagraph_shim_test.
void setShadow(bool on);
/// True if this program was compiled with the hooks of the shadow.
bool shadowCompiled();

/// Global memory that kernels may touch, [data, data + bytes). Ranges must not overlap.
void registerGlobal(const void* data, size_t bytes, const char* name, bool readOnly = false);
void unregisterGlobal(const void* data);

/// A device buffer: NaN patterns (or given values) between guard bytes, registered while it lives.
template <class T> class Buffer {
  public:
    explicit Buffer(size_t count, const char* name = "buffer") : Buffer(std::vector<T>(), count, name, false) {}
    explicit Buffer(const std::vector<T>& values, const char* name = "buffer", bool readOnly = false)
        : Buffer(values, values.size(), name, readOnly)
    {
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { unregisterGlobal(data()); }
    T* data() { return reinterpret_cast<T*>(storage_.data() + offset_); }
    const T* data() const { return reinterpret_cast<const T*>(storage_.data() + offset_); }
    size_t size() const { return count_; }
    std::vector<T> values() const
    {
        std::vector<T> copy(count_);
        if (count_ != 0)
            std::memcpy(static_cast<void*>(copy.data()), data(), count_ * sizeof(T));
        return copy;
    }
    void fill(T value)
    {
        for (size_t i = 0; i < count_; ++i)
            data()[i] = value;
    }
    /// False if a guard byte changed (kernels without the shadow).
    bool guardsIntact() const
    {
        for (size_t i = 0; i < storage_.size(); ++i) {
            if ((i < offset_ || i >= offset_ + count_ * sizeof(T)) && storage_[i] != kGuardByte)
                return false;
        }
        return true;
    }

  private:
    Buffer(const std::vector<T>& values, size_t count, const char* name, bool readOnly)
        : count_(count), storage_(count * sizeof(T) + 2 * kGuardBytes, kGuardByte)
    {
        const size_t start = reinterpret_cast<size_t>(storage_.data());
        offset_ = ((start + kGuardBytes / 2 + 255) / 256) * 256 - start;
        std::memset(static_cast<void*>(data()), 0xFF, count * sizeof(T));
        if (!values.empty())
            std::memcpy(static_cast<void*>(data()), values.data(), count * sizeof(T));
        registerGlobal(data(), count * sizeof(T), name, readOnly);
    }
    static constexpr size_t kGuardBytes = 1024;
    static constexpr unsigned char kGuardByte = 0x5A;
    size_t count_, offset_ = 0;
    std::vector<unsigned char> storage_;
};

/// Ends the launch with this text (after kernel, block and thread).
[[noreturn]] void fail(const char* text);
[[noreturn]] void fail(const std::string& text);

// ---- used by the launch macro
// --------------------------------------------------------------------------------------------
struct Launch {
    const char* kernel;
    dim3 grid;
    int block;
    int64_t sharedBytes;
    void (*call)(const void* body);
    const void* body;
    size_t bodyBytes;
};
void run(const Launch& launch);

template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), dim3 grid, int block, int64_t sharedBytes, A&&... args)
{
    struct Body {
        void (*kernel)(P...);
        std::tuple<std::decay_t<P>...> values;
    } body{kernel, {std::forward<A>(args)...}};
    static_assert((std::is_trivially_copyable_v<P> && ...));
    run({name, grid, block, sharedBytes,
         [](const void* b) { std::apply(static_cast<const Body*>(b)->kernel, static_cast<const Body*>(b)->values); },
         &body, sizeof body});
}

// ---- used by kernels and by the emulations of primitives.cuh
// --------------------------------------------------------------
unsigned char* dynamicShared();
size_t dynamicSharedBytes();
int laneId();

/// Every lane of `mask` gives `bytes` (at most 256) and gets a pointer to the 32 lanes' values, `bytes` apart, valid
/// until its next collective. `what` names the operation in a fault; lanes must agree in what, mask, bytes and line.
const unsigned char* gather(const char* what, unsigned mask, const void* value, size_t bytes, MEGAGRAPH_SHIM_PLACE);
template <class T> const T* gatherOf(const char* what, unsigned mask, const T& value, Place place)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 256);
    return reinterpret_cast<const T*>(gather(what, mask, &value, sizeof(T), place));
}
/// A fault if `lane` is not in `mask`.
void checkSource(const char* what, unsigned mask, int lane, Place place);
/// All 32 lanes; [32][words].
inline const uint32_t* warpGather(const uint32_t* mine, int words, MEGAGRAPH_SHIM_PLACE)
{
    return reinterpret_cast<const uint32_t*>(gather("warpGather", 0xFFFFFFFFu, mine, size_t(words) * 4, place));
}
void syncThreads(MEGAGRAPH_SHIM_PLACE);
/// votes: 0 count, 1 and, 2 or
int syncThreadsVote(int kind, int predicate, MEGAGRAPH_SHIM_PLACE);
void syncWarp(unsigned mask, MEGAGRAPH_SHIM_PLACE);
/// bar.sync id, threads / bar.arrive id, threads
void namedBarrier(int id, int threads, MEGAGRAPH_SHIM_PLACE);
void namedBarrierArrive(int id, int threads, MEGAGRAPH_SHIM_PLACE);

/// cp.async: takes effect at once or at its wait, by the order's seed; any touch of `shared` in between is a fault.
void copyAsync(void* shared, const void* global, int bytes, int line);
void commitCopies();
/// cp.async.wait_group: all but the newest `groupsLeft` groups of this thread have landed.
void waitCopies(int groupsLeft);

/// Work of this thread that takes effect at once or at its wait, like wgmma. [accumulator, + bytes) must not be touched
/// between.
void deferRaw(void* accumulator, size_t bytes, void (*call)(const void* work), const void* work, size_t workBytes);
template <class F> void defer(void* accumulator, size_t bytes, const F& work)
{
    static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= 256);
    deferRaw(
        accumulator, bytes, [](const void* f) { (*static_cast<const F*>(f))(); }, &work, sizeof(F));
}
void deferCommit();
void deferWait(int groupsLeft);

/// mbarrier in shared memory, 8 bytes. Wait returns when the phase of `parity` has completed.
void barrierInit(uint64_t* barrier, int count);
void barrierArrive(uint64_t* barrier, int count = 1, MEGAGRAPH_SHIM_PLACE);
void barrierArriveExpect(uint64_t* barrier, int bytes, MEGAGRAPH_SHIM_PLACE);
void barrierWait(uint64_t* barrier, int parity, MEGAGRAPH_SHIM_PLACE);
bool barrierTest(uint64_t* barrier, int parity, MEGAGRAPH_SHIM_PLACE);
/// cp.async.bulk: completes `bytes` on the barrier; lands at once or when a thread waits.
void bulkCopy(void* to, const void* from, int bytes, uint64_t* barrier, MEGAGRAPH_SHIM_PLACE);

/// Lets other threads run; for loops that poll memory. A block in which all threads only poll is a fault (deadlock).
void poll(MEGAGRAPH_SHIM_PLACE);
/// A wait for another block that is not over at once: blocks run one after the other here, so it never ends. A fault.
[[noreturn]] void waitBlock(MEGAGRAPH_SHIM_PLACE);
/// Loads and stores that the hooks cannot see (memcpy, builds without hooks). `at` must lie in shared / registered
/// memory.
void noteShared(const void* at, int bytes, bool write, int line);
void noteGlobal(const void* at, int bytes, bool write, int line);

} // namespace megagraph::kernels::cuda::shim

// ---- the part of the CUDA language that kernels use
// ----------------------------------------------------------------------
inline void __syncthreads(MEGAGRAPH_SHIM_PLACE)
{
    megagraph::kernels::cuda::shim::syncThreads(place);
}
inline int __syncthreads_count(int p, MEGAGRAPH_SHIM_PLACE)
{
    return megagraph::kernels::cuda::shim::syncThreadsVote(0, p, place);
}
inline int __syncthreads_and(int p, MEGAGRAPH_SHIM_PLACE)
{
    return megagraph::kernels::cuda::shim::syncThreadsVote(1, p, place);
}
inline int __syncthreads_or(int p, MEGAGRAPH_SHIM_PLACE)
{
    return megagraph::kernels::cuda::shim::syncThreadsVote(2, p, place);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, MEGAGRAPH_SHIM_PLACE)
{
    megagraph::kernels::cuda::shim::syncWarp(mask, place);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned, MEGAGRAPH_SHIM_PLACE)
{
    megagraph::kernels::cuda::shim::poll(place);
}

namespace megagraph::kernels::cuda::shim {
/// Value of lane `from` of this lane's segment, own value where `from` is outside (the rules of __shfl_*_sync).
template <class T> T shuffle(const char* what, unsigned mask, T value, int from, bool inside, Place place)
{
    const T* all = gatherOf(what, mask, value, place);
    const int lane = inside ? from : laneId();
    checkSource(what, mask, lane, place);
    return all[lane];
}
} // namespace megagraph::kernels::cuda::shim
template <class T> T __shfl_sync(unsigned mask, T value, int from, int width = 32, MEGAGRAPH_SHIM_PLACE)
{
    const int lane = megagraph::kernels::cuda::shim::laneId(), base = lane / width * width;
    return megagraph::kernels::cuda::shim::shuffle("__shfl_sync", mask, value, base + ((from % width) + width) % width,
                                                   true, place);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, MEGAGRAPH_SHIM_PLACE)
{
    const int lane = megagraph::kernels::cuda::shim::laneId(), from = lane ^ bits;
    return megagraph::kernels::cuda::shim::shuffle("__shfl_xor_sync", mask, value, from,
                                                   from < (lane / width + 1) * width, place);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, MEGAGRAPH_SHIM_PLACE)
{
    const int lane = megagraph::kernels::cuda::shim::laneId(), from = lane - int(delta);
    return megagraph::kernels::cuda::shim::shuffle("__shfl_up_sync", mask, value, from, from >= lane / width * width,
                                                   place);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, MEGAGRAPH_SHIM_PLACE)
{
    const int lane = megagraph::kernels::cuda::shim::laneId(), from = lane + int(delta);
    return megagraph::kernels::cuda::shim::shuffle("__shfl_down_sync", mask, value, from,
                                                   from < (lane / width + 1) * width, place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, MEGAGRAPH_SHIM_PLACE)
{
    const int* all = megagraph::kernels::cuda::shim::gatherOf("__ballot_sync", mask, predicate, place);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane)
        bits |= (mask >> lane & 1) != 0 && all[lane] != 0 ? 1u << lane : 0u;
    return bits;
}
inline int __any_sync(unsigned mask, int predicate, MEGAGRAPH_SHIM_PLACE)
{
    return __ballot_sync(mask, predicate, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate, MEGAGRAPH_SHIM_PLACE)
{
    return __ballot_sync(mask, predicate, place) == mask;
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, MEGAGRAPH_SHIM_PLACE)
{
    const unsigned* all = megagraph::kernels::cuda::shim::gatherOf("__reduce_or_sync", mask, value, place);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane)
        bits |= (mask >> lane & 1) != 0 ? all[lane] : 0u;
    return bits;
}

// Atomics are plain operations: one fiber runs at a time. They are not races, so they bypass the shadow
// (cuda_on_cpu.cpp).
int atomicAdd(int* at, int value);
unsigned atomicAdd(unsigned* at, unsigned value);
unsigned long long atomicAdd(unsigned long long* at, unsigned long long value);
float atomicAdd(float* at, float value);
double atomicAdd(double* at, double value);
unsigned atomicInc(unsigned* at, unsigned limit);
int atomicMax(int* at, int value);
unsigned atomicOr(unsigned* at, unsigned value);
unsigned atomicExch(unsigned* at, unsigned value);
unsigned atomicCAS(unsigned* at, unsigned expected, unsigned value);

template <class T> inline T __ldg(const T* p)
{
    return *p;
}
template <class T> inline T __ldcg(const T* p)
{
    return *p;
}
template <class T> inline T __ldcs(const T* p)
{
    return *p;
}
template <class T> inline void __stcs(T* p, T value)
{
    *p = value;
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz(unsigned(x));
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return unsigned((uint64_t(a) * b) >> 32);
}
inline unsigned __float_as_uint(float x)
{
    return __builtin_bit_cast(unsigned, x);
}
inline int __float_as_int(float x)
{
    return __builtin_bit_cast(int, x);
}
inline float __uint_as_float(unsigned x)
{
    return __builtin_bit_cast(float, x);
}
inline float __int_as_float(int x)
{
    return __builtin_bit_cast(float, x);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const uint64_t both = uint64_t(b) << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned s = selector >> (4 * i);
        const unsigned byte = unsigned(both >> (8 * (s & 7))) & 0xFFu;
        out |= ((s & 8) != 0 ? ((byte & 0x80u) != 0 ? 0xFFu : 0u) : byte) << (8 * i);
    }
    return out;
}
inline float __expf(float x)
{
    return std::exp(x);
}
inline float __logf(float x)
{
    return std::log(x);
}
inline float __log2f(float x)
{
    return std::log2(x);
}
inline float __fdividef(float a, float b)
{
    return a / b;
}
inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
inline float __fmaf_rn(float a, float b, float c)
{
    return std::fma(a, b, c);
}
inline float rsqrtf(float x)
{
    return 1.0f / std::sqrt(x);
}
inline size_t __cvta_generic_to_shared(const void* p)
{
    return reinterpret_cast<size_t>(p);
}
inline int min(int a, int b)
{
    return a < b ? a : b;
}
inline int max(int a, int b)
{
    return a > b ? a : b;
}
inline unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}
inline unsigned max(unsigned a, unsigned b)
{
    return a > b ? a : b;
}
inline int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
inline int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
inline long long min(long long a, long long b)
{
    return a < b ? a : b;
}
inline long long max(long long a, long long b)
{
    return a > b ? a : b;
}
inline float min(float a, float b)
{
    return std::fmin(a, b);
}
inline float max(float a, float b)
{
    return std::fmax(a, b);
}
