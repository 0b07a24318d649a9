// SPDX-License-Identifier: Apache-2.0
// The memory checker behind cuda_on_cpu.h: which thread last wrote and read each byte of shared memory (each pair of
// bytes of global memory), at which clock, and whether barriers order two touches. Vector clocks, so that warp, named
// and memory barriers count for their participants only; shuffles, votes and matrix products order nothing, as in the
// CUDA guide. Not for several OS threads. Compiled without instrumentation; used by cuda_on_cpu.cpp alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace megagraph::kernels::cuda::shim::shadow {

constexpr int kMaxThreads = 1024;
using Clocks = std::vector<uint32_t>;

/// A place in the source: offset of a return address in the program, or kLineMark | line.
using Where = uint32_t;
constexpr Where kLineMark = 0x80000000u;
Where fromReturnAddress(const void* address);
std::string text(Where where);

struct Range {
    const unsigned char* begin = nullptr;
    const unsigned char* end = nullptr;
    bool holds(const void* p) const { return p >= begin && p < end; }
};

/// What the running fiber may touch besides registered memory. Empty stack = no fiber runs, nothing is checked.
struct Running {
    int thread = 0;
    Range stack;
    std::vector<Range>* accumulators = nullptr; // in flight (defer)
};
extern Running running;
extern bool enabled, compiled;
/// True inside the shim's own functions: templates that they share with an instrumented source are not judged.
extern bool inside;
class Inside {
  public:
    Inside() : before_(inside) { inside = true; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { inside = before_; }

  private:
    bool before_;
};

void beginLaunch();
/// `shared` is the dynamic shared memory of a fresh block; the rest of `arena`, where the shim keeps it, is out of bounds.
void beginBlock(int threads, Range arena, Range shared);
void endBlock();
void notedAtomic(); // this block synchronises with others by atomics: touches of other blocks are not judged

void syncAll();
void sync(const std::vector<int>& threads);
void release(int thread, Clocks& to);
void acquire(int thread, const Clocks& from);

/// Reports a touch of the running thread; a fault does not return (fail of cuda_on_cpu.h).
void access(const void* at, size_t bytes, bool write, Where where);
void accessShared(const void* at, size_t bytes, bool write, Where where);
void accessGlobal(const void* at, size_t bytes, bool write, Where where);
/// Bounds of an atomic operation, which is no race by itself.
void accessAtomic(const void* at, size_t bytes, Where where);
/// An asynchronous copy into shared memory is under way / has landed; writtenNow: it counts as written by the running
/// thread at its present clock, not when the copy started.
void takeOff(const void* at, size_t bytes, Where where);
void land(const void* at, size_t bytes, bool writtenNow);

} // namespace megagraph::kernels::cuda::shim::shadow
