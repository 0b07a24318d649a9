// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/spawner.h"

namespace megagraph::launch {

Spawner::Spawner() : thread_([this] { serve(); }) {}

Spawner::~Spawner()
{
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

Result<Child> Spawner::spawn(const ChildOptions& options)
{
    std::unique_lock lock(mutex_);
    request_ = &options;
    answer_.reset();
    changed_.notify_all();
    changed_.wait(lock, [this] { return answer_.has_value(); });
    return *std::move(answer_);
}

void Spawner::serve()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return request_ || ending_; });
        if (ending_)
            return;
        answer_.emplace(megagraph::spawn(*request_));
        request_ = nullptr;
        changed_.notify_all();
    }
}

} // namespace megagraph::launch
