// SPDX-License-Identifier: Apache-2.0
// Small shared parts of the autograd functions: views on tensors, plain C++ state that travels from forward to backward,
// errors as exceptions (worker main catches), and the timer of attention. For .cpp files of runtime/functions and models.
#pragma once

#include "runtime/pch.h"

#include "core/result.h"
#include "kernels/types.h"

#include <chrono>
#include <stdexcept>

namespace megagraph::runtime {

/// The value, or the error as std::runtime_error with its message.
template <class T> T require(Result<T> result)
{
    if (!result.ok())
        throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

/// [rows, H * d_h] or [rows, H, d_h] with contiguous last index, seen per head.
inline kernels::HeadView<float> heads(const at::Tensor& t, int32_t count)
{
    const int64_t width = t.numel() == 0 ? (t.dim() == 3 ? t.size(1) * t.size(2) : t.size(1)) : t.numel() / t.size(0);
    const auto dim = int32_t(width / count);
    return {t.data_ptr<float>(), t.size(0), count, dim, t.size(0) > 1 ? t.stride(0) : width, dim};
}

/// Any C++ value, kept by an autograd node from forward to backward.
template <class T> struct Kept : torch::CustomClassHolder {
    explicit Kept(T value_) : value(std::move(value_)) {}
    T value;
};
template <class T> void keep(torch::autograd::AutogradContext* context, T value)
{
    context->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<Kept<T>>(std::move(value)));
}
template <class T> T& kept(torch::autograd::AutogradContext* context)
{
    return c10::static_intrusive_pointer_cast<Kept<T>>(context->saved_data["kept"].toCapsule())->value;
}

/// Adds the seconds of its scope to *total, if there is one.
class Stopwatch {
  public:
    explicit Stopwatch(double* total) : total_(total), start_(std::chrono::steady_clock::now()) {}
    ~Stopwatch()
    {
        if (total_)
            *total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

  private:
    double* total_;
    std::chrono::steady_clock::time_point start_;
};

} // namespace megagraph::runtime
