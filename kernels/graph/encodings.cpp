// SPDX-License-Identifier: Apache-2.0
#include "kernels/encodings.h"

#include "core/random.h"

#include <Eigen/Dense>
#include <Spectra/SymEigsSolver.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <tuple>

namespace megagraph::kernels {
namespace {

constexpr int64_t kDenseNodes = 256;
constexpr double kSameEigenvalue = 1e-6;
constexpr int64_t kBlock = 128;   // sources of one block of walks
constexpr int64_t kRowTask = 2048; // rows per task of a product

/// Leaves the library's iteration; caught in lanczosPairs.
struct Stopped {};

/// y = (3 I - L_sym) x on the space without the null vectors of the components and without the found ones. 3, not 2: on a
/// bipartite component L_sym reaches 2, and its vector must stay apart from the space that is projected out (value 0).
class ShiftedLaplacian {
  public:
    using Scalar = double;

    ShiftedLaplacian(CsrView graph, const ParallelFor& parallel, const std::stop_token& stop)
        : graph_(graph), parallel_(parallel), stop_(stop), component_(components(graph)), rootDegree_(size_t(graph.nodes)),
          inverseRoot_(size_t(graph.nodes)), scaled_(size_t(graph.nodes))
    {
        for (int64_t v = 0; v < graph.nodes; ++v) {
            const double degree = double(graph.indptr[size_t(v) + 1] - graph.indptr[size_t(v)]);
            rootDegree_[size_t(v)] = std::sqrt(degree);
            inverseRoot_[size_t(v)] = degree > 0 ? 1 / std::sqrt(degree) : 0;
        }
        const int32_t count = component_.empty() ? 0 : 1 + *std::max_element(component_.begin(), component_.end());
        mass_.assign(size_t(count), 0);
        dots_.assign(size_t(count), 0);
        for (int64_t v = 0; v < graph.nodes; ++v)
            mass_[size_t(component_[size_t(v)])] += rootDegree_[size_t(v)] * rootDegree_[size_t(v)];
    }

    Eigen::Index rows() const { return Eigen::Index(graph_.nodes); }
    Eigen::Index cols() const { return rows(); }
    int64_t products() const { return products_; }
    void deflate(const Eigen::VectorXd& vector) { found_.push_back(vector); }
    bool isolated(int64_t v) const { return rootDegree_[size_t(v)] == 0; }
    /// Non-zero eigenvalues of the whole graph: connected nodes less one per component that has an edge.
    int64_t nonZero() const
    {
        int64_t nodes = 0, withEdges = 0;
        for (const double r : rootDegree_)
            nodes += r > 0;
        for (const double m : mass_)
            withEdges += m > 0;
        return nodes - withEdges;
    }

    /// The projection: null vectors of the components, isolated nodes, vectors already found.
    void project(double* x) const
    {
        std::fill(dots_.begin(), dots_.end(), 0);
        for (int64_t v = 0; v < graph_.nodes; ++v)
            dots_[size_t(component_[size_t(v)])] += x[v] * rootDegree_[size_t(v)];
        for (int64_t v = 0; v < graph_.nodes; ++v) {
            const size_t c = size_t(component_[size_t(v)]);
            x[v] = isolated(v) ? 0 : x[v] - dots_[c] / mass_[c] * rootDegree_[size_t(v)];
        }
        Eigen::Map<Eigen::VectorXd> view(x, rows());
        for (const Eigen::VectorXd& vector : found_)
            view -= vector.dot(view) * vector;
    }

    /// Spectra's contract: pointers never alias. Throws Stopped, after all tasks have ended, when the stop token asks for it.
    void perform_op(const double* x, double* y) const
    {
        apply(x, y);
        if (stop_.stop_requested())
            throw Stopped{};
    }

    /// The product; incomplete if stopped.
    void apply(const double* x, double* y) const
    {
        ++products_;
        for (int64_t v = 0; v < graph_.nodes; ++v)
            scaled_[size_t(v)] = x[v] * inverseRoot_[size_t(v)];
        const int64_t tasks = (graph_.nodes + kRowTask - 1) / kRowTask;
        parallel_.run(tasks, [&](int64_t task, int32_t) {
            const int64_t end = std::min(graph_.nodes, (task + 1) * kRowTask);
            for (int64_t v = task * kRowTask; v < end && !stop_.stop_requested(); ++v) {
                double sum = 0;
                for (int64_t e = graph_.indptr[size_t(v)]; e < graph_.indptr[size_t(v) + 1]; ++e)
                    sum += scaled_[size_t(graph_.indices[size_t(e)])];
                y[v] = 2 * x[v] + sum * inverseRoot_[size_t(v)];
            }
        });
        project(y);
    }

  private:
    CsrView graph_;
    const ParallelFor& parallel_;
    std::stop_token stop_;
    std::vector<int32_t> component_;
    std::vector<double> rootDegree_, inverseRoot_, mass_;
    mutable std::vector<double> scaled_, dots_;
    std::vector<Eigen::VectorXd> found_;
    mutable int64_t products_ = 0;
};

struct Pair {
    double eigenvalue; // of L_sym
    Eigen::VectorXd vector;
};

std::vector<Pair> densePairs(const ShiftedLaplacian& op, int64_t wanted)
{
    const Eigen::Index n = op.rows();
    Eigen::MatrixXd matrix(n, n);
    for (Eigen::Index c = 0; c < n; ++c) {
        Eigen::VectorXd unit = Eigen::VectorXd::Unit(n, c);
        op.project(unit.data());
        Eigen::VectorXd image(n);
        op.apply(unit.data(), image.data());
        matrix.col(c) = image;
    }
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver((matrix + matrix.transpose()) / 2);
    std::vector<Pair> out;
    for (Eigen::Index i = 0; i < std::min<Eigen::Index>(wanted, n); ++i)
        out.push_back({3 - solver.eigenvalues()[n - 1 - i], solver.eigenvectors().col(n - 1 - i)});
    return out;
}

Result<std::vector<Pair>> lanczosPairs(ShiftedLaplacian& op, int64_t wanted, const LaplacianOptions& options, uint64_t stream,
                                       const std::stop_token& stop)
{
    const Eigen::Index n = op.rows();
    const auto basis = std::min<Eigen::Index>(std::max<Eigen::Index>(2 * wanted + 2, 20), n);
    Eigen::VectorXd start(n);
    for (Eigen::Index i = 0; i < n; ++i)
        start[i] = drawUniform(options.seed, stream, uint64_t(i)) - 0.5;
    op.project(start.data());
    std::vector<Pair> out;
    try { // Spectra reports a vanished start vector or a failed inner solver by exception
        Spectra::SymEigsSolver<ShiftedLaplacian> solver(op, wanted, basis);
        solver.init(start.data());
        solver.compute(Spectra::SortRule::LargestAlge, options.mostIterations, options.tolerance);
        if (stop.stop_requested())
            return Error{ErrorCode::Cancelled, "Laplacian vectors: cancelled"};
        if (solver.info() != Spectra::CompInfo::Successful && solver.eigenvalues().size() == 0)
            return Error{ErrorCode::Internal, fmt::format("Laplacian vectors: no vector converged in {} restarts; ask for fewer vectors", options.mostIterations)};
        for (Eigen::Index i = 0; i < solver.eigenvalues().size(); ++i)
            out.push_back({3 - solver.eigenvalues()[i], solver.eigenvectors().col(i)});
    } catch (const Stopped&) {
        return Error{ErrorCode::Cancelled, "Laplacian vectors: cancelled"};
    } catch (const std::exception& fault) {
        if (stop.stop_requested())
            return Error{ErrorCode::Cancelled, "Laplacian vectors: cancelled"};
        return Error{ErrorCode::Internal, fmt::format("Laplacian vectors: the iteration failed ({})", fault.what())};
    }
    return out;
}

/// Lanczos from one start vector can miss copies of a repeated eigenvalue: deflate what was found and look again until
/// nothing smaller than the k-th turns up.
Result<std::vector<Pair>> iterativePairs(ShiftedLaplacian& op, int64_t wanted, const LaplacianOptions& options,
                                         const Progress& progress, const std::stop_token& stop)
{
    MEGAGRAPH_TRY(std::vector<Pair> pairs, lanczosPairs(op, wanted, options, 0, stop));
    for (const Pair& pair : pairs)
        op.deflate(pair.vector);
    for (uint64_t look = 1; int64_t(pairs.size()) < op.nonZero() && look <= uint64_t(wanted); ++look) {
        if (progress)
            progress("Laplacian vectors", int64_t(look), wanted);
        const int64_t more = std::min<int64_t>(2, op.nonZero() - int64_t(pairs.size()));
        MEGAGRAPH_TRY(const std::vector<Pair> next, lanczosPairs(op, more, options, look, stop));
        const auto byValue = [](const Pair& a, const Pair& b) { return a.eigenvalue < b.eigenvalue; };
        std::sort(pairs.begin(), pairs.end(), byValue);
        const double largest = pairs[size_t(std::min<int64_t>(wanted, int64_t(pairs.size())) - 1)].eigenvalue;
        bool missed = int64_t(pairs.size()) < wanted;
        for (const Pair& pair : next) {
            missed = missed || pair.eigenvalue < largest - kSameEigenvalue;
            pairs.push_back(pair);
            op.deflate(pair.vector);
        }
        std::sort(pairs.begin(), pairs.end(), byValue);
        if (!missed)
            break;
    }
    return pairs;
}

void fixSign(Eigen::VectorXd& vector, std::span<const int32_t> ids)
{
    const double largest = vector.cwiseAbs().maxCoeff();
    int64_t best = -1;
    for (Eigen::Index i = 0; i < vector.size(); ++i) {
        if (std::abs(vector[i]) < largest - 1e-6)
            continue;
        const auto id = [&](int64_t node) { return ids.empty() ? int32_t(node) : ids[size_t(node)]; };
        if (best < 0 || id(i) < id(best))
            best = i;
    }
    if (best >= 0 && vector[best] < 0)
        vector = -vector;
}

/// Return probabilities of sources [first, first + kBlock) into out; `current`, `next` [N, kBlock]. Incomplete if stopped.
void exactWalks(CsrView graph, int64_t first, int64_t sources, int64_t steps, std::vector<double>& current,
                std::vector<double>& next, std::vector<float>& out, const std::stop_token& stop)
{
    const auto degree = [&](int64_t v) { return double(graph.indptr[size_t(v) + 1] - graph.indptr[size_t(v)]); };
    std::fill(current.begin(), current.end(), 0);
    for (int64_t s = 0; s < sources; ++s)
        current[size_t((first + s) * kBlock + s)] = 1;
    // (P^(a+b))_ii = sum_j (P^a)_ij (P^b)_ij deg_i / deg_j on undirected graphs: half the steps are enough
    const auto product = [&](const std::vector<double>& a, const std::vector<double>& b, int64_t t) {
        std::array<double, kBlock> sum{};
        for (int64_t v = 0; v < graph.nodes; ++v) {
            const double d = degree(v);
            if (d == 0)
                continue;
            for (int64_t s = 0; s < kBlock; ++s)
                sum[size_t(s)] += a[size_t(v * kBlock + s)] * b[size_t(v * kBlock + s)] / d;
        }
        for (int64_t s = 0; s < sources; ++s)
            out[size_t((first + s) * steps + t - 1)] = float(sum[size_t(s)] * degree(first + s));
    };
    for (int64_t a = 0; 2 * a < steps; ++a) { // current = rows of P^a
        if (a > 0)
            product(current, current, 2 * a);
        for (int64_t v = 0; v < graph.nodes; ++v) {
            if (v % kRowTask == 0 && stop.stop_requested())
                return;
            double* to = next.data() + v * kBlock;
            std::fill(to, to + kBlock, 0);
            for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e) {
                const int64_t u = graph.indices[size_t(e)];
                const double* from = current.data() + u * kBlock;
                const double share = 1 / degree(u);
                for (int64_t s = 0; s < kBlock; ++s)
                    to[s] += from[s] * share;
            }
        }
        product(current, next, 2 * a + 1);
        current.swap(next);
    }
    if (steps % 2 == 0)
        product(current, current, steps);
}

void sampledWalks(CsrView graph, int64_t v, int64_t steps, uint64_t seed, int64_t walks, WalkReturn& out)
{
    if (graph.indptr[size_t(v)] == graph.indptr[size_t(v) + 1])
        return;
    std::vector<int64_t> back(size_t(steps), 0);
    for (int64_t w = 0; w < walks; ++w) {
        int64_t at = v;
        for (int64_t t = 0; t < steps; ++t) {
            const int64_t begin = graph.indptr[size_t(at)], degree = graph.indptr[size_t(at) + 1] - begin;
            const uint64_t pick = drawBelow(seed, uint64_t(v), uint64_t(w * steps + t), uint64_t(degree));
            at = graph.indices[size_t(begin) + pick];
            back[size_t(t)] += at == v;
        }
    }
    for (int64_t t = 0; t < steps; ++t) {
        const double p = double(back[size_t(t)]) / double(walks);
        out.values[size_t(v * steps + t)] = float(p);
        out.standardError[size_t(v * steps + t)] = float(std::sqrt(p * (1 - p) / double(walks)));
    }
}

} // namespace

std::vector<uint16_t> clampedDegrees(CsrView graph)
{
    std::vector<uint16_t> out(size_t(graph.nodes));
    for (int64_t v = 0; v < graph.nodes; ++v)
        out[size_t(v)] = uint16_t(std::min<int64_t>(511, graph.indptr[size_t(v) + 1] - graph.indptr[size_t(v)]));
    return out;
}

Result<LaplacianVectors> laplacianVectors(CsrView graph, const LaplacianOptions& options, const ParallelFor& parallel,
                                          const Progress& progress, std::stop_token stop)
{
    if (options.vectors < 0)
        return Error{ErrorCode::InvalidInput, fmt::format("Laplacian vectors: vectors: got {}, expected 0 or more", options.vectors)};
    const int64_t k = options.vectors, n = graph.nodes;
    LaplacianVectors out;
    out.vectors = k;
    out.values.assign(size_t(n * k), 0);
    out.eigenvalues.assign(size_t(k), 0);
    out.residuals.assign(size_t(k), 0);
    out.notUnique.assign(size_t(k), false);
    ShiftedLaplacian op(graph, parallel, stop), plain(graph, parallel, stop);
    const int64_t wanted = std::min(k, op.nonZero());
    if (wanted == 0)
        return out;
    std::vector<Pair> pairs;
    if (n <= kDenseNodes) {
        pairs = densePairs(op, std::min(wanted + 1, op.nonZero()));
    } else {
        MEGAGRAPH_TRY(pairs, iterativePairs(op, wanted, options, progress, stop));
    }
    for (int64_t i = 0; i < std::min<int64_t>(wanted, int64_t(pairs.size())); ++i) {
        Pair& pair = pairs[size_t(i)];
        pair.vector.normalize();
        fixSign(pair.vector, options.ids);
        Eigen::VectorXd image(n);
        plain.apply(pair.vector.data(), image.data());
        out.eigenvalues[size_t(i)] = pair.eigenvalue;
        out.residuals[size_t(i)] = (3 * pair.vector - image - pair.eigenvalue * pair.vector).norm();
        const auto near = [&](int64_t j) {
            return j >= 0 && j < int64_t(pairs.size()) && std::abs(pairs[size_t(j)].eigenvalue - pair.eigenvalue) < kSameEigenvalue;
        };
        out.notUnique[size_t(i)] = near(i - 1) || near(i + 1);
        for (int64_t v = 0; v < n; ++v)
            out.values[size_t(v * k + i)] = float(pair.vector[v]);
    }
    if (stop.stop_requested())
        return Error{ErrorCode::Cancelled, "Laplacian vectors: cancelled"};
    out.products = op.products();
    return out;
}

Result<WalkReturn> randomWalkReturn(CsrView graph, int64_t steps, uint64_t seed, int64_t walks, double exactFlops,
                                    const ParallelFor& parallel, const Progress& progress, std::stop_token stop)
{
    if (steps < 0 || walks < 1)
        return Error{ErrorCode::InvalidInput, fmt::format("walk encoding: steps and walks: got {} and {}, expected at least 0 and 1", steps, walks)};
    WalkReturn out;
    out.steps = steps;
    out.values.assign(size_t(graph.nodes * steps), 0);
    const double flops = 2 * std::ceil(double(steps) / 2) * double(graph.indices.size()) * double(graph.nodes);
    const bool exact = flops <= exactFlops;
    const int64_t tasks = exact ? (graph.nodes + kBlock - 1) / kBlock : graph.nodes;
    if (!exact)
        out.standardError.assign(out.values.size(), 0);
    std::vector<std::vector<double>> current(size_t(parallel.slots())), next(size_t(parallel.slots()));
    std::atomic<int64_t> done{0};
    parallel.run(tasks, [&](int64_t task, int32_t slot) {
        if (stop.stop_requested())
            return;
        if (exact) {
            current[size_t(slot)].resize(size_t(graph.nodes * kBlock));
            next[size_t(slot)].resize(size_t(graph.nodes * kBlock));
            exactWalks(graph, task * kBlock, std::min(kBlock, graph.nodes - task * kBlock), steps, current[size_t(slot)],
                       next[size_t(slot)], out.values, stop);
        } else {
            sampledWalks(graph, task, steps, seed, walks, out);
        }
        const int64_t count = ++done;
        if (progress && slot == 0)
            progress("walk encoding", count, tasks);
    });
    if (stop.stop_requested())
        return Error{ErrorCode::Cancelled, "walk encoding: cancelled"};
    return out;
}

} // namespace megagraph::kernels
