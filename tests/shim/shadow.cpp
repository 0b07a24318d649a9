// SPDX-License-Identifier: Apache-2.0
#include "tests/shim/shadow.h"

#include "tests/shim/cuda_on_cpu.h"

#include <algorithm>
#include <cstdio>
#include <link.h>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

namespace megagraph::kernels::cuda::shim::shadow {

Running running;
bool enabled = true, compiled = false, inside = false;

namespace {

/// The last write and the last two reads (by different threads) of one unit of memory.
struct Cell {
    uint32_t writeClock, readClock[2];
    Where writePlace, readPlace[2];
    uint32_t writeBlock, readBlock;
    uint16_t writer, reader[2], inFlight;
};

/// Cells of a range, made on first use; untouched pages cost nothing.
class Cells {
  public:
    Cells() = default;
    explicit Cells(size_t count) : bytes_(std::max<size_t>(count, 1) * sizeof(Cell))
    {
        void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            throw std::bad_alloc();
        cells_ = static_cast<Cell*>(p);
    }
    Cells(const Cells&) = delete;
    Cells& operator=(const Cells&) = delete;
    ~Cells()
    {
        if (cells_ != nullptr)
            munmap(cells_, bytes_);
    }
    Cell* at(size_t i) { return cells_ + i; }

  private:
    Cell* cells_ = nullptr;
    size_t bytes_ = 0;
};

struct Global {
    Range range;
    std::string name;
    bool readOnly = false;
    std::unique_ptr<Cells> cells;
};

std::map<const unsigned char*, Global>& globals()
{
    static std::map<const unsigned char*, Global> all;
    return all;
}
Global* lastGlobal = nullptr;

Range image, staticShared; // of the program; its thread-local storage
Range sharedArena, dynamicShared; // all there could be; what this launch asked for
std::unique_ptr<Cells> dynamicCells, staticCells;
size_t dynamicCellCount = 0;
size_t touchedBegin = 0, touchedEnd = 0; // bytes of static shared memory written so far (for poison)

uint32_t clockOf[kMaxThreads], base[kMaxThreads];
uint32_t generation = 1, extraGeneration[kMaxThreads];
uint32_t extra[kMaxThreads][kMaxThreads];
int threadCount = 0;
uint32_t blockSerial = 0, launchSerial = 0;
bool blockSynchronises = false;

int readImage(dl_phdr_info* info, size_t, void*)
{
    const auto* start = reinterpret_cast<const unsigned char*>(info->dlpi_addr);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type == PT_LOAD) {
            const auto* begin = start + header.p_vaddr;
            image.begin = image.begin == nullptr ? begin : std::min(image.begin, begin);
            image.end = std::max(image.end, begin + header.p_memsz);
        }
        if (header.p_type == PT_TLS && info->dlpi_tls_data != nullptr) {
            staticShared.begin = static_cast<const unsigned char*>(info->dlpi_tls_data);
            staticShared.end = staticShared.begin + header.p_memsz;
        }
    }
    return 1; // the program comes first
}

void findImage()
{
    if (image.begin == nullptr)
        dl_iterate_phdr(readImage, nullptr);
}

uint32_t knows(int thread, int other)
{
    if (thread == other)
        return UINT32_MAX;
    uint32_t known = base[other];
    if (extraGeneration[thread] == generation)
        known = std::max(known, extra[thread][other]);
    return known;
}

std::string nameOf(const void* at)
{
    const auto* p = static_cast<const unsigned char*>(at);
    if (dynamicShared.holds(p))
        return "dynamic shared memory byte " + std::to_string(p - dynamicShared.begin);
    if (staticShared.holds(p))
        return "a __shared__ variable (byte " + std::to_string(p - staticShared.begin) + " of all)";
    for (const auto& [begin, g] : globals()) {
        if (g.range.holds(p))
            return "'" + g.name + "' byte " + std::to_string(p - begin);
    }
    return "unknown memory";
}

[[noreturn]] void race(const void* at, const char* mine, Where here, const char* other, int thread, Where there,
                       const char* note)
{
    fail(std::string("race on ") + nameOf(at) + ": " + mine + " at " + text(here) + ", thread " +
         std::to_string(thread) + " " + other + " at " + text(there) + ", " + note);
}

constexpr const char* kNoBarrier = "no barrier between";
constexpr const char* kOtherBlock = "in another block";

void checkCell(Cell& c, const void* at, bool write, Where where, bool global)
{
    const int me = running.thread;
    if (c.inFlight != 0)
        fail("touches " + nameOf(at) + " at " + text(where) + " before the wait for the copy that thread " +
             std::to_string(c.writer) + " started at " + text(c.writePlace));
    if (global && !blockSynchronises) {
        if (c.writeBlock >= launchSerial && c.writeBlock != blockSerial && c.writeClock != 0)
            race(at, write ? "written" : "read", where, "writes", c.writer, c.writePlace, kOtherBlock);
        if (write && c.readBlock >= launchSerial && c.readBlock != blockSerial && c.readClock[0] != 0)
            race(at, "written", where, "reads", c.reader[0], c.readPlace[0], kOtherBlock);
    }
    if (c.writeClock > knows(me, c.writer))
        race(at, write ? "written" : "read", where, "writes", c.writer, c.writePlace, kNoBarrier);
    if (write) {
        for (int i = 0; i < 2; ++i) {
            if (c.readClock[i] > knows(me, c.reader[i]))
                race(at, "written", where, "reads", c.reader[i], c.readPlace[i], kNoBarrier);
        }
        c.writeClock = clockOf[me];
        c.writer = uint16_t(me);
        c.writePlace = where;
        c.writeBlock = blockSerial;
        return;
    }
    const int slot = c.reader[0] == me || c.readClock[0] <= knows(me, c.reader[0]) ? 0 : 1;
    c.readClock[slot] = clockOf[me];
    c.reader[slot] = uint16_t(me);
    c.readPlace[slot] = where;
    c.readBlock = blockSerial;
}

void sharedCells(const unsigned char* p, size_t bytes, Cell*& cells, const char* op, Where where)
{
    const bool dynamic = dynamicShared.holds(p);
    const Range& range = dynamic ? dynamicShared : staticShared;
    if (!range.holds(p) || size_t(range.end - p) < bytes)
        fail(std::string(op) + ": " + std::to_string(bytes) + " bytes at " + nameOf(p) +
             " reach outside of shared memory (" + std::to_string(dynamicShared.end - dynamicShared.begin) +
             " bytes dynamic) at " + text(where));
    if (!dynamic && staticCells == nullptr)
        staticCells = std::make_unique<Cells>(size_t(staticShared.end - staticShared.begin));
    cells = (dynamic ? dynamicCells : staticCells)->at(size_t(p - range.begin));
}

Global* findGlobal(const unsigned char* p)
{
    if (lastGlobal != nullptr && lastGlobal->range.holds(p))
        return lastGlobal;
    auto it = globals().upper_bound(p);
    if (it == globals().begin())
        return nullptr;
    Global& g = std::prev(it)->second;
    return g.range.holds(p) ? lastGlobal = &g : nullptr;
}

[[noreturn]] void badAddress(const unsigned char* p, size_t bytes, bool write, Where where)
{
    std::string nearest = "no buffer is near";
    auto it = globals().upper_bound(p);
    if (it != globals().begin()) {
        const Global& g = std::prev(it)->second;
        nearest = std::to_string(p - g.range.end) + " bytes behind '" + g.name + "'";
        if (it != globals().end() && it->first - p < p - g.range.end)
            nearest = std::to_string(it->first - p) + " bytes before '" + it->second.name + "'";
    } else if (it != globals().end()) {
        nearest = std::to_string(it->first - p) + " bytes before '" + it->second.name + "'";
    }
    fail(std::string("bad address: ") + (write ? "writes " : "reads ") + std::to_string(bytes) +
         " bytes that are in no registered buffer at " + text(where) + "; " + nearest);
}

} // namespace

Where fromReturnAddress(const void* address)
{
    findImage();
    const auto* p = static_cast<const unsigned char*>(address);
    return image.holds(p) ? Where(p - image.begin) : 0;
}

std::string text(Where where)
{
    if ((where & kLineMark) != 0)
        return "line " + std::to_string(where & ~kLineMark);
    // one byte back: into the call, not behind it. -i: the functions it was inlined into
    char command[128];
    std::snprintf(command, sizeof command, "addr2line -s -i -e /proc/%d/exe 0x%x 2>/dev/null", int(getpid()),
                  unsigned(where - 1));
    std::string out;
    if (FILE* pipe = popen(command, "r")) {
        char line[256];
        while (std::fgets(line, sizeof line, pipe) != nullptr)
            out += (out.empty() ? "" : " < ") + std::string(line, std::strcspn(line, "\n"));
        pclose(pipe);
    }
    return out.empty() ? "program offset " + std::to_string(where) : out;
}

void beginLaunch()
{
    findImage();
    launchSerial = blockSerial + 1;
}

void beginBlock(int threads, Range arena, Range shared)
{
    sharedArena = arena;
    ++blockSerial;
    blockSynchronises = false;
    threadCount = threads;
    dynamicShared = shared;
    const size_t bytes = size_t(shared.end - shared.begin);
    if (bytes > dynamicCellCount || dynamicCells == nullptr) {
        dynamicCells = std::make_unique<Cells>(bytes);
        dynamicCellCount = bytes;
    }
    if (touchedEnd > touchedBegin) { // poison the static shared memory that blocks before this one wrote
        constexpr uint16_t kNan = 0x7FA1;
        auto* p = const_cast<unsigned char*>(staticShared.begin);
        for (size_t i = touchedBegin; i < touchedEnd; ++i)
            p[i] = (i & 1) == 0 ? uint8_t(kNan) : uint8_t(kNan >> 8);
    }
    for (int t = 0; t < kMaxThreads; ++t) {
        base[t] = std::max(base[t], clockOf[t]);
        clockOf[t] = base[t] + 1;
    }
    ++generation;
}

void endBlock()
{
    running = Running{};
}

void notedAtomic()
{
    blockSynchronises = true;
}

void syncAll()
{
    for (int t = 0; t < threadCount; ++t)
        base[t] = clockOf[t]++;
    ++generation;
}

namespace {
void joinInto(int thread, Clocks& to)
{
    to.resize(size_t(kMaxThreads), 0);
    for (int w = 0; w < threadCount; ++w)
        to[size_t(w)] = std::max(to[size_t(w)], w == thread ? clockOf[w] : knows(thread, w));
}
} // namespace

void release(int thread, Clocks& to)
{
    joinInto(thread, to);
    ++clockOf[thread];
}

void acquire(int thread, const Clocks& from)
{
    if (extraGeneration[thread] != generation) {
        std::copy(base, base + threadCount, extra[thread]);
        extraGeneration[thread] = generation;
    }
    for (int w = 0; w < threadCount && size_t(w) < from.size(); ++w)
        extra[thread][w] = std::max(extra[thread][w], from[size_t(w)]);
}

void sync(const std::vector<int>& threads)
{
    static Clocks joined;
    joined.assign(size_t(kMaxThreads), 0);
    for (const int t : threads)
        joinInto(t, joined);
    for (const int t : threads) {
        acquire(t, joined);
        ++clockOf[t];
    }
}

void accessShared(const void* at, size_t bytes, bool write, Where where)
{
    if (running.stack.begin == nullptr || !enabled)
        return;
    const auto* p = static_cast<const unsigned char*>(at);
    Cell* cells = nullptr;
    sharedCells(p, bytes, cells, write ? "write" : "read", where);
    for (size_t i = 0; i < bytes; ++i)
        checkCell(cells[i], p + i, write, where, false);
    if (write && !dynamicShared.holds(p)) {
        const size_t first = size_t(p - staticShared.begin);
        touchedBegin = touchedEnd == 0 ? first : std::min(touchedBegin, first);
        touchedEnd = std::max(touchedEnd, first + bytes);
    }
}

void accessGlobal(const void* at, size_t bytes, bool write, Where where)
{
    if (running.stack.begin == nullptr || !enabled)
        return;
    const auto* p = static_cast<const unsigned char*>(at);
    Global* g = findGlobal(p);
    if (g == nullptr || size_t(g->range.end - p) < bytes)
        badAddress(p, bytes, write, where);
    if (g->readOnly) { // nobody writes, so nobody races
        if (write)
            fail("writes to '" + g->name + "', an input, at " + text(where));
        return;
    }
    if (g->cells == nullptr)
        g->cells = std::make_unique<Cells>(size_t(g->range.end - g->range.begin + 1) / 2);
    const size_t first = size_t(p - g->range.begin);
    for (size_t i = first / 2; i <= (first + bytes - 1) / 2; ++i)
        checkCell(*g->cells->at(i), g->range.begin + 2 * i, write, where, true);
}

void access(const void* at, size_t bytes, bool write, Where where)
{
    const auto* p = static_cast<const unsigned char*>(at);
    if (running.stack.holds(p)) {
        if (running.accumulators != nullptr) {
            for (const Range& r : *running.accumulators) {
                if (p < r.end && p + bytes > r.begin)
                    fail("touches an accumulator at " + text(where) +
                         " before the wait for the product that adds to it");
            }
        }
        return;
    }
    if (sharedArena.holds(p) || staticShared.holds(p))
        return accessShared(p, bytes, write, where);
    if (!write && image.holds(p)) // constants, threadIdx, values of collectives
        return;
    accessGlobal(p, bytes, write, where);
}

void accessAtomic(const void* at, size_t bytes, Where where)
{
    if (running.stack.begin == nullptr || !enabled)
        return;
    notedAtomic();
    const auto* p = static_cast<const unsigned char*>(at);
    if (sharedArena.holds(p) || staticShared.holds(p)) {
        Cell* cells = nullptr;
        sharedCells(p, bytes, cells, "atomic", where);
        return;
    }
    const Global* g = findGlobal(p);
    if (g == nullptr || size_t(g->range.end - p) < bytes)
        badAddress(p, bytes, true, where);
    if (g->readOnly)
        fail("writes to '" + g->name + "', an input, at " + text(where));
}

void takeOff(const void* at, size_t bytes, Where where)
{
    if (running.stack.begin == nullptr || !enabled)
        return;
    accessShared(at, bytes, true, where);
    Cell* cells = nullptr;
    sharedCells(static_cast<const unsigned char*>(at), bytes, cells, "copy", where);
    for (size_t i = 0; i < bytes; ++i)
        cells[i].inFlight = 1;
}

void land(const void* at, size_t bytes, bool writtenNow)
{
    if (running.stack.begin == nullptr || !enabled)
        return;
    Cell* cells = nullptr;
    sharedCells(static_cast<const unsigned char*>(at), bytes, cells, "copy", 0);
    for (size_t i = 0; i < bytes; ++i) {
        cells[i].inFlight = 0;
        if (writtenNow) {
            cells[i].writeClock = clockOf[running.thread];
            cells[i].writer = uint16_t(running.thread);
        }
    }
}

} // namespace megagraph::kernels::cuda::shim::shadow

namespace megagraph::kernels::cuda::shim {

void registerGlobal(const void* data, size_t bytes, const char* name, bool readOnly)
{
    const auto* begin = static_cast<const unsigned char*>(data);
    shadow::globals()[begin] = {{begin, begin + bytes}, name, readOnly, nullptr};
    shadow::lastGlobal = nullptr;
}

void unregisterGlobal(const void* data)
{
    shadow::globals().erase(static_cast<const unsigned char*>(data));
    shadow::lastGlobal = nullptr;
}

} // namespace megagraph::kernels::cuda::shim
