// SPDX-License-Identifier: Apache-2.0
// Follows one run directory: every 250 ms (2 s when nobody looks, or the run has ended) one portion is read on a
// background lane and applied to the record on the GUI thread. Reads only; asks through the control file.
#pragma once

#include "ui/session/lane.h"
#include "ui/session/run_record.h"

#include <QObject>
#include <QString>
#include <QTimer>

namespace megagraph::ui {

class RunWatch : public QObject {
    Q_OBJECT
  public:
    RunWatch(Lane& lane, const QString& folder, QObject* parent = nullptr);

    const QString& folder() const { return folder_; }
    QString id() const;
    const RunRecord& record() const { return record_; }
    bool loaded() const { return loaded_; } ///< at least one portion was read to its end
    void setVisible(bool visible);
    /// stop, terminate or kill; the answer arrives as an event of the run.
    void request(const QString& what);
    int stopPresses() const { return stopPresses_; }

  signals:
    void changed();
    void failed(const QString& message);

  private:
    void tick();
    struct Reader; // state of the background side; one portion at a time uses it

    Lane& lane_;
    QString folder_;
    std::shared_ptr<Reader> reader_;
    RunRecord record_;
    QTimer timer_;
    bool inFlight_ = false, loaded_ = false, visible_ = true;
    int stopPresses_ = 0;
};

} // namespace megagraph::ui
