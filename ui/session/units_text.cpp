// SPDX-License-Identifier: Apache-2.0
#include "ui/session/units_text.h"

#include <QCoreApplication>

#include <algorithm>
#include <cmath>

namespace megagraph::ui {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kNsPerS = 1e9;

QString words(const char* text)
{
    return QCoreApplication::translate("units", text);
}

QString pair(const QString& number, const char* unit)
{
    return number + QChar(0x00A0) + QLatin1String(unit); // no break between number and unit
}

} // namespace

QString significantText(double value, const QLocale& locale)
{
    if (std::isnan(value))
        return words("n/a");
    if (std::isinf(value))
        return value > 0 ? QStringLiteral("\u221E") : QStringLiteral("-\u221E");
    const double size = std::abs(value);
    if (size == 0)
        return locale.toString(0);
    // rounding first: 9.996 has three digits as 10.0
    const int exponent = int(std::floor(std::log10(size)));
    const double rounded = std::round(size / std::pow(10.0, exponent - 2)) * std::pow(10.0, exponent - 2);
    const int digits = int(std::floor(std::log10(rounded) + 1e-12));
    return locale.toString(value, 'f', std::clamp(2 - digits, 0, 12));
}

QString timeText(double nanoseconds, const QLocale& locale)
{
    if (!std::isfinite(nanoseconds))
        return words("n/a");
    const double seconds = nanoseconds / kNsPerS;
    if (seconds < 10)
        return pair(significantText(nanoseconds / kNsPerMs, locale), "ms");
    if (seconds < 100)
        return pair(significantText(seconds, locale), "s");
    return clockText(seconds);
}

QString clockText(double seconds)
{
    if (!std::isfinite(seconds) || seconds < 0)
        return words("n/a");
    const auto whole = int64_t(std::llround(seconds));
    const int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
    if (hours > 0)
        return QStringLiteral("%1:%2:%3").arg(hours).arg(minutes, 2, 10, QLatin1Char('0')).arg(rest, 2, 10, QLatin1Char('0'));
    return QStringLiteral("%1:%2").arg(minutes).arg(rest, 2, 10, QLatin1Char('0'));
}

QString intervalText(int64_t ns, int64_t loNs, int64_t hiNs, const QLocale& locale)
{
    const QString value = timeText(double(ns), locale);
    if (loNs <= 0 || hiNs <= 0 || hiNs < loNs)
        return value;
    const double unit = double(ns) < 10 * kNsPerS ? kNsPerMs : kNsPerS;
    return QStringLiteral("%1 (%2\u2013%3)")
        .arg(value, significantText(double(loNs) / unit, locale), significantText(double(hiNs) / unit, locale));
}

QString memoryText(double bytes, const QLocale& locale)
{
    if (!std::isfinite(bytes))
        return words("n/a");
    static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double value = bytes;
    while (std::abs(value) >= 999.5 && unit < 4) { // 1000 KiB reads 0.977 MiB, so that three digits always do
        value /= 1024;
        ++unit;
    }
    return pair(unit == 0 ? locale.toString(qlonglong(bytes)) : significantText(value, locale), kUnits[unit]);
}

QString gibText(double bytes, const QLocale& locale)
{
    return significantText(bytes / (1024.0 * 1024.0 * 1024.0), locale);
}

QString chanceText(double p, const QLocale& locale)
{
    if (std::isnan(p))
        return words("n/a");
    if (p > 0.99)
        return pair(QStringLiteral("> ") + locale.toString(99), "%");
    if (p < 0.01)
        return pair(QStringLiteral("< ") + locale.toString(1), "%");
    return pair(locale.toString(int(std::lround(p * 100))), "%");
}

QString shareText(double fraction, const QLocale& locale)
{
    return std::isfinite(fraction) ? pair(significantText(fraction * 100, locale), "%") : words("n/a");
}

QString countText(int64_t value, const QLocale& locale)
{
    return locale.toString(qlonglong(value));
}

QString differenceText(double measured, double predicted, const QLocale& locale)
{
    if (!std::isfinite(measured) || !std::isfinite(predicted) || predicted == 0)
        return words("n/a");
    const double percent = (measured / predicted - 1) * 100;
    const QString number = locale.toString(std::abs(percent), 'f', std::abs(percent) < 9.95 ? 1 : 0);
    return pair((percent < 0 ? QStringLiteral("-") : QStringLiteral("+")) + number, "%");
}

QString provenanceMark(planner::Provenance provenance)
{
    switch (provenance) {
    case planner::Provenance::Measured: return QStringLiteral("\u25CF");
    case planner::Provenance::Interpolated: return QStringLiteral("\u25D0");
    case planner::Provenance::Extrapolated: return QStringLiteral("\u25C6");
    case planner::Provenance::Transferred: return QStringLiteral("\u25B2");
    case planner::Provenance::Assumed: break;
    }
    return QStringLiteral("\u25CB");
}

QString memoryCategoryText(MemoryCategory category)
{
    switch (category) {
    case MemoryCategory::Weights: return words("Weights");
    case MemoryCategory::Gradients: return words("Gradients");
    case MemoryCategory::Optimizer: return words("Optimizer");
    case MemoryCategory::NodeTable: return words("Node table");
    case MemoryCategory::Activations: return words("Activations");
    case MemoryCategory::Workspace: return words("Workspace");
    case MemoryCategory::Topology: return words("Topology");
    case MemoryCategory::Buffers: return words("Buffers");
    case MemoryCategory::Base: return words("Base (process)");
    case MemoryCategory::Slack: break;
    }
    return words("Slack");
}

QString timeTermText(TimeTerm term)
{
    switch (term) {
    case TimeTerm::Attention: return words("Attention");
    case TimeTerm::Block: return words("Block, rest");
    case TimeTerm::EmbedHead: return words("Embed, head");
    case TimeTerm::Distance: return words("Distances");
    case TimeTerm::Exchange: return words("Exchange");
    case TimeTerm::Bubble: return words("Bubble");
    case TimeTerm::Update: return words("Update");
    case TimeTerm::Host: break;
    }
    return words("Host");
}

} // namespace megagraph::ui
