// SPDX-License-Identifier: Apache-2.0
// Choice of the kernel set.
#include "kernels/cpu/dispatch.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <string>

namespace megagraph::kernels::cpu {
namespace {

TEST(Dispatch, TakesTheFirstSupportedSetAndEndsWithThePortableOne)
{
    const auto sets = allKernels();
    ASSERT_FALSE(sets.empty());
    EXPECT_STREQ(sets.back()->name, "portable");
    EXPECT_TRUE(sets.back()->supported());
    if (std::getenv("MEGAGRAPH_CPU_KERNELS") != nullptr)
        GTEST_SKIP() << "MEGAGRAPH_CPU_KERNELS forces a set";
    for (const CpuKernels* set : sets) {
        if (set->supported()) {
            EXPECT_STREQ(kernels().name, set->name);
            break;
        }
    }
}

TEST(Dispatch, ForcesEverySupportedSet)
{
    const std::string before = kernels().name;
    for (const CpuKernels* set : allKernels()) {
        if (!set->supported())
            continue;
        ASSERT_TRUE(forceKernels(set->name).ok());
        EXPECT_STREQ(kernels().name, set->name);
    }
    ASSERT_TRUE(forceKernels(before).ok());
}

TEST(Dispatch, NamesTheSetsWhenAnUnknownOneIsForced)
{
    const auto done = forceKernels("sse9");
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, ErrorCode::Unsupported);
    EXPECT_NE(done.error().message.find("sse9"), std::string::npos);
    EXPECT_NE(done.error().message.find("portable"), std::string::npos);
    ASSERT_EQ(setenv("MEGAGRAPH_CPU_KERNELS", "sse9", 1), 0);
    EXPECT_FALSE(forcedKernels().ok());
    ASSERT_EQ(setenv("MEGAGRAPH_CPU_KERNELS", "portable", 1), 0);
    EXPECT_TRUE(forcedKernels().ok());
    unsetenv("MEGAGRAPH_CPU_KERNELS");
    EXPECT_TRUE(forcedKernels().ok());
}

} // namespace
} // namespace megagraph::kernels::cpu
