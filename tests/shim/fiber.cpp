// SPDX-License-Identifier: Apache-2.0
#include "tests/shim/fiber.h"

#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
extern "C" void megagraphShimSwitch(void** from, void* to);
asm(R"(
.text
.globl megagraphShimSwitch
.type megagraphShimSwitch, @function
megagraphShimSwitch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size megagraphShimSwitch, .-megagraphShimSwitch
)");
#endif

namespace megagraph::kernels::cuda::shim {

void prepare(Context& c, unsigned char* stack, void (*entry)())
{
    c.stackBottom = stack;
    c.stackBytes = kStackBytes;
    c.fakeStack = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack, kStackBytes); // a fiber that was left in the middle of a launch
#endif
#if defined(__x86_64__)
    auto** top = reinterpret_cast<void**>(stack + kStackBytes);
    *--top = nullptr; // so that the entry finds its stack aligned as after a call
    *--top = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i)
        *--top = nullptr;
    c.sp = top;
#else
    getcontext(&c.context);
    c.context.uc_stack.ss_sp = stack;
    c.context.uc_stack.ss_size = kStackBytes;
    c.context.uc_link = nullptr;
    makecontext(&c.context, entry, 0);
#endif
}

void switchContext(Context& from, Context& to)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from.fakeStack, to.stackBottom, to.stackBytes);
#endif
#if defined(__x86_64__)
    megagraphShimSwitch(&from.sp, to.sp);
#else
    swapcontext(&from.context, &to.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.fakeStack, nullptr, nullptr);
#endif
}

void arrived([[maybe_unused]] Context& from)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &from.stackBottom, &from.stackBytes);
#endif
}

unsigned char* newStack()
{
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    void* p =
        mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        throw std::bad_alloc();
    mprotect(p, page, PROT_NONE);
#if defined(__SANITIZE_ADDRESS__)
    __lsan_register_root_region(p, kStackBytes + page); // what a fiber that was left mid-way holds is not a leak
#endif
    return static_cast<unsigned char*>(p) + page;
}

} // namespace megagraph::kernels::cuda::shim
