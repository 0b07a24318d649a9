// SPDX-License-Identifier: Apache-2.0
// Counting CPU allocator: replaces LibTorch's own, counts every request rounded up to 64 B per memory category, keeps the
// exact peak, and enforces a budget by throwing c10::OutOfMemoryError (planner design, 1.1). Blocks of 2 MiB and more start on a
// huge page, ask the system for huge pages and count as what was requested; freed ones are kept for the next request of their
// size, and given back when a charge would lift them and what is in use over the counted peak. Who asks is told by a
// thread-local MemoryScope. Counters are shared by all threads under one mutex; scopes belong to their thread.
#pragma once

#include "core/plan.h"

#include <cstdint>
#include <string>

namespace megagraph::runtime {

/// Names what the allocations of this thread are for, until the end of the scope; scopes nest and the innermost counts.
/// `op` and `tensor` must be string literals (pointers are kept). layer -1: taken from the scope around it.
class MemoryScope {
  public:
    explicit MemoryScope(MemoryCategory category, const char* op = nullptr, const char* tensor = nullptr, int64_t layer = -1);
    ~MemoryScope();
    MemoryScope(const MemoryScope&) = delete;
    MemoryScope& operator=(const MemoryScope&) = delete;

  private:
    MemoryCategory category_;
    const char* op_;
    const char* tensor_;
    int64_t layer_;
};

/// Charges bytes that live outside of tensors (distance lists, CSR rows in std::vector) to a category until destroyed.
/// Throws c10::OutOfMemoryError when they do not fit. Movable.
class MemoryCharge {
  public:
    MemoryCharge() = default;
    MemoryCharge(MemoryCategory category, int64_t bytes, const char* tensor);
    MemoryCharge(MemoryCharge&& other) noexcept;
    MemoryCharge& operator=(MemoryCharge&& other) noexcept;
    ~MemoryCharge();

  private:
    MemoryCategory category_ = MemoryCategory::Topology;
    int64_t bytes_ = 0;
};

struct MemoryState {
    int64_t current = 0, peak = 0;  // counted bytes, without base
    MemoryBytes categories{};       // now
    MemoryBytes atPeak{};           // at the moment of the peak; adds up to `peak`
    MemoryBytes categoryPeaks{};    // each category's own peak
};
MemoryState memoryState();
/// Peak becomes what is in use now.
void resetMemoryPeak();

/// The request that did not fit, for the `oom` event; requested 0 when there was none.
struct OutOfMemoryReport {
    std::string op, tensor;
    MemoryCategory category = MemoryCategory::Activations;
    int64_t layer = -1, requested = 0, inUse = 0, budget = 0; // budget and in use with base
    MemoryBytes categories{};
    bool fromSystem = false; // malloc refused, not the budget
};
OutOfMemoryReport lastOutOfMemory();

/// Makes the counting allocator LibTorch's CPU allocator. Call first in main; later calls do nothing.
void installCountingAllocator();
/// base: bytes charged to MemoryCategory::Base before anything else; budget 0 = none (includes base).
void setMemoryBudget(int64_t budgetBytes, int64_t baseBytes);
int64_t memoryBase();
/// Resident bytes of this process now, and the highest so far (VmHWM); 0 where /proc is missing.
int64_t residentBytes();
int64_t residentPeakBytes();

} // namespace megagraph::runtime
