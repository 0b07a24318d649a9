// SPDX-License-Identifier: Apache-2.0
// The kernels step: every path of the module on every stored case and, at sizes beyond the reference, against the fp32 CPU
// kernels on sampled rows and keys. Reports one JSON line per check. Runs on a GPU and, in a test, on the CPU shim.
#pragma once

#include "core/json.h"
#include "tests/gpu/big_case.h"
#include "tests/gpu/golden_file.h"
#include "tests/gpu/run_on_device.h"

#include <functional>
#include <string>

namespace megagraph::kernels::goldens {

/// Fields: check, case, path, form, status (passed, failed, skipped), and reason or worst {array, error, limit}.
using ReportLine = std::function<void(const Json&)>;

struct Tally {
    int64_t passed = 0, failed = 0, skipped = 0;
};

class KernelCheck {
  public:
    KernelCheck(const MegagraphCudaTable& table, DeviceMemory& memory, ReportLine report)
        : table_(table), memory_(memory), report_(std::move(report))
    {
    }
    /// 80, 90; false (and one skipped line) where the module or the device lacks it.
    bool choosePath(int32_t path);
    /// All forms of the case against the stored result; lists and planes must give equal bits; three runs of the first form too.
    void golden(const Case& c, const Golden& golden);
    /// Against the CPU kernels: o and lse of all rows, dq of sampled rows, dk and dv of sampled keys, bins of the table sum to 0.
    void big(const BigCase& c, const ParallelFor& parallel);
    const Tally& tally() const { return tally_; }

  private:
    void line(const std::string& what, const std::string& form, bool passed, Json rest);
    void skip(const std::string& what, const std::string& form, const std::string& reason);
    void refusal(const std::string& what, const std::string& form, const Error& error);

    const MegagraphCudaTable& table_;
    DeviceMemory& memory_;
    ReportLine report_;
    int32_t path_ = 0;
    Tally tally_;
};

} // namespace megagraph::kernels::goldens
