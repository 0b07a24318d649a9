// SPDX-License-Identifier: Apache-2.0
// One kernel per primitive and their launch, for one source of a program; compiled by nvcc (primitives.cu) and, behind tests/shim/cuda_on_cpu.h, as CPU code.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "tests/gpu/primitives.h"

#include <cstring>

namespace megagraph::kernels::goldens {

namespace cuda = megagraph::kernels::cuda;

__global__ void mmaKernel(const uint32_t* in, uint32_t* out)
{
    const uint32_t* mine = in + (blockIdx.x * 32 + threadIdx.x) * 10;
    const uint32_t a[4] = {mine[0], mine[1], mine[2], mine[3]};
    float d[4];
    memcpy(d, mine + 6, sizeof d);
    cuda::mma16816(d, a, mine[4], mine[5]);
    memcpy(out + (blockIdx.x * 32 + threadIdx.x) * 4, d, sizeof d);
}

/// Two 64 x 64 bf16 panels in the 128-byte swizzle, copied in two groups; the first is read while the second may be in flight.
/// Warp w reads 16 rows of a panel, four 16-column steps, plain and transposed.
__global__ void ldmatrixKernel(const uint32_t* in, uint32_t* out)
{
    unsigned char* panels = cuda::dynamicShared();
    const int lane = int(threadIdx.x & 31), warp = int(threadIdx.x >> 5);
    for (int panel = 0; panel < 2; ++panel) {
        for (int chunk = int(threadIdx.x); chunk < 512; chunk += 128) {
            const int row = chunk >> 3, column = chunk & 7;
            cuda::copyAsync(panels + panel * 8192 + row * 128 + ((column ^ (row & 7)) << 4),
                            in + blockIdx.x * 4096 + panel * 2048 + chunk * 4);
        }
        cuda::commitCopies();
    }
    uint32_t* to = out + blockIdx.x * 4096;
    for (int panel = 0; panel < 2; ++panel) {
        if (panel == 0)
            cuda::waitCopies<1>();
        else
            cuda::waitCopies<0>();
        __syncthreads();
        for (int step = 0; step < 4; ++step) {
            const int row = 16 * warp + (lane & 15), column = 2 * step + (lane >> 4);
            const unsigned char* at = panels + panel * 8192 + row * 128 + ((column ^ (row & 7)) << 4);
            uint32_t words[4];
            if (panel == 0)
                cuda::ldmatrix<false>(words, at);
            else
                cuda::ldmatrix<true>(words, at);
            for (int i = 0; i < 4; ++i)
                to[((panel * 4 + step) * 4 + warp) * 128 + lane * 4 + i] = words[i];
        }
    }
}

/// Warps 0, 1 meet at barrier 1, warps 2, 3 at barrier 2, three times; each thread hands its word to a neighbour.
__global__ void namedBarrierKernel(const uint32_t* in, uint32_t* out)
{
    __shared__ uint32_t words[128];
    const int thread = int(threadIdx.x), group = thread / 64, place = thread % 64;
    uint32_t mine = in[blockIdx.x * 128 + thread];
    for (int round = 0; round < 3; ++round) {
        words[thread] = mine;
        cuda::namedBarrier(1 + group, 64);
        mine = words[group * 64 + (place + 37) % 64] * 5u + uint32_t(round);
        cuda::namedBarrier(1 + group, 64);
    }
    out[blockIdx.x * 128 + thread] = mine;
}

__global__ void shuffleKernel(const uint32_t* in, uint32_t* out)
{
    const int thread = int(threadIdx.x);
    const uint32_t word = cuda::readGlobal(in + blockIdx.x * 128 + thread);
    float number;
    memcpy(&number, in + blockIdx.x * 128 + 64 + thread, 4);
    uint32_t* to = out + (blockIdx.x * 64 + thread) * 12;
    for (int i = 0; i < 5; ++i) {
        to[i] = cuda::shuffleXor(word, 1 << i);
        const float other = cuda::shuffleXor(number, 1 << i);
        memcpy(to + 5 + i, &other, 4);
    }
    to[10] = cuda::shuffleFrom(word, (thread * 7) & 31);
    to[11] = cuda::readGlobalFresh(in + blockIdx.x * 128 + thread);
}

__global__ void packKernel(const uint32_t* in, uint32_t* out)
{
    const uint32_t* mine = in + blockIdx.x * 256 + threadIdx.x * 2;
    float low, high;
    memcpy(&low, mine, 4);
    memcpy(&high, mine + 1, 4);
    const uint32_t word = cuda::packBf16(low, high);
    uint32_t* to = out + (blockIdx.x * 128 + threadIdx.x) * 3;
    const float first = cuda::bf16Value(word & 0xFFFFu), second = cuda::bf16Value(word >> 16);
    to[0] = word;
    memcpy(to + 1, &first, 4);
    memcpy(to + 2, &second, 4);
}

__global__ void exp2Kernel(const uint32_t* in, uint32_t* out)
{
    const uint32_t at = blockIdx.x * 128 + threadIdx.x;
    float x;
    memcpy(&x, in + at, 4);
    const float y = threadIdx.x == 0 ? cuda::exp2Fast(cuda::negativeInfinity()) : cuda::exp2Fast(x);
    memcpy(out + at, &y, 4);
}

/// Blocks take tickets when they start and go on in the order of tickets; what ticket t writes depends on all before.
__global__ void ticketChainKernel(const uint32_t* in, uint32_t* out, int32_t* ticket, int32_t* flag)
{
    __shared__ int32_t mine;
    if (threadIdx.x == 0)
        mine = atomicAdd(ticket, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda::waitForValue(flag, mine);
        const uint32_t before = mine == 0 ? 1u : cuda::readGlobalFresh(out + mine - 1);
        out[mine] = before * 1664525u + in[mine * 32];
        __threadfence();
        cuda::publishValue(flag, mine + 1);
    }
}

/// Four swizzled panels: queries and keys [64][64], values [64][128]; then 4 words of a left operand per thread and step. Writes
/// queries keys^T, left values[:, 0:64] and left values. sm_90a.
__global__ void groupProductsKernel(const uint32_t* in, uint32_t* out)
{
    unsigned char* panels = cuda::dynamicShared();
    for (int chunk = int(threadIdx.x); chunk < 4 * 512; chunk += 128) {
        const int panel = chunk >> 9, row = chunk >> 3 & 63, column = chunk & 7;
        cuda::copyAsync(panels + panel * 8192 + row * 128 + ((column ^ (row & 7)) << 4), in + chunk * 4);
    }
    cuda::commitCopies();
    cuda::waitCopies<0>();
    cuda::fenceProxy();
    __syncthreads();
    float scores[8][4] = {}, half[8][4] = {}, whole[16][4] = {};
    cuda::beginGroupProducts();
    for (int k = 0; k < 4; ++k)
        cuda::wgmma64x64x16(scores, cuda::panelDescriptor(panels + k * 32, 16), cuda::panelDescriptor(panels + 8192 + k * 32, 16), k > 0);
    cuda::finishGroupProducts();
    uint32_t left[4][4];
    for (int i = 0; i < 16; ++i)
        left[i / 4][i % 4] = in[4 * 2048 + int(threadIdx.x) * 16 + i];
    cuda::beginGroupProducts();
    for (int k = 0; k < 4; ++k)
        cuda::wgmma64xNx16<64>(half, left[k], cuda::panelDescriptor(panels + 16384 + k * 2048, 8192));
    cuda::finishGroupProducts();
    cuda::beginGroupProducts();
    for (int k = 0; k < 4; ++k)
        cuda::wgmma64xNx16<128>(whole, left[k], cuda::panelDescriptor(panels + 16384 + k * 2048, 8192));
    cuda::finishGroupProducts();
    uint32_t* to = out + threadIdx.x * 128;
    memcpy(to, scores, sizeof scores);
    memcpy(to + 32, half, sizeof half);
    memcpy(to + 64, whole, sizeof whole);
}

std::string launchPrimitive(const Primitive& p, const uint32_t* in, uint32_t* out, int32_t* ticket, int32_t* flag)
{
    const std::string_view name = p.name;
    cuda::Stream stream = nullptr;
    if (name == "mma16816")
        MEGAGRAPH_LAUNCH(mmaKernel, p.blocks, p.threads, 0, stream, in, out);
    else if (name == "ldmatrix")
        MEGAGRAPH_LAUNCH(ldmatrixKernel, p.blocks, p.threads, 16384, stream, in, out);
    else if (name == "named_barrier")
        MEGAGRAPH_LAUNCH(namedBarrierKernel, p.blocks, p.threads, 0, stream, in, out);
    else if (name == "shuffles")
        MEGAGRAPH_LAUNCH(shuffleKernel, p.blocks, p.threads, 0, stream, in, out);
    else if (name == "pack_bf16")
        MEGAGRAPH_LAUNCH(packKernel, p.blocks, p.threads, 0, stream, in, out);
    else if (name == "exp2")
        MEGAGRAPH_LAUNCH(exp2Kernel, p.blocks, p.threads, 0, stream, in, out);
    else if (name == "ticket_chain")
        MEGAGRAPH_LAUNCH(ticketChainKernel, p.blocks, p.threads, 0, stream, in, out, ticket, flag);
    else if (name == "group_products")
        MEGAGRAPH_LAUNCH(groupProductsKernel, p.blocks, p.threads, 32768, stream, in, out);
    else
        return "no kernel of this name";
    const char* failure = cuda::launchFailure();
    return failure == nullptr ? std::string() : std::string(failure);
}

} // namespace megagraph::kernels::goldens
