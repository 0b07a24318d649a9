// SPDX-License-Identifier: Apache-2.0
// What g++ -fsanitize=thread calls for every load and store. The sanitizer's own library is not linked: the calls end
// in the shadow of the shim, and do nothing while no CUDA thread runs.
#include "tests/shim/shadow.h"

namespace shadow = megagraph::kernels::cuda::shim::shadow;

namespace {
inline void report(const void* at, size_t bytes, bool write, const void* returnAddress)
{
    if (shadow::running.stack.begin == nullptr || !shadow::enabled || shadow::inside)
        return;
    if (shadow::running.stack.holds(at) && shadow::running.accumulators == nullptr)
        return;
    const shadow::Inside inside;
    shadow::access(at, bytes, write, shadow::fromReturnAddress(returnAddress));
}
} // namespace

#define MEGAGRAPH_HOOK(name, bytes, write)                                                                             \
    void name(void* at)                                                                                                \
    {                                                                                                                  \
        report(at, bytes, write, __builtin_return_address(0));                                                         \
    }
#define MEGAGRAPH_HOOKS(bytes)                                                                                         \
    MEGAGRAPH_HOOK(__tsan_read##bytes, bytes, false)                                                                   \
    MEGAGRAPH_HOOK(__tsan_write##bytes, bytes, true)                                                                   \
    MEGAGRAPH_HOOK(__tsan_unaligned_read##bytes, bytes, false)                                                         \
    MEGAGRAPH_HOOK(__tsan_unaligned_write##bytes, bytes, true)
// std::atomic and the counters of shared pointers in host code of the same source
#define MEGAGRAPH_ATOMICS(bits, T)                                                                                     \
    T __tsan_atomic##bits##_load(const volatile T* at, int)                                                            \
    {                                                                                                                  \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                  \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile T* at, T v, int)                                                         \
    {                                                                                                                  \
        __atomic_store_n(at, v, __ATOMIC_SEQ_CST);                                                                     \
    }                                                                                                                  \
    T __tsan_atomic##bits##_exchange(volatile T* at, T v, int)                                                         \
    {                                                                                                                  \
        return __atomic_exchange_n(at, v, __ATOMIC_SEQ_CST);                                                           \
    }                                                                                                                  \
    T __tsan_atomic##bits##_fetch_add(volatile T* at, T v, int)                                                        \
    {                                                                                                                  \
        return __atomic_fetch_add(at, v, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                                  \
    T __tsan_atomic##bits##_fetch_sub(volatile T* at, T v, int)                                                        \
    {                                                                                                                  \
        return __atomic_fetch_sub(at, v, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                                  \
    T __tsan_atomic##bits##_fetch_or(volatile T* at, T v, int)                                                         \
    {                                                                                                                  \
        return __atomic_fetch_or(at, v, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                                  \
    T __tsan_atomic##bits##_fetch_and(volatile T* at, T v, int)                                                        \
    {                                                                                                                  \
        return __atomic_fetch_and(at, v, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T v, int, int)                      \
    {                                                                                                                  \
        return __atomic_compare_exchange_n(at, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T v, int, int)                        \
    {                                                                                                                  \
        return __atomic_compare_exchange_n(at, expected, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                 \
    }

extern "C" {
void __tsan_init()
{
    shadow::compiled = true;
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_read_range(void* at, unsigned long bytes)
{
    report(at, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* at, unsigned long bytes)
{
    report(at, bytes, true, __builtin_return_address(0));
}
MEGAGRAPH_HOOK(__tsan_read1, 1, false)
MEGAGRAPH_HOOK(__tsan_write1, 1, true)
MEGAGRAPH_HOOKS(2)
MEGAGRAPH_HOOKS(4)
MEGAGRAPH_HOOKS(8)
MEGAGRAPH_HOOKS(16)
MEGAGRAPH_ATOMICS(8, unsigned char)
MEGAGRAPH_ATOMICS(32, unsigned)
MEGAGRAPH_ATOMICS(64, unsigned long)
} // extern "C"
