// SPDX-License-Identifier: Apache-2.0
// `megagraph-studio`: the window, or with --render a picture of one of its pages. This source file is Apache-2.0; the
// program links QCustomPlot and is therefore GPL-3.0-or-later as a whole.
#include "core/places.h"
#include "ui/pages/main_window.h"
#include "ui/render.h"

#include <QApplication>
#include <QCommandLineParser>
#include <QFileInfo>
#include <QSettings>
#include <QTimer>

#include <cstdio>
#include <cstring>
#include <fmt/format.h>

namespace megagraph::ui {
namespace {

constexpr int kUsage = 2;

int usage(const QString& text)
{
    fmt::print(stderr, "megagraph-studio: {}\n", text.toStdString());
    return kUsage;
}

/// The value of `--name value` or `--name=value` before Qt exists; the platform and scale must be set that early.
const char* rawOption(int argc, char** argv, const char* name)
{
    const size_t length = std::strlen(name);
    for (int i = 1; i < argc; ++i) {
        if (std::strncmp(argv[i], name, length) != 0)
            continue;
        if (argv[i][length] == '=')
            return argv[i] + length + 1;
        if (argv[i][length] == '\0')
            return i + 1 < argc ? argv[i + 1] : "";
    }
    return nullptr;
}

bool hasFlag(int argc, char** argv, const char* name)
{
    for (int i = 1; i < argc; ++i)
        if (std::strcmp(argv[i], name) == 0)
            return true;
    return false;
}

void addOptions(QCommandLineParser& parser)
{
    parser.setApplicationDescription(QStringLiteral("Plans, runs and measurements of MegaGraph in one window."));
    parser.addHelpOption();
    parser.addVersionOption();
    parser.addPositionalArgument(QStringLiteral("project"), QStringLiteral("Project to open (*.megagraph)."), QStringLiteral("[project]"));
    parser.addOptions({{QStringLiteral("render"), QStringLiteral("Draw PAGE (start, space, plan, run) without a display."), QStringLiteral("page")},
                       {QStringLiteral("project"), QStringLiteral("Project of the picture; default: the sample."), QStringLiteral("file")},
                       {QStringLiteral("out"), QStringLiteral("Picture to write."), QStringLiteral("file.png")},
                       {QStringLiteral("run"), QStringLiteral("Run to show; default: the newest."), QStringLiteral("id")},
                       {QStringLiteral("plan"), QStringLiteral("Plan in focus: first digits of its id, or a baseline."), QStringLiteral("id")},
                       {QStringLiteral("filter"), QStringLiteral("Filter of plans."), QStringLiteral("text")},
                       {QStringLiteral("size"), QStringLiteral("Size of the window; default 1280x800."), QStringLiteral("WxH")},
                       {QStringLiteral("scale"), QStringLiteral("Device pixels per pixel, 0.5 to 4; default 1."), QStringLiteral("factor")},
                       {QStringLiteral("theme"), QStringLiteral("light or dark; default light."), QStringLiteral("name")},
                       {QStringLiteral("clean"), QStringLiteral("Start without the last project.")}});
}

int render(const QCommandLineParser& parser, const Session::Options& options)
{
    RenderRequest request;
    request.page = parser.value(QStringLiteral("render"));
    if (MainWindow::pageNamed(request.page) < 0)
        return usage(QStringLiteral("--render: no page of that name, got %1, expected start, space, plan or run.").arg(request.page));
    request.out = parser.value(QStringLiteral("out"));
    if (!request.out.endsWith(QStringLiteral(".png")))
        return usage(QStringLiteral("--out: a file name that ends in .png is needed, got '%1'.").arg(request.out));
    request.project = parser.value(QStringLiteral("project"));
    if (request.project.isEmpty() && !parser.positionalArguments().isEmpty())
        request.project = parser.positionalArguments().first();
    request.run = parser.value(QStringLiteral("run"));
    request.plan = parser.value(QStringLiteral("plan"));
    request.filter = parser.value(QStringLiteral("filter"));
    if (parser.isSet(QStringLiteral("theme"))) {
        const QString theme = parser.value(QStringLiteral("theme"));
        if (theme != QLatin1String("light") && theme != QLatin1String("dark"))
            return usage(QStringLiteral("--theme: got %1, expected light or dark.").arg(theme));
        request.theme = theme == QLatin1String("dark") ? ThemeMode::Dark : ThemeMode::Light;
    }
    if (parser.isSet(QStringLiteral("size"))) {
        const QStringList parts = parser.value(QStringLiteral("size")).split(QLatin1Char('x'));
        const int width = parts.value(0).toInt(), height = parts.value(1).toInt();
        if (parts.size() != 2 || width < 640 || height < 480 || width > 7680 || height > 4320)
            return usage(QStringLiteral("--size: got %1, expected WIDTHxHEIGHT from 640x480 to 7680x4320.").arg(parser.value(QStringLiteral("size"))));
        request.size = {width, height};
    }
    return renderPage(options, request);
}

int run(int argc, char** argv)
{
    const bool rendering = rawOption(argc, argv, "--render") != nullptr;
    const bool printing = hasFlag(argc, argv, "--help") || hasFlag(argc, argv, "-h") || hasFlag(argc, argv, "--version") || hasFlag(argc, argv, "-v");
    if (rendering || printing)
        qputenv("QT_QPA_PLATFORM", "offscreen");
    if (rendering) {
        const char* scale = rawOption(argc, argv, "--scale");
        const double factor = scale ? std::atof(scale) : 1;
        if (factor < 0.5 || factor > 4)
            return usage(QStringLiteral("--scale: got %1, expected 0.5 to 4.").arg(QString::fromLocal8Bit(scale)));
        qputenv("QT_SCALE_FACTOR", QByteArray::number(factor));
        qunsetenv("QT_SCREEN_SCALE_FACTORS");
        qputenv("QT_ENABLE_HIGHDPI_SCALING", "1");
        QLocale::setDefault(QLocale(QLocale::English, QLocale::UnitedStates)); // the same picture everywhere
    }
    QGuiApplication::setHighDpiScaleFactorRoundingPolicy(Qt::HighDpiScaleFactorRoundingPolicy::PassThrough);
    QApplication application(argc, argv);
    QApplication::setApplicationName(QStringLiteral("megagraph-studio"));
    QApplication::setApplicationDisplayName(QStringLiteral("MegaGraph Studio"));
    QApplication::setApplicationVersion(QString::fromLatin1(productVersion()));
    QApplication::setDesktopFileName(QStringLiteral("megagraph-studio"));
    QCommandLineParser parser;
    addOptions(parser);
    if (!parser.parse(QApplication::arguments()))
        return usage(parser.errorText());
    if (parser.isSet(QStringLiteral("help")))
        parser.showHelp(0);
    if (parser.isSet(QStringLiteral("version")))
        parser.showVersion();

    Session::Options options;
    options.home = QString::fromStdString(homeFolder());
    options.resources = QString::fromStdString(resourcesFolder());
    options.program = QString::fromStdString(programPath("megagraph"));
    if (rendering) {
        QFont font = QApplication::font();
        font.setPointSizeF(10);
        QApplication::setFont(font);
        return render(parser, options);
    }
    QSettings kept(QSettings::IniFormat, QSettings::UserScope, QStringLiteral("megagraph"), QStringLiteral("studio"));
    applyApplicationTheme(ThemeMode(std::clamp(kept.value(QStringLiteral("theme"), 0).toInt(), 0, 2)));
    Session session(options);
    MainWindow window(session, true);
    window.show();
    const QString last = parser.isSet(QStringLiteral("clean")) ? QString() : kept.value(QStringLiteral("project")).toString();
    const QString named = parser.positionalArguments().value(0, parser.value(QStringLiteral("project")));
    QTimer::singleShot(0, &session, [&] { // behind the first paint
        session.refreshLibrary();
        session.checkMachine();
        if (!named.isEmpty())
            session.openProject(named);
        else if (!last.isEmpty() && QFileInfo::exists(last))
            session.openProject(last);
    });
    return QApplication::exec();
}

} // namespace
} // namespace megagraph::ui

int main(int argc, char** argv)
{
    return megagraph::ui::run(argc, argv);
}
