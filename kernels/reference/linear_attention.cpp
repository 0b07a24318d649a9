// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/linear_attention.h"

#include <cmath>

namespace megagraph::kernels::reference {
namespace {

double inverseRoot(double squared)
{
    return squared > 0 ? 1.0 / std::sqrt(squared) : 0.0;
}

size_t at(const Linear& p, int64_t token, int32_t head, int32_t x)
{
    return size_t((token * p.heads + head) * p.dim + x);
}

double dot(const Linear& p, const std::vector<double>& a, int64_t i, const std::vector<double>& b, int64_t j, int32_t h)
{
    double sum = 0;
    for (int32_t x = 0; x < p.dim; ++x)
        sum += a[at(p, i, h, x)] * b[at(p, j, h, x)];
    return sum;
}

double squares(const std::vector<double>& values)
{
    double sum = 0;
    for (const double v : values)
        sum += v * v;
    return sum;
}

/// Row h of a state: S [dim, dim] starts at h dim dim, s1 at h dim.
struct Head {
    const double *S, *s1;
};
Head headOf(const LinearState& state, int32_t h, int32_t dim)
{
    return {state.S.data() + int64_t(h) * dim * dim, state.s1.data() + int64_t(h) * dim};
}

/// y_ih and its denominator.
struct Row {
    std::vector<double> y;
    double den = 0;
};
Row rowOf(const Linear& p, const LinearState& state, int64_t total, int64_t i, int32_t h)
{
    const double ab = inverseRoot(state.q2) * inverseRoot(state.k2);
    const Head head = headOf(state, h, p.dim);
    Row row{std::vector<double>(size_t(p.dim)), double(total)};
    for (int32_t x = 0; x < p.dim; ++x)
        row.den += ab * head.s1[x] * p.q[at(p, i, h, x)];
    for (int32_t y = 0; y < p.dim; ++y) {
        double sum = double(total) * p.v[at(p, i, h, y)];
        for (int32_t x = 0; x < p.dim; ++x)
            sum += ab * head.S[x * p.dim + y] * p.q[at(p, i, h, x)];
        row.y[size_t(y)] = sum / row.den;
    }
    return row;
}

/// dn_ih = dy / den and dd_ih = -(dy.y) / den with dy = gradient / heads.
struct RowGradient {
    std::vector<double> dn;
    double dd = 0;
};
RowGradient rowGradient(const Linear& p, const LinearState& state, int64_t total, const std::vector<double>& gradient, int64_t i, int32_t h)
{
    const Row row = rowOf(p, state, total, i, h);
    RowGradient g{std::vector<double>(size_t(p.dim)), 0};
    for (int32_t x = 0; x < p.dim; ++x) {
        const double dy = gradient[size_t(i * p.dim + x)] / p.heads;
        g.dn[size_t(x)] = dy / row.den;
        g.dd -= dy * row.y[size_t(x)] / row.den;
    }
    return g;
}

LinearState zeroState(const Linear& p)
{
    return {std::vector<double>(size_t(p.heads) * size_t(p.dim) * size_t(p.dim), 0.0),
            std::vector<double>(size_t(p.heads) * size_t(p.dim), 0.0), 0, 0};
}

} // namespace

std::vector<double> linearQuadratic(const Linear& p)
{
    const double ab = inverseRoot(squares(p.q)) * inverseRoot(squares(p.k)), n = double(p.tokens);
    std::vector<double> out(size_t(p.tokens * p.dim), 0.0);
    for (int32_t h = 0; h < p.heads; ++h) {
        for (int64_t i = 0; i < p.tokens; ++i) {
            std::vector<double> numerator(size_t(p.dim), 0.0);
            double denominator = n;
            for (int64_t j = 0; j < p.tokens; ++j) {
                const double weight = ab * dot(p, p.q, i, p.k, j, h) + (i == j ? n : 0.0);
                denominator += i == j ? weight - n : weight;
                for (int32_t x = 0; x < p.dim; ++x)
                    numerator[size_t(x)] += weight * p.v[at(p, j, h, x)];
            }
            for (int32_t x = 0; x < p.dim; ++x)
                out[size_t(i * p.dim + x)] += numerator[size_t(x)] / denominator / p.heads;
        }
    }
    return out;
}

LinearState linearState(const Linear& p)
{
    LinearState state = zeroState(p);
    state.q2 = squares(p.q);
    state.k2 = squares(p.k);
    for (int64_t j = 0; j < p.tokens; ++j) {
        for (int32_t h = 0; h < p.heads; ++h) {
            for (int32_t x = 0; x < p.dim; ++x) {
                const double k = p.k[at(p, j, h, x)];
                state.s1[size_t(h * p.dim + x)] += k;
                for (int32_t y = 0; y < p.dim; ++y)
                    state.S[size_t((h * p.dim + x) * p.dim + y)] += k * p.v[at(p, j, h, y)];
            }
        }
    }
    return state;
}

LinearState sum(LinearState a, const LinearState& b)
{
    for (size_t i = 0; i < a.S.size(); ++i)
        a.S[i] += b.S[i];
    for (size_t i = 0; i < a.s1.size(); ++i)
        a.s1[i] += b.s1[i];
    a.q2 += b.q2;
    a.k2 += b.k2;
    return a;
}

std::vector<double> linearApply(const Linear& p, const LinearState& state, int64_t total)
{
    std::vector<double> out(size_t(p.tokens * p.dim), 0.0);
    for (int64_t i = 0; i < p.tokens; ++i) {
        for (int32_t h = 0; h < p.heads; ++h) {
            const Row row = rowOf(p, state, total, i, h);
            for (int32_t x = 0; x < p.dim; ++x)
                out[size_t(i * p.dim + x)] += row.y[size_t(x)] / p.heads;
        }
    }
    return out;
}

LinearState linearBackwardState(const Linear& p, const LinearState& state, int64_t total, const std::vector<double>& gradient)
{
    LinearState back = zeroState(p);
    for (int64_t i = 0; i < p.tokens; ++i) {
        for (int32_t h = 0; h < p.heads; ++h) {
            const RowGradient g = rowGradient(p, state, total, gradient, i, h);
            for (int32_t x = 0; x < p.dim; ++x) {
                const double q = p.q[at(p, i, h, x)];
                back.s1[size_t(h * p.dim + x)] += q * g.dd;
                for (int32_t y = 0; y < p.dim; ++y)
                    back.S[size_t((h * p.dim + x) * p.dim + y)] += q * g.dn[size_t(y)];
            }
        }
    }
    return back;
}

LinearGradients linearBackwardApply(const Linear& p, const LinearState& state, const LinearState& backward, int64_t total,
                                    const std::vector<double>& gradient)
{
    const double ab = inverseRoot(state.q2) * inverseRoot(state.k2);
    double gamma = 0;
    for (size_t i = 0; i < state.S.size(); ++i)
        gamma += state.S[i] * backward.S[i];
    for (size_t i = 0; i < state.s1.size(); ++i)
        gamma += state.s1[i] * backward.s1[i];
    LinearGradients out{std::vector<double>(p.q.size()), std::vector<double>(p.q.size()), std::vector<double>(p.q.size())};
    for (int64_t i = 0; i < p.tokens; ++i) {
        for (int32_t h = 0; h < p.heads; ++h) {
            const Head s = headOf(state, h, p.dim), b = headOf(backward, h, p.dim);
            const RowGradient g = rowGradient(p, state, total, gradient, i, h);
            for (int32_t x = 0; x < p.dim; ++x) {
                double dq = s.s1[x] * g.dd, dk = b.s1[x], dv = 0;
                for (int32_t y = 0; y < p.dim; ++y) {
                    dq += s.S[x * p.dim + y] * g.dn[size_t(y)];
                    dk += b.S[x * p.dim + y] * p.v[at(p, i, h, y)];
                    dv += b.S[y * p.dim + x] * p.k[at(p, i, h, y)];
                }
                out.dq[at(p, i, h, x)] = ab * (dq - (state.q2 > 0 ? gamma * p.q[at(p, i, h, x)] / state.q2 : 0.0));
                out.dk[at(p, i, h, x)] = ab * (dk - (state.k2 > 0 ? gamma * p.k[at(p, i, h, x)] / state.k2 : 0.0));
                out.dv[at(p, i, h, x)] = double(total) * g.dn[size_t(x)] + ab * dv;
            }
        }
    }
    return out;
}

} // namespace megagraph::kernels::reference
