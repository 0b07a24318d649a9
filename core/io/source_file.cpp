// SPDX-License-Identifier: Apache-2.0
#include "core/io/source_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <zlib.h>

namespace megagraph {

Error badInput(const std::string& file, const std::string& place, const std::string& what, const std::string& remedy)
{
    return {ErrorCode::InvalidInput, fmt::format("{}: {}{}{}; {}", file, place, place.empty() ? "" : ": ", what, remedy)};
}

SourceFile::SourceFile(int descriptor, int64_t size, std::string name)
    : descriptor_(descriptor), size_(size), name_(std::move(name))
{
}

SourceFile::SourceFile(SourceFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_), name_(std::move(other.name_))
{
}

SourceFile& SourceFile::operator=(SourceFile&& other) noexcept
{
    std::swap(descriptor_, other.descriptor_);
    std::swap(size_, other.size_);
    std::swap(name_, other.name_);
    return *this;
}

SourceFile::~SourceFile()
{
    if (descriptor_ >= 0)
        ::close(descriptor_);
}

Result<SourceFile> SourceFile::open(const std::string& path, const std::string& name)
{
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0 && errno == ENOENT)
        return Error{ErrorCode::NotFound, fmt::format("{}: no such file, expected it at {}; check the path", name, path)};
    if (descriptor < 0 && errno == ELOOP)
        return badInput(name, "", "is a symbolic link, expected a regular file", "name the file that the link points to");
    if (descriptor < 0)
        return Error{ErrorCode::Io, fmt::format("{}: cannot be opened: {}; check its permissions", name, std::strerror(errno))};
    SourceFile file(descriptor, 0, name);
    struct stat status {};
    if (::fstat(descriptor, &status) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: cannot be examined: {}; check the disk", name, std::strerror(errno))};
    if (!S_ISREG(status.st_mode))
        return badInput(name, "", "is not a regular file", "name a file with data");
    file.size_ = status.st_size;
    return file;
}

Result<int64_t> SourceFile::read(int64_t offset, void* out, int64_t size) const
{
    int64_t done = 0;
    while (done < size) {
        const ssize_t got = ::pread(descriptor_, static_cast<char*>(out) + done, static_cast<size_t>(size - done), offset + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return Error{ErrorCode::Io, fmt::format("{}: byte {}: cannot be read: {}; check the disk", name_, offset + done,
                                                    std::strerror(errno))};
        if (got == 0)
            break;
        done += got;
    }
    return done;
}

Result<Ok> SourceFile::readExactly(int64_t offset, void* out, int64_t size) const
{
    MEGAGRAPH_TRY(const int64_t got, read(offset, out, size));
    if (got != size)
        return badInput(name_, fmt::format("byte {}", offset), fmt::format("the file ends early, got {} bytes, expected {}", got, size),
                        "get the file again");
    return Ok{};
}

Result<std::string> SourceFile::crc32Hex() const
{
    std::vector<unsigned char> block(1 << 18);
    uLong crc = ::crc32(0, nullptr, 0);
    for (int64_t offset = 0; offset < size_;) {
        MEGAGRAPH_TRY(const int64_t got, read(offset, block.data(), static_cast<int64_t>(block.size())));
        if (got == 0)
            break;
        crc = ::crc32(crc, block.data(), static_cast<uInt>(got));
        offset += got;
    }
    return fmt::format("{:08x}", static_cast<uint32_t>(crc));
}

} // namespace megagraph
