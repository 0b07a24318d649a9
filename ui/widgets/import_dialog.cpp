// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/import_dialog.h"

#include "ui/widgets/parts.h"

#include <QCompleter>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QFileSystemModel>
#include <QGridLayout>
#include <QLineEdit>
#include <QRegularExpressionValidator>

namespace megagraph::ui {

QString importNameFrom(const QString& path)
{
    QString name = QFileInfo(QDir::cleanPath(path)).fileName().section(QLatin1Char('.'), 0, 0).toLower();
    for (QChar& c : name)
        if (!(c.unicode() < 128 && (c.isLetterOrNumber() || c == QLatin1Char('-') || c == QLatin1Char('_'))))
            c = QLatin1Char('-');
    return name.isEmpty() ? QStringLiteral("data") : name;
}

ImportDialog::ImportDialog(QWidget* parent) : QDialog(parent), path_(new QLineEdit), name_(new QLineEdit)
{
    setWindowTitle(tr("Import a graph"));
    setMinimumWidth(620);
    auto* files = new QFileSystemModel(this);
    files->setRootPath(QString());
    auto* completer = new QCompleter(files, this);
    completer->setCompletionMode(QCompleter::InlineCompletion);
    path_->setCompleter(completer);
    path_->setPlaceholderText(tr("a folder in OGB raw form, or an NPZ file"));
    name_->setValidator(new QRegularExpressionValidator(QRegularExpression(QStringLiteral("[A-Za-z0-9._-]{0,64}")), this));
    problem_ = (new Text)->wrapped();
    problem_->setRole(Role::Muted);
    auto* folder = button(tr("&Folder\u2026"), tr("Browse for a folder"), [this] { browse(true); });
    auto* file = button(tr("Fi&le\u2026"), tr("Browse for a file"), [this] { browse(false); });
    const auto take = [this] {
        if (isVisible() && import_->isEnabled())
            accept();
    };
    import_ = button(tr("&Import"), tr("Read the graph into the library"), take, true);
    auto* cancel = button(tr("Cancel"), {}, [this] { reject(); });
    for (QPushButton* each : {folder, file, cancel})
        each->setAutoDefault(false);
    import_->setDefault(true);
    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(16, 16, 16, 16);
    grid->setHorizontalSpacing(10);
    grid->setVerticalSpacing(10);
    auto* pathLabel = new QLabel(tr("&Path"));
    pathLabel->setBuddy(path_);
    auto* nameLabel = new QLabel(tr("&Name"));
    nameLabel->setBuddy(name_);
    grid->addWidget(pathLabel, 0, 0);
    grid->addWidget(path_, 0, 1);
    grid->addWidget(folder, 0, 2);
    grid->addWidget(file, 0, 3);
    grid->addWidget(nameLabel, 1, 0);
    grid->addWidget(name_, 1, 1);
    grid->addWidget(problem_, 2, 1, 1, 3);
    auto* foot = new QHBoxLayout;
    foot->addStretch(1);
    foot->addWidget(import_);
    foot->addWidget(cancel);
    grid->addLayout(foot, 3, 0, 1, 4);
    grid->setColumnStretch(1, 1);
    connect(path_, &QLineEdit::textChanged, this, &ImportDialog::check);
    connect(path_, &QLineEdit::returnPressed, this, take); // Return that ends a completion does not reach the default button
    connect(name_, &QLineEdit::textEdited, this, [this](const QString& text) {
        nameIsOwn_ = !text.isEmpty();
        check();
    });
    check();
}

QString ImportDialog::path() const
{
    QString typed = path_->text().trimmed();
    if (typed == QStringLiteral("~") || typed.startsWith(QStringLiteral("~/")))
        typed = QDir::homePath() + typed.mid(1);
    return typed.isEmpty() ? QString() : QDir::cleanPath(QFileInfo(typed).absoluteFilePath());
}

QString ImportDialog::name() const
{
    return name_->text();
}

void ImportDialog::setPath(const QString& path)
{
    path_->setText(path);
}

void ImportDialog::browse(bool folder)
{
    const QString from = QFileInfo::exists(path()) ? path() : QDir::homePath();
    const QString chosen = folder ? QFileDialog::getExistingDirectory(this, tr("Import folder"), from)
                                  : QFileDialog::getOpenFileName(this, tr("Import file"), from, tr("Graphs (*.npz);;All files (*)"));
    if (!chosen.isEmpty())
        path_->setText(chosen);
}

void ImportDialog::check()
{
    const QString at = path();
    if (!nameIsOwn_)
        name_->setText(at.isEmpty() ? QString() : importNameFrom(at));
    QString problem;
    if (at.isEmpty())
        problem = tr("Type a path, or browse.");
    else if (!QFileInfo::exists(at))
        problem = tr("There is no file or folder at this path.");
    else if (name_->text().isEmpty())
        problem = tr("A name is needed: letters, digits, '-', '_' or '.'.");
    import_->setEnabled(problem.isEmpty());
    problem_->setText(problem.isEmpty() ? tr("Name: how the set is called in the library, in plans and on the command line.") : problem);
}

} // namespace megagraph::ui
