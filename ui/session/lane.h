// SPDX-License-Identifier: Apache-2.0
// A named background queue. post() is called on the GUI thread; `work` runs on a pool thread with a stop token and values
// only; `done` runs on the GUI thread if the task is still wanted and its receiver lives. A latest-wins lane asks the
// running task to stop and forgets its result when a newer one is posted.
#pragma once

#include <QObject>
#include <QPointer>
#include <QString>
#include <QThreadPool>

#include <functional>
#include <memory>
#include <stop_token>
#include <type_traits>

namespace megagraph::ui {

class Lane : public QObject {
    Q_OBJECT
  public:
    enum class Order { InOrder, LatestWins };
    Lane(const QString& name, Order order, QObject* parent = nullptr);
    ~Lane() override; ///< asks for stop and lets the running task end

    /// Work is T(std::stop_token), Done is void(T).
    template <class Work, class Done> void post(QObject* receiver, Work work, Done done)
    {
        using Value = std::invoke_result_t<Work, std::stop_token>;
        run(receiver, [work = std::move(work), done = std::move(done)](std::stop_token stop) mutable {
            auto value = std::make_shared<Value>(work(stop));
            return std::function<void()>([value, done]() mutable { done(std::move(*value)); });
        });
    }
    /// Stops and forgets everything posted so far.
    void cancel();
    bool busy() const { return pending_ > 0; }

  private:
    using Task = std::function<std::function<void()>(std::stop_token)>;
    void run(QObject* receiver, Task task);

    Order order_;
    uint64_t wanted_ = 0; // results of an older sequence number are dropped
    int pending_ = 0;
    std::stop_source stop_;
    QThreadPool pool_;
};

} // namespace megagraph::ui
