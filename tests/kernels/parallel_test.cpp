// SPDX-License-Identifier: Apache-2.0
// The parallel loops run every task once, on legal slots.
#include "kernels/types.h"

#include <atomic>
#include <gtest/gtest.h>
#include <vector>

namespace megagraph::kernels {
namespace {

TEST(ParallelFor, RunsEveryTaskOnceOnALegalSlot)
{
    for (const int32_t threads : {1, 2, 3, 8}) {
        for (const int64_t count : {0, 1, 2, 7, 1000}) {
            std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
            std::atomic<int> wrong{0};
            ForkJoinFor(threads).run(count, [&](int64_t i, int32_t slot) {
                ++seen[size_t(i)];
                wrong += slot < 0 || slot >= threads;
            });
            for (const auto& times : seen)
                EXPECT_EQ(times, 1);
            EXPECT_EQ(wrong, 0);
        }
    }
}

TEST(ParallelFor, OneSlotIsUsedByOneThreadAtATime)
{
    std::vector<std::atomic<int>> busy(3);
    std::atomic<int> clashes{0};
    ForkJoinFor(3).run(2000, [&](int64_t, int32_t slot) {
        clashes += busy[size_t(slot)].fetch_add(1) != 0;
        busy[size_t(slot)].fetch_sub(1);
    });
    EXPECT_EQ(clashes, 0);
}

TEST(ParallelFor, SerialRunsInOrder)
{
    std::vector<int64_t> order;
    SerialFor().run(5, [&](int64_t i, int32_t slot) {
        EXPECT_EQ(slot, 0);
        order.push_back(i);
    });
    EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

} // namespace
} // namespace megagraph::kernels
