// SPDX-License-Identifier: Apache-2.0
// Holds every #include line of the tree against the table of folders and allowed directions in ARCHITECTURE.md.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// A part of the tree with rules of its own. The first entry whose prefix fits a file is its folder.
struct Folder {
    const char* prefix;
    std::set<std::string> own;      // prefixes of our headers that it may include
    std::set<std::string> external; // classes of other people's headers beside std, POSIX, fmt and nlohmann-json
};

const std::vector<Folder>& folders()
{
    static const std::vector<Folder> rows{
        {"core/io/", {"core/"}, {"archives"}},
        {"core/store/", {"core/", "core/store/"}, {"sqlite"}},
        {"core/machine", {"core/"}, {"hwloc"}},
        {"core/", {"core/"}, {}},
        {"kernels/graph/", {"core/", "kernels/"}, {"metis", "spectra"}},
        {"kernels/cuda/", {"core/", "kernels/"}, {"cuda"}},
        {"kernels/", {"core/", "kernels/"}, {"intrinsics"}},
        {"planner/", {"core/", "kernels/", "planner/"}, {}},
        {"runtime/launch/", {"core/", "runtime/launch/"}, {}},
        {"runtime/", {"core/", "kernels/", "runtime/"}, {"torch"}},
        {"ui/", {"core/", "core/store/", "kernels/", "planner/", "ui/"}, {"qt"}},
        {"app/worker", {"core/", "kernels/", "runtime/", "app/"}, {"torch"}},
        {"app/studio", {"core/", "core/store/", "kernels/", "planner/", "ui/", "app/"}, {"qt"}},
        {"app/", {"core/", "core/store/", "kernels/", "planner/", "runtime/launch/", "app/"}, {"arguments", "hwloc"}}};
    return rows;
}

/// Our own headers fall into parts; a part inside another is never meant by the outer name.
std::string ownPart(const std::string& header)
{
    for (const char* part : {"core/store/", "runtime/launch/", "core/", "kernels/", "planner/", "runtime/", "ui/", "app/"})
        if (header.starts_with(part))
            return part;
    return "";
}

bool isPosix(const std::string& header)
{
    static const std::set<std::string> plain{"arpa/inet.h", "cpuid.h", "dirent.h", "dlfcn.h", "elf.h",  "errno.h", "execinfo.h",
                                             "fcntl.h",     "grp.h",   "link.h",   "malloc.h", "netdb.h", "poll.h", "pthread.h",
                                             "pwd.h",       "sched.h", "signal.h", "spawn.h",  "string.h", "syslog.h", "termios.h",
                                             "time.h",      "unistd.h"};
    return plain.contains(header) || header.starts_with("sys/") || header.starts_with("linux/") || header.starts_with("netinet/");
}

std::string externalClass(const std::string& header)
{
    const auto begins = [&](std::initializer_list<const char*> names) {
        return std::any_of(names.begin(), names.end(), [&](const char* name) { return header.starts_with(name); });
    };
    const bool standard = header.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    if (standard || isPosix(header) || begins({"fmt/", "nlohmann/"}))
        return "everywhere";
    const bool qt = header.size() > 1 && header[0] == 'Q' && (header[1] == 't' || (header[1] >= 'A' && header[1] <= 'Z'));
    if (qt || header == "qcustomplot.h")
        return "qt";
    if (begins({"gloo/"}) || header.ends_with("ProcessGroupGloo.hpp"))
        return "gloo";
    if (begins({"torch/", "c10/", "ATen/"}))
        return "torch";
    if (begins({"cuda", "nccl", "nvml", "cub/", "thrust/", "cooperative_groups", "mma."}))
        return "cuda";
    if (header == "sqlite3.h") return "sqlite";
    if (header == "metis.h") return "metis";
    if (begins({"Spectra/", "Eigen/"})) return "spectra";
    if (begins({"hwloc"})) return "hwloc";
    if (header == "immintrin.h") return "intrinsics";
    if (begins({"CLI/"})) return "arguments";
    static const std::set<std::string> archives{"zlib.h", "unzip.h", "zip.h", "ioapi.h", "expat.h", "minizip/unzip.h", "minizip/zip.h", "minizip/ioapi.h"};
    return archives.contains(header) ? "archives" : "unknown";
}

/// Why `file` may not include `header`; "" when it may. The one file that may see Gloo is judged over the whole tree.
std::string violation(const std::string& file, const std::string& header, bool quoted)
{
    const auto folder = std::find_if(folders().begin(), folders().end(), [&](const Folder& f) { return file.starts_with(f.prefix); });
    if (folder == folders().end())
        return "file lies in no known folder";
    const std::string own = ownPart(header);
    if (quoted && own.empty())
        return "our headers are named from the root of the tree, in quotes; others in angle brackets";
    if (!quoted && !own.empty())
        return "our own headers come in quotes";
    if (quoted)
        return folder->own.contains(own) ? "" : std::string(folder->prefix) + " may not include " + own;
    const std::string kind = externalClass(header);
    if (header == "torch/torch.h" && file != "runtime/pch.h")
        return "only runtime/pch.h may include all of Torch";
    if (kind == "everywhere" || (kind == "gloo" && file.starts_with("runtime/") && !file.starts_with("runtime/launch/")))
        return "";
    return folder->external.contains(kind) ? "" : std::string(folder->prefix) + " may not include headers of kind " + kind;
}

struct IncludeLine { std::string file, header; size_t line = 0; bool quoted = false; };

/// Header named by a line `#include <x>` or `#include "x"`, spaces anywhere; "" for other lines.
std::string headerOf(const std::string& line, bool& quoted)
{
    const auto skip = [&](size_t at) { return std::min(line.find_first_not_of(" \t", at), line.size()); };
    size_t at = skip(0);
    if (at == line.size() || line[at] != '#')
        return "";
    at = skip(at + 1);
    if (line.compare(at, 7, "include") != 0)
        return "";
    at = skip(at + 7);
    if (at == line.size() || (line[at] != '<' && line[at] != '"'))
        return "";
    quoted = line[at] == '"';
    const size_t end = line.find(quoted ? '"' : '>', at + 1);
    return end == std::string::npos ? "" : line.substr(at + 1, end - at - 1);
}

std::vector<IncludeLine> includesOf(const fs::path& root, const fs::path& path)
{
    std::vector<IncludeLine> found;
    std::ifstream file(path);
    size_t number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        bool quoted = false;
        if (const std::string header = headerOf(line, quoted); !header.empty())
            found.push_back({fs::relative(path, root).generic_string(), header, number, quoted});
    }
    return found;
}

std::vector<IncludeLine> includesOfTree(const fs::path& root)
{
    static const std::set<std::string> sources{".h", ".hpp", ".cpp", ".inc", ".cu", ".cuh"};
    std::vector<fs::path> files;
    for (const char* folder : {"app", "core", "kernels", "planner", "runtime", "ui"})
        for (const auto& entry : fs::recursive_directory_iterator(root / folder))
            if (entry.is_regular_file() && sources.contains(entry.path().extension().string()))
                files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<IncludeLine> all;
    for (const fs::path& file : files)
        for (IncludeLine& line : includesOf(root, file))
            all.push_back(std::move(line));
    return all;
}

} // namespace

TEST(IncludeDirections, EveryIncludeOfTheTreeIsAllowed)
{
    const std::vector<IncludeLine> lines = includesOfTree(MEGAGRAPH_SOURCE_DIR);
    ASSERT_GT(lines.size(), 100u) << "the tree was not found";
    for (const IncludeLine& line : lines)
        if (const std::string why = violation(line.file, line.header, line.quoted); !why.empty())
            ADD_FAILURE() << line.file << ":" << line.line << ": " << line.header << ": " << why;
}

TEST(IncludeDirections, OnlyOneFileSeesGloo)
{
    std::set<std::string> files;
    for (const IncludeLine& line : includesOfTree(MEGAGRAPH_SOURCE_DIR))
        if (externalClass(line.header) == "gloo")
            files.insert(line.file);
    std::string list;
    for (const std::string& file : files)
        list += file + " ";
    EXPECT_EQ(files.size(), 1u) << list;
}

TEST(IncludeDirections, IncludeLinesAreRecognisedInEverySpelling)
{
    bool quoted = false;
    EXPECT_EQ(headerOf("  #  include\t<a/b.h> // why", quoted), "a/b.h");
    EXPECT_FALSE(quoted);
    EXPECT_EQ(headerOf("#include\"core/x.h\"", quoted), "core/x.h");
    EXPECT_TRUE(quoted);
    EXPECT_EQ(headerOf("// #include <a>", quoted), "");
    EXPECT_EQ(headerOf("#define X", quoted), "");
    EXPECT_EQ(headerOf("#include <open", quoted), "");
    EXPECT_EQ(headerOf("", quoted), "");
}

TEST(IncludeDirections, ForbiddenDirectionsAreFound)
{
    const std::pair<const char*, const char*> rows[] = {
        {"core/json.cpp", "\"kernels/types.h\""},      {"core/json.cpp", "\"core/store/library.h\""}, {"core/json.cpp", "<zlib.h>"},
        {"core/json.cpp", "<hwloc.h>"},                {"core/io/npy.cpp", "<sqlite3.h>"},            {"kernels/a.cpp", "\"planner/search.h\""},
        {"kernels/a.cpp", "<metis.h>"},                {"kernels/graph/a.cpp", "<torch/types.h>"},    {"kernels/cpu/a.cpp", "<cuda_runtime.h>"},
        {"planner/a.cpp", "\"runtime/comm.h\""},       {"planner/a.cpp", "\"core/store/library.h\""}, {"planner/a.cpp", "<QString>"},
        {"runtime/launch/a.cpp", "\"kernels/types.h\""}, {"runtime/launch/a.cpp", "<ATen/ATen.h>"},   {"runtime/launch/a.cpp", "<gloo/context.h>"},
        {"runtime/a.cpp", "\"planner/search.h\""},     {"runtime/a.cpp", "<torch/torch.h>"},          {"runtime/a.cpp", "\"core/store/library.h\""},
        {"runtime/a.cpp", "\"runtime/launch/rank.h\""}, {"ui/a.cpp", "\"runtime/comm.h\""},           {"ui/a.cpp", "<torch/types.h>"},
        {"ui/a.cpp", "\"runtime/launch/rank.h\""},     {"app/commands/a.cpp", "<QApplication>"},      {"app/commands/a.cpp", "\"runtime/comm.h\""},
        {"app/worker_main.cpp", "\"core/store/library.h\""}, {"app/studio_main.cpp", "<sqlite3.h>"},  {"core/json.cpp", "\"json.h\""},
        {"core/json.cpp", "<core/result.h>"},          {"core/json.cpp", "<boost/any.hpp>"},          {"tests/x.cpp", "<string>"}};
    for (const auto& [file, include] : rows) {
        const std::string text = include;
        EXPECT_NE(violation(file, text.substr(1, text.size() - 2), text[0] == '"'), "") << file << " " << include;
    }
}

TEST(IncludeDirections, AllowedDirectionsPass)
{
    const std::pair<const char*, const char*> rows[] = {
        {"core/json.cpp", "<nlohmann/json.hpp>"},      {"core/io/npy.cpp", "<zlib.h>"},        {"core/store/database.cpp", "<sqlite3.h>"},
        {"core/machine.cpp", "<hwloc.h>"},             {"kernels/graph/a.cpp", "<metis.h>"},   {"kernels/cpu/a.cpp", "<immintrin.h>"},
        {"planner/a.cpp", "\"kernels/types.h\""},      {"runtime/pch.h", "<torch/torch.h>"},   {"runtime/a.cpp", "<c10/core/Allocator.h>"},
        {"ui/pages/a.cpp", "<QApplication>"},          {"ui/pages/a.cpp", "<qcustomplot.h>"},  {"ui/pages/a.cpp", "\"core/store/library.h\""},
        {"app/commands/a.cpp", "<CLI/CLI.hpp>"},       {"app/commands/a.cpp", "\"runtime/launch/supervisor.h\""},
        {"app/worker_main.cpp", "\"runtime/trainer.h\""}, {"runtime/launch/a.cpp", "<sys/epoll.h>"}};
    for (const auto& [file, include] : rows) {
        const std::string text = include;
        EXPECT_EQ(violation(file, text.substr(1, text.size() - 2), text[0] == '"'), "") << file << " " << include;
    }
}
