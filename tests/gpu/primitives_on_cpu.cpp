// SPDX-License-Identifier: Apache-2.0
#include "tests/shim/cuda_on_cpu.h"

#include "tests/gpu/primitive_kernels.cuh"
#include "tests/gpu/primitives_on_cpu.h"

namespace megagraph::kernels::goldens {

namespace shim = cuda::shim;

std::vector<StoredWords> emulatePrimitives(uint64_t seed)
{
    shim::setOrder(seed == 0 ? shim::Order{} : shim::Order{shim::Order::Random, seed});
    std::vector<StoredWords> entries;
    for (const Primitive& p : allPrimitives()) {
        const shim::Buffer<uint32_t> in(primitiveInput(p), "in", true);
        shim::Buffer<uint32_t> out(size_t(p.blocks) * size_t(p.outWords), "out");
        shim::Buffer<int32_t> ticket(std::vector<int32_t>{0}, "ticket"), flag(std::vector<int32_t>{0}, "flag");
        if (!launchPrimitive(p, in.data(), out.data(), ticket.data(), flag.data()).empty())
            continue;
        entries.push_back({p.name, out.values()});
    }
    shim::setOrder({});
    return entries;
}

} // namespace megagraph::kernels::goldens
