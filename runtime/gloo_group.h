// SPDX-License-Identifier: Apache-2.0
// Makes one c10d back end over Gloo on the loopback interface. The source file behind this is the only one that sees Gloo's
// headers: they are older than the Gloo inside Torch, so nothing but pointers to its types may cross (a test looks at the object).
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace megagraph::runtime {

/// Connects to all `size` ranks eagerly; every rank of the group calls it with the same store prefix. Throws on a timeout.
c10::intrusive_ptr<c10d::Backend> makeGlooBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                  std::chrono::milliseconds timeout);

} // namespace megagraph::runtime
