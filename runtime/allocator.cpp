// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"

#include "core/precision.h"

#include <algorithm>
#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <mutex>
#include <new>
#include <string>
#include <sys/mman.h>
#include <utility>
#include <vector>

namespace megagraph::runtime {
namespace {

struct Place {
    MemoryCategory category = MemoryCategory::Activations;
    const char* op = "";
    const char* tensor = "";
    int64_t layer = -1;
};
thread_local Place place;

/// A large block that nobody uses: the next step asks for the same size again, and memory fresh from the system has to be
/// cleared page by page first (a fifth of the time of edge attention).
struct Spare {
    int64_t bytes = 0;
    void *block = nullptr, *data = nullptr;
};

struct Counters {
    std::mutex mutex;
    MemoryState state;
    int64_t budget = 0, base = 0;
    OutOfMemoryReport last;
    std::vector<Spare> spares; // oldest first; every charge trims them until they and what is in use lie under the peak
    int64_t spareBytes = 0;
};
Counters& counters()
{
    static auto* const all = new Counters; // lives until the last free of the process
    return *all;
}

// In front of every block: 64 B keep the data aligned for vector loads.
struct Header {
    int64_t bytes;
    MemoryCategory category;
    uint64_t magic;
    void* block; // what the system gave
};
constexpr size_t kHeaderBytes = 64;
// Blocks of at least a huge page start on one and ask for them: rows that are read at random (edges) cost a TLB miss each on
// small pages. The header then lies at the end of a 4 KiB page of its own in front. Only whole huge pages inside the block ask,
// so that no more than what was requested becomes resident.
constexpr size_t kHugePage = size_t(2) << 20;
constexpr size_t kSmallPage = 4096;
constexpr uint64_t kMagic = 0x4d47424c4f434b31u;
static_assert(sizeof(Header) <= kHeaderBytes);

[[noreturn]] void refuse(Counters& all, int64_t requested, MemoryCategory category, const char* tensor, bool fromSystem)
{
    OutOfMemoryReport report;
    report.op = place.op;
    report.tensor = tensor;
    report.category = category;
    report.layer = place.layer;
    report.requested = requested;
    report.inUse = all.state.current + all.base;
    report.budget = all.budget;
    report.categories = all.state.categories;
    report.categories[size_t(MemoryCategory::Base)] = all.base;
    report.fromSystem = fromSystem;
    all.last = report;
    const std::string what = fmt::format(
        "memory: {}{}{}: {} bytes for {} do not fit, {} of {} bytes are in use; use a plan with more ranks, recomputation or "
        "fused attention",
        report.tensor.empty() ? "a tensor" : report.tensor, report.op.empty() ? "" : " of ", report.op, requested,
        memoryCategoryName(category), report.inUse, fromSystem ? int64_t(0) : report.budget);
    throw c10::OutOfMemoryError(what); // without a back trace: it costs seconds
}

/// Counts `bytes`; of a block that was asked for (not a mere charge) gives the newest spare of exactly this size, if there is
/// one. What spares are then too many for the peak go back to the system, the oldest first.
Spare charge(int64_t bytes, MemoryCategory category, const char* tensor, bool block)
{
    Counters& all = counters();
    Spare found;
    std::vector<Spare> given;
    {
        const std::lock_guard lock(all.mutex);
        MemoryState& state = all.state;
        if (all.budget > 0 && state.current + all.base + bytes > all.budget)
            refuse(all, bytes, category, tensor, false);
        state.current += bytes;
        int64_t& own = state.categories[size_t(category)];
        own += bytes;
        state.categoryPeaks[size_t(category)] = std::max(state.categoryPeaks[size_t(category)], own);
        if (state.current > state.peak) {
            state.peak = state.current;
            state.atPeak = state.categories;
        }
        for (size_t i = all.spares.size(); block && found.block == nullptr && i-- > 0;)
            if (all.spares[i].bytes == bytes) {
                found = all.spares[i];
                all.spares.erase(all.spares.begin() + std::ptrdiff_t(i));
                all.spareBytes -= bytes;
            }
        size_t count = 0;
        for (; count < all.spares.size() && state.current + all.spareBytes > state.peak; ++count)
            all.spareBytes -= all.spares[count].bytes;
        const auto end = all.spares.begin() + std::ptrdiff_t(count);
        given.assign(all.spares.begin(), end);
        all.spares.erase(all.spares.begin(), end);
    }
    for (const Spare& spare : given)
        std::free(spare.block);
    return found;
}

void release(int64_t bytes, MemoryCategory category)
{
    Counters& all = counters();
    const std::lock_guard lock(all.mutex);
    all.state.current -= bytes;
    all.state.categories[size_t(category)] -= bytes;
}

void freeBlock(void* data)
{
    if (data == nullptr)
        return;
    auto* const header = reinterpret_cast<Header*>(static_cast<char*>(data) - kHeaderBytes);
    MEGAGRAPH_CHECK(header->magic == kMagic, "a block was freed that the counting allocator did not make");
    header->magic = 0;
    const Spare spare{header->bytes, header->block, data};
    release(header->bytes, header->category);
    if (size_t(spare.bytes) < kHugePage)
        return std::free(spare.block);
    Counters& all = counters();
    const std::lock_guard lock(all.mutex);
    all.spares.push_back(spare);
    all.spareBytes += spare.bytes;
}

/// All spares go back to the system.
void dropSpares()
{
    Counters& all = counters();
    std::vector<Spare> given;
    {
        const std::lock_guard lock(all.mutex);
        given.swap(all.spares);
        all.spareBytes = 0;
    }
    for (const Spare& spare : given)
        std::free(spare.block);
}

/// Memory for `bytes` behind a header, null when the system has none.
void* newBlock(size_t bytes, void** data)
{
    void* block = nullptr;
    if (bytes < kHugePage) {
        if (posix_memalign(&block, kHeaderBytes, bytes + kHeaderBytes) != 0)
            return nullptr;
        *data = static_cast<char*>(block) + kHeaderBytes;
        return block;
    }
    // a small page in front of a huge-page boundary: at most a huge page of addresses is left untouched
    if (posix_memalign(&block, kSmallPage, bytes + kHugePage + kSmallPage) != 0)
        return nullptr;
    const auto first = (reinterpret_cast<uintptr_t>(block) + kSmallPage + kHugePage - 1) / kHugePage * kHugePage;
    *data = reinterpret_cast<void*>(first);
    madvise(*data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE); // a wish: without huge pages all works as before
    return block;
}

void* systemBlock(size_t bytes, void** data)
{
    if (void* const block = newBlock(bytes, data); block != nullptr)
        return block;
    dropSpares();
    return newBlock(bytes, data);
}

class CountingAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(size_t size) override
    {
        const c10::Device cpu(c10::DeviceType::CPU);
        if (size == 0)
            return {nullptr, nullptr, &freeBlock, cpu};
        const int64_t bytes = roundedBytes(int64_t(size));
        Spare memory = charge(bytes, place.category, place.tensor, size_t(bytes) >= kHugePage);
        if (memory.block == nullptr)
            memory.block = systemBlock(size_t(bytes), &memory.data);
        if (memory.block == nullptr) {
            release(bytes, place.category);
            Counters& all = counters();
            const std::lock_guard lock(all.mutex);
            refuse(all, bytes, place.category, place.tensor, true);
        }
        new (static_cast<char*>(memory.data) - kHeaderBytes) Header{bytes, place.category, kMagic, memory.block};
        return {memory.data, memory.data, &freeBlock, cpu};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &freeBlock; }
    void copy_data(void* dest, const void* src, std::size_t count) const override { default_copy_data(dest, src, count); }
};

int64_t statusBytes(const std::string& key)
{
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);)
        if (line.rfind(key, 0) == 0)
            return std::strtoll(line.c_str() + key.size(), nullptr, 10) * 1024;
    return 0;
}

} // namespace

MemoryScope::MemoryScope(MemoryCategory category, const char* op, const char* tensor, int64_t layer)
    : category_(place.category), op_(place.op), tensor_(place.tensor), layer_(place.layer)
{
    place = {category, op != nullptr ? op : place.op, tensor != nullptr ? tensor : "", layer >= 0 ? layer : place.layer};
}

MemoryScope::~MemoryScope() { place = {category_, op_, tensor_, layer_}; }

MemoryCharge::MemoryCharge(MemoryCategory category, int64_t bytes, const char* tensor) : category_(category)
{
    const int64_t rounded = roundedBytes(bytes);
    charge(rounded, category, tensor, false);
    bytes_ = rounded;
}

MemoryCharge::MemoryCharge(MemoryCharge&& other) noexcept
    : category_(other.category_), bytes_(std::exchange(other.bytes_, 0))
{
}

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept
{
    if (this != &other) {
        if (bytes_ > 0)
            release(bytes_, category_);
        category_ = other.category_;
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

MemoryCharge::~MemoryCharge()
{
    if (bytes_ > 0)
        release(bytes_, category_);
}

MemoryState memoryState()
{
    Counters& all = counters();
    const std::lock_guard lock(all.mutex);
    return all.state;
}

void resetMemoryPeak()
{
    Counters& all = counters();
    const std::lock_guard lock(all.mutex);
    all.state.peak = all.state.current;
    all.state.atPeak = all.state.categoryPeaks = all.state.categories;
}

OutOfMemoryReport lastOutOfMemory()
{
    Counters& all = counters();
    const std::lock_guard lock(all.mutex);
    return all.last;
}

void installCountingAllocator()
{
    static auto* const allocator = new CountingAllocator; // outlives every tensor
    // a priority above every default, so that no later registration replaces it
    c10::SetAllocator(c10::DeviceType::CPU, allocator, 255);
}

void setMemoryBudget(int64_t budgetBytes, int64_t baseBytes)
{
    Counters& all = counters();
    const std::lock_guard lock(all.mutex);
    all.budget = budgetBytes;
    all.base = baseBytes;
}

int64_t memoryBase()
{
    Counters& all = counters();
    const std::lock_guard lock(all.mutex);
    return all.base;
}

int64_t residentBytes() { return statusBytes("VmRSS:"); }
int64_t residentPeakBytes() { return statusBytes("VmHWM:"); }

} // namespace megagraph::runtime
