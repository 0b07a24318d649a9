// SPDX-License-Identifier: Apache-2.0
// The only formatter of quantities that the studio shows: three significant digits, ms below 10 s, binary memory, 90 %
// intervals, P(fit) never as a bare "fits". Display follows the given locale; files and commands never use this.
#pragma once

#include "core/plan.h"
#include "planner/problem.h"

#include <QLocale>
#include <QString>

namespace megagraph::ui {

/// 3 significant digits without exponent: 0.0123, 1.23, 12.3, 123, 1,234 (group separators of the locale).
QString significantText(double value, const QLocale& locale = QLocale());
/// "142 ms", "0.412 ms"; from 10 s "12.3 s"; from 100 s "1:42"; from an hour "1:02:03".
QString timeText(double nanoseconds, const QLocale& locale = QLocale());
/// "0:41", "1:02:03": remaining or elapsed time.
QString clockText(double seconds);
/// "142 ms (131-155)": value and 90 % interval; without interval when lo and hi are 0.
QString intervalText(int64_t ns, int64_t loNs, int64_t hiNs, const QLocale& locale = QLocale());
/// "61.2 GiB", "812 KiB": binary, three significant digits.
QString memoryText(double bytes, const QLocale& locale = QLocale());
/// The number of a column in GiB, without unit.
QString gibText(double bytes, const QLocale& locale = QLocale());
/// "97 %", "> 99 %", "< 1 %"; "n/a" for NaN.
QString chanceText(double p, const QLocale& locale = QLocale());
/// "83.4 %" of a fraction.
QString shareText(double fraction, const QLocale& locale = QLocale());
/// "1 204 112" or "1,204,112": whole numbers.
QString countText(int64_t value, const QLocale& locale = QLocale());
/// Signed difference in percent, "+3.1 %", "-12 %".
QString differenceText(double measured, double predicted, const QLocale& locale = QLocale());
/// Filled disc measured, half disc interpolated, diamond extrapolated, triangle transferred, open ring assumed.
QString provenanceMark(planner::Provenance provenance);

/// Words for people.
QString memoryCategoryText(MemoryCategory category);
QString timeTermText(TimeTerm term);

} // namespace megagraph::ui
