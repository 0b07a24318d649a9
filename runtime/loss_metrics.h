// SPDX-License-Identifier: Apache-2.0
// Loss and metrics as sums over items, so that nothing depends on how items are spread over ranks. Losses run under autograd;
// metrics are plain numbers in fp64. Training thread; functions share nothing.
#pragma once

#include "core/io/dataset.h"
#include "core/model_spec.h"

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <span>
#include <vector>

namespace megagraph::runtime {

/// Items of one split among the own tokens of a sequence.
struct ItemSet {
    at::Tensor rows;      // [m] int64: own token numbers
    at::Tensor classes;   // [m] int64, class tasks
    at::Tensor values;    // [m, T] fp32, NaN = missing; empty for class tasks
    int64_t count = 0;    // labelled items (m for class tasks, non-missing values otherwise)
};
/// Tokens `ids` (data set ids) whose split bit is set and that have a label. `bit`: 1 train, 2 valid, 4 test.
ItemSet selectItems(const Dataset& dataset, std::span<const uint8_t> split, uint8_t bit, const std::vector<int32_t>& ids);

/// Sum of the loss over the items (fp32 scalar). logits [n_i, out]. Cross entropy needs class labels; bce takes one output
/// (two classes) or one per task.
at::Tensor lossSum(Loss loss, const at::Tensor& logits, const ItemSet& items);

/// What a metric needs of some items: sums for accuracy, MAE and RMSE, scores and labels for AUC.
struct MetricParts {
    double right = 0, error = 0, count = 0, loss = 0; // error: sum of |e| or e^2
    std::vector<float> scores;                        // [count * tasks] row-major, AUC only
    std::vector<float> labels;                        // 0, 1, NaN = missing
    int64_t tasks = 1;
};
MetricParts metricParts(Metric metric, Loss loss, const at::Tensor& logits, const ItemSet& items);
void append(MetricParts& to, const MetricParts& more);
/// Value of the whole: accuracy and AUC as fractions. NaN without items.
double metricValue(Metric metric, const MetricParts& whole);
/// Area under the ROC curve by the rank sum with mid-ranks; NaN when a class is missing. NaN labels are left out.
double rocAuc(std::span<const float> scores, std::span<const float> labels);

} // namespace megagraph::runtime
