// SPDX-License-Identifier: Apache-2.0
#include "kernels/dropout.h"

#include "core/random.h"
#include "kernels/cpu/mask.h"
#include "kernels/cpu/dispatch.h"

#include <algorithm>
#include <cmath>

namespace megagraph::kernels {
namespace cpu {

Mask makeMask(const Dropout& dropout)
{
    const uint64_t key = splitmix64(splitmix64(dropout.seed) ^ dropout.step);
    return {uint32_t(std::lround(65536.0 * dropout.p)), uint32_t(key), uint32_t(key >> 32), dropout.item,
            dropout.layer << 20 | dropout.site, dropoutScale(dropout.p)};
}

} // namespace cpu

void dropoutApply(const Dropout& dropout, int64_t rows, int64_t cols, int64_t row0, int64_t col0, const float* x, float* y,
                  const ParallelFor& parallel)
{
    if (rows <= 0 || cols <= 0)
        return;
    const cpu::Mask mask = cpu::makeMask(dropout);
    if (mask.threshold == 0) {
        if (x != y)
            std::copy_n(x, rows * cols, y);
        return;
    }
    const cpu::DropoutCall call{mask, rows, cols, row0, col0, x, y};
    const int64_t perTask = std::max<int64_t>(1, cpu::kDropoutElements / cols);
    const cpu::CpuKernels& set = cpu::kernels();
    parallel.run((rows + perTask - 1) / perTask, [&](int64_t task, int32_t) {
        set.dropout(call, task * perTask, std::min(rows, (task + 1) * perTask));
    });
}

uint8_t dropoutKeep8(const Dropout& dropout, uint32_t head, uint64_t row, uint64_t columnBlock)
{
    const cpu::Mask mask = cpu::makeMask(dropout);
    const PhiloxBlock words =
        philox4x32({uint32_t(columnBlock), uint32_t(row), mask.item, mask.layerSite | head << 8}, {mask.key0, mask.key1}, 7);
    uint8_t keep = 0;
    for (uint32_t c = 0; c < 8; ++c) {
        const uint32_t draw = words[c >> 1] >> (16 * (c & 1)) & 0xFFFFu;
        keep = uint8_t(keep | uint32_t(draw >= mask.threshold) << c);
    }
    return keep;
}

float dropoutScale(double p)
{
    const double threshold = std::round(65536.0 * p);
    return threshold >= 65536.0 ? 0.0f : float(65536.0 / (65536.0 - threshold));
}

} // namespace megagraph::kernels
