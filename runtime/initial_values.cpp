// SPDX-License-Identifier: Apache-2.0
#include "runtime/initial_values.h"

#include "core/hash.h"
#include "core/random.h"

#include <cmath>
#include <numbers>

namespace megagraph::runtime {

namespace {

/// Uniform in (-1, 1) from one 32-bit draw, symmetric about 0.
double symmetric(uint32_t draw)
{
    return (double(draw) + 0.5) / 2147483648.0 - 1.0;
}

/// Four uniforms per block: element t takes word t & 3 of block t >> 2.
double uniformAt(uint64_t seed, uint64_t stream, int64_t t)
{
    return symmetric(drawWords(seed, stream, uint64_t(t) >> 2)[size_t(t & 3)]);
}

/// Box-Muller on words (0, 1) and (2, 3): element t takes block t >> 2, pair (t & 3) >> 1, cosine if even.
double normalAt(uint64_t seed, uint64_t stream, int64_t t)
{
    const PhiloxBlock words = drawWords(seed, stream, uint64_t(t) >> 2);
    const size_t pair = size_t(t & 2);
    const double u = (double(words[pair]) + 0.5) / 4294967296.0;
    const double angle = 2.0 * std::numbers::pi * (double(words[pair + 1]) / 4294967296.0);
    const double radius = std::sqrt(-2.0 * std::log(u));
    return radius * ((t & 1) ? std::sin(angle) : std::cos(angle));
}

/// b[h, c] = -t_h c up to K hops, far -t_h (K + 2), unreachable -t_h (K + 4), token 0; t_h evenly from 1.5 to 3.
double decayAt(int64_t heads, int64_t classes, int64_t t)
{
    const int64_t head = t / classes, c = t % classes, hops = classes - 4;
    const double slope = heads > 1 ? 1.5 + 1.5 * double(head) / double(heads - 1) : 1.5;
    if (c <= hops)
        return -slope * double(c);
    if (c == hops + 1)
        return -slope * double(hops + 2);
    return c == hops + 2 ? -slope * double(hops + 4) : 0.0;
}

} // namespace

void initialValues(const ParameterSpec& spec, uint64_t seed, int64_t begin, std::span<float> out)
{
    const uint64_t stream = fnv1a64(spec.name);
    const int64_t rows = spec.shape.empty() ? 1 : spec.shape.front(), columns = spec.shape.empty() ? 1 : spec.shape.back();
    const double fan = 1.0 / std::sqrt(double(spec.fanIn > 0 ? spec.fanIn : 1));
    const double glorot = std::sqrt(6.0 / double(rows + columns));
    for (size_t i = 0; i < out.size(); ++i) {
        const int64_t t = begin + int64_t(i);
        double value = 0;
        switch (spec.init) {
        case InitKind::Zero: break;
        case InitKind::One: value = 1; break;
        case InitKind::LinearUniform: value = fan * uniformAt(seed, stream, t); break;
        case InitKind::LinearUniformScaled: value = spec.initScale * fan * uniformAt(seed, stream, t); break;
        case InitKind::Normal: value = spec.initScale * normalAt(seed, stream, t); break;
        case InitKind::Glorot: value = glorot * uniformAt(seed, stream, t); break;
        case InitKind::DecayTable: value = decayAt(rows, columns, t); break;
        }
        out[i] = float(value);
    }
}

} // namespace megagraph::runtime
