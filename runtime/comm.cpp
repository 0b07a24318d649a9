// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm.h"

#include "core/schedule.h"
#include "runtime/allocator.h"
#include "runtime/gloo_group.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <chrono>
#include <deque>
#include <fmt/format.h>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace megagraph::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Adds the time of its scope to a counter.
class Stopwatch {
  public:
    explicit Stopwatch(double& total) : total_(total), start_(Clock::now()) {}
    ~Stopwatch() { total_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

  private:
    double& total_;
    Clock::time_point start_;
};

void checkRows(const at::Tensor& tensor, int64_t expected, const std::vector<int64_t>& rows, int size, const char* what)
{
    TORCH_CHECK(int(rows.size()) == size && tensor.dim() >= 1 && tensor.size(0) == expected && tensor.is_contiguous(), what,
                ": got ", tensor.sizes(), " and ", rows.size(), " row counts, expected ", expected, " rows and ", size,
                " counts, contiguous");
}

int64_t total(const std::vector<int64_t>& rows) { return std::accumulate(rows.begin(), rows.end(), int64_t(0)); }

class Solo final : public Communicator {
  public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    void allReduce(at::Tensor) override {}
    at::Tensor allGatherRows(const at::Tensor& local, const std::vector<int64_t>& rows) override
    {
        checkRows(local, total(rows), rows, 1, "gather of rows");
        return local;
    }
    at::Tensor reduceScatterRows(const at::Tensor& full, const std::vector<int64_t>& rows) override
    {
        checkRows(full, total(rows), rows, 1, "sum of rows");
        return full;
    }
    void startRing(const at::Tensor& send, at::Tensor receive) override
    {
        receive.copy_(send);
    }
    void waitRing() override {}
    void barrier() override {}
    int64_t bytesSent() const override { return 0; }
    double secondsWaited() const override { return 0; }
};

class GlooCommunicator final : public Communicator {
  public:
    GlooCommunicator(c10::intrusive_ptr<c10d::Backend> backend, int rank, int size)
        : backend_(std::move(backend)), rank_(rank), size_(size)
    {
    }

    int rank() const override { return rank_; }
    int size() const override { return size_; }

    void allReduce(at::Tensor tensor) override
    {
        if (tensor.numel() == 0)
            return;
        TORCH_CHECK(tensor.is_contiguous(), "sum over ranks: the tensor is not contiguous");
        const Stopwatch watch(waited_);
        bytes_ += int64_t(tensor.nbytes());
        std::vector<at::Tensor> tensors{tensor.detach()};
        backend_->allreduce(tensors)->wait();
    }

    // Each rank sends its rows straight to every peer: uneven and empty intervals need no padding.
    at::Tensor allGatherRows(const at::Tensor& local, const std::vector<int64_t>& rows) override
    {
        checkRows(local, rows.at(size_t(rank_)), rows, size_, "gather of rows");
        const Stopwatch watch(waited_);
        const at::Tensor own = local.detach();
        at::Tensor full = newRows(own, total(rows), "gathered rows");
        std::vector<WorkPtr> works;
        const int tag = nextTag();
        int64_t first = 0;
        for (int peer = 0; peer < size_; ++peer) {
            at::Tensor part = full.narrow(0, first, rows[size_t(peer)]);
            first += rows[size_t(peer)];
            if (peer == rank_) {
                part.copy_(own);
                continue;
            }
            receive(part, peer, tag, works);
            send(own, peer, tag, works);
        }
        waitAll(works);
        return full;
    }

    // Direct exchange, then a sum in rank order: the order of arrival never shows in the bits.
    at::Tensor reduceScatterRows(const at::Tensor& full, const std::vector<int64_t>& rows) override
    {
        checkRows(full, total(rows), rows, size_, "sum of rows");
        const Stopwatch watch(waited_);
        const at::Tensor source = full.detach();
        const int64_t mine = rows[size_t(rank_)];
        at::Tensor parts = newRows(source, mine * size_, "partial sums");
        std::vector<WorkPtr> works;
        const int tag = nextTag();
        int64_t first = 0;
        for (int peer = 0; peer < size_; ++peer) {
            const at::Tensor part = source.narrow(0, first, rows[size_t(peer)]);
            first += rows[size_t(peer)];
            at::Tensor slot = parts.narrow(0, peer * mine, mine);
            if (peer == rank_) {
                slot.copy_(part);
                continue;
            }
            receive(slot, peer, tag, works);
            send(part, peer, tag, works);
        }
        waitAll(works);
        at::Tensor sum = parts.narrow(0, 0, mine).clone();
        for (int peer = 1; peer < size_; ++peer)
            sum.add_(parts.narrow(0, peer * mine, mine));
        return sum;
    }

    void startRing(const at::Tensor& send, at::Tensor receive) override
    {
        TORCH_CHECK(inFlight_.size() < 2, "ring: two exchanges are in flight, wait for one first");
        TORCH_CHECK(send.is_contiguous() && receive.is_contiguous(), "ring: a tensor is not contiguous");
        const Stopwatch watch(waited_);
        inFlight_.emplace_back();
        const int tag = nextTag();
        this->receive(receive.detach(), (rank_ + size_ - 1) % size_, tag, inFlight_.back());
        this->send(send.detach(), (rank_ + 1) % size_, tag, inFlight_.back());
    }

    void waitRing() override
    {
        TORCH_CHECK(!inFlight_.empty(), "ring: no exchange is in flight");
        const Stopwatch watch(waited_);
        waitAll(inFlight_.front());
        inFlight_.pop_front();
    }

    void barrier() override
    {
        const Stopwatch watch(waited_);
        backend_->barrier()->wait();
    }

    int64_t bytesSent() const override { return bytes_; }
    double secondsWaited() const override { return waited_; }

  private:
    static at::Tensor newRows(const at::Tensor& like, int64_t rows, const char* name)
    {
        const MemoryScope scope(MemoryCategory::Buffers, "exchange", name);
        std::vector<int64_t> shape = like.sizes().vec();
        shape[0] = rows;
        return at::empty(shape, like.options().requires_grad(false));
    }
    // Equal on all ranks, because all call in the same order; transfers under one tag stay in order, so it may wrap.
    int nextTag() { return tag_ = (tag_ + 1) & 0xffff; }

    void send(const at::Tensor& tensor, int peer, int tag, std::vector<WorkPtr>& works)
    {
        if (tensor.numel() == 0)
            return;
        bytes_ += int64_t(tensor.nbytes());
        std::vector<at::Tensor> tensors{tensor};
        works.push_back(backend_->send(tensors, peer, tag));
    }
    void receive(const at::Tensor& tensor, int peer, int tag, std::vector<WorkPtr>& works)
    {
        if (tensor.numel() == 0)
            return;
        std::vector<at::Tensor> tensors{tensor};
        works.push_back(backend_->recv(tensors, peer, tag));
    }
    static void waitAll(std::vector<WorkPtr>& works)
    {
        for (const WorkPtr& work : works)
            work->wait();
        works.clear();
    }

    c10::intrusive_ptr<c10d::Backend> backend_;
    int rank_, size_;
    int tag_ = 0;
    int64_t bytes_ = 0;
    double waited_ = 0;
    std::deque<std::vector<WorkPtr>> inFlight_;
};

struct Members { std::vector<int64_t> context, replica; };

// Ranks that share this rank's replica, and those that share its context number, in rank order.
Members membersOf(const std::vector<RankRole>& roles, int64_t rank)
{
    Members members;
    const RankRole& own = roles[size_t(rank)];
    for (size_t r = 0; r < roles.size(); ++r) {
        if (roles[r].stage != own.stage)
            continue;
        if (roles[r].replica == own.replica)
            members.context.push_back(int64_t(r));
        if (roles[r].context == own.context)
            members.replica.push_back(int64_t(r));
    }
    return members;
}

std::unique_ptr<Communicator> joinGroup(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name,
                                        const std::vector<int64_t>& members, int64_t rank, std::chrono::milliseconds timeout)
{
    if (members.size() <= 1)
        return soloCommunicator();
    const auto place = std::find(members.begin(), members.end(), rank) - members.begin();
    const auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name, store);
    return std::make_unique<GlooCommunicator>(makeGlooBackend(prefixed, int(place), int(members.size()), timeout), int(place),
                                              int(members.size()));
}

void waitForAll(const c10::intrusive_ptr<c10d::Store>& store, int64_t world, std::chrono::milliseconds timeout)
{
    const Clock::time_point last = Clock::now() + timeout;
    store->add("done", 1);
    while (store->add("done", 0) < world && Clock::now() < last)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

} // namespace

std::unique_ptr<Communicator> soloCommunicator() { return std::make_unique<Solo>(); }

Groups makeGroups(const Plan& plan, int64_t rank, const std::string& storePath, double timeoutS)
{
    Groups groups;
    const int64_t world = plan.world();
    if (world <= 1) {
        groups.world = soloCommunicator();
        groups.context = soloCommunicator();
        groups.replica = soloCommunicator();
        groups.firstRanks = [](int64_t) { return soloCommunicator(); };
        return groups;
    }
    const auto timeout = std::chrono::milliseconds(int64_t(timeoutS * 1000));
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::FileStore>(storePath, int(world));
    store->setTimeout(timeout);
    const Members members = membersOf(rankRoles(plan), rank);
    std::vector<int64_t> everybody(static_cast<size_t>(world));
    std::iota(everybody.begin(), everybody.end(), 0);
    groups.world = joinGroup(store, "world", everybody, rank, timeout);
    groups.context = joinGroup(store, fmt::format("context{}", members.context.front()), members.context, rank, timeout);
    groups.replica = joinGroup(store, fmt::format("replica{}", members.replica.front()), members.replica, rank, timeout);
    groups.firstRanks = [store, everybody, rank, timeout, made = int64_t(0)](int64_t count) mutable {
        const std::vector<int64_t> members(everybody.begin(), everybody.begin() + count);
        return joinGroup(store, fmt::format("first{}.{}", count, made++), members, rank, timeout);
    };
    groups.leaveTogether = [store, world] { waitForAll(store, world, std::chrono::seconds(60)); };
    return groups;
}

} // namespace megagraph::runtime
