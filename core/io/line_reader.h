// SPDX-License-Identifier: Apache-2.0
// Lines of a text file, plain or .gz (all members). Strips a UTF-8 mark, accepts LF, CRLF and a missing last newline.
// A gzip file that ends early or fails its checksum is InvalidInput with the line reached; a line is at most 1 MiB.
// Memory: two blocks of 256 KiB and one line. One thread per object.
#pragma once

#include "core/io/source_file.h"
#include "core/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace megagraph {

class LineReader {
  public:
    /// A name that ends in .gz must be gzip. `name` is what messages show.
    static Result<LineReader> open(const std::string& path, const std::string& name);
    LineReader(LineReader&&) noexcept;
    LineReader& operator=(LineReader&&) noexcept;
    ~LineReader();

    /// True and the next line without its end, false after the last. The view lives until the next call.
    Result<bool> next(std::string_view& line);
    int64_t lineNumber() const; ///< of the last line given, from 1
    const std::string& name() const;
    int64_t sourceBytes() const;   ///< size of the file
    int64_t consumedBytes() const; ///< of the file, for progress
    /// What the whole file should hold, for messages about a file that ends early: "5278 lines (raw/num-edge-list.csv.gz)".
    void expect(std::string what);
    /// "file: line N: what; remedy" about the last line.
    Error fault(const std::string& what, const std::string& remedy) const;

  private:
    struct State;
    explicit LineReader(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace megagraph
