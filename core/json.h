// SPDX-License-Identifier: Apache-2.0
// Strict reading of our JSON documents. Caps: 8 MiB, depth 32. Every fault names file, path inside the file, value and
// rule. Unknown keys are an error for documents we own (with the nearest known key), unless the reader says skip.
// Values only; no threads.
#pragma once

#include "core/result.h"

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace megagraph {

using Json = nlohmann::ordered_json;

/// Parses text that came from `file` (a name for messages). InvalidInput with line and column; a repeated key is a fault.
Result<Json> parseJson(const std::string& text, const std::string& file);
/// Reads and parses a file (at most 8 MiB, regular, not a link loop). NotFound / Io / InvalidInput.
Result<Json> readJsonFile(const std::string& path);
/// Canonical text: keys sorted, no spaces, numbers shortest round trip (600.0 and 600 are the same number, "600"). The
/// SHA-256 of it identifies a document.
std::string canonicalText(const Json& value);
/// Writes by temporary file (mode 0600), fsync, rename; the folder is synced too.
Result<Ok> writeFileAtomically(const std::string& path, const std::string& bytes);
/// The name of `names` with the smallest edit distance to `name`; "" when none is near (at most a third of it differs).
std::string nearestName(const std::string& name, const std::vector<std::string>& names);

/// A cursor on one JSON object that collects the first fault and knows which keys were read. Copies and children share
/// that knowledge; the JSON value must outlive them.
/// Usage: ObjectReader r(json, "model.json", ""); r.get("width", spec.width, 1, 65536); ... return r.finish();
class ObjectReader {
  public:
    ObjectReader(const Json& value, std::string file, std::string path);

    ObjectReader child(const char* key);                    ///< required object
    std::vector<ObjectReader> children(const char* key);    ///< required array of objects
    bool has(const char* key) const;                        ///< also makes the key known
    const Json* raw(const char* key);                       ///< marks the key as read; null and a fault when missing

    void get(const char* key, std::string& out);
    void get(const char* key, bool& out);
    void get(const char* key, int64_t& out, int64_t least, int64_t most);
    void get(const char* key, double& out, double least, double most);
    void get(const char* key, std::vector<int64_t>& out);
    void get(const char* key, std::vector<double>& out);
    void get(const char* key, std::vector<std::string>& out);
    /// The value must be one of `names`; writes its position.
    void getChoice(const char* key, int& out, const std::vector<std::string>& names);
    /// Fault "format"/"version": VersionMismatch when newer, InvalidInput when other.
    void expectFormat(const char* format, int version);
    void fail(const char* key, const std::string& message); ///< first fault wins
    void allowUnknown();
    /// Ok, or the first fault of this reader and its children; unknown keys are a fault unless allowed.
    Result<Ok> finish();

  private:
    struct Shared;
    ObjectReader(const Json* value, std::string path, std::shared_ptr<Shared> shared);
    const Json* find(const char* key, const char* expected); // null and a fault when missing
    void wrong(const char* key, const char* what, const Json& got, const std::string& expected);
    std::string pathOf(const char* key) const;
    template <class T> void getList(const char* key, std::vector<T>& out, const char* expected);

    const Json* value_; // null: the object itself is missing, which is already a fault
    std::string path_;
    std::shared_ptr<Shared> shared_;
};

} // namespace megagraph
