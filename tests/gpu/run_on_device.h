// SPDX-License-Identifier: Apache-2.0
// A case through the functions of libmegagraph_cuda.so (kernels/cuda/api.h): bf16 tensors in, bf16 o, fp32 gradients out. The
// same code runs against the module on a GPU and against the shim's table in a test. One thread; waits for its own work.
#pragma once

#include "core/result.h"
#include "kernels/cuda/api.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/golden_cases.h"

#include <memory>
#include <vector>

namespace megagraph::kernels::goldens {

/// How a dense case is run: where near pairs are stored, and in one pass or by key intervals with states.
struct Form {
    enum Storage { Lists, Planes } storage = Lists;
    bool ring = false; // forward by three uneven key intervals, two states, combine, finish; backward by the same intervals
    const char* name() const;
};

/// Bit planes of the codes of (rows of the case) x [keyBegin, keyEnd) of its keys, every tile stored.
std::vector<uint64_t> planesOf(const Inputs& inputs, int64_t keyBegin, int64_t keyEnd);

/// The arrays of referenceOf. Internal with the module's text when it refuses or fails; Unsupported for an entry that the
/// module lacks; OutOfMemory when the device has no room.
Result<std::vector<Array>> runOnDevice(const MegagraphCudaTable& table, DeviceMemory& memory, const Case& c, const Inputs& inputs,
                                       Form form);

/// Device copies of the bias of one key interval; the view points into them.
class DeviceBias {
  public:
    DeviceBias(DeviceMemory& memory, const Inputs& inputs, Form::Storage storage, int64_t keyBegin, int64_t keyEnd);
    const MegagraphCudaBias& view() const { return view_; }
    /// Gradients of the interval's edge values to byEntry [E, H].
    void addEdgeGradient(int32_t heads, std::span<float> byEntry) const;

  private:
    MegagraphCudaBias view_{};
    DeviceArray<float> table_;
    DeviceArray<int32_t> queryComponent_, keyComponent_, querySegment_, keySegment_;
    DeviceArray<uint64_t> words_;
    DeviceArray<uint8_t> map_;
    DeviceArray<uint32_t> rank_, offsets_;
    DeviceArray<int64_t> tileStart_, blockStart_;
    DeviceArray<uint16_t> entries_;
    EdgeBlock edges_;
    DeviceArray<int64_t> edgeStart_;
    DeviceArray<EdgeTile> edgeTiles_;
    DeviceArray<uint16_t> edgePositions_;
    DeviceArray<float> edgeValues_, edgeGradient_;
};

MegagraphCudaView viewOf(void* data, int64_t rows, int32_t heads, int32_t dim, int32_t type);
MegagraphCudaShape shapeOf(const AttentionShape& shape);
MegagraphCudaDropout dropoutOf(const Dropout& dropout);
std::vector<Bfloat16> toBf16(std::span<const float> values);
std::vector<float> toFloats(std::span<const Bfloat16> values);
/// An error of the module as ours.
Error moduleError(const MegagraphCudaError& error);

} // namespace megagraph::kernels::goldens
