// SPDX-License-Identifier: Apache-2.0
#include "planner/problem.h"

#include <cmath>

namespace megagraph::planner {

const char* provenanceName(Provenance p)
{
    constexpr const char* names[] = {"measured", "interpolated", "extrapolated", "transferred", "assumed"};
    return names[static_cast<int>(p)];
}

Estimate operator+(const Estimate& a, const Estimate& b)
{
    if (a.value == 0)
        return b;
    if (b.value == 0)
        return a;
    Estimate sum;
    sum.value = a.value + b.value;
    const double wa = double(a.value) / double(sum.value), wb = double(b.value) / double(sum.value);
    sum.halfWidth = wa * a.halfWidth + wb * b.halfWidth;
    sum.worst = std::max(a.worst, b.worst);
    for (size_t i = 0; i < sum.share.size(); ++i)
        sum.share[i] = float(wa * a.share[i] + wb * b.share[i]);
    return sum;
}

Estimate larger(const Estimate& a, const Estimate& b)
{
    return a.value >= b.value ? a : b;
}

Estimate scaled(const Estimate& a, double factor)
{
    Estimate out = a;
    out.value = int64_t(std::llround(double(a.value) * factor));
    return out;
}

} // namespace megagraph::planner
