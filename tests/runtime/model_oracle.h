// SPDX-License-Identifier: Apache-2.0
// The models once more, in fp64 dense Torch operations written from the formulas: no tiles, no lists, no shards. Distances by
// powers of the adjacency matrix. Only the dropout mask is taken from the kernels (its own tests hold it to Philox).
#pragma once

#include "kernels/dropout.h"
#include "model_fixture.h"

namespace megagraph::test {

class Oracle {
  public:
    Oracle(const Plan& plan, const GraphHome& home, bool training) : m_(plan.model), training_(training)
    {
        Plan whole = planOf(plan.model);
        whole.bias = plan.bias; // its lists would not hold many hops
        const auto set = runtime::makeSequences(whole, home.data(), home.path(), 0, 1);
        ids_ = set.sequences[0]->originalIds(); // token order: masks and nothing else depend on it
        n_ = int64_t(ids_.size());
        total_ = n_ + (m_.kind == Architecture::Graphormer && m_.graphToken ? 1 : 0);
        const auto model = runtime::makeModel(whole, home.data().spec(), 7, 1);
        for (size_t p = 0; p < model->layout().size(); ++p)
            p_[model->layout()[p].name] = model->parameters()[p].detach().to(at::kDouble).requires_grad_(true);
        readGraph(home.data());
    }

    Outcome run()
    {
        at::Tensor out = m_.kind == Architecture::Graphormer ? graphormer() : m_.kind == Architecture::GtSparse ? gtSparse() : sgformer();
        (out * cotangent(ids_, out.size(1)).to(at::kDouble)).sum().backward();
        Outcome outcome;
        outcome.logits = at::zeros({n_, out.size(1)}, at::kDouble);
        for (int64_t t = 0; t < n_; ++t)
            outcome.logits[ids_[size_t(t)]] = out[t].detach();
        for (auto& [name, value] : p_)
            outcome.gradients[name] = value.grad().defined() ? value.grad() : at::zeros_like(value);
        return outcome;
    }

  private:
    void readGraph(const Dataset& data)
    {
        const int64_t width = data.spec().featureWidth;
        x_ = at::zeros({n_, width}, at::kDouble);
        adjacency_ = at::zeros({n_, n_}, at::kDouble);
        std::vector<int64_t> token(static_cast<size_t>(n_));
        for (int64_t t = 0; t < n_; ++t)
            token[size_t(ids_[size_t(t)])] = t;
        for (int64_t t = 0; t < n_; ++t) {
            const auto id = size_t(ids_[size_t(t)]);
            for (int64_t e = data.indptr()[id]; e < data.indptr()[id + 1]; ++e)
                adjacency_[t][token[size_t(data.indices()[size_t(e)])]] = 1.0;
            if (data.spec().featureKind == "dense")
                for (int64_t f = 0; f < width; ++f)
                    x_[t][f] = double(data.denseFeatures()[id * size_t(width) + size_t(f)]);
            else
                for (int64_t e = data.featureIndptr()[id]; e < data.featureIndptr()[id + 1]; ++e)
                    x_[t][data.featureIndices()[size_t(e)]] = data.featureValues().empty() ? 1.0 : double(data.featureValues()[size_t(e)]);
        }
        if (m_.scaleFeatures) {
            const at::Tensor sum = x_.sum(1, true);
            x_ = x_ / at::where(sum == 0, at::ones_like(sum), sum);
        }
    }

    at::Tensor linear(const at::Tensor& x, const std::string& name) { return at::matmul(x, p_[name + ".weight"].t()) + p_[name + ".bias"]; }
    at::Tensor layerNorm(const at::Tensor& x, const std::string& name)
    {
        const at::Tensor centred = x - x.mean(1, true);
        return centred / at::sqrt((centred * centred).mean(1, true) + 1e-5) * p_[name + ".weight"] + p_[name + ".bias"];
    }
    static at::Tensor gelu(const at::Tensor& x) { return 0.5 * x * (1.0 + at::erf(x / std::sqrt(2.0))); }

    at::Tensor mask(int64_t rows, int64_t columns, double p, uint32_t site, int64_t layer, uint32_t head = 0)
    {
        at::Tensor out = at::ones({rows, columns}, at::kDouble);
        if (!training_ || p == 0)
            return out;
        const kernels::Dropout key{p, 7, 3, 0, uint32_t(layer), site};
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j) {
                const bool keep = kernels::dropoutKeep8(key, head, uint64_t(i), uint64_t(j) >> 3) >> (j & 7) & 1;
                out.data_ptr<double>()[i * columns + j] = keep ? double(kernels::dropoutScale(p)) : 0.0;
            }
        return out;
    }
    at::Tensor drop(const at::Tensor& x, double p, uint32_t site, int64_t layer) { return x * mask(x.size(0), x.size(1), p, site, layer); }

    /// c(i, j) of section 2.1, [total, total].
    at::Tensor classes()
    {
        const at::Tensor step = ((adjacency_ + at::eye(n_, at::kDouble)) > 0).to(at::kDouble);
        at::Tensor reach = at::eye(n_, at::kDouble), c = at::full({n_, n_}, m_.hops + 1, at::kLong);
        for (int64_t t = 0; t <= m_.hops; ++t) {
            c = at::where((reach > 0) & (c > m_.hops), at::full_like(c, t), c);
            reach = (at::matmul(reach, step) > 0).to(at::kDouble);
        }
        for (int i = 0; i < 8; ++i)
            reach = (at::matmul(reach, reach) > 0).to(at::kDouble);
        c = at::where(reach > 0, c, at::full_like(c, m_.hops + 2));
        at::Tensor all = at::full({total_, total_}, m_.hops + 3, at::kLong);
        all.narrow(0, 0, n_).narrow(1, 0, n_).copy_(c);
        return all;
    }

    at::Tensor attend(const at::Tensor& x, const std::string& name, int64_t layer, const std::function<at::Tensor(int64_t)>& offset)
    {
        const at::Tensor q = linear(x, name + ".attention.query"), k = linear(x, name + ".attention.key"), v = linear(x, name + ".attention.value");
        const int64_t w = m_.width / m_.heads;
        std::vector<at::Tensor> parts;
        for (int64_t h = 0; h < m_.heads; ++h) {
            const at::Tensor s = at::matmul(q.narrow(1, h * w, w), k.narrow(1, h * w, w).t()) / std::sqrt(double(w)) + offset(h);
            const at::Tensor p = at::softmax(s, 1) * mask(s.size(0), s.size(1), m_.attentionDropout, kernels::kSiteAttention, layer, uint32_t(h));
            parts.push_back(at::matmul(p, v.narrow(1, h * w, w)));
        }
        return at::cat(parts, 1);
    }

    at::Tensor graphormer()
    {
        const at::Tensor degree = at::clamp_max(adjacency_.sum(1), 511).to(at::kLong), c = classes();
        at::Tensor h = linear(x_, "embed.feature");
        if (m_.degreeEncoding)
            h = h + p_["embed.degree_in.weight"].index({degree}) + p_["embed.degree_out.weight"].index({degree});
        if (m_.graphToken)
            h = at::cat({h, p_["embed.token"].unsqueeze(0)});
        h = drop(h, m_.inputDropout, kernels::kSiteInput, 0);
        const auto bias = [&](int64_t head) { return p_["bias_table"][head].index({c}); };
        for (int64_t i = 0; i < m_.blocks; ++i) {
            const std::string b = "block" + std::to_string(i);
            const bool pre = m_.norm == NormPlace::Pre;
            at::Tensor y = h + drop(linear(attend(pre ? layerNorm(h, b + ".norm1") : h, b, i + 1, bias), b + ".attention.output"),
                                    m_.residualDropout, kernels::kSiteResidual1, i + 1);
            y = pre ? y : layerNorm(y, b + ".norm1");
            const at::Tensor f = drop(gelu(linear(pre ? layerNorm(y, b + ".norm2") : y, b + ".ffn.in")), m_.ffnDropout, kernels::kSiteFfn, i + 1);
            y = y + drop(linear(f, b + ".ffn.out"), m_.residualDropout, kernels::kSiteResidual2, i + 1);
            h = pre ? y : layerNorm(y, b + ".norm2");
        }
        h = h.narrow(0, 0, n_);
        return linear(m_.norm == NormPlace::Pre ? layerNorm(h, "head.norm") : h, "head.output");
    }

    at::Tensor gtSparse()
    {
        const bool alone = m_.neighbours == Neighbours::None;
        at::Tensor allowed = alone ? at::zeros_like(adjacency_) : adjacency_;
        if (m_.selfLoops || alone)
            allowed = allowed + at::eye(n_, at::kDouble);
        at::Tensor h = gelu(drop(linear(x_, "embed.feature"), m_.inputDropout, kernels::kSiteInput, 0));
        const at::Tensor lonely = allowed.sum(1, true) == 0; // no key: output 0
        const auto offset = [&](int64_t) {
            return at::where(allowed + lonely.to(at::kDouble) > 0, at::zeros_like(allowed), at::full_like(allowed, -1e300));
        };
        for (int64_t i = 0; i < m_.blocks; ++i) {
            const std::string b = "block" + std::to_string(i);
            const at::Tensor own = layerNorm(h, b + ".norm1");
            at::Tensor message = attend(own, b, i + 1, offset) * (1.0 - lonely.to(at::kDouble));
            if (!m_.selfLoops)
                message = at::cat({own, message}, 1);
            h = h + drop(linear(message, b + ".attention.output"), m_.residualDropout, kernels::kSiteResidual1, i + 1);
            const at::Tensor f = gelu(drop(linear(layerNorm(h, b + ".norm2"), b + ".ffn.in"), m_.ffnDropout, kernels::kSiteFfn, i + 1));
            h = h + drop(linear(f, b + ".ffn.out"), m_.residualDropout, kernels::kSiteResidual2, i + 1);
        }
        return linear(layerNorm(h, "head.norm"), "head.output");
    }

    at::Tensor sgformer()
    {
        const double n = double(n_);
        const at::Tensor x = drop(x_, m_.inputDropout, kernels::kSiteInput, 0);
        at::Tensor z = drop(at::relu(layerNorm(linear(x, "embed.feature"), "embed.norm")), m_.attentionDropout, kernels::kSiteResidual1, 0);
        for (int64_t i = 0; i < m_.blocks; ++i) {
            const std::string b = "block" + std::to_string(i);
            const at::Tensor q = linear(z, b + ".attention.query"), k = linear(z, b + ".attention.key"), v = linear(z, b + ".attention.value");
            const at::Tensor ab = 1.0 / (q.norm() * k.norm());
            at::Tensor mean = at::zeros_like(z);
            for (int64_t h = 0; h < m_.heads; ++h) { // the quadratic form, all pairs
                const auto part = [&](const at::Tensor& t) { return t.narrow(1, h * m_.width, m_.width); };
                const at::Tensor s = ab * at::matmul(part(q), part(k).t());
                mean = mean + (n * part(v) + at::matmul(s, part(v))) / (n + s.sum(1, true)) / double(m_.heads);
            }
            z = drop(layerNorm(0.5 * mean + 0.5 * z, b + ".norm"), m_.attentionDropout, kernels::kSiteResidual1, i + 1);
        }
        const at::Tensor g = graphBranch(x);
        return linear(m_.gcnWeight * g + (1 - m_.gcnWeight) * z, "head.output");
    }

    at::Tensor graphBranch(const at::Tensor& x)
    {
        const at::Tensor a = m_.gcnResidual ? adjacency_ : adjacency_ + at::eye(n_, at::kDouble);
        const at::Tensor degree = a.sum(1), scale = at::where(degree > 0, 1.0 / at::sqrt(at::clamp_min(degree, 1)), at::zeros_like(degree));
        const at::Tensor hat = scale.unsqueeze(1) * a * scale.unsqueeze(0);
        const int64_t first = m_.blocks + 1;
        const auto dropped = [&](const at::Tensor& y, int64_t i) { return drop(at::relu(y), m_.gcnDropout, kernels::kSiteGcn, first + i); };
        at::Tensor g = x;
        if (m_.gcnResidual)
            g = dropped(linear(x, "head.gcn.input"), 0);
        for (int64_t i = 0; i < m_.gcnLayers; ++i) {
            const at::Tensor y = linear(at::matmul(hat, g), "head.gcn" + std::to_string(i));
            g = m_.gcnResidual ? g + dropped(y, i + 1) : i + 1 < m_.gcnLayers ? dropped(y, i) : y;
        }
        return g;
    }

    ModelSpec m_;
    bool training_;
    std::vector<int32_t> ids_;
    int64_t n_ = 0, total_ = 0;
    at::Tensor x_, adjacency_;
    std::map<std::string, at::Tensor> p_;
};

} // namespace megagraph::test
