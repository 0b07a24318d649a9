// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/sinks.h"

#include "core/event.h"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace megagraph::launch {
namespace {

constexpr int64_t kMostControlBytes = 64 * 1024; // of one poll; requests are at most 512 bytes each

std::string segmentPath(const std::string& folder, int segment)
{
    return segment == 1 ? folder + "/metrics.jsonl" : fmt::format("{}/metrics-{:04}.jsonl", folder, segment);
}

bool exists(const std::string& path)
{
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0;
}

} // namespace

void LineSplitter::feed(std::string_view bytes, const std::function<void(std::string_view)>& line,
                        const std::function<void(std::string_view)>& bad)
{
    while (!bytes.empty()) {
        const size_t end = bytes.find('\n');
        const std::string_view part = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
        bytes.remove_prefix(part.size());
        const bool complete = end != std::string_view::npos;
        if (skipping_) {
            skipping_ = !complete;
            continue;
        }
        if (held_.size() + part.size() > kMaxEventLine) {
            held_.append(part.substr(0, 64));
            bad(std::string_view(held_).substr(0, 64));
            held_.clear();
            skipping_ = !complete;
            continue;
        }
        held_ += part;
        if (complete) {
            line(held_);
            held_.clear();
        }
    }
}

void LogSink::open(const std::string& path)
{
    path_ = path;
    if (auto file = openFile(path, O_WRONLY | O_CREAT | O_APPEND, 0600); file.ok())
        file_ = std::move(*file);
}

void LogSink::next()
{
    segment_ = segment_ == 0 ? 1 : 0;
    dropped_ += segmentBytes_[segment_];
    segmentBytes_[segment_] = 0;
    written_ = 0;
    file_.reset();
    if (auto file = openFile(fmt::format("{}.tail-{}", path_, segment_ + 1), O_WRONLY | O_CREAT | O_TRUNC, 0600); file.ok())
        file_ = std::move(*file);
}

void LogSink::write(std::string_view bytes)
{
    tail_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kTailBytes)));
    if (tail_.size() > kTailBytes)
        tail_.erase(0, tail_.size() - kTailBytes);
    while (!bytes.empty()) {
        const int64_t room = (segment_ < 0 ? kHeadBytes : kSegmentBytes) - written_;
        if (room <= 0) {
            next();
            continue;
        }
        const std::string_view part = bytes.substr(0, size_t(room));
        bytes.remove_prefix(part.size());
        written_ += int64_t(part.size());
        if (segment_ >= 0)
            segmentBytes_[segment_] += int64_t(part.size());
        if (!file_.valid() || !writeAll(file_.get(), part, path_).ok())
            dropped_ += int64_t(part.size());
    }
}

void MetricsSink::open(const std::string& folder)
{
    folder_ = folder;
    while (exists(segmentPath(folder, segment_ + 1)))
        ++segment_;
    auto file = openFile(segmentPath(folder, segment_), O_RDWR | O_CREAT | O_APPEND, 0600);
    if (!file.ok())
        return;
    file_ = std::move(*file);
    bytes_ = std::max<int64_t>(0, fileSize(file_.get()));
    char last = '\n';
    if (bytes_ > 0 && readAt(file_.get(), bytes_ - 1, &last, 1, folder).ok() && last != '\n' && writeAll(file_.get(), "\n", folder).ok())
        ++bytes_; // a line that a crash cut short must not swallow the first new one
}

void MetricsSink::write(const Json& sample)
{
    if (bytes_ >= kSegmentBytes) {
        file_.reset();
        bytes_ = 0;
        if (auto file = openFile(segmentPath(folder_, ++segment_), O_WRONLY | O_CREAT | O_APPEND, 0600); file.ok())
            file_ = std::move(*file);
    }
    const std::string line = encodeLine(sample);
    if (!file_.valid() || !writeAll(file_.get(), line, "metrics").ok())
        ++dropped_;
    else
        bytes_ += int64_t(line.size());
}

ControlReader::ControlReader(const std::string& folder) : path_(folder + "/control.jsonl")
{
    struct stat info{};
    if (::stat(path_.c_str(), &info) == 0)
        offset_ = info.st_size;
}

std::vector<Json> ControlReader::poll()
{
    std::vector<Json> requests;
    struct stat info{};
    if (::stat(path_.c_str(), &info) != 0 || info.st_size <= offset_)
        return requests;
    auto file = openFile(path_, O_RDONLY | O_NOFOLLOW);
    if (!file.ok())
        return requests;
    std::string bytes(size_t(std::min<int64_t>(info.st_size - offset_, kMostControlBytes)), '\0');
    if (!readAt(file->get(), offset_, bytes.data(), bytes.size(), path_).ok())
        return requests;
    offset_ += int64_t(bytes.size());
    held_ += bytes;
    size_t at = 0;
    for (size_t end = 0; (end = held_.find('\n', at)) != std::string::npos; at = end + 1)
        if (auto line = decodeLine(std::string_view(held_).substr(at, end - at)); line.ok())
            requests.push_back(std::move(*line));
    held_.erase(0, at);
    if (held_.size() > size_t(kMostControlBytes))
        held_.clear(); // no request is that long
    return requests;
}

} // namespace megagraph::launch
