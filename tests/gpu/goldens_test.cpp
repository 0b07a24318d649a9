// SPDX-License-Identifier: Apache-2.0
// The stored results of tests/data/kernels: whole, small, refused when damaged, noticed when wrong, and met by every set of CPU
// kernels of this machine.
#include "core/file.h"
#include "core/json.h"
#include "kernels/cpu/dispatch.h"
#include "tests/gpu/run_on_cpu.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

namespace megagraph::kernels::goldens {
namespace {

const std::string kFolder = MEGAGRAPH_TEST_DATA "/kernels";

std::vector<ManifestEntry> manifest()
{
    auto entries = checkedManifest(kFolder);
    EXPECT_TRUE(entries.ok()) << (entries.ok() ? "" : entries.error().message);
    return entries.ok() ? entries.value() : std::vector<ManifestEntry>();
}

Golden load(const ManifestEntry& entry)
{
    auto golden = readGolden(kFolder, entry);
    EXPECT_TRUE(golden.ok()) << (golden.ok() ? "" : golden.error().message);
    return golden.ok() ? golden.value() : Golden();
}

Golden load(const std::string& id)
{
    for (const ManifestEntry& e : manifest())
        if (e.id == id)
            return load(e);
    ADD_FAILURE() << id << " is not in the manifest";
    return {};
}

TEST(Goldens, AreAtMostTwentyFourCasesOfFourMegabytes)
{
    int64_t bytes = 0;
    for (const ManifestEntry& e : manifest())
        bytes += e.bytes;
    EXPECT_LE(allCases().size(), 24u);
    EXPECT_GE(allCases().size(), 20u);
    EXPECT_LE(bytes, 4 << 20);
    EXPECT_GT(bytes, 0);
}

TEST(Goldens, AreWhatTheReferenceSaysToday)
{
    for (const char* id : {"one_token", "slim_63", "hops0_65", "masked_rows", "huge_table", "edges_star"}) {
        SCOPED_TRACE(id);
        const Case& c = *findCase(id);
        const std::vector<Array> now = referenceOf(c, makeInputs(c));
        const Golden stored = load(id);
        ASSERT_EQ(stored.size(), now.size());
        for (size_t i = 0; i < now.size(); ++i) {
            EXPECT_EQ(stored[i].name, now[i].name);
            EXPECT_LE(errorOf(stored[i], now[i].values, 1e-9), 1e-6) << now[i].name;
        }
    }
}

TEST(Goldens, AreMetByEverySetOfCpuKernels)
{
    const std::string before = cpu::kernels().name;
    const std::vector<ManifestEntry> entries = manifest();
    for (const ManifestEntry& e : entries) {
        const Case& c = *findCase(e.id);
        const Inputs inputs = makeInputs(c);
        const Golden golden = load(e);
        for (const cpu::CpuKernels* set : cpu::allKernels()) {
            if (!set->supported())
                continue;
            ASSERT_TRUE(cpu::forceKernels(set->name).ok());
            SCOPED_TRACE(e.id + ", " + set->name);
            auto got = runOnCpu(c, inputs, ForkJoinFor(2));
            ASSERT_TRUE(got.ok()) << got.error().message;
            for (const Comparison& r : compare(c, golden, got.value(), Precision::Float))
                EXPECT_TRUE(r.passed) << r.array << ": error " << r.error << ", limit " << r.limit;
        }
    }
    ASSERT_TRUE(cpu::forceKernels(before).ok());
}

TEST(Goldens, CoverMaskedRowsUnevenBlocksAndEveryKindOfTile)
{
    const Case& c = *findCase("masked_rows");
    const Inputs in = makeInputs(c);
    const Golden golden = load(c.id);
    const StoredArray* lse = arrayNamed(golden, "lse");
    ASSERT_NE(lse, nullptr);
    EXPECT_TRUE(std::isinf(lse->values.front()));
    EXPECT_TRUE(std::isfinite(lse->values.back()));
    EXPECT_NE(in.rows.size(), in.keys.size());
    int64_t listed = 0, dense = 0, constant = 0;
    for (const Case& other : allCases()) {
        const TileLists lists = makeInputs(other).lists;
        dense += lists.denseTiles;
        constant += lists.constTiles;
        listed += lists.touchedTiles - lists.denseTiles - lists.constTiles;
    }
    EXPECT_GT(listed, 20);
    EXPECT_GT(dense, 2);
    EXPECT_GT(constant, 0);
}

TEST(Goldens, AWrongRowIsNoticedWhetherItIsStoredOrNot)
{
    const Case& c = *findCase("dropout_257");
    const Inputs in = makeInputs(c);
    const Golden golden = load(c.id);
    const std::vector<Array> right = runOnCpu(c, in, SerialFor()).value();
    const StoredArray& o = golden.front();
    ASSERT_LT(o.storedRows.size(), size_t(o.rows));
    for (int64_t row = 0; row < o.rows; row += 16) {
        std::vector<Array> wrong = right;
        wrong[0].values[size_t(row * wrong[0].width + 5)] += 0.05;
        EXPECT_FALSE(compare(c, golden, wrong, Precision::Float)[0].passed) << "row " << row;
        wrong[0].values[size_t(row * wrong[0].width + 5)] = std::nan("");
        EXPECT_FALSE(compare(c, golden, wrong, Precision::Bf16)[0].passed) << "row " << row;
    }
    std::vector<Array> missing(right.begin() + 1, right.end());
    EXPECT_FALSE(compare(c, golden, missing, Precision::Bf16)[0].passed);
}

TEST(Goldens, AWrongMaskOrOffsetIsNoticedEvenByTheLimitsOfBf16)
{
    const Case& c = *findCase("block_192");
    const Golden golden = load(c.id);
    Inputs in = makeInputs(c);
    in.shape.queryOffset += 1;
    const auto shifted = runOnCpu(c, in, SerialFor());
    ASSERT_TRUE(shifted.ok());
    EXPECT_FALSE(compare(c, golden, shifted.value(), Precision::Bf16)[0].passed);
}

TEST(Goldens, DamagedFilesAreRefused)
{
    const std::string bytes = encode(load("hops0_65"));
    ASSERT_TRUE(decode("x", bytes).ok());
    for (const size_t length : {size_t(0), size_t(7), size_t(11), size_t(40), bytes.size() - 1}) {
        const auto cut = decode("cut.golden", std::string_view(bytes).substr(0, length));
        ASSERT_FALSE(cut.ok());
        EXPECT_NE(cut.error().message.find("cut.golden"), std::string::npos);
    }
    std::string large = bytes;
    large[12 + 8 + 7] = 0x40; // rows of the first array: far more than the file holds
    large[12 + 8 + 8 + 4 + 3] = 0x40;
    EXPECT_FALSE(decode("x", large).ok());
    EXPECT_FALSE(decode("x", bytes + "x").ok());
}

TEST(Goldens, AFileThatDoesNotFitItsHashIsRefusedByName)
{
    const std::string folder = ::testing::TempDir() + "/goldens_hash";
    std::filesystem::remove_all(folder);
    std::filesystem::copy(kFolder, folder);
    auto bytes = readSmallFile(folder + "/base_257.golden", 4 << 20);
    ASSERT_TRUE(bytes.ok());
    bytes.value()[bytes.value().size() / 2] ^= 1;
    ASSERT_TRUE(writeFileAtomically(folder + "/base_257.golden", bytes.value()).ok());
    const auto refused = checkedManifest(folder);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("base_257.golden: SHA-256"), std::string::npos) << refused.error().message;
    std::filesystem::remove_all(folder);
}

} // namespace
} // namespace megagraph::kernels::goldens
