// SPDX-License-Identifier: Apache-2.0
#include "core/io/line_reader.h"

#include <cstring>
#include <fmt/format.h>
#include <tuple>
#include <vector>
#include <zlib.h>

namespace megagraph {

namespace {

constexpr size_t kBlock = size_t(1) << 18;
constexpr size_t kLongestLine = size_t(1) << 20;

bool endsWith(const std::string& text, const char* end)
{
    const size_t n = std::strlen(end);
    return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
}

} // namespace

struct LineReader::State {
    explicit State(SourceFile source) : file(std::move(source)) {}
    ~State()
    {
        if (gzip)
            ::inflateEnd(&stream);
    }
    Result<Ok> fill();          // appends decoded bytes to `text`, or sets `ended`
    Result<Ok> fillInflated();
    Result<size_t> readBlock(); // raw bytes into `raw`
    Result<Ok> startNextMember();
    Error endsEarly() const;

    SourceFile file;
    bool gzip = false, memberOpen = true, ended = false;
    z_stream stream{};
    std::vector<unsigned char> raw = std::vector<unsigned char>(kBlock);
    std::vector<char> text;     // decoded bytes; [begin, text.size()) not yet given out
    size_t begin = 0;
    int64_t offset = 0, line = 0, decoded = 0;
    std::string expected;
};

LineReader::LineReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;

Result<LineReader> LineReader::open(const std::string& path, const std::string& name)
{
    MEGAGRAPH_TRY(auto file, SourceFile::open(path, name));
    auto state = std::make_unique<State>(std::move(file));
    unsigned char magic[2] = {0, 0};
    MEGAGRAPH_TRY(const int64_t got, state->file.read(0, magic, 2));
    state->gzip = got == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    if (endsWith(name, ".gz") && !state->gzip)
        return badInput(name, "byte 0",
                        fmt::format("not a gzip file, got bytes {:02x} {:02x} ({} bytes in all), expected 1f 8b", magic[0], magic[1],
                                    state->file.size()),
                        "get the real file, or remove .gz from its name if it is plain text");
    if (state->gzip && ::inflateInit2(&state->stream, 15 + 16) != Z_OK)
        return Error{ErrorCode::OutOfMemory, name + ": no memory for the gzip decoder; free some memory"};
    return LineReader(std::move(state));
}

Error LineReader::State::endsEarly() const
{
    const std::string wanted = expected.empty() ? "" : expected + " and ";
    return badInput(file.name(), fmt::format("line {}", line + 1),
                    fmt::format("the gzip data end early, got {} bytes of file with {} complete lines, expected {}a gzip trailer",
                                file.size(), line, wanted),
                    "the file is cut short: get it again");
}

Result<size_t> LineReader::State::readBlock()
{
    MEGAGRAPH_TRY(const int64_t got, file.read(offset, raw.data(), static_cast<int64_t>(raw.size())));
    offset += got;
    return static_cast<size_t>(got);
}

Result<Ok> LineReader::State::startNextMember()
{
    // gzip files may be joined; zero padding after the last member is allowed, anything else is damage
    while (true) {
        while (stream.avail_in > 0 && *stream.next_in == 0) {
            ++stream.next_in;
            --stream.avail_in;
        }
        if (stream.avail_in > 0)
            break;
        MEGAGRAPH_TRY(const size_t got, readBlock());
        if (got == 0) {
            ended = true;
            return Ok{};
        }
        stream.next_in = raw.data();
        stream.avail_in = static_cast<uInt>(got);
    }
    if (*stream.next_in != 0x1f)
        return badInput(file.name(), fmt::format("line {}", line + 1),
                        fmt::format("bytes after the gzip data, got {:02x}, expected the end of the file or 1f 8b", *stream.next_in),
                        "get the file again");
    ::inflateReset(&stream);
    memberOpen = true;
    return Ok{};
}

Result<Ok> LineReader::State::fillInflated()
{
    if (!memberOpen) {
        MEGAGRAPH_TRY(std::ignore, startNextMember());
        if (ended)
            return Ok{};
    }
    if (stream.avail_in == 0) {
        MEGAGRAPH_TRY(const size_t got, readBlock());
        if (got == 0)
            return endsEarly();
        stream.next_in = raw.data();
        stream.avail_in = static_cast<uInt>(got);
    }
    const size_t before = text.size();
    text.resize(before + kBlock);
    stream.next_out = reinterpret_cast<unsigned char*>(text.data() + before);
    stream.avail_out = kBlock;
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
    if (code == Z_STREAM_END)
        memberOpen = false;
    else if (code != Z_OK && code != Z_BUF_ERROR)
        return badInput(file.name(), fmt::format("line {}", line + 1),
                        fmt::format("damaged gzip data ({}), got {} complete lines, expected {}", stream.msg ? stream.msg : "unknown code",
                                    line, expected.empty() ? "data that match their checksum" : expected),
                        "get the file again");
    return Ok{};
}

Result<Ok> LineReader::State::fill()
{
    if (begin > 0) {
        text.erase(text.begin(), text.begin() + static_cast<ptrdiff_t>(begin));
        begin = 0;
    }
    const size_t before = text.size();
    const bool first = decoded == 0;
    if (gzip) {
        MEGAGRAPH_TRY(std::ignore, fillInflated());
    } else {
        MEGAGRAPH_TRY(const size_t got, readBlock());
        text.insert(text.end(), raw.data(), raw.data() + got);
        ended = got == 0;
    }
    decoded += static_cast<int64_t>(text.size() - before);
    if (first && text.size() >= 3 && std::memcmp(text.data(), "\xEF\xBB\xBF", 3) == 0)
        begin = 3;
    return Ok{};
}

Result<bool> LineReader::next(std::string_view& line)
{
    State& s = *state_;
    size_t searched = 0;
    while (true) {
        const size_t from = s.begin + searched;
        const void* end = from < s.text.size() ? std::memchr(s.text.data() + from, '\n', s.text.size() - from) : nullptr;
        const size_t length = end ? static_cast<size_t>(static_cast<const char*>(end) - s.text.data()) - s.begin
                                  : s.text.size() - s.begin;
        if (length > kLongestLine)
            return badInput(s.file.name(), fmt::format("line {}", s.line + 1),
                            fmt::format("longer than the limit, got over {} bytes, expected at most {}", length, kLongestLine),
                            "this is no table of text lines; check the file");
        if (end || (s.ended && length > 0)) {
            line = std::string_view(s.text.data() + s.begin, length);
            s.begin += length + (end ? 1 : 0);
            ++s.line;
            if (!line.empty() && line.back() == '\r')
                line.remove_suffix(1);
            if (std::memchr(line.data(), 0, line.size()))
                return fault("not text, got a zero byte, expected characters", "check that this is the right file");
            return true;
        }
        if (s.ended)
            return false;
        searched = length;
        MEGAGRAPH_TRY(std::ignore, s.fill());
    }
}

int64_t LineReader::lineNumber() const
{
    return state_->line;
}

const std::string& LineReader::name() const
{
    return state_->file.name();
}

int64_t LineReader::sourceBytes() const
{
    return state_->file.size();
}

int64_t LineReader::consumedBytes() const
{
    return state_->offset - (state_->gzip ? state_->stream.avail_in : 0);
}

void LineReader::expect(std::string what)
{
    state_->expected = std::move(what);
}

Error LineReader::fault(const std::string& what, const std::string& remedy) const
{
    return badInput(name(), fmt::format("line {}", lineNumber()), what, remedy);
}

} // namespace megagraph
