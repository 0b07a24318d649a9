// SPDX-License-Identifier: Apache-2.0
// Memory of the machine that runs the kernels: a GPU in megagraph-gpu-test, host memory under the CPU shim. One thread.
#pragma once

#include "core/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace megagraph::kernels::goldens {

class DeviceMemory {
  public:
    virtual ~DeviceMemory() = default;
    /// 256-byte aligned, filled with 0xFF (NaN); null when the device has not enough.
    virtual void* allocate(int64_t bytes) = 0;
    virtual void release(void* data) = 0;
    virtual void toDevice(void* device, const void* host, int64_t bytes) = 0;
    virtual void toHost(void* host, const void* device, int64_t bytes) = 0;
    virtual void clear(void* device, int64_t bytes) = 0;
    /// Waits for all queued work; what failed since the last call, "" for nothing.
    virtual std::string finish() = 0;
};

/// Owns one array of a device. An array that could not be had has no data and `ok()` is false.
template <class T> class DeviceArray {
  public:
    DeviceArray() = default;
    DeviceArray(DeviceMemory& memory, int64_t count)
        : memory_(&memory), count_(count), data_(static_cast<T*>(memory.allocate(count * int64_t(sizeof(T)) + 256)))
    {
    }
    DeviceArray(DeviceMemory& memory, std::span<const T> values) : DeviceArray(memory, int64_t(values.size()))
    {
        if (data_ != nullptr && !values.empty())
            memory.toDevice(data_, values.data(), int64_t(values.size_bytes()));
    }
    DeviceArray(DeviceArray&& other) noexcept
        : memory_(other.memory_), count_(other.count_), data_(std::exchange(other.data_, nullptr))
    {
    }
    DeviceArray& operator=(DeviceArray&& other) noexcept
    {
        std::swap(memory_, other.memory_);
        std::swap(count_, other.count_);
        std::swap(data_, other.data_);
        return *this;
    }
    ~DeviceArray()
    {
        if (data_ != nullptr)
            memory_->release(data_);
    }
    bool ok() const { return data_ != nullptr; }
    T* data() const { return data_; }
    int64_t size() const { return count_; }
    int64_t bytes() const { return count_ * int64_t(sizeof(T)); }
    void clear()
    {
        if (data_ != nullptr && count_ > 0)
            memory_->clear(data_, bytes());
    }
    std::vector<T> values() const
    {
        std::vector<T> host(static_cast<size_t>(count_));
        if (data_ != nullptr && count_ > 0)
            memory_->toHost(host.data(), data_, bytes());
        return host;
    }

  private:
    DeviceMemory* memory_ = nullptr;
    int64_t count_ = 0;
    T* data_ = nullptr;
};

} // namespace megagraph::kernels::goldens
