// SPDX-License-Identifier: Apache-2.0
#include "core/io/npy.h"

#include "core/io/source_file.h"
#include "core/io/text_number.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <limits>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace megagraph {

namespace {

constexpr int64_t kLongestHeader = 64 * 1024;
constexpr size_t kMostDimensions = 8;
constexpr int64_t kHashChunk = int64_t(64) << 20;
constexpr const char* kExport = "export it again with numpy.savez and plain number or text arrays";

/// Text of the value that follows 'key' in the header's dictionary, up to the next comma outside brackets.
std::string_view dictionaryValue(std::string_view text, const std::string& key)
{
    for (const char quote : {'\'', '"'}) {
        const size_t at = text.find(quote + key + quote);
        if (at == std::string_view::npos)
            continue;
        size_t begin = text.find(':', at + key.size() + 2);
        if (begin == std::string_view::npos)
            return {};
        int depth = 0;
        size_t end = ++begin;
        for (; end < text.size(); ++end) {
            const char c = text[end];
            depth += (c == '(' || c == '[') - (c == ')' || c == ']');
            if (depth < 0 || (depth == 0 && (c == ',' || c == '}')))
                break;
        }
        return trimCell(text.substr(begin, end - begin));
    }
    return {};
}

Result<Ok> parseDescr(std::string_view descr, const std::string& name, NpyHeader& header)
{
    if (descr.size() >= 2 && (descr.front() == '\'' || descr.front() == '"'))
        descr = descr.substr(1, descr.size() - 2);
    if (descr.find('O') != std::string_view::npos)
        return Error{ErrorCode::Unsupported, fmt::format("{}: header: an array of Python objects (a pickle), got type {}, expected numbers "
                                                         "or text; pickles can run code and are never opened: {}",
                                                         name, quotedCell(descr), kExport)};
    const auto fault = [&] {
        return Error{ErrorCode::Unsupported, fmt::format("{}: header: this element type is not read, got {}, expected one of b1 i1-i8 "
                                                         "u1-u8 f2-f8 S U; {}", name, quotedCell(descr), kExport)};
    };
    if (descr.size() < 3)
        return fault();
    const char order = descr[0];
    header.kind = descr[1];
    const auto size = parseInteger(descr.substr(2));
    if (!size || (order != '<' && order != '>' && order != '|' && order != '='))
        return fault();
    header.itemSize = *size;
    header.bigEndian = order == '>';
    const int64_t s = *size;
    const bool whole = s == 1 || s == 2 || s == 4 || s == 8;
    switch (header.kind) {
    case 'b': if (s != 1) return fault(); break;
    case 'i': case 'u': if (!whole) return fault(); break;
    case 'f': if (!whole || s == 1) return fault(); break;
    case 'S': if (s < 0 || s > (1 << 20)) return fault(); break;
    case 'U':
        if (s < 0 || s > (1 << 18))
            return fault();
        header.itemSize = 4 * s;
        break;
    default: return fault();
    }
    return Ok{};
}

Result<Ok> parseShape(std::string_view text, const std::string& name, NpyHeader& header)
{
    const auto fault = [&] {
        return badInput(name, "header", fmt::format("damaged shape, got {}, expected at most 8 counts in brackets", quotedCell(text)),
                        "get the file again");
    };
    if (text.size() < 2 || text.front() != '(' || text.back() != ')')
        return fault();
    std::string_view rest = text.substr(1, text.size() - 2);
    while (!trimCell(rest).empty()) {
        const size_t comma = rest.find(',');
        std::string_view cell = trimCell(rest.substr(0, comma));
        if (!cell.empty() && cell.back() == 'L') // Python 2 wrote long integers so
            cell.remove_suffix(1);
        const auto count = parseInteger(cell);
        if (!count || *count < 0 || header.shape.size() == kMostDimensions)
            return fault();
        header.shape.push_back(*count);
        if (comma == std::string_view::npos)
            break;
        rest = rest.substr(comma + 1);
    }
    return Ok{};
}

Result<Ok> checkSize(const NpyHeader& header, int64_t totalBytes, const std::string& name)
{
    int64_t bytes = header.itemSize;
    bool fits = true;
    for (const int64_t extent : header.shape)
        fits = !__builtin_mul_overflow(bytes, extent, &bytes) && fits;
    if (!fits || header.dataOffset + bytes != totalBytes || bytes > std::numeric_limits<int64_t>::max() - kLongestHeader * 2)
        return badInput(name, "header",
                        fmt::format("the shape does not fit the data, got {} bytes, expected {}", totalBytes,
                                    fits ? fmt::format("{} ({} of header, {} of data)", header.dataOffset + bytes, header.dataOffset, bytes)
                                         : std::string("a product below 2^63")),
                        "the file is damaged: get it again");
    return Ok{};
}

} // namespace

int64_t NpyHeader::count() const
{
    int64_t product = 1;
    for (const int64_t extent : shape)
        product *= extent;
    return product;
}

std::string NpyHeader::dtype() const
{
    const char order = itemSize == 1 || kind == 'S' ? '|' : bigEndian ? '>' : '<';
    return fmt::format("{}{}{}", order, kind, kind == 'U' ? itemSize / 4 : itemSize);
}

Result<NpyHeader> parseNpyHeader(std::span<const uint8_t> start, int64_t totalBytes, const std::string& name)
{
    if (start.size() < 12 || std::memcmp(start.data(), "\x93NUMPY", 6) != 0)
        return badInput(name, "byte 0", "not a NumPy array, expected the bytes 93 NUMPY", "check that this is the right file");
    NpyHeader header;
    const int major = start[6];
    if (major < 1 || major > 3)
        return Error{ErrorCode::Unsupported, fmt::format("{}: header: unknown NPY version, got {}, expected 1 to 3; {}", name, major, kExport)};
    const int64_t before = major == 1 ? 10 : 12;
    const int64_t length = major == 1 ? start[8] | start[9] << 8
                                      : int64_t(start[8]) | int64_t(start[9]) << 8 | int64_t(start[10]) << 16 | int64_t(start[11]) << 24;
    header.dataOffset = before + length;
    if (length > kLongestHeader || header.dataOffset > static_cast<int64_t>(start.size()))
        return badInput(name, "header", fmt::format("the header does not fit, got {} bytes, expected at most {}", length,
                                                    std::min<int64_t>(kLongestHeader, static_cast<int64_t>(start.size()) - before)),
                        "the file is damaged: get it again");
    const std::string_view text(reinterpret_cast<const char*>(start.data()) + before, static_cast<size_t>(length));
    const auto descr = dictionaryValue(text, "descr"), order = dictionaryValue(text, "fortran_order");
    if (!descr.empty() && descr.front() == '[')
        return Error{ErrorCode::Unsupported, fmt::format("{}: header: records are not read, got {}, expected one plain type; {}", name,
                                                         quotedCell(descr), kExport)};
    if (descr.empty() || (order != "True" && order != "False"))
        return badInput(name, "header", fmt::format("damaged header, got {}, expected descr, fortran_order and shape", quotedCell(text)),
                        "get the file again");
    MEGAGRAPH_TRY(std::ignore, parseDescr(descr, name, header));
    header.fortranOrder = order == "True";
    MEGAGRAPH_TRY(std::ignore, parseShape(dictionaryValue(text, "shape"), name, header));
    MEGAGRAPH_TRY(std::ignore, checkSize(header, totalBytes, name));
    return header;
}

Result<NpyArray> NpyArray::parse(std::vector<uint8_t> bytes, const std::string& name)
{
    NpyArray array;
    MEGAGRAPH_TRY(array.header_, parseNpyHeader(bytes, static_cast<int64_t>(bytes.size()), name));
    array.name_ = name;
    array.bytes_ = std::move(bytes);
    array.count_ = array.header_.count();
    return array;
}

const uint8_t* NpyArray::element(int64_t i) const
{
    MEGAGRAPH_CHECK(i >= 0 && i < count_, fmt::format("element {} of {}", i, count_));
    if (header_.fortranOrder && header_.shape.size() > 1) {
        int64_t place = 0, stride = count_, rest = i;
        for (size_t axis = header_.shape.size(); axis-- > 0;) { // last axis varies fastest in C order, slowest here
            stride /= header_.shape[axis];
            place += rest % header_.shape[axis] * stride;
            rest /= header_.shape[axis];
        }
        i = place;
    }
    return bytes_.data() + header_.dataOffset + i * header_.itemSize;
}

namespace {

uint64_t littleWord(const uint8_t* at, int64_t size, bool bigEndian)
{
    uint64_t word = 0;
    for (int64_t b = 0; b < size; ++b)
        word |= uint64_t(at[bigEndian ? size - 1 - b : b]) << (8 * b);
    return word;
}

double halfToDouble(uint16_t half)
{
    const int exponent = half >> 10 & 31;
    const double mantissa = half & 1023;
    double value;
    if (exponent == 31)
        value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    else
        value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
    return half & 0x8000 ? -value : value;
}

int64_t signExtended(uint64_t word, int64_t size)
{
    const int shift = static_cast<int>(64 - 8 * size);
    return static_cast<int64_t>(word << shift) >> shift;
}

void appendUtf8(std::string& out, uint32_t code)
{
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        code = 0xfffd;
    if (code < 0x80) {
        out += static_cast<char>(code);
        return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static constexpr uint8_t kLead[4] = {0, 0xc0, 0xe0, 0xf0};
    out += static_cast<char>(kLead[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; --i)
        out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
}

} // namespace

double NpyArray::number(int64_t i) const
{
    const uint64_t word = littleWord(element(i), header_.itemSize, header_.bigEndian);
    switch (header_.kind) {
    case 'b': return word != 0;
    case 'u': return static_cast<double>(word);
    case 'i': return static_cast<double>(signExtended(word, header_.itemSize));
    default: break;
    }
    if (header_.itemSize == 2)
        return halfToDouble(static_cast<uint16_t>(word));
    if (header_.itemSize == 4) {
        float value;
        const auto bits = static_cast<uint32_t>(word);
        std::memcpy(&value, &bits, 4);
        return value;
    }
    double value;
    std::memcpy(&value, &word, 8);
    return value;
}

Result<int64_t> NpyArray::integer(int64_t i) const
{
    if (header_.kind == 'b' || header_.kind == 'i' || header_.kind == 'u') {
        const uint64_t word = littleWord(element(i), header_.itemSize, header_.bigEndian);
        if (header_.kind == 'i')
            return signExtended(word, header_.itemSize);
        if (header_.kind == 'b' || word <= uint64_t(std::numeric_limits<int64_t>::max()))
            return static_cast<int64_t>(word);
    } else if (isNumber()) {
        const double value = number(i);
        if (value == std::floor(value) && std::abs(value) < 9e15)
            return static_cast<int64_t>(value);
    }
    return badInput(name_, fmt::format("element {}", i), fmt::format("not a whole number, got {}, expected an integer",
                                                                     isText() ? quotedCell(text(i)) : numberText(number(i))),
                    "correct the value or export the array as integers");
}

std::string NpyArray::text(int64_t i) const
{
    const uint8_t* at = element(i);
    std::string out;
    if (header_.kind == 'S') {
        out.assign(reinterpret_cast<const char*>(at), static_cast<size_t>(header_.itemSize));
        out.resize(out.find_last_not_of('\0') + 1);
        return out;
    }
    for (int64_t c = 0; c < header_.itemSize / 4; ++c) {
        const auto code = static_cast<uint32_t>(littleWord(at + 4 * c, 4, header_.bigEndian));
        if (code == 0)
            break;
        appendUtf8(out, code);
    }
    return out;
}

int64_t npyItemSize(const std::string& dtype)
{
    if (dtype.size() != 3 || (dtype[0] != '<' && dtype[0] != '|'))
        return 0;
    return dtype[2] >= '1' && dtype[2] <= '8' ? dtype[2] - '0' : 0;
}

std::string npyHeaderBytes(const std::string& dtype, const std::vector<int64_t>& shape)
{
    std::string extents;
    for (const int64_t extent : shape)
        extents += fmt::format("{}{}", extents.empty() ? "" : ", ", extent);
    if (shape.size() == 1)
        extents += ",";
    std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", dtype, extents);
    text.append(63 - (10 + text.size()) % 64, ' ');
    text += '\n';
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(text.size() & 255);
    bytes += static_cast<char>(text.size() >> 8);
    return bytes + text;
}

std::string npyDataHash(const void* data, int64_t bytes)
{
    Sha256 whole;
    const auto* at = static_cast<const uint8_t*>(data);
    int64_t done = 0;
    do {
        const int64_t size = std::min(kHashChunk, bytes - done);
        Sha256 chunk;
        chunk.update(at + done, static_cast<size_t>(size));
        const auto digest = chunk.digest();
        whole.update(digest.data(), digest.size());
        done += size;
    } while (done < bytes);
    return whole.hex();
}

NpyWriter::NpyWriter(int descriptor, std::string path, DatasetSpec::Array array)
    : descriptor_(descriptor), path_(std::move(path)), array_(std::move(array))
{
}

NpyWriter::NpyWriter(NpyWriter&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)), array_(std::move(other.array_)),
      written_(other.written_), dataBytes_(other.dataBytes_), chunk_(other.chunk_), whole_(other.whole_), inChunk_(other.inChunk_)
{
}

NpyWriter::~NpyWriter()
{
    if (descriptor_ >= 0)
        ::close(descriptor_);
}

Result<NpyWriter> NpyWriter::create(const std::string& folder, const std::string& file, const std::string& dtype,
                                    std::vector<int64_t> shape)
{
    const std::string path = folder + "/" + file;
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0)
        return Error{ErrorCode::Io, fmt::format("{}: cannot be created: {}; check the disk and the folder's permissions", path,
                                                std::strerror(errno))};
    int64_t bytes = npyItemSize(dtype);
    MEGAGRAPH_CHECK(bytes > 0, dtype);
    for (const int64_t extent : shape)
        bytes *= extent;
    const std::string header = npyHeaderBytes(dtype, shape);
    DatasetSpec::Array array{file, dtype, std::move(shape), static_cast<int64_t>(header.size()) + bytes, ""};
    NpyWriter writer(descriptor, path, std::move(array));
    writer.dataBytes_ = bytes;
    MEGAGRAPH_TRY(std::ignore, writer.put(header.data(), static_cast<int64_t>(header.size())));
    return writer;
}

Result<Ok> NpyWriter::put(const void* data, int64_t bytes)
{
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t got = ::write(descriptor_, at, static_cast<size_t>(bytes));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return Error{ErrorCode::Io, fmt::format("{}: cannot be written: {}, expected room for {} bytes; free disk space", path_,
                                                    std::strerror(errno), array_.sizeBytes)};
        at += got;
        bytes -= got;
    }
    return Ok{};
}

Result<Ok> NpyWriter::write(const void* data, int64_t bytes)
{
    MEGAGRAPH_TRY(std::ignore, put(data, bytes));
    written_ += bytes;
    const auto* at = static_cast<const uint8_t*>(data);
    while (bytes > 0) {
        const int64_t size = std::min(bytes, kHashChunk - inChunk_);
        chunk_.update(at, static_cast<size_t>(size));
        at += size;
        bytes -= size;
        inChunk_ += size;
        if (inChunk_ == kHashChunk) {
            const auto digest = chunk_.digest();
            whole_.update(digest.data(), digest.size());
            chunk_ = Sha256();
            inChunk_ = 0;
        }
    }
    return Ok{};
}

Result<DatasetSpec::Array> NpyWriter::finish()
{
    MEGAGRAPH_CHECK(written_ == dataBytes_, fmt::format("{}: {} of {} bytes", path_, written_, dataBytes_));
    if (inChunk_ > 0 || dataBytes_ == 0) {
        const auto digest = chunk_.digest();
        whole_.update(digest.data(), digest.size());
    }
    array_.hash = whole_.hex();
    const int synced = ::fsync(descriptor_);
    const int reason = errno;
    if (::close(std::exchange(descriptor_, -1)) != 0 || synced != 0)
        return Error{ErrorCode::Io, fmt::format("{}: cannot be synced: {}; check the disk", path_, std::strerror(reason))};
    return array_;
}

} // namespace megagraph
