// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/rank.h"

#include "core/event.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>

extern char** environ;

namespace megagraph::launch {
namespace {

constexpr int kWorkerOomScore = 500; // the kernel takes a worker before the supervisor
constexpr double kConsequenceWindowS = 2;
constexpr int kExitStopped = 10, kExitConsequence = 20, kExitOutOfMemory = 23;

struct Pipe { FileDescriptor read, write; };

Result<Pipe> makePipe()
{
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return Error{ErrorCode::Io, fmt::format("pipe2 failed: {}; raise the limit of open files with ulimit -n", std::strerror(errno))};
    return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

void doNotBlock(int fd)
{
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool passes(const std::string& name)
{
    constexpr std::string_view exact[] = {"HOME", "TMPDIR", "LD_LIBRARY_PATH", "MEGAGRAPH_CPU_KERNELS", "MEGAGRAPH_RESOURCES"};
    for (const auto& allowed : exact)
        if (name == allowed)
            return true;
    return name.rfind("SLURM_", 0) == 0 || name.rfind("NCCL_", 0) == 0;
}

} // namespace

const char* exitClassName(ExitClass value)
{
    constexpr const char* names[] = {"running", "done", "stopped", "early", "code", "signal", "oom", "killed_by_us", "consequence", "broken"};
    return names[int(value)];
}

bool isFailure(ExitClass value)
{
    return value != ExitClass::Running && value != ExitClass::Done && value != ExitClass::Stopped && value != ExitClass::KilledByUs;
}

std::vector<std::pair<std::string, std::string>> workerEnvironment(const AttemptContext& context, int64_t rank)
{
    std::vector<std::pair<std::string, std::string>> out{
        {"RANK", std::to_string(rank)},
        {"LOCAL_RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(context.spec->world)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MEGAGRAPH_RUN", context.folder},
        {"MEGAGRAPH_HOME", context.home},
        {"MEGAGRAPH_ATTEMPT", std::to_string(context.attempt)},
        {"MEGAGRAPH_RESUME_STEP", std::to_string(context.resumeStep)},
        {"OMP_NUM_THREADS", std::to_string(context.spec->threadsPerRank)},
        {"CUDA_VISIBLE_DEVICES", ""},
        {"LANG", "C.UTF-8"},
    };
    for (char** entry = environ; entry && *entry; ++entry) {
        const std::string text = *entry;
        const size_t equals = text.find('=');
        if (equals != std::string::npos && passes(text.substr(0, equals)))
            out.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return out;
}

Result<Ok> startRank(Rank& rank, const AttemptContext& context, Spawner& spawner)
{
    MEGAGRAPH_TRY(Pipe report, makePipe());
    MEGAGRAPH_TRY(Pipe command, makePipe());
    MEGAGRAPH_TRY(Pipe log, makePipe());
    MEGAGRAPH_TRY(const FileDescriptor null, openFile("/dev/null", O_RDWR));
    rank.logSink.open(fmt::format("{}/logs/r{}.a{}.log", context.folder, rank.number, context.attempt));
    ChildOptions options;
    options.program = context.program;
    options.arguments = {"--run", context.folder, "--rank", std::to_string(rank.number)};
    options.environment = workerEnvironment(context, rank.number);
    options.descriptors = {{null.get(), 0}, {log.write.get(), 1}, {log.write.get(), 2}, {report.write.get(), 3}, {command.read.get(), 4}};
    options.oomScoreAdj = kWorkerOomScore;
    MEGAGRAPH_TRY(rank.child, spawner.spawn(options));
    rank.pidfd.reset(rank.child.pidfd);
    rank.report = std::move(report.read);
    rank.command = std::move(command.write);
    rank.log = std::move(log.read);
    for (const int fd : {rank.report.get(), rank.command.get(), rank.log.get()})
        doNotBlock(fd);
    return Ok{};
}

void signalRank(const Rank& rank, int signal)
{
    if (!rank.reaped && rank.child.pid > 0)
        ::kill(-pid_t(rank.child.pid), signal);
}

void commandRank(const Rank& rank, const Json& command)
{
    if (rank.reaped || !rank.command.valid())
        return;
    const std::string line = encodeLine(command);
    (void)!::write(rank.command.get(), line.data(), line.size()); // one write below PIPE_BUF: whole or not at all
}

bool reapRank(Rank& rank, double now)
{
    siginfo_t info{};
    if (::waitid(P_PIDFD, id_t(rank.pidfd.get()), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    ::kill(-pid_t(rank.child.pid), SIGKILL); // children of the worker; the leader is a zombie and keeps the id taken
    if (::waitid(P_PIDFD, id_t(rank.pidfd.get()), &info, WEXITED | WNOHANG) != 0)
        return false;
    rank.reaped = true;
    rank.endedAt = now;
    rank.code = info.si_code == CLD_EXITED ? info.si_status : -1;
    rank.signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    rank.command.reset();
    return true;
}

ExitClass classifyExit(const Rank& rank, bool stopping, double firstFailureAt)
{
    if (rank.broken)
        return ExitClass::Broken;
    if (rank.signal != 0) {
        if (rank.terminatedByUs)
            return ExitClass::KilledByUs;
        const bool soonAfter = firstFailureAt >= 0 && rank.endedAt - firstFailureAt <= kConsequenceWindowS;
        return rank.signal == SIGABRT && soonAfter ? ExitClass::Consequence : ExitClass::Signal; // gloo aborts on a thread of its own
    }
    if (rank.code == 0 && rank.done)
        return ExitClass::Done;
    if (rank.code == kExitStopped)
        return stopping || rank.done ? ExitClass::Stopped : ExitClass::Early;
    if (rank.code == 0)
        return ExitClass::Early;
    if (rank.terminatedByUs && rank.code != kExitOutOfMemory)
        return ExitClass::KilledByUs; // a worker that took TERM and left by itself
    if (rank.code == kExitOutOfMemory || !rank.oomLine.is_null())
        return ExitClass::OutOfMemory;
    return rank.code == kExitConsequence ? ExitClass::Consequence : ExitClass::Code;
}

} // namespace megagraph::launch
