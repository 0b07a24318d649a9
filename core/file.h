// SPDX-License-Identifier: Apache-2.0
// The file layer of runs: descriptors that close themselves, whole writes, syncs, locks. Every return value counts. Thin
// wrappers of system calls; calls share nothing.
#pragma once

#include "core/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace megagraph {

/// Owns one descriptor. Move only.
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int fd) : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept;
    ~FileDescriptor() { reset(); }

    int get() const { return fd_; }
    bool valid() const { return fd_ >= 0; }
    int release();
    void reset(int fd = -1);

  private:
    int fd_ = -1;
};

/// open(2) with O_CLOEXEC; NotFound or Io names path and reason.
Result<FileDescriptor> openFile(const std::string& path, int flags, int mode = 0600);
/// Writes all bytes (retries on EINTR and short writes). `what` names the file in the error.
Result<Ok> writeAll(int fd, std::string_view bytes, const std::string& what);
/// Reads exactly `size` bytes at `offset`; Corrupt when the file ends early.
Result<Ok> readAt(int fd, int64_t offset, void* out, size_t size, const std::string& what);
Result<Ok> syncFolder(const std::string& path);
Result<std::string> readSmallFile(const std::string& path, size_t most);
int64_t fileSize(int fd); ///< -1 on error

/// Open-file-description write lock on the whole file. False: somebody else holds it.
Result<bool> tryLock(int fd);
/// Is the file locked by another open file description? Takes nothing (F_OFD_GETLK).
bool isLocked(const std::string& path);

} // namespace megagraph
