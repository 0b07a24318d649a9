// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/edge_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace megagraph::kernels::reference {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

/// One pair of a row: its key and its entry, -1 for the self key.
struct Pair {
    int64_t key = 0, entry = -1;
};

std::vector<Pair> pairsOf(const Edges& p, int64_t n)
{
    std::vector<Pair> pairs;
    for (int64_t e = p.indptr[size_t(n)]; e < p.indptr[size_t(n) + 1]; ++e)
        pairs.push_back({p.indices[size_t(e)], e});
    if (p.selfKey)
        pairs.push_back({p.selfOffset + n, -1});
    return pairs;
}

size_t at(const Edges& p, int64_t row, int32_t h, int32_t x)
{
    return size_t((row * p.heads + h) * p.dim + x);
}

double edgeFactor(const Edges& p, int64_t entry, int32_t h, int32_t x)
{
    return p.u.empty() ? 1.0 : p.u[at(p, entry, h, x)];
}

/// Score of a pair before any clamp.
double score(const Edges& p, int64_t n, const Pair& pair, int32_t h)
{
    double sum = 0;
    for (int32_t x = 0; x < p.dim; ++x)
        sum += p.scale * p.q[at(p, n, h, x)] * p.k[at(p, pair.key, h, x)] *
               (p.kind == EdgeBiasKind::Gt ? edgeFactor(p, pair.entry, h, x) : 1.0);
    if (p.kind == EdgeBiasKind::Values && pair.entry >= 0)
        sum += p.w[size_t(h) * p.indices.size() + size_t(pair.entry)];
    if (p.kind == EdgeBiasKind::Classes) {
        const int32_t c = pair.entry >= 0 ? p.classes[size_t(pair.entry)] : p.selfClass;
        sum += c < 0 ? 0.0 : p.table[size_t(h * p.classCount + c)];
    }
    return sum;
}

double keepOf(const Edges& p, int32_t h, int64_t n, const Pair& pair)
{
    const int64_t column = p.keyNumbers.empty() ? p.keyOffset + pair.key : p.keyNumbers[size_t(pair.key)];
    return keepFactor(p.dropout, p.headOffset + h, p.queryOffset + n, column);
}

/// Probabilities of a row and its lse; a row of nothing but -inf: zeros and -inf.
std::vector<double> probabilities(const Edges& p, int64_t n, const std::vector<Pair>& pairs, int32_t h, double& lse)
{
    std::vector<double> scores;
    double high = kNone;
    for (const Pair& pair : pairs) {
        const double s = score(p, n, pair, h);
        scores.push_back(p.kind == EdgeBiasKind::Gt ? std::clamp(s, -5.0, 5.0) : s);
        high = std::max(high, scores.back());
    }
    lse = kNone;
    if (high == kNone) {
        std::fill(scores.begin(), scores.end(), 0.0);
        return scores;
    }
    double sum = p.kind == EdgeBiasKind::Gt ? 1e-6 * std::exp(-high) : 0.0;
    for (double& s : scores) {
        s = std::exp(s - high);
        sum += s;
    }
    for (double& s : scores)
        s /= sum;
    lse = high + std::log(sum);
    return scores;
}

/// Gradients through one score: dt = dS of the pair, ds = its part of the edge stream.
void addPair(const Edges& p, const std::vector<double>& ds, int64_t n, const Pair& pair, int32_t h, double dt,
             EdgeGradients& g)
{
    const bool gt = p.kind == EdgeBiasKind::Gt;
    if (gt && std::abs(score(p, n, pair, h)) > 5.0)
        dt = 0; // the clamp is flat there; the edge stream leaves before it
    for (int32_t x = 0; x < p.dim; ++x) {
        const double u = gt ? edgeFactor(p, pair.entry, h, x) : 1.0;
        const double q = p.q[at(p, n, h, x)], k = p.k[at(p, pair.key, h, x)];
        const double total = p.scale * (dt + (ds.empty() ? 0.0 : ds[at(p, pair.entry, h, x)]));
        g.dq[at(p, n, h, x)] += total * k * u;
        g.dk[at(p, pair.key, h, x)] += total * q * u;
        if (!g.du.empty())
            g.du[at(p, pair.entry, h, x)] += total * q * k;
    }
    if (p.kind == EdgeBiasKind::Values && pair.entry >= 0)
        g.dw[size_t(h) * p.indices.size() + size_t(pair.entry)] += dt;
    const int32_t c = p.kind != EdgeBiasKind::Classes ? -1
                      : pair.entry >= 0               ? p.classes[size_t(pair.entry)]
                                                      : p.selfClass;
    if (c >= 0)
        g.table[size_t(h * p.classCount + c)] += dt;
}

} // namespace

EdgeOutput edgeForward(const Edges& p)
{
    EdgeOutput out{{std::vector<double>(p.q.size(), 0.0), std::vector<double>(size_t(p.heads * p.rows), kNone)},
                   std::vector<double>(p.u.size(), 0.0)};
    for (int64_t n = 0; n < p.rows; ++n) {
        const std::vector<Pair> pairs = pairsOf(p, n);
        for (int32_t h = 0; h < p.heads; ++h) {
            const std::vector<double> prob = probabilities(p, n, pairs, h, out.lse[size_t(h * p.rows + n)]);
            for (size_t e = 0; e < pairs.size(); ++e) {
                for (int32_t x = 0; x < p.dim; ++x) {
                    out.o[at(p, n, h, x)] += prob[e] * keepOf(p, h, n, pairs[e]) * p.v[at(p, pairs[e].key, h, x)];
                    if (!p.u.empty())
                        out.s[at(p, pairs[e].entry, h, x)] = p.scale * p.q[at(p, n, h, x)] *
                                                             p.k[at(p, pairs[e].key, h, x)] *
                                                             p.u[at(p, pairs[e].entry, h, x)];
                }
            }
        }
    }
    return out;
}

EdgeGradients edgeBackward(const Edges& p, const std::vector<double>& dO, const std::vector<double>& ds)
{
    const auto zeros = [](const std::vector<double>& like) { return std::vector<double>(like.size(), 0.0); };
    EdgeGradients g{{zeros(p.q), zeros(p.k), zeros(p.v), zeros(p.table)}, zeros(p.w), zeros(p.u)};
    for (int64_t n = 0; n < p.rows; ++n) {
        const std::vector<Pair> pairs = pairsOf(p, n);
        for (int32_t h = 0; h < p.heads; ++h) {
            double lse = 0, delta = 0;
            const std::vector<double> prob = probabilities(p, n, pairs, h, lse);
            std::vector<double> dP(prob.size(), 0.0);
            for (size_t e = 0; e < pairs.size(); ++e) {
                const double keep = keepOf(p, h, n, pairs[e]);
                for (int32_t x = 0; x < p.dim; ++x) {
                    dP[e] += keep * dO[at(p, n, h, x)] * p.v[at(p, pairs[e].key, h, x)];
                    g.dv[at(p, pairs[e].key, h, x)] += prob[e] * keep * dO[at(p, n, h, x)];
                }
                delta += prob[e] * dP[e];
            }
            for (size_t e = 0; e < pairs.size(); ++e)
                addPair(p, ds, n, pairs[e], h, prob[e] * (dP[e] - delta), g);
        }
    }
    return g;
}

} // namespace megagraph::kernels::reference
