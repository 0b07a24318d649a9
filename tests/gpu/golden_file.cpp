// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/golden_file.h"

#include "core/file.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

namespace megagraph::kernels::goldens {
namespace {

constexpr char kMagic[] = "MGGOLD01";
constexpr int64_t kWholeRows = 72; // arrays up to this length are stored whole
constexpr int64_t kRandomRows = 24;
constexpr size_t kMostBytes = 4u << 20;
constexpr uint64_t kSignSeed = 0x676F6C64;

double sign(int64_t row)
{
    return (drawWords(kSignSeed, 1, uint64_t(row))[0] & 1) != 0 ? 1.0 : -1.0;
}

std::vector<int32_t> rowsToStore(int64_t rows)
{
    std::set<int64_t> chosen;
    for (int64_t r = 0; r < rows && rows <= kWholeRows; ++r)
        chosen.insert(r);
    if (rows > kWholeRows) {
        for (const int64_t border : {int64_t(0), int64_t(64), int64_t(128), int64_t(192), int64_t(256), rows})
            for (int64_t r = border - 2; r < border + 2; ++r)
                if (r >= 0 && r < rows)
                    chosen.insert(r);
        for (int64_t i = 0; i < kRandomRows; ++i)
            chosen.insert(int64_t(drawBelow(kSignSeed, 2, uint64_t(i), uint64_t(rows))));
    }
    return {chosen.begin(), chosen.end()};
}

template <class T> void put(std::string& out, const T* values, size_t count)
{
    out.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

/// Reads numbers off the front of a file; every size is held against what is left.
class Cursor {
  public:
    explicit Cursor(std::string_view bytes) : bytes_(bytes) {}
    template <class T> bool take(T* out, int64_t count)
    {
        if (count < 0 || uint64_t(count) > bytes_.size() / sizeof(T))
            return false;
        if (count > 0)
            std::memcpy(out, bytes_.data(), size_t(count) * sizeof(T));
        bytes_.remove_prefix(size_t(count) * sizeof(T));
        return true;
    }
    template <class T> bool take(std::vector<T>& out, int64_t count)
    {
        if (count < 0 || uint64_t(count) > bytes_.size() / sizeof(T))
            return false;
        out.resize(size_t(count));
        return take(out.data(), count);
    }
    bool empty() const { return bytes_.empty(); }

  private:
    std::string_view bytes_;
};

bool takeArray(Cursor& cursor, StoredArray& a)
{
    char name[9] = {};
    int32_t stored = 0;
    if (!cursor.take(name, 8) || !cursor.take(&a.rows, 1) || !cursor.take(&a.width, 1) || !cursor.take(&stored, 1) ||
        a.rows < 0 || a.width < 1 || stored < 0 || stored > a.rows || !cursor.take(a.storedRows, stored) ||
        !cursor.take(a.values, int64_t(stored) * a.width) || !cursor.take(a.sums, a.width))
        return false;
    a.name = name;
    for (size_t i = 0; i < a.storedRows.size(); ++i)
        if (a.storedRows[i] < 0 || a.storedRows[i] >= a.rows || (i > 0 && a.storedRows[i] <= a.storedRows[i - 1]))
            return false;
    return true;
}

/// Squares of difference and norm over pairs of values; false where infinities or NaN disagree.
struct Squares {
    double difference = 0, norm = 0;
    bool sound = true;

    void add(double got, double expected)
    {
        if (std::isinf(expected) || !std::isfinite(got)) {
            sound = sound && got == expected;
            return;
        }
        difference += (got - expected) * (got - expected);
        norm += expected * expected;
    }
    double error(double floor) const
    {
        if (!sound)
            return std::numeric_limits<double>::infinity();
        const double size = std::max(std::sqrt(norm), floor);
        return difference == 0 ? 0 : std::sqrt(difference) / (size == 0 ? 1 : size);
    }
};

Error corrupt(const std::string& place, const std::string& text)
{
    return {ErrorCode::Corrupt, "goldens: " + place + ": " + text + "; make them again with make_goldens."};
}

} // namespace

std::vector<double> signedSums(int64_t rows, int64_t width, const std::vector<double>& values)
{
    std::vector<double> sums(size_t(width), 0.0);
    for (int64_t r = 0; r < rows; ++r) {
        const double s = sign(r);
        for (int64_t x = 0; x < width; ++x) {
            const double v = values[size_t(r * width + x)];
            sums[size_t(x)] += std::isinf(v) ? 0.0 : s * v;
        }
    }
    return sums;
}

Golden goldenOf(const std::vector<Array>& arrays)
{
    Golden golden;
    for (const Array& a : arrays) {
        StoredArray s{a.name, a.rows, int32_t(a.width), rowsToStore(a.rows), {}, signedSums(a.rows, a.width, a.values)};
        for (const int32_t r : s.storedRows)
            for (int64_t x = 0; x < a.width; ++x)
                s.values.push_back(float(a.values[size_t(r * a.width + x)]));
        golden.push_back(std::move(s));
    }
    return golden;
}

std::string encode(const Golden& golden)
{
    std::string out(kMagic, 8);
    const auto count = uint32_t(golden.size());
    put(out, &count, 1);
    for (const StoredArray& a : golden) {
        char name[8] = {};
        std::memcpy(name, a.name.data(), std::min<size_t>(a.name.size(), 8));
        const auto stored = int32_t(a.storedRows.size());
        put(out, name, 8);
        put(out, &a.rows, 1);
        put(out, &a.width, 1);
        put(out, &stored, 1);
        put(out, a.storedRows.data(), a.storedRows.size());
        put(out, a.values.data(), a.values.size());
        put(out, a.sums.data(), a.sums.size());
    }
    return out;
}

Result<Golden> decode(const std::string& file, std::string_view bytes)
{
    Cursor cursor(bytes);
    char magic[8] = {};
    uint32_t count = 0;
    if (!cursor.take(magic, 8) || std::memcmp(magic, kMagic, 8) != 0)
        return corrupt(file, "first bytes, got others, expected MGGOLD01");
    if (!cursor.take(&count, 1) || count > 16)
        return corrupt(file, "number of arrays, got " + std::to_string(count) + ", expected at most 16");
    Golden golden(count);
    for (uint32_t i = 0; i < count; ++i)
        if (!takeArray(cursor, golden[i]))
            return corrupt(file, "array " + std::to_string(i) + ": sizes or row numbers do not fit the file");
    if (!cursor.empty())
        return corrupt(file, "end, got more bytes than its arrays hold");
    return golden;
}

Result<Ok> writeGoldens(const std::string& folder)
{
    Json manifest{{"format", "megagraph.kernel_goldens"}, {"version", 1}, {"cases", Json::array()}};
    for (const Case& c : allCases()) {
        const std::string bytes = encode(goldenOf(referenceOf(c, makeInputs(c))));
        const std::string file = std::string(c.id) + ".golden";
        MEGAGRAPH_TRY(std::ignore, writeFileAtomically(folder + "/" + file, bytes));
        manifest["cases"].push_back(
            {{"id", c.id}, {"what", c.what}, {"file", file}, {"bytes", bytes.size()}, {"sha256", sha256Hex(bytes)}});
    }
    return writeFileAtomically(folder + "/manifest.json", manifest.dump(1) + "\n");
}

Result<Golden> readGolden(const std::string& folder, const ManifestEntry& entry)
{
    auto bytes = readSmallFile(folder + "/" + entry.file, kMostBytes);
    if (!bytes)
        return bytes.error();
    if (const std::string hash = sha256Hex(bytes.value()); hash != entry.sha256)
        return corrupt(entry.file, "SHA-256, got " + hash + ", expected " + entry.sha256 + " of manifest.json");
    return decode(entry.file, bytes.value());
}

Result<std::vector<ManifestEntry>> checkedManifest(const std::string& folder)
{
    auto json = readJsonFile(folder + "/manifest.json");
    if (!json)
        return json.error();
    std::vector<ManifestEntry> entries;
    ObjectReader reader(json.value(), "manifest.json", "");
    reader.expectFormat("megagraph.kernel_goldens", 1);
    for (ObjectReader& r : reader.children("cases")) {
        ManifestEntry e;
        std::string what;
        r.get("id", e.id);
        r.get("what", what);
        r.get("file", e.file);
        r.get("bytes", e.bytes, 1, int64_t(kMostBytes));
        r.get("sha256", e.sha256);
        if (e.file != e.id + ".golden" || findCase(e.id) == nullptr)
            r.fail("id", "got \"" + e.id + "\", expected a known case and its file");
        entries.push_back(e);
    }
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    if (entries.size() != allCases().size())
        return corrupt("manifest.json", "cases, got " + std::to_string(entries.size()) + ", expected " +
                                            std::to_string(allCases().size()));
    for (const ManifestEntry& e : entries) {
        auto golden = readGolden(folder, e);
        if (!golden)
            return golden.error();
    }
    return entries;
}

double errorOf(const StoredArray& golden, const std::vector<double>& got, double floor)
{
    if (int64_t(got.size()) != golden.rows * golden.width)
        return std::numeric_limits<double>::infinity();
    Squares stored, whole;
    for (size_t i = 0; i < golden.values.size(); ++i) {
        const int64_t r = golden.storedRows[i / size_t(golden.width)];
        stored.add(got[size_t(r * golden.width) + i % size_t(golden.width)], double(golden.values[i]));
    }
    const std::vector<double> sums = signedSums(golden.rows, golden.width, got);
    for (size_t x = 0; x < sums.size(); ++x)
        whole.add(sums[x], golden.sums[x]);
    // signs may cancel where an array is nearly constant: the sums count as large as the array's rows say they are
    const double rows = double(golden.rows) / double(std::max<size_t>(golden.storedRows.size(), 1));
    whole.norm = std::max(whole.norm, stored.norm * rows);
    return std::max(stored.error(floor), whole.error(floor));
}

const StoredArray* arrayNamed(const Golden& golden, std::string_view name)
{
    const auto found = std::find_if(golden.begin(), golden.end(), [&](const StoredArray& a) { return a.name == name; });
    return found == golden.end() ? nullptr : &*found;
}

} // namespace megagraph::kernels::goldens
