// SPDX-License-Identifier: Apache-2.0
// The GPU behind DeviceMemory, times by events, and what is to be known about it. Device 0 of the process
// (CUDA_VISIBLE_DEVICES chooses); default stream; one thread.
#pragma once

#include "core/json.h"
#include "core/result.h"
#include "tests/gpu/device_memory.h"

#include <functional>
#include <vector>

namespace megagraph::kernels::goldens {

/// Ok, or NotFound with the reason: no driver, no device, or one below compute capability 8.0.
Result<Ok> usableGpu();
/// 80 for 8.0; 0 without a device.
int32_t computeCapability();
/// Name, capability, multiprocessors, L2, memory, driver and runtime version; clocks and power when NVML can be loaded.
Json describeGpu();

class CudaMemory final : public DeviceMemory {
  public:
    void* allocate(int64_t bytes) override;
    void release(void* data) override;
    void toDevice(void* device, const void* host, int64_t bytes) override;
    void toHost(void* host, const void* device, int64_t bytes) override;
    void clear(void* device, int64_t bytes) override;
    std::string finish() override;

  private:
    void note(int status);
    std::string failure_;
};

/// Bytes that a cudaMalloc could still get.
int64_t freeMemory();
/// Milliseconds of each of `rounds` calls after `warmups` calls, by events around each.
Result<std::vector<double>> timeOnGpu(const std::function<Result<Ok>()>& work, int warmups, int rounds);
/// Device to device copy, bytes read plus written per second.
Result<double> copyBandwidth(int64_t bytes);

} // namespace megagraph::kernels::goldens
