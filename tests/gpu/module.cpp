// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/module.h"

#include <dlfcn.h>
#include <unistd.h>

namespace megagraph::kernels::goldens {

std::string modulePath()
{
    char buffer[4096];
    const ssize_t length = readlink("/proc/self/exe", buffer, sizeof buffer);
    std::string folder(buffer, length > 0 ? size_t(length) : 0);
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
    const std::string beside = folder + "/libmegagraph_cuda.so", lib = folder + "/../lib/libmegagraph_cuda.so";
    return access(beside.c_str(), R_OK) != 0 && access(lib.c_str(), R_OK) == 0 ? lib : beside;
}

Result<const MegagraphCudaTable*> loadModule(const std::string& path)
{
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr)
        return Error{ErrorCode::NotFound, "CUDA module: " + path + ": cannot be loaded, got \"" + dlerror() +
                                              "\"; build with nvcc, or name the folder with --bin."};
    using Entry = const MegagraphCudaTable* (*)(int32_t);
    const auto entry = reinterpret_cast<Entry>(dlsym(module, "megagraphCudaTable"));
    if (entry == nullptr)
        return Error{ErrorCode::Corrupt, "CUDA module: " + path + ": has no megagraphCudaTable; build it again."};
    const MegagraphCudaTable* table = entry(MegagraphCudaVersion);
    if (table == nullptr || table->version != MegagraphCudaVersion || table->size != int32_t(sizeof(MegagraphCudaTable)))
        return Error{ErrorCode::VersionMismatch,
                     "CUDA module: " + path + ": table, got " +
                         (table == nullptr ? std::string("none") : "version " + std::to_string(table->version) + " of " +
                                                                       std::to_string(table->size) + " bytes") +
                         ", expected version " + std::to_string(MegagraphCudaVersion) + " of " +
                         std::to_string(sizeof(MegagraphCudaTable)) + " bytes; build module and program together."};
    return table;
}

} // namespace megagraph::kernels::goldens
