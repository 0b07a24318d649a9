// SPDX-License-Identifier: Apache-2.0
// The compile gate of the CUDA kernels: what the assembler said when libmegagraph_cuda.so was built
// (kernels/cuda/compile.sh) against kernels/cuda/registers.json. Spills and stack are never allowed; every instance
// must have a limit. Prints registers per instance, the size of the module and the seconds of the build. Without nvcc:
// one counted skip.
#include "kernels/cuda/api.h"

#include <algorithm>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

namespace {

namespace fs = std::filesystem;

/// What the assembler says about one function for one architecture.
struct Instance {
    std::string kernel, architecture;
    int registers = -1, stack = 0, spillStores = 0, spillLoads = 0;
};
struct Limit {
    std::string kernel; // regular expression, searched in the demangled name
    std::map<std::string, int> registers;
};

std::string demangled(const std::string& name)
{
    int status = 0;
    char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    std::string out = status == 0 ? text : name;
    std::free(text);
    if (const size_t body = out.find('(');
        body != std::string::npos && !out.starts_with("(")) // arguments say nothing here
        out = std::regex_replace(out, std::regex("\\(anonymous namespace\\)::|^void |megagraph::kernels::cuda::"), "");
    return out.substr(0, out.rfind('('));
}

/// Instances of a report of `nvcc -Xptxas -v`.
std::vector<Instance> instancesOf(std::istream& report)
{
    static const std::regex begin("Compiling entry function '([^']+)' for '([^']+)'");
    static const std::regex properties("(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
    static const std::regex used("Used (\\d+) registers");
    std::vector<Instance> all;
    std::smatch m;
    for (std::string line; std::getline(report, line);) {
        if (std::regex_search(line, m, begin)) {
            all.emplace_back();
            all.back().kernel = demangled(m[1]);
            all.back().architecture = m[2];
        } else if (!all.empty() && std::regex_search(line, m, properties)) {
            // a function that was not inlined has properties of its own; its stack and spills are the kernel's
            all.back().stack += std::stoi(m[1]);
            all.back().spillStores += std::stoi(m[2]);
            all.back().spillLoads += std::stoi(m[3]);
        } else if (!all.empty() && std::regex_search(line, m, used)) {
            all.back().registers = std::stoi(m[1]);
        }
    }
    return all;
}

std::vector<Limit> readLimits(const fs::path& path)
{
    std::ifstream file(path);
    const auto json = nlohmann::json::parse(file);
    EXPECT_EQ(json.at("format"), "megagraph.cuda_registers");
    std::vector<Limit> limits;
    for (const auto& row : json.at("limits"))
        limits.push_back({row.at("kernel"), row.at("registers").get<std::map<std::string, int>>()});
    return limits;
}

/// "" if the instance is within the first limit that names it.
std::string violation(const Instance& i, const std::vector<Limit>& limits)
{
    const std::string name = i.kernel + " for " + i.architecture + ": ";
    if (i.registers < 0)
        return name + "no register count in the report";
    if (i.spillStores + i.spillLoads > 0)
        return name + std::to_string(i.spillStores) + " bytes spill stores, " + std::to_string(i.spillLoads) +
               " bytes spill loads, expected none";
    if (i.stack > 0)
        return name + std::to_string(i.stack) + " bytes stack, expected none";
    for (const Limit& limit : limits) {
        if (!std::regex_search(i.kernel, std::regex(limit.kernel)))
            continue;
        const auto most = limit.registers.find(i.architecture);
        if (most == limit.registers.end())
            return name + "the row '" + limit.kernel + "' of registers.json has no limit for this architecture";
        return i.registers <= most->second
                   ? ""
                   : name + std::to_string(i.registers) + " registers, at most " + std::to_string(most->second) +
                         " (row '" + limit.kernel + "' of registers.json)";
    }
    return name + "no row of registers.json names this kernel";
}

const std::string kReports = MEGAGRAPH_CUDA_REPORTS; // folder of the objects, empty: built without nvcc
const fs::path kLimits = fs::path(MEGAGRAPH_SOURCE_DIR) / "kernels/cuda/registers.json";

TEST(CompileGate, RefusesSpillsStackTooManyRegistersAndUnknownKernels)
{
    const std::vector<Limit> limits{{"^small", {{"sm_80", 32}}}};
    const auto judge = [&](const std::string& name, const std::string& frame, int registers) {
        std::istringstream report("ptxas info    : Compiling entry function '" + name +
                                  "' for 'sm_80'\nptxas info    : Function properties for " + name + "\n    " + frame +
                                  "\nptxas info    : Used " + std::to_string(registers) +
                                  " registers, used 1 barriers\n");
        const auto all = instancesOf(report);
        EXPECT_EQ(all.size(), 1u);
        return violation(all.at(0), limits);
    };
    const std::string clean = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
    EXPECT_EQ(judge("_Z5smallPf", clean, 32), "");
    EXPECT_NE(judge("_Z5smallPf", clean, 33).find("33 registers, at most 32"), std::string::npos);
    EXPECT_NE(judge("_Z5smallPf", "8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads", 32).find("spill"),
              std::string::npos);
    EXPECT_NE(
        judge("_Z5smallPf", "8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", 32).find("8 bytes stack"),
        std::string::npos);
    EXPECT_NE(judge("_Z5otherPf", clean, 8).find("no row"), std::string::npos);
}

TEST(CompileGate, TheTableOfRegistersCanBeRead)
{
    for (const Limit& limit : readLimits(kLimits))
        EXPECT_EQ(limit.registers.size(), 2u) << limit.kernel << ": one limit for sm_80 and one for sm_90a";
    EXPECT_FALSE(readLimits(kLimits).empty());
}

TEST(CompileGate, EveryInstanceIsWithinItsRegistersWithoutSpills)
{
    if (kReports.empty())
        GTEST_SKIP() << "built without nvcc: there is no CUDA module whose registers could be judged";
    const std::vector<Limit> limits = readLimits(kLimits);
    std::vector<Instance> all;
    int seconds = 0;
    for (const auto& entry : fs::directory_iterator(kReports)) {
        if (entry.path().extension() != ".report")
            continue;
        if (!fs::exists(entry.path().parent_path() / entry.path().stem()))
            continue; // the source has left the module
        std::ifstream report(entry.path());
        std::string word;
        int spent = 0;
        report >> word >> spent;
        seconds += spent;
        const auto some = instancesOf(report);
        all.insert(all.end(), some.begin(), some.end());
    }
    ASSERT_FALSE(all.empty()) << "no report in " << kReports;
    std::sort(all.begin(), all.end(), [](const Instance& a, const Instance& b) {
        return std::tie(a.kernel, a.architecture) < std::tie(b.kernel, b.architecture);
    });
    std::map<std::string, int> count;
    for (const Instance& i : all) {
        std::printf("%4d registers  %-7s %s\n", i.registers, i.architecture.c_str(), i.kernel.c_str());
        ++count[i.architecture];
        EXPECT_EQ(violation(i, limits), "");
    }
    EXPECT_GT(count["sm_80"], 0);
    EXPECT_GT(count["sm_90a"], 0);
    const fs::path module = fs::path(MEGAGRAPH_BIN_DIR) / "libmegagraph_cuda.so";
    std::printf("%zu instances; %s: %.2f MiB; %d s in nvcc (0 = from the compiler cache)\n", all.size(), module.c_str(),
                double(fs::file_size(module)) / 1048576, seconds);
}

/// Names that an ELF64 shared library defines for others.
std::vector<std::string> exportsOf(const fs::path& path)
{
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto at = [&](auto& to, size_t offset) { std::memcpy(&to, bytes.data() + offset, sizeof to); };
    Elf64_Ehdr header{};
    at(header, 0);
    std::vector<Elf64_Shdr> sections(header.e_shnum);
    for (size_t i = 0; i < sections.size(); ++i)
        at(sections[i], header.e_shoff + i * sizeof(Elf64_Shdr));
    std::vector<std::string> names;
    for (const Elf64_Shdr& section : sections) {
        for (size_t i = 0; section.sh_type == SHT_DYNSYM && i < section.sh_size / sizeof(Elf64_Sym); ++i) {
            Elf64_Sym symbol{};
            at(symbol, section.sh_offset + i * sizeof symbol);
            if (symbol.st_shndx != SHN_UNDEF)
                names.emplace_back(bytes.data() + sections[section.sh_link].sh_offset + symbol.st_name);
        }
    }
    return names;
}

TEST(CudaModule, ExportsOneFunctionAndItsTableIsComplete)
{
    if (kReports.empty())
        GTEST_SKIP() << "built without nvcc: there is no CUDA module";
    const fs::path module = fs::path(MEGAGRAPH_BIN_DIR) / "libmegagraph_cuda.so";
    EXPECT_EQ(exportsOf(module), std::vector<std::string>{"megagraphCudaTable"});
    void* library = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL); // needs no driver until the first call
    ASSERT_NE(library, nullptr) << dlerror();
    const auto entry = reinterpret_cast<decltype(&megagraphCudaTable)>(dlsym(library, "megagraphCudaTable"));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry(MegagraphCudaVersion + 1), nullptr);
    const MegagraphCudaTable* table = entry(MegagraphCudaVersion);
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->version, MegagraphCudaVersion);
    EXPECT_EQ(table->size, int32_t(sizeof(MegagraphCudaTable)));
    for (size_t entryAt = offsetof(MegagraphCudaTable, packedBytes); entryAt < sizeof *table;
         entryAt += sizeof(void*)) {
        void* function = nullptr;
        std::memcpy(&function, reinterpret_cast<const char*>(table) + entryAt, sizeof function);
        EXPECT_NE(function, nullptr) << "entry at byte " << entryAt;
    }
}

} // namespace
