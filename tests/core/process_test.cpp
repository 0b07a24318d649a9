// SPDX-License-Identifier: Apache-2.0
// Children of core/process with the system's own small programs.
#include "core/file.h"
#include "core/process.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace megagraph {
namespace {

int finish(const Child& child)
{
    int status = 0;
    while (::waitpid(pid_t(child.pid), &status, 0) < 0 && errno == EINTR) {
    }
    ::close(child.pidfd);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Runs /bin/sh -c `script` with stdout on a pipe and returns what it wrote.
std::string output(const std::string& script, ChildOptions options = {})
{
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    options.program = "/bin/sh";
    options.arguments = {"-c", script};
    options.descriptors.emplace_back(ends[1], 1);
    const auto child = spawn(options);
    ::close(ends[1]);
    EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().message);
    std::string text;
    char block[4096];
    for (ssize_t got; (got = ::read(ends[0], block, sizeof block)) > 0;)
        text.append(block, size_t(got));
    ::close(ends[0]);
    EXPECT_EQ(finish(*child), 0);
    return text;
}

TEST(Process, ChildHasExactlyTheGivenEnvironmentAndDescriptors)
{
    const auto extra = openFile("/dev/null", O_RDWR); // must not reach the child
    ASSERT_TRUE(extra.ok());
    const int leaked = ::fcntl(extra->get(), F_DUPFD, 100); // without CLOEXEC, as a careless library would; far from 5
    ChildOptions options;
    options.environment = {{"ONLY", "this one"}};
    options.descriptors = {{extra->get(), 0}, {extra->get(), 5}};
    const std::string text = output("echo $ONLY; for fd in /proc/self/fd/*; do echo ${fd##*/}; done; echo home=$HOME", options);
    ::close(leaked);
    EXPECT_NE(text.find("this one\n"), std::string::npos);
    EXPECT_NE(text.find("home=\n"), std::string::npos);
    EXPECT_NE(text.find("\n5\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("\n" + std::to_string(leaked) + "\n"), std::string::npos) << text;
}

TEST(Process, DescriptorsThatSwapPlacesArriveAtTheRightNumbers)
{
    int first[2], second[2];
    ASSERT_EQ(::pipe2(first, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(second, O_CLOEXEC), 0);
    ChildOptions options;
    options.program = "/bin/sh";
    options.arguments = {"-c", "echo a >&3; echo b >&4"};
    options.descriptors = {{first[1], 4}, {second[1], 3}};
    const auto child = spawn(options);
    ASSERT_TRUE(child.ok());
    EXPECT_EQ(finish(*child), 0);
    char got[2] = {};
    EXPECT_EQ(::read(first[0], &got[0], 1), 1);
    EXPECT_EQ(::read(second[0], &got[1], 1), 1);
    EXPECT_EQ(got[0], 'b');
    EXPECT_EQ(got[1], 'a');
    for (const int fd : {first[0], first[1], second[0], second[1]})
        ::close(fd);
}

TEST(Process, ChildLeadsItsOwnGroupAndTakesDefaultSignals)
{
    ::signal(SIGTERM, SIG_IGN);
    ChildOptions options;
    options.program = "/bin/sleep";
    options.arguments = {"100"};
    const auto child = spawn(options);
    ::signal(SIGTERM, SIG_DFL);
    ASSERT_TRUE(child.ok());
    EXPECT_EQ(::getpgid(pid_t(child->pid)), pid_t(child->pid));
    EXPECT_GT(child->startTicks, 0);
    EXPECT_EQ(processStartTicks(child->pid), child->startTicks);
    ::kill(-pid_t(child->pid), SIGTERM);
    EXPECT_EQ(finish(*child), 128 + SIGTERM);
    EXPECT_EQ(processStartTicks(child->pid), -1);
}

TEST(Process, MissingProgramIsNamed)
{
    ChildOptions options;
    options.program = "/no/such/program";
    const auto child = spawn(options);
    ASSERT_FALSE(child.ok());
    EXPECT_EQ(child.error().code, ErrorCode::NotFound);
    EXPECT_NE(child.error().message.find("/no/such/program"), std::string::npos);
    EXPECT_LT(::waitpid(-1, nullptr, WNOHANG), 0) << "a child was left";
}

TEST(Process, P13LimitOfOpenFilesIsNamedWithItsValue)
{
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(next);
    const rlimit low{rlim_t(next), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    ChildOptions options;
    options.program = "/bin/true";
    const auto child = spawn(options);
    ::setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_FALSE(child.ok());
    EXPECT_NE(child.error().message.find("RLIMIT_NOFILE is " + std::to_string(next)), std::string::npos) << child.error().message;
}

TEST(Process, ChildDiesWithTheThreadThatSpawnedIt)
{
    ChildOptions options;
    options.program = "/bin/sleep";
    options.arguments = {"100"};
    Result<Child> child = Error{};
    std::thread([&] { child = spawn(options); }).join();
    ASSERT_TRUE(child.ok());
    EXPECT_EQ(finish(*child), 128 + SIGKILL);
    options.dieWithParent = false;
    std::thread([&] { child = spawn(options); }).join();
    ASSERT_TRUE(child.ok());
    EXPECT_GT(processStartTicks(child->pid), 0);
    ::kill(pid_t(child->pid), SIGKILL);
    EXPECT_EQ(finish(*child), 128 + SIGKILL);
}

TEST(Process, BootIdIsOneLine)
{
    EXPECT_EQ(bootId().size(), 36u);
}

TEST(File, LockOfAnotherDescriptionIsSeenAndNotTaken)
{
    char name[] = "/tmp/megagraph-lock-XXXXXX";
    const int made = ::mkstemp(name);
    const auto other = openFile(name, O_RDWR);
    ASSERT_TRUE(other.ok());
    EXPECT_FALSE(isLocked(name));
    EXPECT_TRUE(*tryLock(made));
    EXPECT_TRUE(isLocked(name));
    EXPECT_FALSE(*tryLock(other->get()));
    ::close(made);
    EXPECT_FALSE(isLocked(name));
    ::unlink(name);
}

} // namespace
} // namespace megagraph
