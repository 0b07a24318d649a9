// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/export_case.h"

#include "core/file.h"
#include "core/json.h"

#include <fcntl.h>
#include <tuple>

namespace megagraph::kernels::goldens {
namespace {

struct Pairs {
    std::vector<int32_t> row, column;
    std::vector<uint8_t> distance;
};

/// Breadth-first search to K hops from every node.
Pairs nearPairs(CsrView graph, int32_t hops)
{
    Pairs pairs;
    std::vector<int64_t> seen(size_t(graph.nodes), -1);
    std::vector<int32_t> queue;
    for (int64_t source = 0; source < graph.nodes; ++source) {
        queue.assign(1, int32_t(source));
        seen[size_t(source)] = source;
        size_t head = 0;
        for (int32_t level = 0; level <= hops; ++level) {
            for (const size_t end = queue.size(); head < end; ++head) {
                const int64_t node = queue[head];
                pairs.row.push_back(int32_t(source));
                pairs.column.push_back(int32_t(node));
                pairs.distance.push_back(uint8_t(level));
                for (int64_t e = graph.indptr[size_t(node)]; level < hops && e < graph.indptr[size_t(node) + 1]; ++e) {
                    const int32_t next = graph.indices[size_t(e)];
                    if (seen[size_t(next)] != source) {
                        seen[size_t(next)] = source;
                        queue.push_back(next);
                    }
                }
            }
        }
    }
    return pairs;
}

class Writer {
  public:
    template <class T> void add(const char* name, const char* type, const std::vector<T>& values)
    {
        arrays_.push_back({{"name", name}, {"type", type}, {"count", values.size()}, {"offset", bytes_.size()}});
        bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
        bytes_.resize((bytes_.size() + 63) / 64 * 64);
    }
    /// Header padded to 64 bytes, then the arrays; offsets count from the start of the file.
    Result<Ok> write(Json header, const std::string& path)
    {
        const size_t room = (header.dump().size() + arrays_.size() * 96 + 4096) / 64 * 64;
        for (Json& a : arrays_)
            a["offset"] = a["offset"].get<size_t>() + room;
        header["arrays"] = arrays_;
        const std::string text = header.dump();
        const auto length = int64_t(text.size());
        std::string front(reinterpret_cast<const char*>(&length), 8);
        front += text;
        if (front.size() > room)
            return Error{ErrorCode::Internal, "export: header, got " + std::to_string(front.size()) + " bytes, expected at most " +
                                                  std::to_string(room)};
        front.resize(room);
        MEGAGRAPH_TRY(const FileDescriptor file, openFile(path, O_WRONLY | O_CREAT | O_TRUNC));
        MEGAGRAPH_TRY(std::ignore, writeAll(file.get(), front, path));
        return writeAll(file.get(), bytes_, path);
    }

  private:
    Json arrays_ = Json::array();
    std::string bytes_;
};

} // namespace

Result<Ok> exportCase(const BigCase& c, const std::string& path, const ParallelFor& parallel)
{
    BigCase structure = c;
    structure.tensors = false;
    MEGAGRAPH_TRY(const Inputs in, makeBig(structure, parallel));
    Writer writer;
    writer.add("table", "float32", in.table);
    writer.add("map", "uint8", in.lists.map);
    writer.add("rank", "uint32", in.lists.rank);
    writer.add("tile_start", "int64", in.lists.tileStart);
    writer.add("offsets", "uint32", in.lists.offsets);
    writer.add("block_start", "int64", in.lists.blockStart);
    writer.add("entries", "uint16", in.lists.entries);
    writer.add("component", "int32", in.component);
    writer.add("indptr", "int64", in.graph.indptr);
    writer.add("indices", "int32", in.graph.indices);
    writer.add("transposed_indptr", "int64", in.transposed.indptr);
    writer.add("transposed_rows", "int32", in.transposed.rows);
    writer.add("transposed_entries", "int64", in.transposed.entries);
    if (c.hops >= 0) {
        const Pairs pairs = nearPairs(in.graph.view(), in.hops);
        writer.add("near_row", "int32", pairs.row);
        writer.add("near_column", "int32", pairs.column);
        writer.add("near_class", "uint8", pairs.distance);
    }
    return writer.write({{"format", "megagraph.gpu_case"},
                         {"version", 1},
                         {"tokens", c.tokens},
                         {"heads", c.heads},
                         {"head_size", c.dim},
                         {"hops", in.hops},
                         {"classes", in.classCount},
                         {"lists",
                          {{"query_blocks", in.lists.queryBlocks},
                           {"key_blocks", in.lists.keyBlocks},
                           {"map_stride", in.lists.mapStride},
                           {"rank_stride", in.lists.rankStride}}}},
                        path);
}

} // namespace megagraph::kernels::goldens
