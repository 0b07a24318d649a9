// SPDX-License-Identifier: Apache-2.0
// The two colour tables of the studio (studio design, 1.8) and nothing else may hold a colour. Immutable values; any
// thread. A widget asks Theme::of(palette()), so a change of the palette is all that a change of theme needs.
#pragma once

#include "core/plan.h"

#include <QColor>
#include <QPalette>

namespace megagraph::ui {

enum class ThemeMode { System, Light, Dark };
enum class Role { Page, Panel, Text, Muted, Line, Accent, Ok, Warning, Error };
constexpr int kRoles = 9;
constexpr int kSeriesColors = 8;

class Theme {
  public:
    static const Theme& light();
    static const Theme& dark();
    /// The table whose window colour the palette carries: dark below luminance 0.5.
    static const Theme& of(const QPalette& palette);
    static const Theme& choose(ThemeMode mode, const QPalette& system);

    bool isDark() const { return dark_; }
    QColor color(Role role) const { return roles_[size_t(role)]; }
    QColor series(int index) const; ///< A to H; index is taken modulo 8
    QColor memory(MemoryCategory category) const;
    static bool isHatched(MemoryCategory category) { return category == MemoryCategory::Slack; }
    QColor term(TimeTerm term) const { return series(int(term)); }
    QColor hairline() const;  ///< borders and grid: the line colour half-way to the page
    QColor selection() const; ///< background of a selected row
    QColor hover() const;
    QPalette palette() const;

  private:
    Theme(bool dark, const std::array<const char*, kRoles>& roles, const std::array<const char*, kSeriesColors>& series);
    bool dark_;
    std::array<QColor, kRoles> roles_;
    std::array<QColor, kSeriesColors> series_;
};

/// WCAG 2 contrast ratio, 1 to 21.
double contrastRatio(const QColor& a, const QColor& b);
/// `share` of a over b.
QColor blend(const QColor& a, const QColor& b, double share);

} // namespace megagraph::ui
