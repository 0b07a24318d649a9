// SPDX-License-Identifier: Apache-2.0
#include "core/file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace megagraph {
namespace {

Error systemError(const std::string& what, const char* call)
{
    const int code = errno;
    return {code == ENOENT ? ErrorCode::NotFound : ErrorCode::Io, fmt::format("{}: {} failed: {}", what, call, std::strerror(code))};
}

struct flock wholeFile(short type)
{
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return lock;
}

} // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept
{
    if (this != &other)
        reset(other.release());
    return *this;
}

int FileDescriptor::release()
{
    const int fd = fd_;
    fd_ = -1;
    return fd;
}

void FileDescriptor::reset(int fd)
{
    if (fd_ >= 0)
        ::close(fd_);
    fd_ = fd;
}

Result<FileDescriptor> openFile(const std::string& path, int flags, int mode)
{
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    if (fd < 0)
        return systemError(path, "open");
    return FileDescriptor(fd);
}

Result<Ok> writeAll(int fd, std::string_view bytes, const std::string& what)
{
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return systemError(what, "write");
        bytes.remove_prefix(size_t(written));
    }
    return Ok{};
}

Result<Ok> readAt(int fd, int64_t offset, void* out, size_t size, const std::string& what)
{
    char* next = static_cast<char*>(out);
    while (size > 0) {
        const ssize_t got = ::pread(fd, next, size, off_t(offset));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return systemError(what, "read");
        if (got == 0)
            return Error{ErrorCode::Corrupt, fmt::format("{}: ends at byte {}, expected {} bytes more", what, offset, size)};
        next += got;
        offset += got;
        size -= size_t(got);
    }
    return Ok{};
}

Result<Ok> syncFolder(const std::string& path)
{
    MEGAGRAPH_TRY(const FileDescriptor folder, openFile(path, O_RDONLY | O_DIRECTORY));
    if (::fsync(folder.get()) != 0)
        return systemError(path, "fsync");
    return Ok{};
}

Result<std::string> readSmallFile(const std::string& path, size_t most)
{
    MEGAGRAPH_TRY(const FileDescriptor file, openFile(path, O_RDONLY));
    std::string text;
    char block[4096];
    for (;;) { // files below /proc have size 0, so the size is not asked for
        const ssize_t got = ::read(file.get(), block, sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return systemError(path, "read");
        if (got == 0)
            return text;
        text.append(block, size_t(got));
        if (text.size() > most)
            return Error{ErrorCode::InvalidInput, fmt::format("{}: file is longer than {} bytes", path, most)};
    }
}

int64_t fileSize(int fd)
{
    struct stat info{};
    return ::fstat(fd, &info) == 0 ? int64_t(info.st_size) : -1;
}

Result<bool> tryLock(int fd)
{
    struct flock lock = wholeFile(F_WRLCK);
    if (::fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return true;
    if (errno == EAGAIN || errno == EACCES)
        return false;
    return systemError("lock", "fcntl(F_OFD_SETLK)");
}

bool isLocked(const std::string& path)
{
    const auto file = openFile(path, O_RDONLY);
    if (!file.ok())
        return false;
    struct flock lock = wholeFile(F_WRLCK);
    return ::fcntl(file->get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

} // namespace megagraph
