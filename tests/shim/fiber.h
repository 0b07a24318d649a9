// SPDX-License-Identifier: Apache-2.0
// One switchable stack. x86-64: a hand-written switch of the callee-saved registers; elsewhere ucontext. One OS thread.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace megagraph::kernels::cuda::shim {

constexpr size_t kStackBytes = size_t(256) << 10;

struct Context {
#if defined(__x86_64__)
    void* sp = nullptr;
#else
    ucontext_t context;
#endif
    const void* stackBottom = nullptr; // of the host: told by the sanitizer at the first switch
    size_t stackBytes = 0;
    void* fakeStack = nullptr;
};

/// Makes `c` start at `entry`, which must not return, on [stack, stack + kStackBytes).
void prepare(Context& c, unsigned char* stack, void (*entry)());
/// Leaves `from`, continues `to`; returns when somebody switches to `from`.
void switchContext(Context& from, Context& to);
/// First statement of an entry: `from` is the context that started it.
void arrived(Context& from);
/// A stack with an unreadable page below it, kept for the life of the program.
unsigned char* newStack();

} // namespace megagraph::kernels::cuda::shim
