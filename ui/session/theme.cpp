// SPDX-License-Identifier: Apache-2.0
#include "ui/session/theme.h"

#include <cmath>

namespace megagraph::ui {
namespace {

double linear(double channel)
{
    return channel <= 0.03928 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
}

double luminance(const QColor& color)
{
    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
}

} // namespace

double contrastRatio(const QColor& a, const QColor& b)
{
    const double la = luminance(a), lb = luminance(b);
    return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

QColor blend(const QColor& a, const QColor& b, double share)
{
    const auto mix = [share](int x, int y) { return int(std::lround(share * x + (1.0 - share) * y)); };
    return QColor(mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue()));
}

Theme::Theme(bool dark, const std::array<const char*, kRoles>& roles,
             const std::array<const char*, kSeriesColors>& series)
    : dark_(dark)
{
    for (size_t i = 0; i < roles.size(); ++i)
        roles_[i] = QColor(QLatin1String(roles[i]));
    for (size_t i = 0; i < series.size(); ++i)
        series_[i] = QColor(QLatin1String(series[i]));
}

const Theme& Theme::light()
{
    static const Theme theme(false,
                             {"#FFFFFF", "#F3F4F6", "#1B1D21", "#5A6069", "#80868F", "#0B57D0", "#1B7A3D", "#8A5A00",
                              "#B3261E"},
                             {"#2E1019", "#B37F00", "#3764EF", "#00866C", "#663107", "#2C3E6A", "#AA4F39", "#8D7AA4"});
    return theme;
}

const Theme& Theme::dark()
{
    static const Theme theme(true,
                             {"#1E1F22", "#27292D", "#E8EAED", "#A7ADB6", "#7F8690", "#8AB4F8", "#5BCB84", "#F2B84B",
                              "#FF8A80"},
                             {"#D6FDD2", "#E29B1E", "#36C7FD", "#159877", "#FFFF21", "#716BCF", "#B85D2F", "#C2B3B8"});
    return theme;
}

const Theme& Theme::of(const QPalette& palette)
{
    return luminance(palette.color(QPalette::Active, QPalette::Window)) < 0.5 ? dark() : light();
}

const Theme& Theme::choose(ThemeMode mode, const QPalette& system)
{
    switch (mode) {
    case ThemeMode::Light: return light();
    case ThemeMode::Dark: return dark();
    case ThemeMode::System: break;
    }
    return of(system);
}

QColor Theme::series(int index) const
{
    return series_[size_t(((index % kSeriesColors) + kSeriesColors) % kSeriesColors)];
}

QColor Theme::memory(MemoryCategory category) const
{
    switch (category) {
    case MemoryCategory::Weights: return series(0);
    case MemoryCategory::Gradients: return series(1);
    case MemoryCategory::Optimizer: return series(2);
    case MemoryCategory::NodeTable: return series(7);
    case MemoryCategory::Activations: return series(3);
    case MemoryCategory::Workspace: return series(4);
    case MemoryCategory::Topology: return series(5);
    case MemoryCategory::Buffers: return series(6);
    case MemoryCategory::Base:
    case MemoryCategory::Slack: break;
    }
    return color(Role::Line);
}

QColor Theme::hairline() const
{
    return blend(color(Role::Line), color(Role::Page), 0.38);
}

QColor Theme::selection() const
{
    return blend(color(Role::Accent), color(Role::Page), dark_ ? 0.24 : 0.14);
}

QColor Theme::hover() const
{
    return blend(color(Role::Accent), color(Role::Panel), 0.08);
}

QPalette Theme::palette() const
{
    QPalette p;
    const QColor page = color(Role::Page), panel = color(Role::Panel), text = color(Role::Text);
    p.setColor(QPalette::Window, panel);
    p.setColor(QPalette::WindowText, text);
    p.setColor(QPalette::Base, page);
    p.setColor(QPalette::AlternateBase, blend(panel, page, 0.5));
    p.setColor(QPalette::Text, text);
    p.setColor(QPalette::Button, page);
    p.setColor(QPalette::ButtonText, text);
    p.setColor(QPalette::BrightText, color(Role::Error));
    p.setColor(QPalette::ToolTipBase, panel);
    p.setColor(QPalette::ToolTipText, text);
    p.setColor(QPalette::PlaceholderText, color(Role::Muted));
    p.setColor(QPalette::Highlight, selection());
    p.setColor(QPalette::HighlightedText, text);
    p.setColor(QPalette::Link, color(Role::Accent));
    p.setColor(QPalette::LinkVisited, color(Role::Accent));
    p.setColor(QPalette::Light, blend(page, panel, 0.7));
    p.setColor(QPalette::Midlight, panel);
    p.setColor(QPalette::Mid, hairline());
    p.setColor(QPalette::Dark, color(Role::Line));
    p.setColor(QPalette::Shadow, blend(text, page, 0.4));
    for (QPalette::ColorRole role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        p.setColor(QPalette::Disabled, role, color(Role::Muted));
    p.setColor(QPalette::Disabled, QPalette::Base, panel);
    p.setColor(QPalette::Disabled, QPalette::Button, panel);
    return p;
}

} // namespace megagraph::ui
