// SPDX-License-Identifier: Apache-2.0
#include "runtime/gloo_group.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace megagraph::runtime {

c10::intrusive_ptr<c10d::Backend> makeGlooBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  std::chrono::milliseconds timeout)
{
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->threads = 1; // collectives of a group run one after the other anyway
    // by address, never by host name: a resolver may send loopback traffic to another interface
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

} // namespace megagraph::runtime
