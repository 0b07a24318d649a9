// SPDX-License-Identifier: Apache-2.0
// A thread that forks all children of a run and lives as long as the run: the parent-death signal belongs to the thread that
// forked, not to the process (o3de/o3de#19746). One caller thread.
#pragma once

#include "core/process.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace megagraph::launch {

class Spawner {
  public:
    Spawner();
    ~Spawner(); ///< ends the thread; children that are still alive get the death signal
    Spawner(const Spawner&) = delete;
    Spawner& operator=(const Spawner&) = delete;

    Result<Child> spawn(const ChildOptions& options); ///< blocks until the child runs its program or has failed to

  private:
    void serve();

    std::mutex mutex_;
    std::condition_variable changed_;
    // behind mutex_
    const ChildOptions* request_ = nullptr;
    std::optional<Result<Child>> answer_;
    bool ending_ = false;
    std::thread thread_; // last: it uses the members above
};

} // namespace megagraph::launch
