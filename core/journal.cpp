// SPDX-License-Identifier: Apache-2.0
#include "core/journal.h"

#include "core/event.h"
#include "core/file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace megagraph {
namespace {

constexpr int64_t kReserveBytes = 1 << 20;
constexpr int64_t kMostJournalBytes = 1LL << 30;

Result<std::string> wholeFile(const std::string& path)
{
    MEGAGRAPH_TRY(const FileDescriptor file, openFile(path, O_RDONLY));
    const int64_t size = fileSize(file.get());
    if (size < 0 || size > kMostJournalBytes)
        return Error{ErrorCode::Corrupt, fmt::format("{}: size is {} bytes, expected at most {}", path, size, kMostJournalBytes)};
    std::string text(size_t(size), '\0');
    MEGAGRAPH_TRY(std::ignore, readAt(file.get(), 0, text.data(), text.size(), path));
    return text;
}

/// Does any complete line after `offset` pass its checksum? Then the damage is in the middle, not a torn tail.
bool goodLineAfter(const std::string& text, size_t offset)
{
    for (size_t at = text.find('\n', offset); at != std::string::npos;) {
        const size_t next = text.find('\n', at + 1);
        if (next == std::string::npos)
            return false;
        if (decodeJournalLine(std::string_view(text).substr(at + 1, next - at)).ok())
            return true;
        at = next;
    }
    return false;
}

} // namespace

Result<JournalScan> scanJournal(const std::string& path)
{
    MEGAGRAPH_TRY(const std::string text, wholeFile(path));
    JournalScan scan;
    size_t at = 0;
    while (at < text.size()) {
        const size_t end = text.find('\n', at);
        const std::string_view line = std::string_view(text).substr(at, end == std::string::npos ? end : end - at + 1);
        auto decoded = decodeJournalLine(line);
        std::string fault = decoded.ok() ? "" : decoded.error().message;
        if (decoded.ok() && (*decoded)["seq"] != scan.lastSeq + 1)
            fault = fmt::format("sequence number is {}, expected {}", (*decoded)["seq"].dump(), scan.lastSeq + 1);
        if (!fault.empty()) {
            if (decoded.ok() || goodLineAfter(text, at))
                return Error{ErrorCode::Corrupt, fmt::format("{}: line {} at byte {}: {}; lines after it are good, so the file "
                                                             "was changed or the disk is damaged; nothing was repaired",
                                                             path, scan.lastSeq + 1, at, fault)};
            break;
        }
        scan.lines.push_back(std::move(*decoded));
        ++scan.lastSeq;
        at = end + 1;
    }
    scan.goodBytes = int64_t(at);
    scan.tornBytes = int64_t(text.size() - at);
    return scan;
}

Result<Journal> Journal::open(const std::string& folder)
{
    Journal journal;
    journal.path_ = folder + "/journal.jsonl";
    MEGAGRAPH_TRY(FileDescriptor file, openFile(journal.path_, O_RDWR | O_CREAT, 0600));
    MEGAGRAPH_TRY(journal.found_, scanJournal(journal.path_));
    const JournalScan& found = journal.found_;
    if (found.tornBytes > 0) {
        std::string torn(size_t(found.tornBytes), '\0');
        MEGAGRAPH_TRY(std::ignore, readAt(file.get(), found.goodBytes, torn.data(), torn.size(), journal.path_));
        const std::string aside = fmt::format("{}/journal.torn-{}", folder, found.lastSeq + 1);
        MEGAGRAPH_TRY(const FileDescriptor kept, openFile(aside, O_WRONLY | O_CREAT | O_TRUNC, 0600));
        MEGAGRAPH_TRY(std::ignore, writeAll(kept.get(), torn, aside));
        if (::fdatasync(kept.get()) != 0 || ::ftruncate(file.get(), off_t(found.goodBytes)) != 0)
            return Error{ErrorCode::Io, fmt::format("{}: cannot cut a torn tail: {}", journal.path_, std::strerror(errno))};
    }
    journal.seq_ = found.lastSeq;
    journal.bytes_ = found.goodBytes;
    journal.fd_ = file.release();
    // Best effort: a file system without reservation still records until it is full.
    (void)::fallocate(journal.fd_, FALLOC_FL_KEEP_SIZE, off_t(journal.bytes_), kReserveBytes);
    return journal;
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)), pending_(std::move(other.pending_)), fd_(std::exchange(other.fd_, -1)), seq_(other.seq_),
      bytes_(other.bytes_), found_(std::move(other.found_))
{
    other.pending_.clear();
}

Journal& Journal::operator=(Journal&& other) noexcept
{
    std::swap(path_, other.path_);
    std::swap(pending_, other.pending_);
    std::swap(fd_, other.fd_);
    std::swap(seq_, other.seq_);
    std::swap(bytes_, other.bytes_);
    std::swap(found_, other.found_);
    return *this;
}

Journal::~Journal()
{
    if (fd_ < 0)
        return;
    (void)flush().ok();
    ::close(fd_);
}

int64_t Journal::append(const Json& fields)
{
    pending_ += encodeJournalLine(++seq_, fields);
    return seq_;
}

Result<Ok> Journal::flush()
{
    if (pending_.empty())
        return Ok{};
    if (::lseek(fd_, off_t(bytes_), SEEK_SET) < 0)
        return Error{ErrorCode::Io, fmt::format("{}: lseek failed: {}", path_, std::strerror(errno))};
    MEGAGRAPH_TRY(std::ignore, writeAll(fd_, pending_, path_));
    if (::fdatasync(fd_) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: fdatasync failed: {}", path_, std::strerror(errno))};
    const int64_t before = bytes_ / kReserveBytes;
    bytes_ += int64_t(pending_.size());
    pending_.clear();
    if (bytes_ / kReserveBytes != before)
        (void)::fallocate(fd_, FALLOC_FL_KEEP_SIZE, off_t(bytes_), kReserveBytes);
    return Ok{};
}

} // namespace megagraph
