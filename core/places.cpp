// SPDX-License-Identifier: Apache-2.0
#include "core/places.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace megagraph {

namespace {

std::string environment(const char* name)
{
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::string userFolder()
{
    if (const std::string home = environment("HOME"); !home.empty())
        return home;
    const passwd* entry = ::getpwuid(::getuid());
    return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "/";
}

/// Folder that holds this program; "" when /proc is missing.
std::string programFolder()
{
    char buffer[PATH_MAX];
    const ssize_t n = ::readlink("/proc/self/exe", buffer, sizeof buffer);
    if (n <= 0)
        return "";
    const std::string path(buffer, static_cast<size_t>(n));
    return path.substr(0, path.rfind('/'));
}

bool isProgram(const std::string& path)
{
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

} // namespace

std::string homeFolder()
{
    if (const std::string home = environment("MEGAGRAPH_HOME"); !home.empty())
        return home;
    const std::string data = environment("XDG_DATA_HOME");
    return (data.empty() ? userFolder() + "/.local/share" : data) + "/megagraph";
}

std::string resourcesFolder()
{
    if (const std::string resources = environment("MEGAGRAPH_RESOURCES"); !resources.empty())
        return resources;
    return std::filesystem::path(programFolder() + "/../share/megagraph").lexically_normal().string();
}

std::string programPath(const std::string& name)
{
    if (const std::string beside = programFolder() + "/" + name; isProgram(beside))
        return beside;
    const std::string path = environment("PATH");
    for (size_t start = 0; start < path.size();) {
        size_t end = path.find(':', start);
        if (end == std::string::npos)
            end = path.size();
        if (const std::string candidate = path.substr(start, end - start) + "/" + name; end > start && isProgram(candidate))
            return candidate;
        start = end + 1;
    }
    return "";
}

std::string datasetFolder(const std::string& home, const std::string& name)
{
    return home + "/datasets/" + name;
}

std::string runFolder(const std::string& home, const std::string& id)
{
    return home + "/runs/" + id;
}

Result<Ok> makeFolders(const std::string& path)
{
    if (path.empty())
        return Error{ErrorCode::InvalidInput, "folder: empty name, expected a path"};
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
            // a read-only parent that exists says EROFS or EACCES before EEXIST on some systems
            struct stat info {};
            const int fault = errno;
            if (::stat(part.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
                return Error{ErrorCode::Io, fmt::format("{}: cannot make folder: {}", part, std::strerror(fault))};
        }
        if (end == std::string::npos)
            break;
    }
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return Error{ErrorCode::Io, fmt::format("{}: not a folder; move the file of that name away", path)};
    return Ok{};
}

const char* productVersion()
{
    return MEGAGRAPH_VERSION;
}

} // namespace megagraph
