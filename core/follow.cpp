// SPDX-License-Identifier: Apache-2.0
#include "core/follow.h"

#include "core/event.h"
#include "core/file.h"
#include "core/units.h"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <random>
#include <sys/stat.h>
#include <tuple>

namespace megagraph {
namespace {

constexpr int64_t kTailBytes = 64 * 1024;
constexpr size_t kMaxControlLine = 512;

std::string segmentPath(const std::string& folder, int segment)
{
    return segment == 1 ? folder + "/metrics.jsonl" : fmt::format("{}/metrics-{:04}.jsonl", folder, segment);
}

/// Bytes [offset, min(size, offset + most)) of a file; empty when it is not there (yet).
Result<std::string> bytesFrom(const std::string& path, int64_t offset, int64_t most, bool& more)
{
    more = false;
    auto file = openFile(path, O_RDONLY);
    if (!file.ok() && file.error().code == ErrorCode::NotFound)
        return std::string();
    if (!file.ok())
        return file.error();
    const int64_t size = fileSize(file->get());
    if (size <= offset)
        return std::string();
    std::string text(size_t(std::min(size - offset, most)), '\0');
    more = size - offset > most;
    MEGAGRAPH_TRY(std::ignore, readAt(file->get(), offset, text.data(), text.size(), path));
    return text;
}

bool exists(const std::string& path)
{
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0;
}

bool isFinal(const std::string& state)
{
    return state == "finished" || state == "stopped" || state == "failed";
}

template <class T> void take(const Json& from, const char* key, T& to)
{
    if (!from.contains(key))
        return;
    const Json& value = from[key];
    if constexpr (std::is_same_v<T, std::string>) {
        if (value.is_string())
            to = value.get<std::string>();
    } else if constexpr (std::is_same_v<T, double>) {
        to = numberOf(value);
    } else if (value.is_number()) {
        to = value.get<T>();
    }
}

/// The journal is the truth, status.json only a summary of some moment: its last lines win.
void applyJournalTail(const std::string& folder, RunStatus& status)
{
    bool more = false;
    const std::string path = folder + "/journal.jsonl";
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0)
        return;
    const auto text = bytesFrom(path, std::max<int64_t>(0, info.st_size - kTailBytes), kTailBytes, more);
    if (!text.ok())
        return;
    size_t at = info.st_size > kTailBytes ? text->find('\n') : 0;
    for (at = info.st_size > kTailBytes && at != std::string::npos ? at + 1 : at; at < text->size();) {
        const size_t end = text->find('\n', at);
        if (end == std::string::npos)
            break;
        const auto line = decodeJournalLine(std::string_view(*text).substr(at, end - at + 1));
        at = end + 1;
        if (!line.ok())
            continue;
        const std::string kind = line->value("kind", "");
        take(*line, "seq", status.journalSeq);
        take(*line, "attempt", status.attempt);
        if (kind == "run.state") {
            take(*line, "to", status.state);
            take(*line, "reason", status.reason);
        } else if (kind == "run.end") {
            take(*line, "state", status.state);
        } else if (kind == "checkpoint.committed") {
            take(*line, "step", status.lastCommitStep);
        } else if (kind == "failure") {
            take(*line, "sentence", status.cause);
        } else if (kind == "attempt.start") {
            status.cause.clear();
        }
    }
}

} // namespace

Result<RunStatus> readRunStatus(const std::string& runFolder)
{
    RunStatus status;
    status.folder = runFolder;
    MEGAGRAPH_TRY(const Json run, readJsonFile(runFolder + "/run.json"));
    take(run, "id", status.id);
    take(run, "kind", status.kind);
    take(run, "name", status.name);
    take(run, "steps", status.steps);
    status.state = "queued";
    if (const auto written = readJsonFile(runFolder + "/status.json"); written.ok() && written->is_object()) {
        take(*written, "state", status.state);
        take(*written, "reason", status.reason);
        take(*written, "cause", status.cause);
        take(*written, "step", status.step);
        take(*written, "last_commit_step", status.lastCommitStep);
        take(*written, "attempt", status.attempt);
        take(*written, "journal_seq", status.journalSeq);
        take(*written, "loss", status.loss);
        take(*written, "step_s", status.stepS);
        take(*written, "eta_s", status.etaS);
    }
    // Asked before the journal is read: a run that ends in between is then seen as ended, never as lost.
    status.alive = isLocked(runFolder + "/lock");
    applyJournalTail(runFolder, status);
    if (status.alive) {
        if (const auto holder = readJsonFile(runFolder + "/lock"); holder.ok() && holder->is_object())
            take(*holder, "pid", status.supervisorPid);
    } else if (!isFinal(status.state)) {
        status.state = "lost";
        status.etaS = 0;
    }
    return status;
}

RunFollower::RunFollower(std::string runFolder) : folder_(std::move(runFolder)) {}

Result<Ok> RunFollower::takeEvents(int64_t maxBytes, Lines& lines)
{
    const std::string path = folder_ + "/journal.jsonl";
    bool more = false;
    MEGAGRAPH_TRY(const std::string text, bytesFrom(path, journalOffset_, maxBytes, more));
    lines.more = lines.more || more;
    std::string fault; // of the first bad line: a torn tail until a good line follows it
    size_t consumed = 0;
    for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
        auto line = decodeJournalLine(std::string_view(text).substr(at, end - at + 1));
        if (!line.ok()) {
            if (fault.empty())
                fault = line.error().message;
            continue;
        }
        if (fault.empty() && (*line)["seq"] != nextSeq_)
            fault = fmt::format("sequence number is {}, expected {}", (*line)["seq"].dump(), nextSeq_);
        if (!fault.empty())
            return Error{ErrorCode::Corrupt, fmt::format("{}: line {} at byte {}: {}; the file was changed or the disk is damaged", path,
                                                         nextSeq_, journalOffset_ + int64_t(consumed), fault)};
        lines.events.push_back(std::move(*line));
        ++nextSeq_;
        consumed = end + 1;
    }
    journalOffset_ += int64_t(consumed);
    return Ok{};
}

Result<Ok> RunFollower::takeSamples(int64_t maxBytes, Lines& lines)
{
    for (;;) {
        bool more = false;
        MEGAGRAPH_TRY(const std::string text, bytesFrom(segmentPath(folder_, metricsSegment_), metricsOffset_, maxBytes, more));
        size_t at = 0;
        for (size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
            if (auto line = decodeLine(std::string_view(text).substr(at, end - at)); line.ok()) // others: torn by a crash
                lines.samples.push_back(std::move(*line));
        metricsOffset_ += int64_t(at);
        if (more) {
            lines.more = true;
            return Ok{};
        }
        if (!exists(segmentPath(folder_, metricsSegment_ + 1)))
            return Ok{};
        if (at > 0) { // the last lines of this segment may have come after it was read: look once more before leaving it
            lines.more = true;
            return Ok{};
        }
        ++metricsSegment_;
        metricsOffset_ = 0;
    }
}

Result<RunFollower::Lines> RunFollower::poll(size_t maxBytes)
{
    Lines lines;
    MEGAGRAPH_TRY(std::ignore, takeEvents(int64_t(maxBytes), lines));
    MEGAGRAPH_TRY(std::ignore, takeSamples(int64_t(maxBytes), lines));
    return lines;
}

Result<std::string> requestControl(const std::string& runFolder, const std::string& what, const std::string& by)
{
    constexpr std::string_view known[] = {"stop", "terminate", "kill", "checkpoint"};
    if (std::find(std::begin(known), std::end(known), what) == std::end(known))
        return Error{ErrorCode::InvalidInput, fmt::format("control: unknown request {}, expected stop, terminate, kill or checkpoint", what)};
    std::random_device entropy;
    const std::string id = fmt::format("{:08x}", entropy());
    const std::string line = encodeLine(Json{{"id", id}, {"utc", utcNow()}, {"by", by.substr(0, 64)}, {"do", what}});
    if (line.size() > kMaxControlLine)
        return Error{ErrorCode::InvalidInput, fmt::format("control: line has {} bytes, expected at most {}", line.size(), kMaxControlLine)};
    MEGAGRAPH_TRY(const FileDescriptor file, openFile(runFolder + "/control.jsonl", O_WRONLY | O_APPEND | O_CREAT, 0600));
    MEGAGRAPH_TRY(std::ignore, writeAll(file.get(), line, runFolder + "/control.jsonl"));
    return id;
}

} // namespace megagraph
