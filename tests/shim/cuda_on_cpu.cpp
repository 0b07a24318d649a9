// SPDX-License-Identifier: Apache-2.0
// Scheduler of the fibers, and everything by which CUDA threads meet. See cuda_on_cpu.h.
#include "tests/shim/cuda_on_cpu.h"

#include "tests/shim/fiber.h"
#include "tests/shim/shadow.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace megagraph::kernels::cuda::shim {
namespace {

constexpr int kWarp = 32, kMaxThreads = shadow::kMaxThreads, kBarriers = 16;
constexpr size_t kGatherBytes = 256, kBodyBytes = 4096, kSharedBytes = 232448; // shared memory of one block, sm_90
constexpr int kPollRounds = 1000;
constexpr uint32_t kNanWord = 0x7FA17FA1u; // signalling as fp32 and as two bf16

enum class State : uint8_t { Ready, Waiting, Polling, Finished };

struct Copy {
    void* to;
    const void* from;
    size_t size;
    bool late;
    shadow::Where where;
    int group;
};
struct Deferred {
    shadow::Range accumulator;
    void (*call)(const void* work);
    unsigned char work[256];
    size_t workBytes;
    bool late;
    int group;
};

struct Fiber {
    Context context;
    unsigned char* stack = nullptr;
    State state = State::Finished;
    const char* waitsAt = "";
    Place place{"", 0};
    int vote = 0;
    std::vector<Copy> copies;
    int copyGroup = 0; // number of committed groups
    std::vector<Deferred> deferred;
    int deferGroup = 0;
    std::vector<shadow::Range> accumulators;
};

struct Barrier {
    int expected = 0, arrived = 0;
    std::vector<int> waiters;
    std::vector<bool> here;
    Place place{"", 0};
    shadow::Clocks clocks;
};

/// mbarrier: `pending` arrivals and `bytes` of copies are missing in the current phase.
struct MemoryBarrier {
    int count = 0, pending = 0;
    int64_t bytes = 0;
    uint32_t phase = 0;
    shadow::Clocks next, done;
    std::vector<Copy> copies;
};

struct Pending {
    const char* what = nullptr;
    unsigned mask = 0;
    size_t bytes = 0;
    Place place{"", 0};
    unsigned char value[kGatherBytes];
};
struct Warp {
    unsigned waiting = 0; // lanes with a pending collective
    int turn = 0;
    Pending lane[kWarp];
};

// Values that collectives hand out, in the program's image where the shadow lets every thread read.
unsigned char fullValues[kMaxThreads / kWarp][2][kWarp * kGatherBytes];
unsigned char laneValues[kMaxThreads][kWarp * kGatherBytes];
alignas(1024) unsigned char sharedBytes[kSharedBytes];

struct Machine {
    Order order;
    uint64_t draws = 1;
    const Launch* launch = nullptr;
    Context host;
    std::vector<Fiber> fibers;
    int threads = 0, alive = 0, current = -1, pollRounds = 0;
    uint64_t ready[kMaxThreads / 64] = {};
    Barrier barriers[kBarriers];
    std::map<uint64_t*, MemoryBarrier> memoryBarriers;
    std::vector<Warp> warps;
    int voteSum = 0, voteResult = 0;
    bool failed = false;
    std::string failure;
};
Machine machine;

uint64_t draw()
{
    machine.draws ^= machine.draws << 13;
    machine.draws ^= machine.draws >> 7;
    machine.draws ^= machine.draws << 17;
    return machine.draws;
}

bool drawLate()
{
    switch (machine.order.kind) {
    case Order::Forward: return false;
    case Order::Reversed: return true;
    case Order::Random: break;
    }
    return (draw() >> 20 & 1) != 0;
}

Fiber& self()
{
    return machine.fibers[size_t(machine.current)];
}

std::string at(const Place& place)
{
    const char* slash = std::strrchr(place.file, '/');
    return std::string(slash == nullptr ? place.file : slash + 1) + ":" + std::to_string(place.line);
}

bool same(const Place& a, const Place& b)
{
    return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

void setReady(int thread)
{
    machine.fibers[size_t(thread)].state = State::Ready;
    machine.ready[thread / 64] |= uint64_t(1) << (thread % 64);
}

/// Leaves the running fiber until somebody makes it ready.
void block(State state, const char* what, Place place)
{
    Fiber& f = self();
    f.state = state;
    f.waitsAt = what;
    f.place = place;
    switchContext(f.context, machine.host);
    shadow::inside = true; // as before the switch: only the shim blocks
}

int nextAtOrAfter(int start)
{
    const int words = (machine.threads + 63) / 64;
    for (int i = 0; i <= words; ++i) {
        const int word = (start / 64 + i) % words;
        uint64_t bits = machine.ready[word];
        if (i == 0)
            bits &= ~uint64_t(0) << (start % 64);
        if (bits != 0)
            return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

int nextReady()
{
    switch (machine.order.kind) {
    case Order::Forward: return nextAtOrAfter(0);
    case Order::Reversed:
        for (int word = (machine.threads - 1) / 64; word >= 0; --word) {
            if (machine.ready[word] != 0)
                return word * 64 + 63 - __builtin_clzll(machine.ready[word]);
        }
        return -1;
    case Order::Random: break;
    }
    return nextAtOrAfter(int(draw() % uint64_t(machine.threads)));
}

std::string whoWaits()
{
    std::map<std::string, std::vector<int>> places;
    for (int t = 0; t < machine.threads; ++t) {
        const Fiber& f = machine.fibers[size_t(t)];
        if (f.state != State::Finished)
            places[std::string(f.waitsAt) + " " + at(f.place)].push_back(t);
    }
    std::string text;
    for (const auto& [place, threads] : places)
        text += (text.empty() ? "" : "; ") + std::to_string(threads.size()) + " threads (the first is " +
                std::to_string(threads[0]) + ") wait at " + place;
    return text;
}

void finish()
{
    const shadow::Inside inside;
    Fiber& f = self();
    const int thread = machine.current;
    const Barrier& all = machine.barriers[0];
    if (all.arrived != 0)
        fail("leaves the kernel while " + std::to_string(all.arrived) + " threads wait at __syncthreads " +
             at(all.place));
    const Warp& warp = machine.warps[size_t(thread / kWarp)];
    for (int lane = 0; lane < kWarp; ++lane) {
        const Pending& p = warp.lane[lane];
        if ((warp.waiting >> lane & 1) != 0 && (p.mask >> (thread % kWarp) & 1) != 0)
            fail(std::string("leaves the kernel while lane ") + std::to_string(lane) + " waits for it at " + p.what +
                 " " + at(p.place));
    }
    f.state = State::Finished;
    --machine.alive;
    machine.pollRounds = 0;
    switchContext(f.context, machine.host);
}

void entry()
{
    arrived(machine.host);
    // the launch's arguments on the fiber's own stack, as a kernel's parameters are each thread's own
    alignas(64) unsigned char body[kBodyBytes];
    std::memcpy(body, machine.launch->body, machine.launch->bodyBytes);
    machine.launch->call(body);
    finish();
    __builtin_unreachable();
}

/// The host's side of fail(): no fiber runs.
void failOnHost(const std::string& text)
{
    machine.failed = true;
    machine.failure =
        std::string("kernel ") + machine.launch->kernel + ", block " + std::to_string(blockIdx.x) + ": " + text;
}

void startBlock(const Launch& launch)
{
    for (int t = 0; t < launch.block; ++t) {
        Fiber& f = machine.fibers[size_t(t)];
        if (f.stack == nullptr)
            f.stack = newStack();
        f.copies.clear();
        f.deferred.clear();
        f.accumulators.clear();
        f.copyGroup = f.deferGroup = 0;
        prepare(f.context, f.stack, entry);
    }
    std::fill(std::begin(machine.ready), std::end(machine.ready), 0);
    for (int t = 0; t < launch.block; ++t)
        setReady(t);
    machine.alive = launch.block;
    machine.pollRounds = 0;
    for (Barrier& b : machine.barriers)
        b = Barrier{};
    machine.memoryBarriers.clear();
    machine.warps.resize(size_t(kMaxThreads / kWarp));
    for (Warp& warp : machine.warps)
        warp.waiting = 0;
    const size_t shared = size_t(launch.sharedBytes);
    for (size_t i = 0; i + 4 <= (shared + 3) / 4 * 4; i += 4)
        std::memcpy(sharedBytes + i, &kNanWord, 4);
    shadow::beginBlock(launch.block, {sharedBytes, sharedBytes + kSharedBytes}, {sharedBytes, sharedBytes + shared});
}

/// All that are left only poll: gives them another look at memory. False: nobody can run.
bool wakePolling()
{
    bool any = false;
    if (++machine.pollRounds > kPollRounds)
        return false;
    for (int t = 0; t < machine.threads; ++t) {
        if (machine.fibers[size_t(t)].state == State::Polling) {
            setReady(t);
            any = true;
        }
    }
    return any;
}

void runBlock(const Launch& launch)
{
    startBlock(launch);
    while (machine.alive > 0 && !machine.failed) {
        const int next = nextReady();
        if (next < 0) {
            if (!wakePolling())
                failOnHost("nobody can run: " + whoWaits() + "; " + std::to_string(machine.threads - machine.alive) +
                           " threads have left");
            continue;
        }
        machine.ready[next / 64] &= ~(uint64_t(1) << (next % 64));
        machine.current = next;
        threadIdx = {unsigned(next), 0, 0};
        Fiber& f = machine.fibers[size_t(next)];
        shadow::running.thread = next;
        shadow::running.stack = {f.stack, f.stack + kStackBytes};
        shadow::running.accumulators = f.accumulators.empty() ? nullptr : &f.accumulators;
        shadow::inside = false;
        switchContext(machine.host, f.context);
        shadow::inside = true;
        shadow::running.stack = {};
        machine.current = -1;
    }
    shadow::endBlock();
    shadow::inside = false;
    for (int id = 1; id < kBarriers && !machine.failed; ++id) {
        if (machine.barriers[id].arrived != 0)
            failOnHost("named barrier " + std::to_string(id) + " " + at(machine.barriers[id].place) + ": " +
                       std::to_string(machine.barriers[id].arrived) + " of " +
                       std::to_string(machine.barriers[id].expected) + " threads had arrived when the block ended");
    }
}

void landCopy(Copy& c, bool writtenNow)
{
    if (c.late)
        std::memcpy(c.to, c.from, c.size);
    shadow::land(c.to, c.size, writtenNow);
}

Copy startCopy(void* to, const void* from, size_t bytes, shadow::Where where)
{
    shadow::access(from, bytes, false, where);
    shadow::takeOff(to, bytes, where);
    Copy c{to, from, bytes, drawLate(), where, 0};
    if (!c.late)
        std::memcpy(to, from, bytes);
    return c;
}

/// Arrives at barrier `id`; the last one opens it.
Barrier& arrive(int id, int threads, Place place, const char* what)
{
    Barrier& b = machine.barriers[id];
    const int me = machine.current;
    if (b.arrived == 0) {
        b.expected = threads;
        b.place = place;
        b.here.assign(size_t(machine.threads), false);
    }
    if (b.expected != threads)
        fail(std::string(what) + " " + std::to_string(id) + " " + at(place) + ": for " + std::to_string(threads) +
             " threads, others came for " + std::to_string(b.expected) + " at " + at(b.place));
    if (b.here[size_t(me)])
        fail(std::string(what) + " " + std::to_string(id) + " " + at(place) +
             ": surplus, this thread has arrived in this phase already");
    b.here[size_t(me)] = true;
    ++b.arrived;
    return b;
}

void open(Barrier& b)
{
    for (const int t : b.waiters)
        setReady(t);
    b.waiters.clear();
    b.arrived = 0;
}

void voteAndMeet(int predicate, Place place)
{
    Barrier& first = machine.barriers[0];
    if (first.arrived != 0 && !same(first.place, place))
        fail("__syncthreads " + at(place) + ": others wait at __syncthreads " + at(first.place));
    if (machine.alive != machine.threads)
        fail("__syncthreads " + at(place) + ": " + std::to_string(machine.threads - machine.alive) +
             " threads have left the kernel");
    Barrier& b = arrive(0, machine.threads, place, "__syncthreads");
    machine.voteSum = (b.arrived == 1 ? 0 : machine.voteSum) + (predicate != 0 ? 1 : 0);
    machine.pollRounds = 0;
    if (b.arrived == b.expected) {
        machine.voteResult = machine.voteSum;
        shadow::syncAll();
        open(b);
        return;
    }
    b.waiters.push_back(machine.current);
    block(State::Waiting, "__syncthreads", place);
}

/// Lanes of the mask that wait at this operation. One that waits at another operation for this lane is a fault; one
/// that waits for others only comes later.
unsigned partners(const Warp& warp, const char* what, unsigned mask, size_t bytes, Place place, int lane)
{
    unsigned here = 0;
    for (unsigned lanes = warp.waiting & mask; lanes != 0; lanes &= lanes - 1) {
        const int other = __builtin_ctz(lanes);
        const Pending& p = warp.lane[other];
        if ((p.mask >> lane & 1) == 0)
            continue;
        if (p.mask != mask || p.bytes != bytes || p.place.line != place.line ||
            (p.what != what && std::strcmp(p.what, what) != 0))
            fail(std::string(what) + " " + at(place) + ": lane " + std::to_string(lane) + " with mask " +
                 std::to_string(mask) + " meets lane " + std::to_string(other) + ", which waits at " + p.what + " " +
                 at(p.place) + " with mask " + std::to_string(p.mask));
        here |= 1u << other;
    }
    return here;
}

void checkMask(const char* what, unsigned mask, Place place, int lane)
{
    if ((mask >> lane & 1) == 0)
        fail(std::string(what) + " " + at(place) + ": lane " + std::to_string(lane) + " is not in its own mask " +
             std::to_string(mask));
    const int first = machine.current / kWarp * kWarp;
    if (machine.alive == machine.threads && first + kWarp <= machine.threads)
        return;
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
        const int other = __builtin_ctz(lanes);
        if (first + other >= machine.threads || machine.fibers[size_t(first + other)].state == State::Finished)
            fail(std::string(what) + " " + at(place) + ": waits for lane " + std::to_string(other) +
                 ", which has left the kernel");
    }
}

/// The 32 values of the mask's lanes; true for the lane that came last.
bool meetWarp(const char* what, unsigned mask, const void* value, size_t bytes, Place place,
              const unsigned char*& values)
{
    const int me = machine.current, lane = me % kWarp, w = me / kWarp;
    Warp& warp = machine.warps[size_t(w)];
    checkMask(what, mask, place, lane);
    const unsigned here = partners(warp, what, mask, bytes, place, lane) | 1u << lane;
    machine.pollRounds = 0;
    Pending& p = warp.lane[lane];
    p.what = what;
    p.mask = mask;
    p.bytes = bytes;
    p.place = place;
    std::memcpy(p.value, value, bytes);
    warp.waiting |= 1u << lane;
    const bool full = mask == 0xFFFFFFFFu;
    if (here != mask) {
        block(State::Waiting, what, place);
        values = full ? fullValues[w][warp.turn] : laneValues[me];
        return false;
    }
    warp.waiting &= ~mask;
    // lanes that hold the values of the meeting before may still read them, hence two buffers that take turns
    if (full)
        warp.turn ^= 1;
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
        const int reader = __builtin_ctz(lanes);
        for (unsigned from = mask; from != 0 && bytes != 0; from &= from - 1) {
            const int l = __builtin_ctz(from);
            std::memcpy((full ? fullValues[w][warp.turn] : laneValues[w * kWarp + reader]) + size_t(l) * bytes,
                        warp.lane[l].value, bytes);
        }
        if (full)
            break;
    }
    for (unsigned lanes = mask & ~(1u << lane); lanes != 0; lanes &= lanes - 1)
        setReady(w * kWarp + __builtin_ctz(lanes));
    values = full ? fullValues[w][warp.turn] : laneValues[me];
    return true;
}

MemoryBarrier& barrierAt(uint64_t* barrier, const char* what, Place place)
{
    auto it = machine.memoryBarriers.find(barrier);
    if (it == machine.memoryBarriers.end())
        fail(std::string(what) + " " + at(place) + ": memory barrier that was never initialised");
    return it->second;
}

void completeIfDone(MemoryBarrier& b)
{
    if (b.pending != 0 || b.bytes != 0)
        return;
    ++b.phase;
    b.pending = b.count;
    b.done = b.next;
    machine.pollRounds = 0;
}

} // namespace

void fail(const std::string& text)
{
    const shadow::Inside inside;
    if (machine.current < 0)
        throw Fault(text);
    const int thread = machine.current;
    shadow::running.stack = {};
    machine.failed = true;
    machine.failure = std::string("kernel ") + machine.launch->kernel + ", block " + std::to_string(blockIdx.x) +
                      ", thread " + std::to_string(thread) + ": " + text;
    self().stack = nullptr; // its frames stay as they are: their strings are never freed
    switchContext(self().context, machine.host);
    __builtin_unreachable();
}

void fail(const char* text)
{
    const shadow::Inside inside;
    fail(std::string(text));
}

void setOrder(Order order)
{
    machine.order = order;
    machine.draws = order.seed * 0x9E3779B97F4A7C15ull + 0x2545F4914F6CDD1Dull;
}

std::vector<Order> allOrders(int random)
{
    std::vector<Order> orders{{Order::Forward, 0}, {Order::Reversed, 0}};
#if defined(__SANITIZE_ADDRESS__)
    random = std::min(random, 1); // a switch of fibers is ten times dearer there, and the plain build runs them all
#endif
    for (int i = 0; i < random; ++i)
        orders.push_back({Order::Random, uint64_t(i + 1)});
    return orders;
}

std::string describe(Order order)
{
    return order.kind == Order::Forward    ? "forward"
           : order.kind == Order::Reversed ? "reversed"
                                           : "random " + std::to_string(order.seed);
}

void setShadow(bool on)
{
    shadow::enabled = on;
}

bool shadowCompiled()
{
    return shadow::compiled;
}

void run(const Launch& launch)
{
    const std::string place = std::string("launch of ") + launch.kernel + ": ";
    if (machine.launch != nullptr)
        throw Fault(place + "a launch inside a kernel");
    if (launch.block < 1 || launch.block > kMaxThreads || launch.grid.y != 1 || launch.grid.z != 1 || launch.grid.x < 1)
        throw Fault(place + "block of " + std::to_string(launch.block) + " threads or grid of " +
                    std::to_string(launch.grid.x) + " is not allowed");
    if (launch.sharedBytes < 0 || launch.sharedBytes > int64_t(kSharedBytes))
        throw Fault(place + std::to_string(launch.sharedBytes) + " bytes of shared memory, at most " +
                    std::to_string(kSharedBytes));
    if (launch.bodyBytes > kBodyBytes)
        throw Fault(place + "arguments of " + std::to_string(launch.bodyBytes) + " bytes, at most " +
                    std::to_string(kBodyBytes));
    if (machine.fibers.empty())
        machine.fibers.resize(size_t(kMaxThreads));
    std::vector<unsigned> blocks(launch.grid.x);
    std::iota(blocks.begin(), blocks.end(), 0u);
    if (machine.order.kind == Order::Reversed)
        std::reverse(blocks.begin(), blocks.end());
    if (machine.order.kind == Order::Random) {
        for (size_t i = blocks.size(); i > 1; --i)
            std::swap(blocks[i - 1], blocks[draw() % i]);
    }
    machine.launch = &launch;
    machine.threads = launch.block;
    machine.failed = false;
    gridDim = launch.grid;
    blockDim = dim3(unsigned(launch.block));
    shadow::beginLaunch();
    for (size_t i = 0; i < blocks.size() && !machine.failed; ++i) {
        blockIdx = {blocks[i], 0, 0};
        runBlock(launch);
    }
    machine.launch = nullptr;
    if (machine.failed)
        throw Fault(machine.failure);
}

unsigned char* dynamicShared()
{
    return sharedBytes;
}

int laneId()
{
    return machine.current % kWarp;
}

const unsigned char* gather(const char* what, unsigned mask, const void* value, size_t bytes, Place place)
{
    const shadow::Inside inside;
    if (bytes > kGatherBytes)
        fail(std::string(what) + " " + at(place) + ": " + std::to_string(bytes) + " bytes per lane, at most " +
             std::to_string(kGatherBytes));
    const unsigned char* values = nullptr;
    meetWarp(what, mask, value, bytes, place, values);
    return values;
}

void checkSource(const char* what, unsigned mask, int lane, Place place)
{
    const shadow::Inside inside;
    if (lane < 0 || lane >= kWarp || (mask >> lane & 1) == 0)
        fail(std::string(what) + " " + at(place) + ": reads lane " + std::to_string(lane) +
             ", which is not in the mask");
}

void syncThreads(Place place)
{
    const shadow::Inside inside;
    voteAndMeet(0, place);
}

int syncThreadsVote(int kind, int predicate, Place place)
{
    const shadow::Inside inside;
    voteAndMeet(predicate, place);
    return kind == 0 ? machine.voteResult : kind == 1 ? machine.voteResult == machine.threads : machine.voteResult != 0;
}

void syncWarp(unsigned mask, Place place)
{
    const shadow::Inside inside;
    const unsigned char* values = nullptr;
    if (!meetWarp("__syncwarp", mask, "", 0, place, values))
        return;
    std::vector<int> threads;
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1)
        threads.push_back(machine.current / kWarp * kWarp + __builtin_ctz(lanes));
    shadow::sync(threads);
}

namespace {
void checkNamed(const char* what, int id, int threads, Place place)
{
    if (id < 0 || id >= kBarriers || threads < 1 || threads % kWarp != 0 || threads > machine.threads)
        fail(std::string(what) + " " + at(place) + ": barrier " + std::to_string(id) + " for " +
             std::to_string(threads) + " threads; expected an id below 16 and a multiple of 32 within the block");
}
void openNamed(Barrier& b)
{
    for (const int t : b.waiters)
        shadow::acquire(t, b.clocks);
    b.clocks.clear();
    open(b);
}
} // namespace

void namedBarrier(int id, int threads, Place place)
{
    const shadow::Inside inside;
    checkNamed("named barrier", id, threads, place);
    Barrier& b = arrive(id, threads, place, "named barrier");
    shadow::release(machine.current, b.clocks);
    b.waiters.push_back(machine.current);
    machine.pollRounds = 0;
    if (b.arrived == b.expected) {
        b.waiters.pop_back();
        shadow::acquire(machine.current, b.clocks);
        openNamed(b);
        return;
    }
    block(State::Waiting, "named barrier", place);
}

void namedBarrierArrive(int id, int threads, Place place)
{
    const shadow::Inside inside;
    checkNamed("named barrier arrive", id, threads, place);
    Barrier& b = arrive(id, threads, place, "named barrier arrive");
    shadow::release(machine.current, b.clocks);
    machine.pollRounds = 0;
    if (b.arrived == b.expected)
        openNamed(b);
}

void copyAsync(void* shared, const void* global, int bytes, int line)
{
    const shadow::Inside inside;
    if ((bytes != 4 && bytes != 8 && bytes != 16) || reinterpret_cast<uintptr_t>(shared) % uintptr_t(bytes) != 0 ||
        reinterpret_cast<uintptr_t>(global) % uintptr_t(bytes) != 0)
        fail("copyAsync line " + std::to_string(line) + ": " + std::to_string(bytes) +
             " bytes; expected 4, 8 or 16, both sides aligned to them");
    Copy c = startCopy(shared, global, size_t(bytes), shadow::kLineMark | unsigned(line));
    c.group = self().copyGroup;
    self().copies.push_back(std::move(c));
}

void commitCopies()
{
    const shadow::Inside inside;
    ++self().copyGroup;
}

void waitCopies(int groupsLeft)
{
    const shadow::Inside inside;
    Fiber& f = self();
    std::erase_if(f.copies, [&](Copy& c) {
        const bool done = c.group < f.copyGroup - groupsLeft;
        if (done)
            landCopy(c, true);
        return done;
    });
}

namespace {
/// On the fiber's stack, where its own loads are not judged, and with the accumulators open: products may follow each
/// other.
void perform(const Deferred& d)
{
    alignas(16) unsigned char work[sizeof d.work];
    std::memcpy(work, d.work, d.workBytes);
    const auto before = shadow::running.accumulators;
    const bool inside = shadow::inside;
    shadow::running.accumulators = nullptr;
    shadow::inside = false;
    d.call(work);
    shadow::inside = inside;
    shadow::running.accumulators = before;
}

void showAccumulators(Fiber& f)
{
    f.accumulators.clear();
    for (const Deferred& d : f.deferred)
        f.accumulators.push_back(d.accumulator);
    shadow::running.accumulators = f.accumulators.empty() ? nullptr : &f.accumulators;
}
} // namespace

void deferRaw(void* accumulator, size_t bytes, void (*call)(const void* work), const void* work, size_t workBytes)
{
    const shadow::Inside inside;
    Fiber& f = self();
    const auto* begin = static_cast<const unsigned char*>(accumulator);
    Deferred d{{begin, begin + bytes}, call, {}, workBytes, drawLate(), f.deferGroup};
    std::memcpy(d.work, work, workBytes);
    // products of one thread run in their order: none overtakes one that waits
    d.late =
        d.late || std::any_of(f.deferred.begin(), f.deferred.end(), [](const Deferred& other) { return other.late; });
    if (!d.late)
        perform(d);
    f.deferred.push_back(d);
    showAccumulators(f);
}

void deferCommit()
{
    const shadow::Inside inside;
    ++self().deferGroup;
}

void deferWait(int groupsLeft)
{
    const shadow::Inside inside;
    Fiber& f = self();
    std::vector<Deferred> done;
    std::erase_if(f.deferred, [&](const Deferred& d) {
        if (d.group < f.deferGroup - groupsLeft)
            done.push_back(d);
        return d.group < f.deferGroup - groupsLeft;
    });
    for (const Deferred& d : done) {
        if (d.late)
            perform(d);
    }
    showAccumulators(f);
}

void barrierInit(uint64_t* barrier, int count)
{
    const shadow::Inside inside;
    MemoryBarrier b;
    b.count = b.pending = count;
    machine.memoryBarriers[barrier] = std::move(b);
}

void barrierArrive(uint64_t* barrier, int count, Place place)
{
    const shadow::Inside inside;
    MemoryBarrier& b = barrierAt(barrier, "barrierArrive", place);
    if (b.pending < count)
        fail("barrierArrive " + at(place) + ": surplus arrival, " + std::to_string(b.pending) + " were missing");
    shadow::release(machine.current, b.next);
    b.pending -= count;
    completeIfDone(b);
}

void barrierArriveExpect(uint64_t* barrier, int bytes, Place place)
{
    const shadow::Inside inside;
    MemoryBarrier& b = barrierAt(barrier, "barrierArriveExpect", place);
    b.bytes += bytes;
    barrierArrive(barrier, 1, place);
}

bool barrierTest(uint64_t* barrier, int parity, Place place)
{
    const shadow::Inside inside;
    MemoryBarrier& b = barrierAt(barrier, "barrierWait", place);
    if ((b.phase & 1) == unsigned(parity & 1) && !b.copies.empty()) { // somebody looks: now the copies may land
        for (Copy& c : b.copies) {
            landCopy(c, false);
            b.bytes -= int64_t(c.size);
        }
        b.copies.clear();
        completeIfDone(b);
    }
    if ((b.phase & 1) == unsigned(parity & 1))
        return false;
    shadow::acquire(machine.current, b.done);
    return true;
}

void barrierWait(uint64_t* barrier, int parity, Place place)
{
    const shadow::Inside inside;
    while (!barrierTest(barrier, parity, place))
        block(State::Polling, "barrierWait", place);
}

void bulkCopy(void* to, const void* from, int bytes, uint64_t* barrier, Place place)
{
    const shadow::Inside inside;
    MemoryBarrier& b = barrierAt(barrier, "bulkCopy", place);
    if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0)
        fail("bulkCopy " + at(place) + ": " + std::to_string(bytes) +
             " bytes; expected multiples of 16 at addresses aligned to 16");
    b.copies.push_back(startCopy(to, from, size_t(bytes), shadow::kLineMark | unsigned(place.line)));
    shadow::release(machine.current, b.next); // who waits may read what the copy wrote
}

void poll(Place place)
{
    const shadow::Inside inside;
    block(State::Polling, "poll", place);
}

void waitBlock(Place place)
{
    const shadow::Inside inside;
    fail("waits " + at(place) + " for a block that has not run: blocks run one after the other here, in any order");
}

void noteShared(const void* p, int bytes, bool write, int line)
{
    const shadow::Inside inside;
    shadow::accessShared(p, size_t(bytes), write, shadow::kLineMark | unsigned(line));
}

void noteGlobal(const void* p, int bytes, bool write, int line)
{
    const shadow::Inside inside;
    shadow::accessGlobal(p, size_t(bytes), write, shadow::kLineMark | unsigned(line));
}

} // namespace megagraph::kernels::cuda::shim

namespace shadow = megagraph::kernels::cuda::shim::shadow;

namespace {
/// Old value. The address is checked for bounds, not for races: atomics are ordered by the hardware.
template <class T, class F> __attribute__((always_inline)) inline T atomically(T* at, F&& change)
{
    const shadow::Inside inside;
    shadow::accessAtomic(at, sizeof(T), shadow::fromReturnAddress(__builtin_return_address(0)));
    const T old = *at;
    *at = change(old);
    return old;
}
} // namespace

int atomicAdd(int* at, int value)
{
    return atomically(at, [&](int x) { return x + value; });
}
unsigned atomicAdd(unsigned* at, unsigned value)
{
    return atomically(at, [&](unsigned x) { return x + value; });
}
unsigned long long atomicAdd(unsigned long long* at, unsigned long long value)
{
    return atomically(at, [&](unsigned long long x) { return x + value; });
}
float atomicAdd(float* at, float value)
{
    return atomically(at, [&](float x) { return x + value; });
}
double atomicAdd(double* at, double value)
{
    return atomically(at, [&](double x) { return x + value; });
}
unsigned atomicInc(unsigned* at, unsigned limit)
{
    return atomically(at, [&](unsigned x) { return x >= limit ? 0 : x + 1; });
}
int atomicMax(int* at, int value)
{
    return atomically(at, [&](int x) { return std::max(x, value); });
}
unsigned atomicOr(unsigned* at, unsigned value)
{
    return atomically(at, [&](unsigned x) { return x | value; });
}
unsigned atomicExch(unsigned* at, unsigned value)
{
    return atomically(at, [&](unsigned) { return value; });
}
unsigned atomicCAS(unsigned* at, unsigned expected, unsigned value)
{
    return atomically(at, [&](unsigned x) { return x == expected ? value : x; });
}
