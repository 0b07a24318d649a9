// SPDX-License-Identifier: Apache-2.0
// Asks what to import: the path as one typed line (with completion and two browse buttons) and the name in the library. Qt's own
// chooser rewrites a typed folder path while its list still loads, so that typing is first and browsing second. GUI thread.
#pragma once

#include <QDialog>

class QLineEdit;
class QPushButton;

namespace megagraph::ui {

class Text;

/// A library name from a path: letters, digits, '-', '_'.
QString importNameFrom(const QString& path);

class ImportDialog : public QDialog {
    Q_OBJECT
  public:
    explicit ImportDialog(QWidget* parent = nullptr);
    /// Absolute path of an existing folder or file, without a trailing separator; valid when accepted.
    QString path() const;
    QString name() const;
    void setPath(const QString& path);

  private:
    void browse(bool folder);
    void check();
    QLineEdit *path_, *name_;
    QPushButton* import_;
    Text* problem_;
    bool nameIsOwn_ = false; // the user typed a name: keep it when the path changes
};

} // namespace megagraph::ui
