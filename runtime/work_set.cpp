// SPDX-License-Identifier: Apache-2.0
#include "runtime/work_set.h"

#include "core/hash.h"
#include "core/random.h"
#include "runtime/allocator.h"

#include <ATen/ATen.h>
#include <numeric>
#include <stdexcept>

namespace megagraph::runtime {

std::vector<int64_t> epochOrder(uint64_t seed, int64_t epoch, int64_t count)
{
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    const uint64_t stream = splitmix64(fnv1a64("data order") + uint64_t(epoch));
    for (int64_t last = count - 1; last > 0; --last)
        std::swap(order[size_t(last)], order[size_t(drawBelow(seed, stream, uint64_t(last), uint64_t(last + 1)))]);
    return order;
}

WorkSet::WorkSet(const Plan& plan, const Dataset& dataset, const std::string& split, const std::string& home,
                 int64_t contextRank, int64_t threads, Communicator& context)
{
    const MemoryScope scope(MemoryCategory::Topology, "sequence", "sequence");
    const Result<std::span<const uint8_t>> bits = dataset.split(split);
    if (!bits.ok())
        throw std::runtime_error(bits.error().message);
    sequences_ = makeSequences(plan, dataset, home, contextRank, threads);
    at::Tensor counts = at::zeros({int64_t(sequences_.sequences.size())}, at::kLong);
    for (const auto& sequence : sequences_.sequences) {
        WorkItem item;
        item.sequence = sequence.get();
        const std::vector<int32_t>& ids = sequence->originalIds();
        item.train = selectItems(dataset, *bits, 1, ids);
        item.valid = selectItems(dataset, *bits, 2, ids);
        item.test = selectItems(dataset, *bits, 4, ids);
        counts.mutable_data_ptr<int64_t>()[items_.size()] = item.train.count;
        items_.push_back(std::move(item));
    }
    context.allReduce(counts);
    for (size_t i = 0; i < items_.size(); ++i)
        items_[i].trainCount = counts.const_data_ptr<int64_t>()[i];
    if (items_.empty())
        throw std::runtime_error("data set: " + dataset.spec().name + ": it gives no sequence; check the plan's sequence block");
}

int64_t WorkSet::sequenceAt(uint64_t seed, int64_t cursor)
{
    const int64_t epoch = cursor / size();
    if (epoch != epoch_) {
        order_ = epochOrder(seed, epoch, size());
        epoch_ = epoch;
    }
    return order_[size_t(cursor % size())];
}

} // namespace megagraph::runtime
