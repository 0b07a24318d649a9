// SPDX-License-Identifier: Apache-2.0
// The worker's two pipes (runs design, sections 1 and 3): event lines out on descriptor 3 (else ranks/rR.aN.jsonl) from a
// thread of their own, so training never waits for the pipe; commands in on descriptor 4, whose end means _exit(86).
// Any thread may report; samples are dropped and counted when the queue is full, events never are.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace megagraph::runtime {

constexpr int kReportDescriptor = 3;
constexpr int kCommandDescriptor = 4;
constexpr int kLifelineExit = 86;

class Reporter {
  public:
    /// Takes descriptor 3 if it is open, else appends to DIR/ranks/rR.aN.jsonl. Io names the file.
    static Result<std::unique_ptr<Reporter>> open(const std::string& runFolder, int64_t rank, int64_t attempt);
    ~Reporter(); ///< close()
    Reporter(const Reporter&) = delete;
    Reporter& operator=(const Reporter&) = delete;

    void event(const std::string& kind, const Json& fields);
    void sample(const std::string& kind, const Json& fields);
    /// What the beat says: phase and action must be literals.
    void at(const char* phase, int64_t step, const char* action);
    void progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
    int64_t step() const { return step_.load(); }
    const char* phase() const { return phase_.load(); }
    /// Writes what is queued (at most 10 s when nobody reads) and ends the thread.
    void close();

  private:
    explicit Reporter(int descriptor);
    void push(std::string line, bool mayDrop);
    void loop();
    void beat();
    bool writeLine(const std::string& line);

    int descriptor_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::string> queue_;
    bool closing_ = false, broken_ = false;
    std::atomic<int64_t> dropped_{0}, progress_{0}, step_{0};
    std::atomic<const char*> phase_{"start"}, action_{""};
    std::thread thread_;
};

/// Orders of the supervisor, polled by the training thread at step boundaries.
class Commands {
  public:
    /// Starts the lifeline thread if descriptor 4 is open.
    Commands();
    /// Bits seen and not yet taken, and clears them.
    enum Bit : int { kStop = 1, kCheckpoint = 2, kTerminate = 4 };
    int take() { return bits_.exchange(0); }
    void add(int bits) { bits_.fetch_or(bits); }

  private:
    void loop();
    void obey(const std::string& line);
    std::atomic<int> bits_{0};
};

} // namespace megagraph::runtime
