// SPDX-License-Identifier: Apache-2.0
// One rank of the communicator's tests: comm_child STORE RANK WORLD REPLICAS. Runs every collective on real Gloo groups against
// values that are known in closed form; prints the first fault and exits 1.
#include "runtime/allocator.h"
#include "runtime/comm.h"

#include <ATen/ATen.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <numeric>
#include <unistd.h>

namespace {

using namespace megagraph;
using namespace megagraph::runtime;

void check(bool condition, const std::string& what)
{
    if (condition)
        return;
    std::fprintf(stderr, "%s\n", what.c_str());
    std::fflush(stderr);
    ::_exit(1);
}

// Rows of rank r: value 1000 r + row, in every column.
at::Tensor rowsOf(int64_t rank, int64_t count)
{
    return (at::arange(count, at::kFloat) + float(1000 * rank)).unsqueeze(1).expand({count, 3}).contiguous();
}

void checkGather(Communicator& group, const std::vector<int64_t>& rows)
{
    const int64_t before = group.bytesSent();
    const at::Tensor all = group.allGatherRows(rowsOf(group.rank(), rows[size_t(group.rank())]), rows);
    int64_t first = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
        check(at::equal(all.narrow(0, first, rows[r]), rowsOf(int64_t(r), rows[r])), fmt::format("gather: rows of rank {} differ", r));
        first += rows[r];
    }
    check(all.size(0) == first, "gather: number of rows");
    check(group.bytesSent() - before == (group.size() - 1) * rows[size_t(group.rank())] * 3 * 4, "gather: bytes sent");
}

void checkReduceScatter(Communicator& group, const std::vector<int64_t>& rows)
{
    const int64_t total = std::accumulate(rows.begin(), rows.end(), int64_t(0));
    const int64_t before = group.bytesSent();
    // irregular values: the sum depends on the order of additions
    const at::Tensor base = at::arange(total * 3, at::kFloat).mul(0.7f).sin().reshape({total, 3});
    const at::Tensor mine = group.reduceScatterRows(base * float(group.rank() + 1) * 1.1f, rows);
    at::Tensor expected = base * 1.0f * 1.1f;
    for (int r = 1; r < group.size(); ++r)
        expected = expected + base * float(r + 1) * 1.1f;
    const int64_t first = std::accumulate(rows.begin(), rows.begin() + group.rank(), int64_t(0));
    check(at::equal(mine, expected.narrow(0, first, rows[size_t(group.rank())])), "sum of rows: not the sum in rank order, bit for bit");
    check(group.bytesSent() - before == (total - rows[size_t(group.rank())]) * 3 * 4, "sum of rows: bytes sent");
}

void checkRing(Communicator& group, const std::vector<int64_t>& rows)
{
    const int size = group.size(), rank = group.rank();
    at::Tensor held = rowsOf(rank, rows[size_t(rank)]);
    for (int step = 1; step < size; ++step) {
        const int64_t from = (rank - step + size) % size;
        at::Tensor arriving = at::empty({rows[size_t(from)], 3}, at::kFloat), second = at::empty({1}, at::kFloat);
        group.startRing(held, arriving);
        group.startRing(at::full({1}, float(rank)), second); // two in flight end in order
        group.waitRing();
        check(at::equal(arriving, rowsOf(from, rows[size_t(from)])), "ring: wrong rows arrived");
        group.waitRing();
        check(second.item<float>() == float((rank + size - 1) % size), "ring: wrong second message");
        held = arriving;
    }
}

void checkAllReduce(Communicator& group)
{
    at::Tensor first;
    for (int repeat = 0; repeat < 20; ++repeat) {
        at::Tensor x = at::arange(10007, at::kFloat).mul(0.31f + float(group.rank())).sin();
        group.allReduce(x);
        if (repeat == 0)
            first = x;
        check(std::memcmp(first.const_data_ptr(), x.const_data_ptr(), x.nbytes()) == 0, "sum over ranks: bits differ between repeats");
    }
    // all ranks hold the same bits
    const at::Tensor all = group.allGatherRows(first.unsqueeze(0), std::vector<int64_t>(size_t(group.size()), 1));
    for (int r = 0; r < group.size(); ++r)
        check(at::equal(all[r], first), "sum over ranks: ranks hold different bits");
    at::Tensor whole = at::full({3}, int64_t(group.rank() + 1), at::kLong), wide = at::full({2}, 0.5 * group.rank(), at::kDouble);
    group.allReduce(whole);
    group.allReduce(wide);
    const int64_t n = group.size();
    check(whole[0].item<int64_t>() == n * (n + 1) / 2, "sum over ranks: int64");
    check(wide[1].item<double>() == 0.25 * double(n * (n - 1)), "sum over ranks: fp64");
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 5)
        return 2;
    installCountingAllocator();
    const int64_t rank = std::atoll(argv[2]), world = std::atoll(argv[3]), replicas = std::atoll(argv[4]);
    Plan plan;
    StagePlan stage;
    stage.replicas = replicas;
    stage.ring = world / replicas;
    for (int64_t d = 0; d < world; ++d)
        stage.devices.push_back(d);
    plan.stages = {stage};
    try {
        Groups groups = makeGroups(plan, rank, argv[1], 30);
        check(groups.world->size() == world && groups.world->rank() == rank, "world: size or rank");
        check(groups.context->size() == stage.ring && groups.context->rank() == rank % stage.ring, "context: size or rank");
        check(groups.replica->size() == replicas && groups.replica->rank() == rank / stage.ring, "replica: size or rank");
        checkAllReduce(*groups.world);
        for (Communicator* group : {groups.world.get(), groups.context.get(), groups.replica.get()}) {
            std::vector<int64_t> rows, zero(size_t(group->size()), 0);
            for (int r = 0; r < group->size(); ++r)
                rows.push_back(r == 1 ? 0 : 5 + 3 * r); // uneven, one empty
            checkGather(*group, rows);
            checkGather(*group, zero);
            checkReduceScatter(*group, rows);
            checkRing(*group, rows);
            group->barrier();
        }
        check(world == 1 || groups.world->secondsWaited() > 0, "waiting time was not counted");
        if (const auto pair = rank < 2 ? groups.firstRanks(std::min<int64_t>(2, world)) : nullptr)
            checkAllReduce(*pair);
        if (groups.leaveTogether)
            groups.leaveTogether();
    } catch (const std::exception& error) {
        check(false, error.what());
    }
    std::fflush(nullptr);
    ::_exit(0);
}
