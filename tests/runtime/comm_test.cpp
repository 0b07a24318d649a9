// SPDX-License-Identifier: Apache-2.0
// Communicators as real processes over Gloo and a FileStore; the work is in comm_child.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace {

std::vector<char*> pointersTo(std::vector<std::string>& words)
{
    std::vector<char*> pointers;
    for (std::string& word : words)
        pointers.push_back(word.data());
    pointers.push_back(nullptr);
    return pointers;
}

void runRanks(int world, int replicas)
{
    char name[] = "/tmp/megagraph-comm-XXXXXX";
    const std::string folder = ::mkdtemp(name), store = folder + "/store.a1";
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < world; ++rank) {
        std::vector<std::string> words{COMM_CHILD, store, std::to_string(rank), std::to_string(world), std::to_string(replicas)};
        pid_t child = -1;
        ASSERT_EQ(::posix_spawn(&child, COMM_CHILD, nullptr, nullptr, pointersTo(words).data(), environ), 0);
        ranks.push_back(child);
    }
    for (const pid_t child : ranks) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank ended with status " << status;
    }
    std::filesystem::remove_all(folder);
}

TEST(Communicator, OneRankNeedsNoTransport) { runRanks(1, 1); }
TEST(Communicator, TwoContextRanksExchangeUnevenAndEmptyRowsBitExactly) { runRanks(2, 1); }
TEST(Communicator, ThreeContextRanksExchangeUnevenAndEmptyRowsBitExactly) { runRanks(3, 1); }
TEST(Communicator, FourRanksFormContextAndReplicaGroups) { runRanks(4, 2); }

// Gloo's headers here are older than the Gloo inside Torch: the one object that sees them may not hold code or tables of it.
TEST(Communicator, TheGlooObjectHoldsNoGlooCodeOfItsOwn)
{
    char name[] = "/tmp/megagraph-symbols-XXXXXX";
    const int file = ::mkstemp(name);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, file, 1);
    std::vector<std::string> words{"nm", "-C", "--defined-only", GLOO_OBJECT};
    pid_t child = -1;
    ASSERT_EQ(::posix_spawnp(&child, "nm", &actions, nullptr, pointersTo(words).data(), environ), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    int symbols = 0;
    std::ifstream text(name);
    for (std::string line; std::getline(text, line); ++symbols) {
        const bool gloo = line.find(" gloo::") != std::string::npos || line.find("vtable for gloo") != std::string::npos ||
                          line.find("vtable for c10d") != std::string::npos || line.find("typeinfo for gloo") != std::string::npos;
        EXPECT_FALSE(gloo) << line;
    }
    ::close(file);
    std::filesystem::remove(name);
    EXPECT_GT(symbols, 0);
}

} // namespace
