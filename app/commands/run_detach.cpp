// SPDX-License-Identifier: Apache-2.0
#include "app/commands/run_detach.h"

#include "core/file.h"
#include "core/json.h"
#include "core/process.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace megagraph::app {
namespace {

Result<ChildOptions> ownCommand()
{
    auto line = readSmallFile("/proc/self/cmdline", 1 << 20);
    if (!line.ok())
        return line.error();
    ChildOptions options;
    options.program = "/proc/self/exe";
    char path[4096];
    if (const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path); size > 0)
        options.program.assign(path, size_t(size));
    size_t at = line->find('\0') + 1; // argv[0]
    while (at < line->size()) {
        const size_t end = std::min(line->find('\0', at), line->size());
        const std::string argument = line->substr(at, end - at);
        options.arguments.push_back(argument == "--detach" ? kDetachedFlag : argument);
        at = end + 1;
    }
    for (char** entry = environ; entry && *entry; ++entry)
        if (const char* equals = std::strchr(*entry, '='))
            options.environment.emplace_back(std::string(*entry, size_t(equals - *entry)), equals + 1);
    options.dieWithParent = false;
    options.newSession = true;
    return options;
}

} // namespace

int startDetached(bool json)
{
    auto options = ownCommand();
    if (!options.ok())
        return report(options.error(), json);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return report({ErrorCode::Io, fmt::format("pipe2 failed: {}", std::strerror(errno))}, json);
    FileDescriptor ready(ends[0]), write(ends[1]);
    const auto null = openFile("/dev/null", O_RDWR);
    if (!null.ok())
        return report(null.error(), json);
    options->descriptors = {{null->get(), 0}, {write.get(), 1}, {STDERR_FILENO, 2}};
    const auto child = spawn(*options);
    if (!child.ok())
        return report(child.error(), json);
    const FileDescriptor pidfd(child->pidfd);
    write.reset();
    std::string text;
    char block[4096];
    for (;;) { // until the ready line, or until the supervisor has ended without one
        const ssize_t got = ::read(ready.get(), block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        text.append(block, size_t(got));
        if (text.find('\n') != std::string::npos && text.rfind("{\"run\"", 0) == 0)
            break;
    }
    fmt::print("{}", text);
    std::fflush(stdout);
    if (text.rfind("{\"run\"", 0) == 0)
        return 0;
    int status = 0;
    while (::waitpid(pid_t(child->pid), &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : exitCode(ErrorCode::Internal);
}

void announceAndLeaveTerminal(const std::string& id, const std::string& folder)
{
    fmt::print("{}\n", Json{{"run", id}, {"dir", folder}}.dump());
    std::fflush(stdout);
    if (const auto null = openFile("/dev/null", O_RDWR); null.ok())
        ::dup2(null->get(), STDOUT_FILENO);
    if (const auto log = openFile(folder + "/logs/supervisor.log", O_WRONLY | O_CREAT | O_APPEND, 0600); log.ok())
        ::dup2(log->get(), STDERR_FILENO);
}

} // namespace megagraph::app
