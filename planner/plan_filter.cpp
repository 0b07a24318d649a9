// SPDX-License-Identifier: Apache-2.0
#include "planner/plan_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

namespace megagraph::planner {

namespace {

constexpr size_t kLongestFilter = 4096;

struct Token { std::string text; size_t at = 0; bool quoted = false; };

struct Term {
    const Column* column = nullptr;
    std::string op, word;
    double number = 0;
    bool isNumber = false;
};

Error fault(const std::string& filter, size_t at, const std::string& what)
{
    return {ErrorCode::Usage, fmt::format("filter: position {}: {}, in \"{}\"", at + 1, what, filter)};
}

bool isWordCharacter(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '+' || c == '%';
}

Result<std::vector<Token>> tokenise(const std::string& filter)
{
    std::vector<Token> tokens;
    for (size_t i = 0; i < filter.size();) {
        const char c = filter[i];
        if (std::isspace(static_cast<unsigned char>(c))) {
            ++i;
            continue;
        }
        size_t end = i;
        if (c == '"') {
            end = filter.find('"', i + 1);
            if (end == std::string::npos)
                return fault(filter, i, "the quotation mark is never closed");
            tokens.push_back({filter.substr(i + 1, end - i - 1), i, true});
            i = end + 1;
            continue;
        }
        if (isWordCharacter(c))
            while (end < filter.size() && isWordCharacter(filter[end]))
                ++end;
        else
            while (end < filter.size() && std::string("<>=!~").find(filter[end]) != std::string::npos)
                ++end;
        if (end == i)
            return fault(filter, i, fmt::format("unexpected character '{}'", c));
        tokens.push_back({filter.substr(i, end - i), i, false});
        i = end;
    }
    return tokens;
}

size_t editDistance(const std::string& a, const std::string& b)
{
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t before = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = before + (a[i - 1] != b[j - 1]);
            before = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row.back();
}

std::string nearestColumn(const std::string& name)
{
    std::string best;
    size_t least = 1000;
    for (const Column& column : planColumns()) {
        const std::string first = column.name.substr(0, column.name.find('_')); // `peek` means peak_gib, not a shorter name
        const size_t d = std::min(2 * editDistance(name, column.name), 2 * editDistance(name, first) + 1);
        if (d < least) {
            least = d;
            best = column.name;
        }
    }
    return best;
}

/// How many of the column's unit one of `unit` is; nothing when it measures something else.
std::optional<double> unitFactor(const std::string& column, const std::string& unit)
{
    static const std::vector<std::pair<std::string, double>> bytes{{"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0},
        {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
    static const std::vector<std::pair<std::string, double>> times{{"ns", 1e-6}, {"us", 1e-3}, {"ms", 1}, {"s", 1e3}, {"min", 6e4}, {"h", 3.6e6}};
    const auto among = [&](const auto& units, double columnUnit) -> std::optional<double> {
        for (const auto& [name, factor] : units)
            if (name == unit)
                return factor / columnUnit;
        return std::nullopt;
    };
    if (column == "GiB")
        return among(bytes, 1073741824.0);
    if (column == "ms")
        return among(times, 1);
    if (column == "s")
        return among(times, 1e3);
    if (column == "%" && unit == "%")
        return 1;
    return std::nullopt;
}

Result<double> readNumber(const std::string& filter, const Token& token, const Column& column, std::string& unit)
{
    double value = 0;
    const auto read = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (read.ec != std::errc())
        return fault(filter, token.at, fmt::format("{} is compared with a number, got \"{}\"", column.name, token.text));
    unit = std::string(read.ptr, token.text.data() + token.text.size());
    return value;
}

class Parser {
  public:
    Parser(const std::string& filter, std::vector<Token> tokens) : filter_(filter), tokens_(std::move(tokens)) {}

    Result<std::vector<Term>> parse()
    {
        std::vector<Term> terms;
        while (next_ < tokens_.size()) {
            if (!terms.empty()) {
                if (tokens_[next_].text != "and")
                    return fault(filter_, tokens_[next_].at, fmt::format("expected \"and\", got \"{}\"", tokens_[next_].text));
                ++next_;
            }
            auto term = parseTerm();
            if (!term.ok())
                return term.error();
            terms.push_back(*term);
        }
        return terms;
    }

  private:
    Result<Term> parseTerm()
    {
        if (next_ >= tokens_.size())
            return fault(filter_, filter_.size(), "a comparison is missing after \"and\"");
        const Token& name = tokens_[next_++];
        Term term;
        std::string column = name.text;
        for (const char* prefix : {"any.", "all."}) // one stage: both mean the same
            if (column.rfind(prefix, 0) == 0)
                column = column.substr(4);
        term.column = findColumn(column);
        if (!term.column)
            return fault(filter_, name.at, fmt::format("no column \"{}\"; did you mean \"{}\"?", name.text, nearestColumn(column)));
        const bool flag = term.column->name == "feasible" || term.column->name == "front";
        if (flag && (next_ >= tokens_.size() || tokens_[next_].text == "and")) {
            term.op = "=";
            term.word = "yes";
            return term;
        }
        if (next_ >= tokens_.size())
            return fault(filter_, filter_.size(), fmt::format("a comparison is missing after \"{}\"", name.text));
        const Token& op = tokens_[next_++];
        static const std::vector<std::string> known{"=", "!=", "<", "<=", ">", ">=", "~"};
        if (std::find(known.begin(), known.end(), op.text) == known.end())
            return fault(filter_, op.at, fmt::format("expected one of {}, got \"{}\"", fmt::join(known, " "), op.text));
        term.op = op.text;
        if (next_ >= tokens_.size())
            return fault(filter_, filter_.size(), fmt::format("a value is missing after \"{}\"", op.text));
        return term.column->numeric ? numericValue(term) : wordValue(term, flag);
    }

    Result<Term> numericValue(Term term)
    {
        const Token& token = tokens_[next_++];
        std::string unit;
        auto value = readNumber(filter_, token, *term.column, unit);
        if (!value.ok())
            return value.error();
        if (term.op == "~")
            return fault(filter_, token.at, fmt::format("{} is a number, ~ looks for text; use = < <= > >=", term.column->name));
        size_t unitAt = token.at;
        if (unit.empty() && next_ < tokens_.size() && tokens_[next_].text != "and") {
            unit = tokens_[next_].text;
            unitAt = tokens_[next_++].at;
        }
        double factor = 1;
        if (!unit.empty()) {
            const auto known = unitFactor(term.column->unit, unit);
            if (!known)
                return fault(filter_, unitAt, fmt::format("unit \"{}\" does not measure {}{}", unit, term.column->name,
                                                          term.column->unit.empty() ? "" : " (its unit is " + term.column->unit + ")"));
            factor = *known;
        }
        term.number = *value * factor;
        term.isNumber = true;
        return term;
    }

    Result<Term> wordValue(Term term, bool flag)
    {
        const Token& token = tokens_[next_++];
        if (term.op != "=" && term.op != "!=" && term.op != "~")
            return fault(filter_, token.at, fmt::format("{} holds words; use =, != or ~", term.column->name));
        term.word = token.text;
        if (flag && (term.word == "true" || term.word == "1"))
            term.word = "yes";
        if (flag && (term.word == "false" || term.word == "0"))
            term.word = "no";
        return term;
    }

    const std::string& filter_;
    std::vector<Token> tokens_;
    size_t next_ = 0;
};

std::string lowered(std::string text)
{
    for (char& c : text)
        c = char(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

bool holds(const Term& term, const PlanRow& row)
{
    if (!term.isNumber) {
        const std::string text = term.column->text(row);
        if (term.op == "~")
            return lowered(text).find(lowered(term.word)) != std::string::npos;
        return (text == term.word) == (term.op == "=");
    }
    const double value = term.column->number(row);
    if (std::isnan(value))
        return false; // a comparison with a missing value is false
    if (term.op == "=")
        return value == term.number;
    if (term.op == "!=")
        return value != term.number;
    if (term.op == "<")
        return value < term.number;
    if (term.op == "<=")
        return value <= term.number;
    return term.op == ">" ? value > term.number : value >= term.number;
}

} // namespace

Result<std::vector<bool>> filterRows(const PlanTable& table, const std::string& filter)
{
    if (filter.size() > kLongestFilter)
        return Error{ErrorCode::Usage, fmt::format("filter: got {} characters, expected at most {}", filter.size(), kLongestFilter)};
    auto tokens = tokenise(filter);
    if (!tokens.ok())
        return tokens.error();
    auto terms = Parser(filter, std::move(*tokens)).parse();
    if (!terms.ok())
        return terms.error();
    std::vector<bool> rows(table.rows.size(), true);
    for (size_t i = 0; i < rows.size(); ++i)
        for (const Term& term : *terms)
            rows[i] = rows[i] && holds(term, table.rows[i]);
    return rows;
}

} // namespace megagraph::planner
