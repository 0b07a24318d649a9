// SPDX-License-Identifier: Apache-2.0
#include "runtime/report.h"

#include "core/clock.h"
#include "core/event.h"
#include "core/places.h"
#include "runtime/allocator.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace megagraph::runtime {
namespace {

constexpr size_t kQueueLines = 1024; // samples beyond this are dropped
constexpr double kBeatSeconds = 1.0;
constexpr double kCloseSeconds = 10.0;

std::string lineOf(const std::string& kind, const Json& fields)
{
    Json line = Json::object();
    line["kind"] = kind;
    line.update(fields);
    return encodeLine(line);
}

bool isOpen(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

} // namespace

Result<std::unique_ptr<Reporter>> Reporter::open(const std::string& runFolder, int64_t rank, int64_t attempt)
{
    if (isOpen(kReportDescriptor)) {
        ::fcntl(kReportDescriptor, F_SETFL, ::fcntl(kReportDescriptor, F_GETFL) | O_NONBLOCK);
        ::fcntl(kReportDescriptor, F_SETFD, FD_CLOEXEC);
        return std::unique_ptr<Reporter>(new Reporter(kReportDescriptor));
    }
    MEGAGRAPH_TRY(std::ignore, makeFolders(runFolder + "/ranks"));
    const std::string path = fmt::format("{}/ranks/r{}.a{}.jsonl", runFolder, rank, attempt);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (descriptor < 0)
        return Error{ErrorCode::Io, fmt::format("worker: {}: cannot be opened, {}", path, std::strerror(errno))};
    return std::unique_ptr<Reporter>(new Reporter(descriptor));
}

Reporter::Reporter(int descriptor) : descriptor_(descriptor) { thread_ = std::thread([this] { loop(); }); }

Reporter::~Reporter() { close(); }

void Reporter::event(const std::string& kind, const Json& fields) { push(lineOf(kind, fields), false); }

void Reporter::sample(const std::string& kind, const Json& fields) { push(lineOf(kind, fields), true); }

void Reporter::at(const char* phase, int64_t step, const char* action)
{
    phase_ = phase;
    step_ = step;
    action_ = action;
    progress();
}

void Reporter::push(std::string line, bool mayDrop)
{
    {
        const std::lock_guard lock(mutex_);
        if (mayDrop && queue_.size() >= kQueueLines) {
            dropped_.fetch_add(1);
            return;
        }
        queue_.push_back(std::move(line));
    }
    wake_.notify_one();
}

void Reporter::beat()
{
    push(lineOf("beat", {{"phase", phase_.load()},
                         {"step", step_.load()},
                         {"action", action_.load()},
                         {"progress", progress_.load()},
                         {"rss_bytes", residentBytes()},
                         {"dropped_lines", dropped_.load()}}),
         true);
}

void Reporter::loop()
{
    double nextBeat = monotonicSeconds() + kBeatSeconds;
    for (;;) {
        std::deque<std::string> lines;
        bool last = false;
        {
            std::unique_lock lock(mutex_);
            wake_.wait_for(lock, std::chrono::milliseconds(200), [this] { return closing_ || !queue_.empty(); });
            lines.swap(queue_);
            last = closing_;
        }
        for (const std::string& line : lines)
            if (!broken_ && !writeLine(line))
                broken_ = true; // nobody reads any more; the lifeline ends this process
        if (last)
            return;
        if (monotonicSeconds() >= nextBeat) {
            nextBeat = monotonicSeconds() + kBeatSeconds;
            beat();
        }
    }
}

bool Reporter::writeLine(const std::string& line)
{
    double waited = 0;
    for (size_t done = 0; done < line.size();) {
        const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
        if (count > 0) {
            done += size_t(count);
            continue;
        }
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        pollfd ready{descriptor_, POLLOUT, 0};
        if (::poll(&ready, 1, 200) > 0)
            continue;
        waited += 0.2;
        const std::lock_guard lock(mutex_);
        if (closing_ && waited > kCloseSeconds)
            return false;
    }
    return true;
}

void Reporter::close()
{
    {
        const std::lock_guard lock(mutex_);
        if (closing_)
            return;
        closing_ = true;
    }
    wake_.notify_one();
    thread_.join();
    ::close(descriptor_);
}

Commands::Commands()
{
    if (isOpen(kCommandDescriptor)) {
        ::fcntl(kCommandDescriptor, F_SETFD, FD_CLOEXEC);
        std::thread([this] { loop(); }).detach(); // lives as long as the process: it is what ends an orphan
    }
}

void Commands::loop()
{
    std::string pending;
    char buffer[512];
    for (;;) {
        const ssize_t count = ::read(kCommandDescriptor, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            ::_exit(kLifelineExit);
        pending.append(buffer, size_t(count));
        for (size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
            obey(pending.substr(0, end));
            pending.erase(0, end + 1);
        }
        if (pending.size() > kMaxEventLine)
            pending.clear();
    }
}

void Commands::obey(const std::string& line)
{
    const Result<Json> order = decodeLine(line);
    if (!order.ok() || !order->contains("do") || !(*order)["do"].is_string())
        return;
    const std::string what = (*order)["do"].get<std::string>();
    if (what == "stop")
        add(kStop);
    else if (what == "terminate")
        add(kTerminate);
    else if (what == "checkpoint")
        add(kCheckpoint);
    // "committed" and "abandon" tell what the supervisor did with a synchronous checkpoint; nothing is left to do here
}

} // namespace megagraph::runtime
