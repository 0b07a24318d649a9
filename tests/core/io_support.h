// SPDX-License-Identifier: Apache-2.0
// What the tests of core/io share: a scratch folder that removes itself, the folder of real data, gzip and zip writers for
// made-up sources. One thread.
#pragma once

#include "core/io/import.h"

#include <cstdint>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace megagraph::test {

class Scratch {
  public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    std::string path(const std::string& name = "") const { return name.empty() ? root_ : root_ + "/" + name; }
    std::string home() const { return root_ + "/home"; }
    /// Entries of the data set folder, temporary ones included.
    std::vector<std::string> storedSets() const;
    void write(const std::string& name, const std::string& bytes) const;
    void writeGzip(const std::string& name, const std::string& text) const;
    void copyFolder(const std::string& from, const std::string& name) const;
    std::string read(const std::string& name) const;

  private:
    std::string root_;
};

/// $MEGAGRAPH_SHARED_DATA, else ../shared/data beside the source; "" when absent.
std::string sharedData();
#define MEGAGRAPH_NEEDS_SHARED_DATA()                                                                                  \
    if (megagraph::test::sharedData().empty())                                                                         \
    GTEST_SKIP() << "no real data: set MEGAGRAPH_SHARED_DATA"

std::string gzipped(const std::string& text);
std::string gunzipped(const std::string& bytes);

struct ZipEntry { std::string name, data; bool deflated = true; };
/// A zip archive with correct sizes, checksums and directory.
std::string zipped(const std::vector<ZipEntry>& entries);
/// A NPY array: header plus raw bytes.
std::string npy(const std::string& dtype, const std::string& shape, const std::string& data, bool fortran = false);
template <class T> std::string rawBytes(const std::vector<T>& values)
{
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A small ogb-raw folder: `edges` as text, labels one per node, one split.
void writeOgb(const Scratch& scratch, const std::string& folder, int64_t nodes, const std::string& edges, const std::string& labels);

Result<ImportReport> importInto(const Scratch& scratch, const std::string& path, const std::string& name, ImportOptions options = {});
/// The import must fail with this code and every piece in its message, and leave nothing behind.
void expectRefusal(const Scratch& scratch, const std::string& path, ErrorCode code, const std::vector<std::string>& pieces,
                   ImportOptions options = {});

} // namespace megagraph::test
