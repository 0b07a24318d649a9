// SPDX-License-Identifier: Apache-2.0
#include "runtime/verify.h"

#include "core/event.h"
#include "core/file.h"
#include "core/places.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdexcept>
#include <tuple>

namespace megagraph::runtime {
namespace {

/// One file per step: fp64 loss, then the gradients in layout order as raw fp32.
std::string stepFile(const std::string& runFolder, int64_t step)
{
    return fmt::format("{}/gradients/step-{:06}.bin", runFolder, step);
}

[[noreturn]] void stopWith(const Error& error) { throw std::runtime_error(error.message); }

class SerialWriter final : public StepObserver {
  public:
    explicit SerialWriter(std::string runFolder) : runFolder_(std::move(runFolder)) {}

    void onStep(int64_t step, double loss, const FlatGradients& gradients) override
    {
        const Result<Ok> written = write(step, loss, gradients);
        if (!written.ok())
            stopWith(written.error());
    }

  private:
    Result<Ok> write(int64_t step, double loss, const FlatGradients& gradients) const
    {
        const std::string path = stepFile(runFolder_, step);
        MEGAGRAPH_TRY(const FileDescriptor file, openFile(path, O_WRONLY | O_CREAT | O_TRUNC));
        std::string bytes(sizeof loss, '\0');
        std::memcpy(bytes.data(), &loss, sizeof loss);
        MEGAGRAPH_TRY(std::ignore, writeAll(file.get(), bytes, path));
        const at::Tensor flat = gradients.all();
        return writeAll(file.get(), {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()}, path);
    }

    std::string runFolder_;
};

class PlanComparer final : public StepObserver {
  public:
    PlanComparer(std::string referenceFolder, std::vector<ParameterSpec> layout, Reporter& reporter)
        : folder_(std::move(referenceFolder)), layout_(std::move(layout)), reporter_(reporter)
    {
    }

    void onStep(int64_t step, double loss, const FlatGradients& gradients) override
    {
        const Result<Ok> compared = compare(step, loss, gradients);
        if (!compared.ok())
            stopWith(compared.error());
    }

    Json result() const override
    {
        return {{"loss_rel_max", numberJson(lossMax_)}, {"gradient_rel_max", numberJson(gradientMax_)}, {"parameter", parameter_}};
    }

  private:
    Result<Ok> compare(int64_t step, double loss, const FlatGradients& gradients);

    std::string folder_;
    std::vector<ParameterSpec> layout_;
    Reporter& reporter_;
    std::vector<float> serial_;
    double lossMax_ = 0, gradientMax_ = 0;
    std::string parameter_;
};

double euclid(const std::vector<float>& values)
{
    double sum = 0;
    for (const float v : values)
        sum += double(v) * double(v);
    return std::sqrt(sum);
}

// A NaN exceeds everything: it may not look like agreement.
bool exceeds(double candidate, double current)
{
    return !std::isnan(current) && (std::isnan(candidate) || candidate > current);
}

Result<Ok> PlanComparer::compare(int64_t step, double loss, const FlatGradients& gradients)
{
    const std::string path = stepFile(folder_, step);
    MEGAGRAPH_TRY(const FileDescriptor file, openFile(path, O_RDONLY));
    serial_.resize(size_t(gradients.elements()));
    double serialLoss = 0;
    MEGAGRAPH_TRY(std::ignore, readAt(file.get(), 0, &serialLoss, sizeof serialLoss, path));
    MEGAGRAPH_TRY(std::ignore, readAt(file.get(), int64_t(sizeof serialLoss), serial_.data(), serial_.size() * sizeof(float), path));
    const double floorNorm = 1e-3 * euclid(serial_);
    double worst = 0;
    std::string where;
    int64_t offset = 0;
    for (size_t p = 0; p < layout_.size(); ++p) {
        const at::Tensor slice = gradients.slice(p);
        const double difference =
            relativeDifference(slice.const_data_ptr<float>(), serial_.data() + offset, slice.numel(), floorNorm);
        offset += slice.numel();
        if (!exceeds(difference, worst))
            continue;
        worst = difference;
        where = layout_[p].name;
    }
    const double lossRel = std::abs(loss - serialLoss) / std::max(std::abs(serialLoss), 1e-30);
    reporter_.event("verify.step",
                    {{"step", step}, {"loss_rel", numberJson(lossRel)}, {"gradient_rel", numberJson(worst)}, {"parameter", where}});
    if (exceeds(lossRel, lossMax_))
        lossMax_ = lossRel;
    if (exceeds(worst, gradientMax_)) {
        gradientMax_ = worst;
        parameter_ = where;
    }
    return Ok{};
}

} // namespace

double relativeDifference(const float* a, const float* b, int64_t count, double floorNorm)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; ++i) {
        difference += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
        norm += double(b[i]) * double(b[i]);
    }
    if (difference == 0)
        return 0;
    return std::sqrt(difference) / std::max({std::sqrt(norm), floorNorm, 1e-30});
}

Result<std::unique_ptr<StepObserver>> makeVerifier(const RunSpec& run, const std::string& home, const std::string& runFolder,
                                                   int64_t rank, const std::vector<ParameterSpec>& layout, Reporter& reporter)
{
    if (run.verifyRole == "serial") {
        MEGAGRAPH_TRY(std::ignore, makeFolders(runFolder + "/gradients"));
        return std::unique_ptr<StepObserver>(new SerialWriter(runFolder));
    }
    if (run.verifyRole != "plan")
        return Error{ErrorCode::InvalidInput,
                     fmt::format("run.json: verify.role: got \"{}\", expected \"serial\" or \"plan\"", run.verifyRole)};
    if (rank != 0)
        return std::unique_ptr<StepObserver>();
    return std::unique_ptr<StepObserver>(new PlanComparer(megagraph::runFolder(home, run.verifyReferenceRun), layout, reporter));
}

} // namespace megagraph::runtime
