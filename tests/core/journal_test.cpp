// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"
#include "core/journal.h"
#include "tests/core/temporary_folder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>

namespace megagraph {
namespace {

std::string contentOf(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void write(const std::string& path, const std::string& text)
{
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::string lines(int64_t first, int64_t last)
{
    std::string text;
    for (int64_t seq = first; seq <= last; ++seq)
        text += encodeJournalLine(seq, Json{{"kind", "eval"}, {"step", seq}});
    return text;
}

TEST(Journal, ContinuesTheSequenceAcrossOpens)
{
    const TemporaryFolder folder;
    for (int round = 0; round < 3; ++round) {
        auto journal = Journal::open(folder.path());
        ASSERT_TRUE(journal.ok()) << journal.error().message;
        EXPECT_EQ(journal->lastSeq(), round * 2);
        journal->append(Json{{"kind", "a"}});
        journal->append(Json{{"kind", "b"}});
        ASSERT_TRUE(journal->flush().ok());
    }
    const auto scan = scanJournal(folder.path() + "/journal.jsonl");
    ASSERT_TRUE(scan.ok());
    EXPECT_EQ(scan->lastSeq, 6);
    EXPECT_EQ(scan->tornBytes, 0);
}

TEST(Journal, NothingIsInTheFileBeforeTheGroupCommit)
{
    const TemporaryFolder folder;
    auto journal = Journal::open(folder.path());
    ASSERT_TRUE(journal.ok());
    journal->append(Json{{"kind", "a"}});
    EXPECT_EQ(contentOf(folder.path() + "/journal.jsonl"), "");
    ASSERT_TRUE(journal->flush().ok());
    EXPECT_EQ(contentOf(folder.path() + "/journal.jsonl"), encodeJournalLine(1, Json{{"kind", "a"}}));
}

TEST(Journal, ReservesSpacePastItsEndWithoutGrowing)
{
    const TemporaryFolder folder;
    auto journal = Journal::open(folder.path());
    ASSERT_TRUE(journal.ok());
    struct stat info{};
    ASSERT_EQ(::stat((folder.path() + "/journal.jsonl").c_str(), &info), 0);
    EXPECT_EQ(info.st_size, 0);
    EXPECT_EQ(info.st_mode & 0777, mode_t(0600));
    if (info.st_blocks == 0)
        GTEST_SKIP() << "this file system does not reserve space";
    EXPECT_GE(info.st_blocks * 512, 1 << 20);
}

TEST(Journal, F01CutAtEachByteKeepsTheGoodLinesAndSetsTheTailAside)
{
    const std::string whole = lines(1, 3);
    const size_t second = lines(1, 2).size(), first = lines(1, 1).size();
    for (size_t size = 0; size <= whole.size(); ++size) {
        const TemporaryFolder folder;
        const std::string path = folder.path() + "/journal.jsonl";
        write(path, whole.substr(0, size));
        auto journal = Journal::open(folder.path());
        ASSERT_TRUE(journal.ok()) << size << ": " << journal.error().message;
        const int64_t good = size == whole.size() ? 3 : size >= second ? 2 : size >= first ? 1 : 0;
        EXPECT_EQ(journal->lastSeq(), good) << size;
        const size_t kept = good == 3 ? whole.size() : good == 2 ? second : good == 1 ? first : 0;
        EXPECT_EQ(contentOf(path), whole.substr(0, kept));
        if (size > kept) {
            EXPECT_EQ(contentOf(folder.path() + "/journal.torn-" + std::to_string(good + 1)), whole.substr(kept, size - kept));
        }
        journal->append(Json{{"kind", "next"}});
        ASSERT_TRUE(journal->flush().ok());
        EXPECT_EQ(scanJournal(path)->lastSeq, good + 1);
    }
}

TEST(Journal, F01DamageBeforeGoodLinesIsReportedAndNeverRepaired)
{
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/journal.jsonl";
    std::string text = lines(1, 4);
    text[lines(1, 1).size() + 12] ^= 1;
    write(path, text);
    const auto journal = Journal::open(folder.path());
    ASSERT_FALSE(journal.ok());
    EXPECT_EQ(journal.error().code, ErrorCode::Corrupt);
    EXPECT_NE(journal.error().message.find("line 2"), std::string::npos) << journal.error().message;
    EXPECT_NE(journal.error().message.find("journal.jsonl"), std::string::npos);
    EXPECT_EQ(contentOf(path), text);
}

TEST(Journal, F01MissingAndRepeatedLinesAreDamage)
{
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/journal.jsonl";
    write(path, lines(1, 2) + lines(4, 5));
    EXPECT_EQ(scanJournal(path).error().code, ErrorCode::Corrupt);
    write(path, lines(1, 2) + lines(2, 3));
    EXPECT_EQ(scanJournal(path).error().code, ErrorCode::Corrupt);
    EXPECT_EQ(scanJournal(folder.path() + "/none").error().code, ErrorCode::NotFound);
}

} // namespace
} // namespace megagraph
