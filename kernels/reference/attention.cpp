// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/attention.h"

#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace megagraph::kernels::reference {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

double dot(const std::vector<double>& a, int64_t row, const std::vector<double>& b, int64_t other, int32_t heads, int32_t head,
           int32_t dim)
{
    double sum = 0;
    for (int32_t x = 0; x < dim; ++x)
        sum += a[size_t((row * heads + head) * dim + x)] * b[size_t((other * heads + head) * dim + x)];
    return sum;
}

void add(std::vector<double>& to, int64_t row, double factor, const std::vector<double>& from, int64_t other, int32_t heads,
         int32_t head, int32_t dim)
{
    for (int32_t x = 0; x < dim; ++x)
        to[size_t((row * heads + head) * dim + x)] += factor * from[size_t((other * heads + head) * dim + x)];
}

/// Softmax of one row; lse = -inf and all zero if nothing is allowed.
double softmax(std::vector<double>& scores)
{
    double high = kNone;
    for (const double s : scores)
        high = std::max(high, s);
    if (high == kNone) {
        std::fill(scores.begin(), scores.end(), 0.0);
        return kNone;
    }
    double sum = 0;
    for (double& s : scores) {
        s = std::exp(s - high);
        sum += s;
    }
    for (double& s : scores)
        s /= sum;
    return high + std::log(sum);
}

/// Probabilities of row i, head h over all keys.
std::vector<double> denseRow(const Dense& p, int64_t i, int32_t h, double& lse)
{
    std::vector<double> scores(static_cast<size_t>(p.keys));
    for (int64_t j = 0; j < p.keys; ++j) {
        const uint8_t c = p.classes.empty() ? 0 : p.classes[size_t(i * p.keys + j)];
        double s = kNone;
        if (c != kMasked) {
            s = p.scale * dot(p.q, i, p.k, j, p.heads, h, p.dim);
            s += p.table.empty() ? 0.0 : p.table[size_t(h * p.classCount + c)];
        }
        scores[size_t(j)] = s;
    }
    for (size_t e = 0; e < p.pairs.size(); ++e) {
        if (p.pairs[e] / p.keys == i)
            scores[size_t(p.pairs[e] % p.keys)] += p.pairValues[size_t(h) * p.pairs.size() + e];
    }
    lse = softmax(scores);
    return scores;
}

double denseKeep(const Dense& p, int32_t h, int64_t i, int64_t j)
{
    return keepFactor(p.dropout, p.headOffset + h, p.queryOffset + i, p.keyOffset + j);
}

} // namespace

double keepFactor(const Dropout& dropout, int32_t head, int64_t row, int64_t column)
{
    const auto threshold = uint32_t(std::lround(65536.0 * dropout.p));
    if (threshold == 0)
        return 1.0;
    const uint64_t key = splitmix64(splitmix64(dropout.seed) ^ dropout.step);
    const uint32_t site = dropout.layer << 20 | uint32_t(head) << 8 | dropout.site;
    const PhiloxBlock words = philox4x32({uint32_t(uint64_t(column) >> 3), uint32_t(uint64_t(row)), dropout.item, site},
                                         {uint32_t(key), uint32_t(key >> 32)}, 7);
    const uint32_t word = words[size_t(column & 7) >> 1];
    const uint32_t draw = (column & 1) == 0 ? word & 0xFFFFu : word >> 16;
    return draw >= threshold ? 65536.0 / (65536.0 - threshold) : 0.0;
}

Output denseForward(const Dense& p)
{
    Output out{std::vector<double>(p.q.size(), 0.0), std::vector<double>(size_t(p.heads * p.queries), kNone)};
    for (int32_t h = 0; h < p.heads; ++h) {
        for (int64_t i = 0; i < p.queries; ++i) {
            const std::vector<double> prob = denseRow(p, i, h, out.lse[size_t(h * p.queries + i)]);
            for (int64_t j = 0; j < p.keys; ++j)
                add(out.o, i, prob[size_t(j)] * denseKeep(p, h, i, j), p.v, j, p.heads, h, p.dim);
        }
    }
    return out;
}

Gradients denseBackward(const Dense& p, const std::vector<double>& dO)
{
    Gradients g{std::vector<double>(p.q.size(), 0.0), std::vector<double>(p.k.size(), 0.0), std::vector<double>(p.v.size(), 0.0),
                std::vector<double>(p.table.size(), 0.0), std::vector<double>(p.pairValues.size(), 0.0)};
    for (int32_t h = 0; h < p.heads; ++h) {
        for (int64_t i = 0; i < p.queries; ++i) {
            double lse = 0, delta = 0;
            const std::vector<double> prob = denseRow(p, i, h, lse);
            std::vector<double> dP(prob.size());
            for (int64_t j = 0; j < p.keys; ++j) {
                dP[size_t(j)] = denseKeep(p, h, i, j) * dot(dO, i, p.v, j, p.heads, h, p.dim);
                delta += prob[size_t(j)] * dP[size_t(j)];
                add(g.dv, j, prob[size_t(j)] * denseKeep(p, h, i, j), dO, i, p.heads, h, p.dim);
            }
            for (size_t e = 0; e < p.pairs.size(); ++e) {
                const auto j = size_t(p.pairs[e] % p.keys);
                if (p.pairs[e] / p.keys == i)
                    g.pairValues[size_t(h) * p.pairs.size() + e] = prob[j] * (dP[j] - delta);
            }
            for (int64_t j = 0; j < p.keys; ++j) {
                const double dS = prob[size_t(j)] * (dP[size_t(j)] - delta);
                add(g.dq, i, p.scale * dS, p.k, j, p.heads, h, p.dim);
                add(g.dk, j, p.scale * dS, p.q, i, p.heads, h, p.dim);
                const uint8_t c = p.classes.empty() ? kMasked : p.classes[size_t(i * p.keys + j)];
                if (c != kMasked && !p.table.empty())
                    g.table[size_t(h * p.classCount + c)] += dS;
            }
        }
    }
    return g;
}

} // namespace megagraph::kernels::reference
