// SPDX-License-Identifier: Apache-2.0
#include "kernels/types.h"

#include <atomic>
#include <thread>
#include <vector>

namespace megagraph::kernels {

void ForkJoinFor::runRaw(int64_t count, Body body, void* context) const
{
    std::atomic<int64_t> next{0};
    const auto work = [&](int32_t slot) {
        for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1))
            body(context, i, slot);
    };
    std::vector<std::jthread> threads;
    for (int32_t s = 1; s < threads_ && s < count; ++s)
        threads.emplace_back(work, s);
    work(0);
}

} // namespace megagraph::kernels
