// SPDX-License-Identifier: Apache-2.0
// Where a run's bytes go: report lines cut out of a pipe, capped logs of the workers, metrics segments. A sink that cannot write
// counts what it drops and never disturbs the run. One thread each.
#pragma once

#include "core/file.h"
#include "core/json.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace megagraph::launch {

/// Cuts a byte stream into lines of at most `kMaxEventLine` bytes; longer ones are dropped and counted.
class LineSplitter {
  public:
    /// Calls `line` for each complete line (with its newline) and `bad` once for each over-long one, with its first bytes.
    void feed(std::string_view bytes, const std::function<void(std::string_view)>& line,
              const std::function<void(std::string_view)>& bad);
    bool empty() const { return held_.empty() && !skipping_; }

  private:
    std::string held_;
    bool skipping_ = false; // inside an over-long line
};

/// stdout and stderr of one worker: the first 8 MiB and two rotating tail segments of 28 MiB are kept.
class LogSink {
  public:
    void open(const std::string& path);
    void write(std::string_view bytes);
    int64_t droppedBytes() const { return dropped_; }
    const std::string& tail() const { return tail_; } ///< last bytes, for failure cards

    static constexpr int64_t kHeadBytes = 8 << 20, kSegmentBytes = 28 << 20;
    static constexpr size_t kTailBytes = 4096;

  private:
    void next();

    std::string path_, tail_;
    FileDescriptor file_;
    int64_t written_ = 0, dropped_ = 0, segmentBytes_[2] = {0, 0};
    int segment_ = -1; // -1: head
};

/// metrics.jsonl, then metrics-0002.jsonl ...: a new segment each 64 MiB. Continues the newest segment of an earlier attempt.
class MetricsSink {
  public:
    void open(const std::string& folder);
    void write(const Json& sample);
    int64_t droppedLines() const { return dropped_; }

    static constexpr int64_t kSegmentBytes = 64 << 20;

  private:
    std::string folder_;
    FileDescriptor file_;
    int64_t bytes_ = 0, dropped_ = 0;
    int segment_ = 1;
};

/// New complete lines of control.jsonl since the last call; starts at the end of what was there.
class ControlReader {
  public:
    explicit ControlReader(const std::string& folder);
    std::vector<Json> poll();

  private:
    std::string path_, held_;
    int64_t offset_ = 0;
};

} // namespace megagraph::launch
