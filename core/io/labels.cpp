// SPDX-License-Identifier: Apache-2.0
#include "core/io/labels.h"

#include "core/io/source_file.h"
#include "core/io/text_number.h"
#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <tuple>

namespace megagraph {

namespace {

/// -1 means "missing" only if the other labels are exactly 0..C-1 and no -1 item is in a part.
bool minusOneIsMissing(const std::map<double, int64_t>& values, const RawLabels& raw, const std::vector<RawSplit>& splits)
{
    if (!values.contains(-1.0))
        return false;
    double next = 0;
    for (const auto& [value, count] : values)
        if (value != -1.0 && value != next++)
            return false;
    for (const RawSplit& split : splits)
        for (size_t i = 0; i < raw.numbers.size(); ++i)
            if (raw.numbers[i] == -1.0 && split.bits[i] != 0)
                return false;
    return next > 0;
}

void assignClasses(LabelTable& table, const std::vector<int32_t>& classes, size_t count)
{
    table.kind = "classification";
    table.classes = classes;
    table.perClass.assign(count, 0);
    for (size_t i = 0; i < classes.size(); ++i) {
        if (classes[i] >= 0) {
            ++table.perClass[static_cast<size_t>(classes[i])];
            ++table.labelled;
        } else if (table.firstMissing < 0) {
            table.firstMissing = static_cast<int64_t>(i);
        }
    }
}

LabelTable fromWords(const RawLabels& raw, const std::string& missing)
{
    std::vector<size_t> order;
    for (size_t w = 0; w < raw.wordTable.size(); ++w)
        if (missing.empty() || raw.wordTable[w] != missing)
            order.push_back(w);
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return raw.wordTable[a] < raw.wordTable[b]; });
    std::vector<int32_t> place(raw.wordTable.size(), -1);
    LabelTable table;
    for (size_t i = 0; i < order.size(); ++i) {
        place[order[i]] = static_cast<int32_t>(i);
        table.names.push_back(raw.wordTable[order[i]]);
    }
    std::vector<int32_t> classes(raw.wordIds.size(), -1);
    for (size_t i = 0; i < classes.size(); ++i)
        if (raw.wordIds[i] >= 0)
            classes[i] = place[static_cast<size_t>(raw.wordIds[i])];
    assignClasses(table, classes, order.size());
    table.decisions.push_back({"task", "classification", "the labels are words", "default"});
    return table;
}

void useClassNames(LabelTable& table, const std::map<double, int32_t>& place, const RawLabels& raw)
{
    bool fits = raw.classNames.size() == place.size() && !place.empty();
    for (const auto& [value, number] : place)
        fits = fits && value == number;
    if (fits) {
        table.names = raw.classNames;
        table.decisions.push_back({"class_names", "named", "the source names the classes 0 to " + std::to_string(place.size() - 1), "default"});
    }
}

LabelTable fromIntegers(const RawLabels& raw, const std::vector<double>& numbers, const std::map<double, int64_t>& values)
{
    LabelTable table;
    std::map<double, int32_t> place;
    for (const auto& [value, count] : values)
        if (count > 0) {
            place.emplace(value, static_cast<int32_t>(place.size()));
            table.names.push_back(numberText(value));
        }
    std::vector<int32_t> classes(numbers.size(), -1);
    for (size_t i = 0; i < numbers.size(); ++i)
        if (!std::isnan(numbers[i]))
            classes[i] = place.at(numbers[i]);
    assignClasses(table, classes, place.size());
    useClassNames(table, place, raw);
    return table;
}

LabelTable fromReals(const std::vector<double>& numbers)
{
    LabelTable table;
    table.kind = "regression";
    for (size_t i = 0; i < numbers.size(); ++i) {
        table.real.push_back(static_cast<float>(numbers[i]));
        if (!std::isnan(numbers[i]))
            ++table.labelled;
        else if (table.firstMissing < 0)
            table.firstMissing = static_cast<int64_t>(i);
    }
    return table;
}

} // namespace

Result<LabelTable> decideLabels(const RawLabels& raw, const std::vector<RawSplit>& splits, const ImportOptions& options)
{
    if (!raw.present)
        return LabelTable{};
    if (raw.words && options.task == "regression")
        return badInput(raw.file, "", "the labels are words, got --task regression, expected numbers", "use --task classification");
    if (raw.words)
        return fromWords(raw, options.missing);
    std::vector<double> numbers = raw.numbers;
    const auto missing = parseNumber(options.missing);
    std::map<double, int64_t> values;
    bool whole = true;
    for (double& value : numbers) {
        if (missing && value == *missing)
            value = std::nan("");
        if (std::isnan(value))
            continue;
        ++values[value];
        whole = whole && value == std::floor(value) && std::abs(value) < 9e15;
    }
    const auto most = std::max<size_t>(20, numbers.size() / 10);
    const bool classes = options.task == "classification" || (options.task == "auto" && whole && values.size() <= most);
    const std::string by = options.task == "auto" ? "default" : "option";
    std::vector<DatasetSpec::Decision> decisions;
    if (classes && options.missing.empty() && minusOneIsMissing(values, raw, splits)) {
        std::replace(numbers.begin(), numbers.end(), -1.0, std::nan(""));
        values.erase(-1.0);
        decisions.push_back({"missing", "-1", "the other labels are exactly 0.." + std::to_string(values.size() - 1) +
                                                  " and no item with -1 is in a part", "default"});
    }
    LabelTable table = classes ? fromIntegers(raw, numbers, values) : fromReals(numbers);
    const std::string why = !whole ? "the labels are not all whole numbers"
                                   : fmt::format("{} different whole numbers, the limit for classes is {}", values.size(), most);
    table.decisions.insert(table.decisions.begin(), {"task", table.kind, why, by});
    table.decisions.insert(table.decisions.end(), decisions.begin(), decisions.end());
    return table;
}

Result<SplitRequest> parseSplitRequest(const std::string& text)
{
    const auto fault = [&] {
        return Error{ErrorCode::Usage, fmt::format("--split: got {}, expected random:TRAIN/VALID/TEST:SEED with whole percent that add up "
                                                   "to 100; for example --split random:60/20/20:0", quotedCell(text))};
    };
    std::vector<int64_t> numbers;
    std::string_view rest = text;
    if (!rest.starts_with("random:"))
        return fault();
    rest.remove_prefix(7);
    for (const char separator : {'/', '/', ':', '\0'}) {
        const size_t end = separator ? rest.find(separator) : rest.size();
        const auto value = end == std::string_view::npos ? std::nullopt : parseInteger(rest.substr(0, end));
        if (!value || *value < 0)
            return fault();
        numbers.push_back(*value);
        rest = rest.substr(std::min(end + 1, rest.size()));
    }
    if (numbers[0] < 1 || numbers[0] + numbers[1] + numbers[2] != 100)
        return fault();
    return SplitRequest{numbers[0], numbers[1], numbers[2], static_cast<uint64_t>(numbers[3])};
}

std::vector<uint8_t> randomSplit(std::span<const int32_t> classes, int64_t classCount, const SplitRequest& request)
{
    std::vector<std::vector<int64_t>> members(static_cast<size_t>(classCount));
    for (size_t i = 0; i < classes.size(); ++i)
        if (classes[i] >= 0)
            members[static_cast<size_t>(classes[i])].push_back(static_cast<int64_t>(i));
    std::vector<uint8_t> bits(classes.size(), 0);
    const uint64_t key = splitmix64(request.seed);
    for (auto& items : members) {
        const auto rank = [&](int64_t item) { return std::pair(splitmix64(key ^ static_cast<uint64_t>(item)), item); };
        std::sort(items.begin(), items.end(), [&](int64_t a, int64_t b) { return rank(a) < rank(b); });
        const auto count = static_cast<int64_t>(items.size());
        int64_t valid = (count * request.valid + 50) / 100, test = (count * request.test + 50) / 100;
        if (count < 3)
            valid = test = 0;
        test = std::min(test, count - 1);
        valid = std::min(valid, std::max<int64_t>(count - 1 - test, 0));
        for (int64_t i = 0; i < count; ++i)
            bits[static_cast<size_t>(items[static_cast<size_t>(i)])] = i < valid ? 2 : i < valid + test ? 4 : 1;
    }
    return bits;
}

SplitCounts countSplit(std::span<const uint8_t> bits)
{
    SplitCounts counts;
    for (size_t i = 0; i < bits.size(); ++i) {
        counts.train += bits[i] & 1;
        counts.valid += bits[i] >> 1 & 1;
        counts.test += bits[i] >> 2 & 1;
        counts.none += bits[i] == 0;
        if ((bits[i] & (bits[i] - 1)) != 0 && counts.overlap++ == 0)
            counts.firstOverlap = static_cast<int64_t>(i);
    }
    return counts;
}

} // namespace megagraph
