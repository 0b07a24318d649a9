// SPDX-License-Identifier: Apache-2.0
// Peers that exist in Python only (compiled LibTorch code, FlexAttention, PyG, SciPy, networkx): one child of the run,
// resources/bench/peers.py, that is asked for one round at a time over two pipes of JSON lines, so that its rounds alternate
// with ours. Tensors go by NPY files. It uses the torch of `python3`, or the unpacked wheel that the worker itself links; any
// other build of torch is refused. One thread; the child dies with the process.
#pragma once

#include "core/file.h"
#include "core/process.h"
#include "runtime/bench/bench.h"
#include "runtime/bench/rounds.h"

#include <ATen/core/Tensor.h>
#include <map>
#include <string>

namespace megagraph::runtime::bench {

class PythonPeer {
  public:
    explicit PythonPeer(const Options& options);
    ~PythonPeer();
    PythonPeer(const PythonPeer&) = delete;
    PythonPeer& operator=(const PythonPeer&) = delete;

    /// Makes `peer` ("flex", "compiled", "pyg", "scipy", "networkx") ready with these tensors and settings: its back end in
    /// words. Starts the child at first use. Errors: Unsupported (why this peer cannot run here), Timeout, Io.
    Result<std::string> prepare(const std::string& peer, const std::map<std::string, at::Tensor>& tensors, const Json& settings);
    /// One round of the prepared peer. Throws std::runtime_error when the child has failed.
    Side side();
    /// Result of the last round, fp32 or int32.
    Result<at::Tensor> result();
    /// Growth of the child's resident peak during one round, bytes; -1 if unknown.
    int64_t extraBytes();
    /// {"python": "3.11.7", "torch": "2.11.0", ...}: what the child found, or why not.
    const Json& found() const { return found_; }

  private:
    Result<Ok> start();
    Result<Ok> sameTorch();
    void stop();
    Result<Json> ask(const Json& request, double seconds);
    Result<std::string> readLine(double seconds);

    const Options& options_;
    Child child_;
    FileDescriptor pidfd_, in_, out_; // in_: to the child
    std::string buffered_, broken_, torchFault_;
    Json found_;
    int files_ = 0;
};

/// Writes a contiguous fp32, int32 or int64 tensor as NPY; its path. Throws std::runtime_error.
std::string writeTensor(const at::Tensor& tensor, const std::string& folder, const std::string& file);

} // namespace megagraph::runtime::bench
