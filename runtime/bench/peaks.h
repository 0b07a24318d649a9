// SPDX-License-Identifier: Apache-2.0
// Ceilings of this machine, measured with register-only loops in inline assembly: multiply-add, bf16 dot product, AMX tile
// product, and a copy that no cache holds. No Torch. 0 = the processor has no such instruction. x86-64; elsewhere all but the
// copy are 0. Call from one thread.
#pragma once

#include <cstdint>
#include <functional>

namespace megagraph::runtime::bench {

/// Per number: with all threads, and with one.
struct Ceiling { double all = 0, one = 0; };
struct Peaks {
    Ceiling fp32;  ///< GFLOP/s, widest multiply-add of the processor (512, else 256 bits)
    Ceiling avx2;  ///< GFLOP/s, 256-bit multiply-add
    Ceiling bf16;  ///< GFLOP/s, AVX-512 bf16 dot product
    Ceiling amx;   ///< GFLOP/s, AMX bf16 tile product
    Ceiling copy;  ///< GB/s, bytes read plus bytes written
    int32_t threads = 1;

    /// Measures once more and keeps the best: other programs can only lower a number.
    void refine(bool withCopy, double seconds);
};

/// One ceiling as a side of a comparison: a share of a peak is then a ratio of medians of the same rounds, whatever other
/// programs do meanwhile.
enum class CeilingKind { Fp32, Avx2, Bf16, Amx };
struct CeilingLoop {
    std::function<double()> side; ///< runs once (about 30 ms), returns milliseconds; empty: the processor has no such instruction
    double flops = 0;             ///< of one run, all threads together
};
CeilingLoop ceilingLoop(CeilingKind kind, int32_t threads, double seconds = 0.03);

bool hasAvx2();
bool hasAvx512();
bool hasAvx512Bf16Dot();
bool hasAmxBf16(); ///< and the kernel grants its use

} // namespace megagraph::runtime::bench
