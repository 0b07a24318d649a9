// SPDX-License-Identifier: Apache-2.0
// One group of ranks over c10d + Gloo (loopback, FileStore). Decorates the process group: uneven rows, sums in fixed rank order,
// byte counters, time waited. Torch exceptions pass through to worker main. One thread (the training thread) per object.
#pragma once

#include "core/plan.h"

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace megagraph::runtime {

class Communicator {
  public:
    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// Sum over ranks, in place. fp32, fp64 or int64, contiguous.
    virtual void allReduce(at::Tensor tensor) = 0;
    /// Rows of all ranks in rank order; rows[r] rows of rank r, zero allowed. local [rows[rank], ...] -> [sum rows, ...].
    virtual at::Tensor allGatherRows(const at::Tensor& local, const std::vector<int64_t>& rows) = 0;
    /// full [sum rows, ...] on each rank -> the sum over ranks of own rows [rows[rank], ...], added in rank order.
    virtual at::Tensor reduceScatterRows(const at::Tensor& full, const std::vector<int64_t>& rows) = 0;
    /// Starts sending `send` to the next rank (rank + 1) and receiving into `receive` from the previous one; wait() ends both.
    /// Empty tensors are legal and skipped on both sides. At most two exchanges in flight; waitRing() ends the older one.
    virtual void startRing(const at::Tensor& send, at::Tensor receive) = 0;
    virtual void waitRing() = 0;
    virtual void barrier() = 0;
    virtual int64_t bytesSent() const = 0;    ///< payload bytes this rank handed to the transport since the start
    virtual double secondsWaited() const = 0; ///< time inside collectives and waits since the start
};

struct Groups {
    std::unique_ptr<Communicator> world;   // all ranks
    std::unique_ptr<Communicator> context; // the C ranks of this replica; size 1 when C = 1
    std::unique_ptr<Communicator> replica; // the D ranks with the same context rank; size 1 when D = 1
    /// Returns when every rank has called it, through the store and not by a collective: a rank that closes early would reset
    /// the last transfers of its peers. Empty for one rank.
    std::function<void()> leaveTogether;
    /// A new group of ranks [0, count) of the world; all of them call it, in the same order. count 1: solo.
    std::function<std::unique_ptr<Communicator>(int64_t count)> firstRanks;
};
/// Eager, in plan order. `storePath` is the run's store.aN file. World 1: no transport at all.
Groups makeGroups(const Plan& plan, int64_t rank, const std::string& storePath, double timeoutS);
/// A group of one without transport (serial runs, tests).
std::unique_ptr<Communicator> soloCommunicator();

} // namespace megagraph::runtime
