// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/cuda_memory.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <tuple>

namespace megagraph::kernels::goldens {
namespace {

Result<Ok> checked(cudaError_t status, const char* what)
{
    if (status != cudaSuccess)
        return Error{ErrorCode::Internal, std::string("CUDA: ") + what + ": " + cudaGetErrorString(status)};
    return Ok{};
}

/// The few functions of NVML that are read; its header is not part of every toolkit.
struct Nvml {
    using Device = void*;
    int (*init)() = nullptr;
    int (*handle)(const char*, Device*) = nullptr;
    int (*clock)(Device, int, unsigned*) = nullptr;
    int (*mostClock)(Device, int, unsigned*) = nullptr;
    int (*power)(Device, unsigned*) = nullptr;
    int (*powerLimit)(Device, unsigned*) = nullptr;
    int (*driver)(char*, unsigned) = nullptr;

    bool load()
    {
        void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr)
            return false;
        const auto find = [&](auto& function, const char* name) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            return function != nullptr;
        };
        return find(init, "nvmlInit_v2") && find(handle, "nvmlDeviceGetHandleByPciBusId_v2") &&
               find(clock, "nvmlDeviceGetClockInfo") && find(mostClock, "nvmlDeviceGetMaxClockInfo") &&
               find(power, "nvmlDeviceGetPowerUsage") && find(powerLimit, "nvmlDeviceGetEnforcedPowerLimit") &&
               find(driver, "nvmlSystemGetDriverVersion") && init() == 0;
    }
};

/// Reads only; no setting of the GPU is ever changed.
void addNvml(Json& json)
{
    Nvml nvml;
    char bus[32] = {}, driver[96] = {};
    Nvml::Device device = nullptr;
    if (!nvml.load() || cudaDeviceGetPCIBusId(bus, sizeof bus, 0) != cudaSuccess || nvml.handle(bus, &device) != 0) {
        json["nvml"] = "not available";
        return;
    }
    unsigned value = 0;
    if (nvml.driver(driver, sizeof driver) == 0)
        json["driver"] = driver;
    constexpr int kSm = 1, kMemory = 2;
    if (nvml.clock(device, kSm, &value) == 0)
        json["sm_clock_mhz"] = value;
    if (nvml.mostClock(device, kSm, &value) == 0)
        json["sm_clock_most_mhz"] = value;
    if (nvml.clock(device, kMemory, &value) == 0)
        json["memory_clock_mhz"] = value;
    if (nvml.power(device, &value) == 0)
        json["power_w"] = value / 1000.0;
    if (nvml.powerLimit(device, &value) == 0)
        json["power_limit_w"] = value / 1000.0;
}

struct Event {
    cudaEvent_t event = nullptr;
    Event() { std::ignore = cudaEventCreate(&event); }
    ~Event() { std::ignore = cudaEventDestroy(event); }
    Event(const Event&) = delete;
};

} // namespace

Result<Ok> usableGpu()
{
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0)
        return Error{ErrorCode::NotFound, std::string("GPU: none usable, got \"") +
                                              (status != cudaSuccess ? cudaGetErrorString(status) : "no device") +
                                              "\"; check driver and CUDA_VISIBLE_DEVICES."};
    cudaDeviceProp properties{};
    if (const auto read = checked(cudaGetDeviceProperties(&properties, 0), "properties of device 0"); !read)
        return read.error();
    if (properties.major < 8)
        return Error{ErrorCode::NotFound, std::string("GPU: ") + properties.name + ": compute capability, got " +
                                              std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                                              ", expected 8.0 or later; take another GPU."};
    return Ok{};
}

int32_t computeCapability()
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) != cudaSuccess)
        return 0;
    return 10 * major + minor;
}

Json describeGpu()
{
    cudaDeviceProp p{};
    Json json;
    if (cudaGetDeviceProperties(&p, 0) != cudaSuccess)
        return json;
    int driver = 0, runtime = 0;
    size_t left = 0, total = 0;
    std::ignore = cudaDriverGetVersion(&driver);
    std::ignore = cudaRuntimeGetVersion(&runtime);
    std::ignore = cudaMemGetInfo(&left, &total);
    json = {{"name", p.name},
            {"compute_capability", std::to_string(p.major) + "." + std::to_string(p.minor)},
            {"multiprocessors", p.multiProcessorCount},
            {"l2_bytes", p.l2CacheSize},
            {"shared_bytes_per_block", p.sharedMemPerBlockOptin},
            {"memory_bytes", total},
            {"free_bytes", left},
            {"driver_cuda", driver},
            {"runtime_cuda", runtime}};
    addNvml(json);
    return json;
}

void CudaMemory::note(int status)
{
    if (status != cudaSuccess && failure_.empty())
        failure_ = cudaGetErrorString(cudaError_t(status));
}

void* CudaMemory::allocate(int64_t bytes)
{
    void* data = nullptr;
    if (cudaMalloc(&data, size_t(std::max<int64_t>(bytes, 256))) != cudaSuccess) {
        std::ignore = cudaGetLastError(); // not a failure of a kernel
        return nullptr;
    }
    note(cudaMemset(data, 0xFF, size_t(bytes)));
    return data;
}

void CudaMemory::release(void* data)
{
    note(cudaFree(data));
}

void CudaMemory::toDevice(void* device, const void* host, int64_t bytes)
{
    note(cudaMemcpy(device, host, size_t(bytes), cudaMemcpyHostToDevice));
}

void CudaMemory::toHost(void* host, const void* device, int64_t bytes)
{
    note(cudaMemcpy(host, device, size_t(bytes), cudaMemcpyDeviceToHost));
}

void CudaMemory::clear(void* device, int64_t bytes)
{
    note(cudaMemset(device, 0, size_t(bytes)));
}

std::string CudaMemory::finish()
{
    note(cudaDeviceSynchronize());
    return std::exchange(failure_, {});
}

int64_t freeMemory()
{
    size_t left = 0, total = 0;
    return cudaMemGetInfo(&left, &total) == cudaSuccess ? int64_t(left) : 0;
}

Result<std::vector<double>> timeOnGpu(const std::function<Result<Ok>()>& work, int warmups, int rounds)
{
    for (int i = 0; i < warmups; ++i) {
        MEGAGRAPH_TRY(std::ignore, work());
    }
    std::vector<double> milliseconds;
    const Event begin, end;
    for (int i = 0; i < rounds; ++i) {
        MEGAGRAPH_TRY(std::ignore, checked(cudaEventRecord(begin.event), "event"));
        MEGAGRAPH_TRY(std::ignore, work());
        MEGAGRAPH_TRY(std::ignore, checked(cudaEventRecord(end.event), "event"));
        MEGAGRAPH_TRY(std::ignore, checked(cudaEventSynchronize(end.event), "timed work"));
        float ms = 0;
        MEGAGRAPH_TRY(std::ignore, checked(cudaEventElapsedTime(&ms, begin.event, end.event), "event"));
        milliseconds.push_back(double(ms));
    }
    return milliseconds;
}

Result<double> copyBandwidth(int64_t bytes)
{
    CudaMemory memory;
    const DeviceArray<unsigned char> from(memory, bytes), to(memory, bytes);
    if (!from.ok() || !to.ok())
        return Error{ErrorCode::OutOfMemory, "copy: got no memory, expected " + std::to_string(2 * bytes) + " bytes."};
    auto times = timeOnGpu(
        [&]() -> Result<Ok> {
            return checked(cudaMemcpyAsync(to.data(), from.data(), size_t(bytes), cudaMemcpyDeviceToDevice), "copy");
        },
        2, 5);
    if (!times)
        return times.error();
    std::sort(times.value().begin(), times.value().end());
    return 2.0 * double(bytes) / (times.value()[2] * 1e-3);
}

} // namespace megagraph::kernels::goldens
