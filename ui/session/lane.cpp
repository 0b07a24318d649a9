// SPDX-License-Identifier: Apache-2.0
#include "ui/session/lane.h"

namespace megagraph::ui {

Lane::Lane(const QString& name, Order order, QObject* parent) : QObject(parent), order_(order)
{
    setObjectName(name);
    pool_.setMaxThreadCount(1); // in order, and at most one core for one lane
    pool_.setExpiryTimeout(-1);
}

Lane::~Lane()
{
    stop_.request_stop();
    pool_.clear();
    // the destructor of the pool lets the running task see its stop token and end; its result is an event to a dead
    // object, which Qt drops
}

void Lane::cancel()
{
    stop_.request_stop();
    stop_ = std::stop_source();
    ++wanted_;
}

void Lane::run(QObject* receiver, Task task)
{
    if (order_ == Order::LatestWins)
        cancel();
    const uint64_t sequence = wanted_;
    ++pending_;
    const QPointer<QObject> guard(receiver);
    auto job = std::make_shared<Task>(std::move(task));
    pool_.start([this, sequence, guard, job, stop = stop_.get_token()] {
        std::function<void()> deliver;
        if (!stop.stop_requested())
            deliver = (*job)(stop);
        QMetaObject::invokeMethod(
            this,
            [this, sequence, guard, deliver = std::move(deliver)] {
                --pending_;
                if (deliver && sequence == wanted_ && guard)
                    deliver();
            },
            Qt::QueuedConnection);
    });
}

} // namespace megagraph::ui
