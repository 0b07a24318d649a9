// SPDX-License-Identifier: Apache-2.0
#include "runtime/loss_metrics.h"

#include "runtime/allocator.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace megagraph::runtime {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool isLabelled(const Dataset& dataset, int64_t item, int64_t tasks)
{
    if (!dataset.classLabels().empty())
        return dataset.classLabels()[size_t(item)] >= 0;
    const auto row = dataset.realLabels().subspan(size_t(item * tasks), size_t(tasks));
    return std::any_of(row.begin(), row.end(), [](float v) { return !std::isnan(v); });
}

// Targets in the shape of the logits; NaN = missing. One output with class labels: two classes under bce.
at::Tensor targets(const ItemSet& items)
{
    return items.values.defined() ? items.values : items.classes.to(at::kFloat).unsqueeze(1);
}

at::Tensor maskedSum(const at::Tensor& perItem, const at::Tensor& target)
{
    return at::where(target.isnan(), at::zeros({}, perItem.options()), perItem).sum();
}

std::vector<float> floats(const at::Tensor& tensor)
{
    const at::Tensor flat = tensor.contiguous();
    return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

// One score per item and task that grows with "yes".
at::Tensor scoresOf(const at::Tensor& logits)
{
    return logits.size(1) == 2 ? (logits.select(1, 1) - logits.select(1, 0)).unsqueeze(1) : logits;
}

double countRight(const at::Tensor& logits, const ItemSet& items)
{
    const at::Tensor guess =
        logits.size(1) == 1 ? logits.squeeze(1).gt(0).to(at::kLong) : logits.argmax(1);
    const at::Tensor truth = items.classes.defined() ? items.classes : items.values.select(1, 0);
    return guess.eq(truth).sum().item<double>();
}

double errorSum(Metric metric, const at::Tensor& logits, const at::Tensor& target)
{
    const at::Tensor difference = (logits - target).to(at::kDouble);
    return maskedSum(metric == Metric::Mae ? difference.abs() : difference.square(), target).item<double>();
}

} // namespace

ItemSet selectItems(const Dataset& dataset, std::span<const uint8_t> split, uint8_t bit, const std::vector<int32_t>& ids)
{
    const MemoryScope scope(MemoryCategory::Topology, "labels", "items");
    const int64_t tasks = std::max<int64_t>(1, dataset.spec().tasks);
    const bool classTask = !dataset.classLabels().empty();
    std::vector<int64_t> rows, classes;
    std::vector<float> values;
    ItemSet items;
    for (size_t token = 0; token < ids.size(); ++token) {
        const int64_t id = ids[token];
        if (id < 0 || size_t(id) >= split.size() || (split[size_t(id)] & bit) == 0 || !isLabelled(dataset, id, tasks))
            continue;
        rows.push_back(int64_t(token));
        if (classTask) {
            classes.push_back(dataset.classLabels()[size_t(id)]);
            ++items.count;
            continue;
        }
        for (const float value : dataset.realLabels().subspan(size_t(id * tasks), size_t(tasks))) {
            values.push_back(value);
            items.count += std::isnan(value) ? 0 : 1;
        }
    }
    items.rows = at::tensor(rows, at::kLong);
    if (classTask)
        items.classes = at::tensor(classes, at::kLong);
    else
        items.values = at::tensor(values, at::kFloat).reshape({int64_t(rows.size()), tasks});
    return items;
}

at::Tensor lossSum(Loss loss, const at::Tensor& logits, const ItemSet& items)
{
    const at::Tensor chosen = logits.index_select(0, items.rows).to(at::kFloat);
    if (chosen.size(0) == 0)
        return chosen.sum(); // zero, but part of the graph: every rank runs the same backward
    if (loss == Loss::CrossEntropy) {
        TORCH_CHECK(items.classes.defined(), "model: loss: cross_entropy needs class labels, the data set has real values");
        return at::cross_entropy_loss(chosen, items.classes, {}, at::Reduction::Sum);
    }
    const at::Tensor target = targets(items);
    TORCH_CHECK(target.size(1) == chosen.size(1), "model: loss: ", lossName(loss), " got ", chosen.size(1),
                " outputs per item, expected ", target.size(1));
    const at::Tensor known = target.nan_to_num(0.0);
    if (loss == Loss::Bce)
        return maskedSum(at::binary_cross_entropy_with_logits(chosen, known, {}, {}, at::Reduction::None), target);
    const at::Tensor difference = chosen - known;
    return maskedSum(loss == Loss::L1 ? difference.abs() : difference.square(), target);
}

MetricParts metricParts(Metric metric, Loss loss, const at::Tensor& logits, const ItemSet& items)
{
    MetricParts parts;
    parts.count = double(items.count);
    if (items.rows.numel() == 0)
        return parts;
    parts.loss = lossSum(loss, logits, items).item<double>();
    const at::Tensor chosen = logits.index_select(0, items.rows).to(at::kFloat);
    if (metric == Metric::Accuracy)
        parts.right = countRight(chosen, items);
    if (metric == Metric::Mae || metric == Metric::Rmse)
        parts.error = errorSum(metric, chosen, targets(items));
    if (metric == Metric::Auc) {
        const at::Tensor scores = scoresOf(chosen);
        parts.tasks = scores.size(1);
        parts.scores = floats(scores);
        parts.labels = floats(targets(items));
    }
    return parts;
}

void append(MetricParts& to, const MetricParts& more)
{
    to.right += more.right;
    to.error += more.error;
    to.count += more.count;
    to.loss += more.loss;
    to.tasks = std::max(to.tasks, more.tasks);
    to.scores.insert(to.scores.end(), more.scores.begin(), more.scores.end());
    to.labels.insert(to.labels.end(), more.labels.begin(), more.labels.end());
}

double metricValue(Metric metric, const MetricParts& whole)
{
    if (whole.count <= 0)
        return kNan;
    switch (metric) {
    case Metric::Accuracy: return whole.right / whole.count;
    case Metric::Mae: return whole.error / whole.count;
    case Metric::Rmse: return std::sqrt(whole.error / whole.count);
    case Metric::Auc: break;
    }
    double sum = 0;
    int64_t counted = 0;
    const int64_t items = int64_t(whole.scores.size()) / whole.tasks;
    for (int64_t task = 0; task < whole.tasks; ++task) {
        std::vector<float> scores(static_cast<size_t>(items)), labels(static_cast<size_t>(items));
        for (int64_t i = 0; i < items; ++i) {
            scores[size_t(i)] = whole.scores[size_t(i * whole.tasks + task)];
            labels[size_t(i)] = whole.labels[size_t(i * whole.tasks + task)];
        }
        const double auc = rocAuc(scores, labels);
        sum += std::isnan(auc) ? 0 : auc;
        counted += std::isnan(auc) ? 0 : 1;
    }
    return counted == 0 ? kNan : sum / double(counted); // tasks with one class only have no curve
}

double rocAuc(std::span<const float> scores, std::span<const float> labels)
{
    std::vector<int64_t> order;
    for (size_t i = 0; i < scores.size(); ++i) {
        if (std::isnan(labels[i]))
            continue;
        if (std::isnan(scores[i]))
            return kNan; // no order
        order.push_back(int64_t(i));
    }
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[size_t(a)] < scores[size_t(b)]; });
    double rankSum = 0, positives = 0;
    for (size_t first = 0; first < order.size();) {
        size_t last = first;
        double here = 0;
        while (last < order.size() && scores[size_t(order[last])] == scores[size_t(order[first])])
            here += labels[size_t(order[last++])] > 0.5f ? 1 : 0;
        rankSum += here * (double(first + last + 1) / 2); // mid-rank of ties, ranks from 1
        positives += here;
        first = last;
    }
    const double negatives = double(order.size()) - positives;
    if (positives == 0 || negatives == 0)
        return kNan;
    return (rankSum - positives * (positives + 1) / 2) / (positives * negatives);
}

} // namespace megagraph::runtime
