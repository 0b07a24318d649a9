// SPDX-License-Identifier: Apache-2.0
#include "core/io/zip.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <tuple>
#include <zlib.h>

namespace megagraph {

namespace {

constexpr int64_t kMostMembers = 1024, kLongestName = 255, kLargestDirectory = int64_t(1) << 20;
constexpr int64_t kFreeBytes = int64_t(1) << 20, kAskRatio = 200, kDeflateRatio = 1032;
constexpr const char* kAgain = "the archive is damaged: get the file again";

uint64_t little(const uint8_t* at, int bytes)
{
    uint64_t value = 0;
    for (int b = 0; b < bytes; ++b)
        value |= uint64_t(at[b]) << (8 * b);
    return value;
}

struct Directory { int64_t count = 0, size = 0, offset = 0; };

Result<Directory> findDirectory(const SourceFile& file)
{
    const int64_t tail = std::min<int64_t>(file.size(), 65557);
    std::vector<uint8_t> bytes(static_cast<size_t>(tail));
    MEGAGRAPH_TRY(std::ignore, file.readExactly(file.size() - tail, bytes.data(), tail));
    for (int64_t at = tail - 22; at >= 0; --at) {
        const uint8_t* end = bytes.data() + at;
        if (little(end, 4) != 0x06054b50 || at + 22 + static_cast<int64_t>(little(end + 20, 2)) != tail)
            continue;
        Directory found{static_cast<int64_t>(little(end + 10, 2)), static_cast<int64_t>(little(end + 12, 4)),
                        static_cast<int64_t>(little(end + 16, 4))};
        const int64_t place = file.size() - tail + at;
        if ((found.count == 0xffff || found.size == 0xffffffff || found.offset == 0xffffffff) && at >= 20 &&
            little(end - 20, 4) == 0x07064b50) {
            uint8_t wide[56];
            const auto where = static_cast<int64_t>(little(end - 20 + 8, 8));
            if (where < 0 || where > place - 76)
                return badInput(file.name(), "zip64 end", fmt::format("bad offset, got {}, expected below {}", where, place - 75), kAgain);
            MEGAGRAPH_TRY(std::ignore, file.readExactly(where, wide, 56));
            if (little(wide, 4) != 0x06064b50)
                return badInput(file.name(), "zip64 end", "signature missing", kAgain);
            found = {static_cast<int64_t>(little(wide + 32, 8)), static_cast<int64_t>(little(wide + 40, 8)),
                     static_cast<int64_t>(little(wide + 48, 8))};
        }
        if (found.count < 0 || found.count > kMostMembers || found.size < 0 || found.size > kLargestDirectory || found.offset < 0 ||
            found.offset > place - found.size)
            return badInput(file.name(), "zip directory",
                            fmt::format("impossible counts, got {} members and {} bytes at {}, expected at most {} members inside {} bytes",
                                        found.count, found.size, found.offset, kMostMembers, place),
                            kAgain);
        return found;
    }
    return badInput(file.name(), fmt::format("byte {}", file.size()),
                    fmt::format("no zip directory at the end, got {} bytes, expected an end record", file.size()),
                    "the file is cut short or no zip archive: get it again");
}

/// Takes the 64-bit sizes from the zip64 extra field (id 1) where the 32-bit ones are all ones.
bool applyZip64(const uint8_t* extra, int64_t length, ZipMember& member)
{
    const bool needSize = member.size == 0xffffffff, needPacked = member.packedSize == 0xffffffff,
               needOffset = member.localHeader == 0xffffffff;
    if (!needSize && !needPacked && !needOffset)
        return true;
    for (int64_t at = 0; at + 4 <= length;) {
        const int64_t id = static_cast<int64_t>(little(extra + at, 2)), size = static_cast<int64_t>(little(extra + at + 2, 2));
        if (at + 4 + size > length)
            return false;
        if (id == 1) {
            if (size < 8 * (needSize + needPacked + needOffset))
                return false;
            const uint8_t* p = extra + at + 4;
            for (auto [need, value] : {std::pair{needSize, &member.size}, {needPacked, &member.packedSize}, {needOffset, &member.localHeader}})
                if (need) {
                    *value = static_cast<int64_t>(little(p, 8));
                    p += 8;
                }
            return true;
        }
        at += 4 + size;
    }
    return false;
}

Error memberFault(const SourceFile& file, const ZipMember& member, const std::string& what)
{
    return badInput(file.name(), "member " + member.name, what, kAgain);
}

} // namespace

Result<ZipArchive> ZipArchive::open(const std::string& path, const std::string& name, const ZipLimits& limits)
{
    MEGAGRAPH_TRY(auto file, SourceFile::open(path, name));
    ZipArchive archive(std::move(file));
    MEGAGRAPH_TRY(std::ignore, archive.readDirectory(limits));
    return archive;
}

const ZipMember* ZipArchive::find(const std::string& name) const
{
    for (const ZipMember& member : members_)
        if (member.name == name)
            return &member;
    return nullptr;
}

Result<Ok> ZipArchive::readDirectory(const ZipLimits& limits)
{
    MEGAGRAPH_TRY(const Directory directory, findDirectory(file_));
    std::vector<uint8_t> bytes(static_cast<size_t>(directory.size));
    MEGAGRAPH_TRY(std::ignore, file_.readExactly(directory.offset, bytes.data(), directory.size));
    int64_t at = 0;
    for (int64_t i = 0; i < directory.count; ++i) {
        const uint8_t* head = bytes.data() + at;
        if (at + 46 > directory.size || little(head, 4) != 0x02014b50)
            return badInput(file_.name(), fmt::format("zip directory entry {}", i), "signature missing", kAgain);
        const auto nameSize = static_cast<int64_t>(little(head + 28, 2)), extraSize = static_cast<int64_t>(little(head + 30, 2)),
                   commentSize = static_cast<int64_t>(little(head + 32, 2));
        if (nameSize > kLongestName || at + 46 + nameSize + extraSize + commentSize > directory.size)
            return badInput(file_.name(), fmt::format("zip directory entry {}", i),
                            fmt::format("name or extra field too long, got {} bytes, expected at most {}", nameSize, kLongestName), kAgain);
        ZipMember member;
        member.name.assign(reinterpret_cast<const char*>(head) + 46, static_cast<size_t>(nameSize));
        member.crc32 = static_cast<uint32_t>(little(head + 16, 4));
        member.packedSize = static_cast<int64_t>(little(head + 20, 4));
        member.size = static_cast<int64_t>(little(head + 24, 4));
        member.localHeader = static_cast<int64_t>(little(head + 42, 4));
        const uint64_t method = little(head + 10, 2), flags = little(head + 8, 2);
        if (!applyZip64(head + 46 + nameSize, extraSize, member))
            return memberFault(file_, member, "zip64 sizes missing");
        if (flags & 1)
            return Error{ErrorCode::Unsupported, fmt::format("{}: member {}: encrypted members are not read; save the archive without "
                                                             "a password", file_.name(), member.name)};
        if (method != 0 && method != 8)
            return Error{ErrorCode::Unsupported, fmt::format("{}: member {}: unknown compression, got method {}, expected 0 (stored) or 8 "
                                                             "(deflate); export it again with numpy.savez", file_.name(), member.name, method)};
        member.deflated = method == 8;
        MEGAGRAPH_TRY(std::ignore, checkMember(member, directory.offset));
        members_.push_back(std::move(member));
        at += 46 + nameSize + extraSize + commentSize;
    }
    return checkArchive(limits);
}

Result<Ok> ZipArchive::checkMember(ZipMember& member, int64_t directoryOffset) const
{
    uint8_t local[30];
    if (member.localHeader < 0 || member.size < 0 || member.packedSize < 0 || member.localHeader > directoryOffset - 30)
        return memberFault(file_, member, fmt::format("header outside the archive, got offset {}, expected below {}", member.localHeader,
                                                      directoryOffset - 29));
    MEGAGRAPH_TRY(std::ignore, file_.readExactly(member.localHeader, local, 30));
    const auto nameSize = static_cast<int64_t>(little(local + 26, 2)), extraSize = static_cast<int64_t>(little(local + 28, 2));
    member.dataOffset = member.localHeader + 30 + nameSize + extraSize;
    if (little(local, 4) != 0x04034b50 || nameSize != static_cast<int64_t>(member.name.size()) ||
        little(local + 8, 2) != (member.deflated ? 8u : 0u))
        return memberFault(file_, member, "local header and directory disagree");
    std::string name(static_cast<size_t>(nameSize), '\0');
    MEGAGRAPH_TRY(std::ignore, file_.readExactly(member.localHeader + 30, name.data(), nameSize));
    if (name != member.name)
        return memberFault(file_, member, "local header and directory disagree on the name");
    const bool sizesInLocal = !(little(local + 6, 2) & 8) && little(local + 18, 4) != 0xffffffff && little(local + 22, 4) != 0xffffffff;
    if (sizesInLocal && (little(local + 18, 4) != static_cast<uint64_t>(member.packedSize) ||
                         little(local + 22, 4) != static_cast<uint64_t>(member.size)))
        return memberFault(file_, member, "local header and directory disagree on the sizes");
    if (member.packedSize > directoryOffset - member.dataOffset)
        return memberFault(file_, member, fmt::format("data outside the archive, got {} bytes at {}, expected to end before {}",
                                                      member.packedSize, member.dataOffset, directoryOffset));
    if (!member.deflated && member.size != member.packedSize)
        return memberFault(file_, member, fmt::format("stored sizes differ, got {}, expected {}", member.packedSize, member.size));
    if (member.deflated && member.size / kDeflateRatio > member.packedSize)
        return memberFault(file_, member, fmt::format("impossible expansion, got {} bytes from {}, expected at most {} times", member.size,
                                                      member.packedSize, kDeflateRatio));
    return Ok{};
}

Result<Ok> ZipArchive::checkArchive(const ZipLimits& limits) const
{
    std::vector<const ZipMember*> order;
    for (const ZipMember& member : members_)
        order.push_back(&member);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->localHeader < b->localHeader; });
    int64_t total = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        if (i + 1 < order.size() && order[i]->dataOffset + order[i]->packedSize > order[i + 1]->localHeader)
            return memberFault(file_, *order[i], "overlaps member " + order[i + 1]->name);
        if (__builtin_add_overflow(total, order[i]->size, &total))
            return memberFault(file_, *order[i], "sizes add up beyond 2^63");
    }
    if (total > limits.budgetBytes)
        return Error{ErrorCode::OutOfMemory, fmt::format("{}: members need {} bytes, the budget is {} bytes; give more with --memory",
                                                         file_.name(), total, limits.budgetBytes)};
    if (!limits.allowRatio && (total - kFreeBytes) / kAskRatio > file_.size())
        return badInput(file_.name(), "zip directory",
                        fmt::format("members expand {} times, got {} bytes from {}, expected at most {} times", total / std::max<int64_t>(file_.size(), 1),
                                    total, file_.size(), kAskRatio),
                        "if you trust the file, repeat with --allow-ratio");
    for (size_t i = 0; i < members_.size(); ++i)
        for (size_t j = 0; j < i; ++j)
            if (members_[i].name == members_[j].name)
                return memberFault(file_, members_[i], "occurs twice");
    return Ok{};
}

Result<std::vector<uint8_t>> ZipArchive::readStart(const ZipMember& member, int64_t bytes) const
{
    bytes = std::min(bytes, member.size);
    std::vector<uint8_t> out(static_cast<size_t>(bytes));
    if (!member.deflated) {
        MEGAGRAPH_TRY(std::ignore, file_.readExactly(member.dataOffset, out.data(), bytes));
        return out;
    }
    z_stream stream{};
    if (::inflateInit2(&stream, -15) != Z_OK)
        return Error{ErrorCode::OutOfMemory, file_.name() + ": no memory for the zip decoder; free some memory"};
    const std::unique_ptr<z_stream, decltype(&::inflateEnd)> owner(&stream, &::inflateEnd);
    std::vector<uint8_t> raw(size_t(1) << 18);
    int64_t consumed = 0, produced = 0;
    int code = Z_OK;
    while (produced < bytes && code != Z_STREAM_END) {
        const int64_t wanted = std::min<int64_t>(static_cast<int64_t>(raw.size()), member.packedSize - consumed);
        if (wanted > 0) {
            MEGAGRAPH_TRY(std::ignore, file_.readExactly(member.dataOffset + consumed, raw.data(), wanted));
        }
        stream.next_in = raw.data();
        stream.avail_in = static_cast<uInt>(wanted);
        const int64_t room = std::min<int64_t>(bytes - produced, int64_t(1) << 30);
        stream.next_out = out.data() + produced;
        stream.avail_out = static_cast<uInt>(room);
        code = ::inflate(&stream, Z_NO_FLUSH);
        consumed += wanted - stream.avail_in;
        produced += room - stream.avail_out;
        if (code != Z_OK && code != Z_STREAM_END)
            return memberFault(file_, member, fmt::format("damaged data ({}), got {} bytes, expected {}",
                                                          stream.msg ? stream.msg : "no progress", produced, member.size));
    }
    if (produced != bytes)
        return memberFault(file_, member, fmt::format("the data end early, got {} bytes, expected {}", produced, member.size));
    return out;
}

Result<std::vector<uint8_t>> ZipArchive::read(const ZipMember& member) const
{
    MEGAGRAPH_TRY(auto bytes, readStart(member, member.size));
    uLong crc = ::crc32(0, nullptr, 0);
    for (size_t done = 0; done < bytes.size();) {
        const size_t size = std::min(bytes.size() - done, size_t(1) << 30);
        crc = ::crc32(crc, bytes.data() + done, static_cast<uInt>(size));
        done += size;
    }
    if (static_cast<uint32_t>(crc) != member.crc32)
        return memberFault(file_, member, fmt::format("checksum wrong, got {:08x}, expected {:08x}", static_cast<uint32_t>(crc), member.crc32));
    return bytes;
}

} // namespace megagraph
