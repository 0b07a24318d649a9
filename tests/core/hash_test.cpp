// SPDX-License-Identifier: Apache-2.0
#include "core/hash.h"

#include <gtest/gtest.h>

using namespace megagraph;

TEST(Hash, Crc32cMatchesPublishedVectors) // RFC 3720, B.4
{
    EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
    EXPECT_EQ(crc32c("", 0), 0u);
    EXPECT_EQ(crc32c(std::string(32, '\0').data(), 32), 0x8A9136AAu);
    EXPECT_EQ(crc32c(std::string(32, '\xff').data(), 32), 0x62A8AB43u);
}

TEST(Hash, Crc32cMatchesTheJournalLineOfTheRunFormat)
{
    const std::string line = R"({"seq":1,"utc":"2026-01-05T10:11:12.345Z","mono_s":0.012,"attempt":1,"kind":"attempt.start","world":4,"resume_step":0)";
    EXPECT_EQ(crc32c(line.data(), line.size()), 0x5c2adbffu);
}

TEST(Hash, Crc32cContinuesFromAnyCut)
{
    std::string text;
    for (int i = 0; i < 100; ++i)
        text += static_cast<char>(i * 37);
    for (size_t cut = 0; cut <= text.size(); ++cut)
        EXPECT_EQ(crc32c(text.data() + cut, text.size() - cut, crc32c(text.data(), cut)), crc32c(text.data(), text.size()));
}

TEST(Hash, Sha256MatchesPublishedVectors) // FIPS 180-4 examples
{
    EXPECT_EQ(sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256Hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, Sha256DoesNotDependOnHowBytesArrive)
{
    for (const size_t size : {0u, 1u, 55u, 56u, 57u, 63u, 64u, 65u, 119u, 120u, 128u, 200u}) {
        const std::string text(size, 'q');
        Sha256 hasher;
        for (size_t i = 0; i < size; i += 7)
            hasher.update(text.data() + i, std::min<size_t>(7, size - i));
        EXPECT_EQ(hasher.hex(), sha256Hex(text)) << size;
    }
}

TEST(Hash, FnvMatchesPublishedVectors)
{
    EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325ull);
    EXPECT_EQ(fnv1a64("a"), 0xaf63dc4c8601ec8cull);
    EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8ull);
}
