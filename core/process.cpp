// SPDX-License-Identifier: Apache-2.0
#include "core/process.h"

#include "core/file.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace megagraph {
namespace {

enum class Step : int { Session, DeathSignal, OomScore, Descriptors, Exec };
constexpr const char* kStepNames[] = {"setsid or setpgid", "prctl(PR_SET_PDEATHSIG)", "oom_score_adj", "dup2", "execve"};
struct Failure { Step step; int code; };

/// Everything the child needs, laid out before the fork: after it only async-signal-safe calls are allowed.
struct Prepared {
    const ChildOptions* options;
    std::vector<char*> argv, envp;
    std::vector<std::string> environment;
    std::string oomText;
    int highest = 2; // highest descriptor number in the child
    pid_t parent = 0;
};

[[noreturn]] void childFails(int report, Step step)
{
    const Failure failure{step, errno};
    (void)!::write(report, &failure, sizeof failure);
    _exit(127);
}

void resetSignals()
{
    for (int signal = 1; signal < NSIG; ++signal)
        if (signal != SIGKILL && signal != SIGSTOP)
            ::signal(signal, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Moves the wanted descriptors to their numbers. Sources are first lifted above all targets, so none is overwritten early.
int placeDescriptors(const Prepared& prepared, int report)
{
    const auto& wanted = prepared.options->descriptors;
    int lifted[32];
    const int floor = prepared.highest + 2;
    for (size_t i = 0; i < wanted.size(); ++i) {
        lifted[i] = ::fcntl(wanted[i].first, F_DUPFD_CLOEXEC, floor);
        if (lifted[i] < 0)
            childFails(report, Step::Descriptors);
    }
    const int high = ::fcntl(report, F_DUPFD_CLOEXEC, floor);
    for (int fd = 0; fd <= prepared.highest; ++fd)
        ::close(fd);
    for (size_t i = 0; i < wanted.size(); ++i)
        if (::dup2(lifted[i], wanted[i].second) < 0)
            childFails(high, Step::Descriptors);
    if (::dup3(high, prepared.highest + 1, O_CLOEXEC) < 0)
        childFails(high, Step::Descriptors);
    ::syscall(SYS_close_range, unsigned(prepared.highest + 2), ~0U, 0);
    return prepared.highest + 1;
}

[[noreturn]] void runChild(const Prepared& prepared, int report)
{
    const ChildOptions& options = *prepared.options;
    if ((options.newSession ? ::setsid() : ::setpgid(0, 0)) < 0)
        childFails(report, Step::Session);
    if (options.dieWithParent) {
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
            childFails(report, Step::DeathSignal);
        if (::getppid() != prepared.parent) // the parent died before the signal was set
            _exit(127);
    }
    if (!prepared.oomText.empty()) {
        const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (file >= 0) {
            (void)!::write(file, prepared.oomText.data(), prepared.oomText.size()); // a hint for the kernel, not a need
            ::close(file);
        }
    }
    resetSignals();
    report = placeDescriptors(prepared, report);
    ::execve(options.program.c_str(), prepared.argv.data(), prepared.envp.data());
    childFails(report, Step::Exec);
}

Prepared prepare(const ChildOptions& options)
{
    Prepared prepared{&options, {}, {}, {}, {}, 2, ::getpid()};
    prepared.argv.push_back(const_cast<char*>(options.program.c_str()));
    for (const auto& argument : options.arguments)
        prepared.argv.push_back(const_cast<char*>(argument.c_str()));
    prepared.argv.push_back(nullptr);
    for (const auto& [name, value] : options.environment)
        prepared.environment.push_back(name + "=" + value);
    for (auto& text : prepared.environment)
        prepared.envp.push_back(text.data());
    prepared.envp.push_back(nullptr);
    if (options.oomScoreAdj != 0)
        prepared.oomText = std::to_string(options.oomScoreAdj);
    for (const auto& [source, target] : options.descriptors)
        prepared.highest = std::max(prepared.highest, target);
    return prepared;
}

Error limitError(const char* call, int code, const std::string& program)
{
    rlimit limit{};
    const bool processes = code == EAGAIN, files = code == EMFILE;
    std::string hint;
    if (processes && getrlimit(RLIMIT_NPROC, &limit) == 0)
        hint = limit.rlim_cur == RLIM_INFINITY ? "; no more processes on this machine (pids limit of the container or the system)"
                                               : fmt::format("; RLIMIT_NPROC is {}; raise it with ulimit -u", limit.rlim_cur);
    if (files && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        hint = fmt::format("; RLIMIT_NOFILE is {}; raise it with ulimit -n", limit.rlim_cur);
    return {ErrorCode::Io, fmt::format("{}: {} failed: {}{}", program, call, std::strerror(code), hint)};
}

} // namespace

Result<Child> spawn(const ChildOptions& options)
{
    if (options.descriptors.size() > 32)
        return Error{ErrorCode::Internal, fmt::format("{}: {} descriptors, expected at most 32", options.program, options.descriptors.size())};
    const Prepared prepared = prepare(options);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return limitError("pipe2", errno, options.program);
    FileDescriptor readEnd(ends[0]), writeEnd(ends[1]);
    // Signals stay blocked between fork and exec, so that no handler of the parent runs in the child.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const pid_t pid = ::fork();
    if (pid == 0)
        runChild(prepared, writeEnd.get());
    const int forkCode = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0)
        return limitError("fork", forkCode, options.program);
    writeEnd.reset();
    Child child;
    child.pid = pid;
    child.pidfd = int(::syscall(SYS_pidfd_open, pid, 0)); // glibc 2.36 declares pidfd_open without C linkage
    const int pidfdCode = errno;
    Failure failure{};
    ssize_t got;
    while ((got = ::read(readEnd.get(), &failure, sizeof failure)) < 0 && errno == EINTR) {
    }
    if (got == ssize_t(sizeof failure) || child.pidfd < 0) {
        ::kill(pid, SIGKILL);
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
        }
        if (child.pidfd < 0)
            return limitError("pidfd_open", pidfdCode, options.program);
        ::close(child.pidfd);
        return Error{failure.code == ENOENT ? ErrorCode::NotFound : ErrorCode::Io,
                     fmt::format("{}: {} failed in the child: {}", options.program, kStepNames[int(failure.step)],
                                 std::strerror(failure.code))};
    }
    child.startTicks = processStartTicks(pid);
    return child;
}

int64_t processStartTicks(int64_t pid)
{
    const auto text = readSmallFile(fmt::format("/proc/{}/stat", pid), 4096);
    if (!text.ok())
        return -1;
    // The name in parentheses may hold anything; fields are counted from its last ')'. Field 22 is the 20th after it.
    size_t at = text->rfind(')');
    for (int field = 2; at != std::string::npos && field < 22; ++field)
        at = text->find(' ', at + 1);
    return at == std::string::npos ? -1 : std::strtoll(text->c_str() + at + 1, nullptr, 10);
}

std::string bootId()
{
    auto text = readSmallFile("/proc/sys/kernel/random/boot_id", 128);
    if (!text.ok())
        return "";
    while (!text->empty() && text->back() == '\n')
        text->pop_back();
    return *text;
}

} // namespace megagraph
