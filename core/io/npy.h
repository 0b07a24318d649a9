// SPDX-License-Identifier: Apache-2.0
// NumPy arrays: header of versions 1 to 3, elements b1 i1-i8 u1-u8 f2-f8 of both byte orders, S and U strings. Object
// arrays are pickles and are refused. Caps: header 64 KiB, 8 dimensions; the shape must fit the bytes that are there.
// The writer makes little-endian C-order files with data at a multiple of 64 bytes, hashed while writing. One thread each.
//
// Hash of an array: SHA-256 over the SHA-256s (32 bytes each) of its data in chunks of 64 MiB; the header is not in it.
#pragma once

#include "core/dataset_spec.h"
#include "core/hash.h"
#include "core/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megagraph {

struct NpyHeader {
    char kind = 'f';        // b i u f S U
    int64_t itemSize = 0;   // bytes
    bool bigEndian = false, fortranOrder = false;
    std::vector<int64_t> shape;
    int64_t dataOffset = 0; // bytes before the data

    int64_t count() const;  // product of the shape; checked when parsed
    std::string dtype() const; // "<i8"
};

/// `start` holds the first bytes of the array (all, or at least 64 KiB + 12), `totalBytes` the size of the whole.
/// InvalidInput: damaged, or shape x item size + header != totalBytes. Unsupported: objects, records, other types.
Result<NpyHeader> parseNpyHeader(std::span<const uint8_t> start, int64_t totalBytes, const std::string& name);

/// One array in memory with conversion to plain columns. Element i counts in C order whatever the order on disk.
class NpyArray {
  public:
    static Result<NpyArray> parse(std::vector<uint8_t> bytes, const std::string& name);

    const NpyHeader& header() const { return header_; }
    const std::string& name() const { return name_; }
    int64_t count() const { return count_; }
    int64_t dimension(size_t axis) const { return axis < header_.shape.size() ? header_.shape[axis] : 1; }
    bool isNumber() const { return header_.kind != 'S' && header_.kind != 'U'; }
    bool isInteger() const { return header_.kind == 'b' || header_.kind == 'i' || header_.kind == 'u'; }
    bool isText() const { return !isNumber(); }

    double number(int64_t i) const;  ///< of a number array
    /// Integers, or floats without a fraction; InvalidInput with the element otherwise.
    Result<int64_t> integer(int64_t i) const;
    std::string text(int64_t i) const; ///< of a text array, as UTF-8, trailing zeros removed

  private:
    const uint8_t* element(int64_t i) const;
    NpyHeader header_;
    std::string name_;
    std::vector<uint8_t> bytes_;
    int64_t count_ = 0;
};

class NpyWriter {
  public:
    /// Creates folder/file (must not exist, mode 0600). dtype as NumPy writes it, e.g. "<i8", "|u1". Io.
    static Result<NpyWriter> create(const std::string& folder, const std::string& file, const std::string& dtype,
                                    std::vector<int64_t> shape);
    NpyWriter(NpyWriter&& other) noexcept;
    NpyWriter& operator=(NpyWriter&&) = delete;
    ~NpyWriter();

    Result<Ok> write(const void* data, int64_t bytes);
    /// Syncs and closes; the entry of dataset.json. Aborts when the bytes written are not those of the shape (our bug).
    Result<DatasetSpec::Array> finish();

  private:
    NpyWriter(int descriptor, std::string path, DatasetSpec::Array array);
    Result<Ok> put(const void* data, int64_t bytes);
    int descriptor_ = -1;
    std::string path_;
    DatasetSpec::Array array_;
    int64_t written_ = 0, dataBytes_ = 0;
    Sha256 chunk_, whole_;
    int64_t inChunk_ = 0;
};

/// The header text of a canonical array, its length a multiple of 64.
std::string npyHeaderBytes(const std::string& dtype, const std::vector<int64_t>& shape);
/// The array hash described above, of data in memory.
std::string npyDataHash(const void* data, int64_t bytes);
/// Bytes of one element of "<i8", "|u1" ...; 0 when unknown.
int64_t npyItemSize(const std::string& dtype);

} // namespace megagraph
