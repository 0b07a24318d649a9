// SPDX-License-Identifier: Apache-2.0
// The journal of a run: journal.jsonl, one writer (the supervisor that holds the lock). Lines carry seq and crc (core/event).
// Group commit: append() buffers, flush() writes and fdatasyncs; the caller flushes every 200 ms and at once for state changes
// and commits. 1 MiB is preallocated past the end so that a full disk can still be recorded. One thread.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

/// What a journal holds after opening or scanning it.
struct JournalScan {
    int64_t lastSeq = 0, goodBytes = 0, tornBytes = 0;
    std::vector<Json> lines;
};
/// Reads a whole journal: lines count while each ends in a newline, its crc is right and its seq is the former + 1. A bad tail
/// is reported as tornBytes; a bad line followed by good ones is Corrupt with line number and offset. NotFound without a file.
Result<JournalScan> scanJournal(const std::string& path);

class Journal {
  public:
    /// Opens or creates `folder`/journal.jsonl. A torn tail is moved to journal.torn-SEQ and cut. Lock must be held.
    static Result<Journal> open(const std::string& folder);
    Journal(Journal&& other) noexcept;
    Journal& operator=(Journal&& other) noexcept;
    ~Journal(); ///< flushes

    /// Buffers one line; returns its sequence number.
    int64_t append(const Json& fields);
    /// Writes what is buffered and syncs it. Io: nothing of the failed batch counts as recorded.
    Result<Ok> flush();
    int64_t lastSeq() const { return seq_; }
    bool dirty() const { return !pending_.empty(); }
    const JournalScan& found() const { return found_; } ///< state at open

  private:
    Journal() = default;
    std::string path_, pending_;
    int fd_ = -1;
    int64_t seq_ = 0, bytes_ = 0;
    JournalScan found_;
};

} // namespace megagraph
