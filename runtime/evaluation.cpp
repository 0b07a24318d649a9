// SPDX-License-Identifier: Apache-2.0
#include "runtime/evaluation.h"

#include "runtime/allocator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace megagraph::runtime {
namespace {

// Numbers of all ranks in rank order.
std::vector<float> gatherAll(const std::vector<float>& values, Communicator& world)
{
    const int64_t own = int64_t(values.size());
    at::Tensor counts = at::zeros({world.size()}, at::kLong);
    counts.mutable_data_ptr<int64_t>()[world.rank()] = own;
    world.allReduce(counts);
    const std::vector<int64_t> rows(counts.const_data_ptr<int64_t>(), counts.const_data_ptr<int64_t>() + world.size());
    const at::Tensor all = world.allGatherRows(at::tensor(values, at::kFloat), rows);
    return {all.const_data_ptr<float>(), all.const_data_ptr<float>() + all.numel()};
}

SplitScore join(Metric metric, MetricParts parts, Communicator& world)
{
    at::Tensor sums = at::tensor({parts.right, parts.error, parts.count, parts.loss}, at::kDouble);
    world.allReduce(sums);
    const double* const s = sums.const_data_ptr<double>();
    parts.right = s[0];
    parts.error = s[1];
    parts.count = s[2];
    parts.loss = s[3];
    if (metric == Metric::Auc) {
        const int64_t some = parts.scores.empty() ? 0 : 1; // a rank without items does not know the number of tasks
        at::Tensor tasks = at::tensor({some * parts.tasks, some}, at::kLong);
        world.allReduce(tasks);
        const int64_t* const t = tasks.const_data_ptr<int64_t>();
        parts.tasks = t[1] > 0 ? t[0] / t[1] : 1;
        parts.scores = gatherAll(parts.scores, world);
        parts.labels = gatherAll(parts.labels, world);
    }
    return {metricValue(metric, parts), parts.count > 0 ? parts.loss / parts.count : 0, int64_t(parts.count)};
}

} // namespace

Evaluation evaluate(GraphModel& model, const ModelSpec& spec, const WorkSet& work, const Groups& groups, PassContext pass)
{
    const at::NoGradGuard noGradients;
    pass.training = false;
    pass.context = groups.context.get();
    MetricParts valid, test;
    for (int64_t j = 0; j < work.size(); ++j) {
        if (j % groups.replica->size() != groups.replica->rank())
            continue;
        const WorkItem& item = work.at(j);
        pass.item = uint32_t(j);
        const at::Tensor logits = model.forward(*item.sequence, pass);
        append(valid, metricParts(spec.metric, spec.loss, logits, item.valid));
        append(test, metricParts(spec.metric, spec.loss, logits, item.test));
    }
    return {join(spec.metric, std::move(valid), *groups.world), join(spec.metric, std::move(test), *groups.world)};
}

} // namespace megagraph::runtime
