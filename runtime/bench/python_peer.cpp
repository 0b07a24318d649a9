// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/python_peer.h"

#include "core/clock.h"
#include "core/io/npy.h"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <stdexcept>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace megagraph::runtime::bench {
namespace {

constexpr double kStartSeconds = 120, kPrepareSeconds = 240, kRoundSeconds = 120; // a compiler runs in prepare

std::string programOnPath(const std::string& name)
{
    if (name.find('/') != std::string::npos)
        return ::access(name.c_str(), X_OK) == 0 ? name : "";
    const char* const all = std::getenv("PATH");
    std::string_view rest = all == nullptr ? "" : all;
    while (!rest.empty()) {
        const size_t colon = std::min(rest.find(':'), rest.size());
        if (std::string path = std::string(rest.substr(0, colon)) + "/" + name; colon > 0 && ::access(path.c_str(), X_OK) == 0)
            return path;
        rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
    return "";
}

/// Folder that holds torch/ of the library in this process: .../torch/lib/libtorch_cpu.so without its last three parts.
std::string torchRoot()
{
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&at::show_config), &info) == 0 || info.dli_fname == nullptr)
        return "";
    std::string path = info.dli_fname;
    for (int i = 0; i < 3; ++i)
        path = path.substr(0, std::max<size_t>(1, path.rfind('/') == std::string::npos ? 0 : path.rfind('/')));
    return path;
}

std::vector<std::pair<std::string, std::string>> childEnvironment(const Options& options)
{
    std::vector<std::pair<std::string, std::string>> all;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (const size_t equals = text.find('='); equals != std::string_view::npos)
            all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    all.emplace_back("TORCHINDUCTOR_CACHE_DIR", options.scratch + "/inductor"); // nothing of a run before, nothing left behind
    all.emplace_back("TORCHINDUCTOR_COMPILE_THREADS", "1");                     // no processes of its own
    all.emplace_back("PYTHONDONTWRITEBYTECODE", "1");
    return all;
}

const char* dtypeName(const at::Tensor& t)
{
    switch (t.scalar_type()) {
    case at::kFloat: return "<f4";
    case at::kInt: return "<i4";
    case at::kLong: return "<i8";
    default: throw std::runtime_error("benchmark: tensor of a type that has no file form");
    }
}

} // namespace

std::string writeTensor(const at::Tensor& tensor, const std::string& folder, const std::string& file)
{
    const at::Tensor t = tensor.contiguous();
    const std::vector<int64_t> shape(t.sizes().begin(), t.sizes().end());
    auto writer = NpyWriter::create(folder, file, dtypeName(t), shape);
    if (!writer.ok())
        throw std::runtime_error(writer.error().message);
    if (const auto done = writer->write(t.const_data_ptr(), int64_t(t.nbytes())); !done.ok())
        throw std::runtime_error(done.error().message);
    if (const auto done = writer->finish(); !done.ok())
        throw std::runtime_error(done.error().message);
    return folder + "/" + file;
}

PythonPeer::PythonPeer(const Options& options) : options_(options) {}

PythonPeer::~PythonPeer() { stop(); }

void PythonPeer::stop()
{
    in_.reset();
    out_.reset();
    if (child_.pid <= 0)
        return;
    ::kill(pid_t(-child_.pid), SIGKILL); // its group: compilers too
    while (::waitpid(pid_t(child_.pid), nullptr, 0) < 0 && errno == EINTR) {
    }
    pidfd_.reset();
    child_ = {};
    buffered_.clear();
    found_ = {}; // the next child has imported nothing yet
}

Result<Ok> PythonPeer::start()
{
    if (!broken_.empty())
        return Error{ErrorCode::Unsupported, broken_};
    if (child_.pid > 0)
        return Ok{};
    ChildOptions options;
    options.program = programOnPath(options_.python);
    const std::string script = options_.resources + "/bench/peers.py";
    if (options.program.empty() || ::access(script.c_str(), R_OK) != 0) {
        broken_ = options.program.empty() ? fmt::format("{} was not found", options_.python) : fmt::format("{} was not found", script);
        return Error{ErrorCode::Unsupported, broken_};
    }
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0)
        return Error{ErrorCode::Io, "python: no pipe"};
    FileDescriptor childIn(to[0]);
    in_.reset(to[1]);
    if (::pipe2(from, O_CLOEXEC) != 0)
        return Error{ErrorCode::Io, "python: no pipe"};
    out_.reset(from[0]);
    FileDescriptor childOut(from[1]);
    options.arguments = {script, torchRoot(), std::to_string(options_.threads)};
    options.environment = childEnvironment(options_);
    options.descriptors = {{childIn.get(), 0}, {childOut.get(), 1}, {2, 2}};
    auto child = spawn(options);
    if (!child.ok()) {
        broken_ = child.error().message;
        return child.error();
    }
    child_ = *child;
    pidfd_.reset(child_.pidfd);
    childIn.reset();
    childOut.reset();
    auto hello = ask({{"op", "hello"}}, kStartSeconds);
    if (!hello.ok()) {
        broken_ = hello.error().message;
        stop();
        return hello.error();
    }
    found_ = *hello;
    found_.erase("ok");
    return Ok{};
}

Result<std::string> PythonPeer::readLine(double seconds)
{
    const double until = monotonicSeconds() + seconds;
    for (;;) {
        if (const size_t end = buffered_.find('\n'); end != std::string::npos) {
            std::string line = buffered_.substr(0, end);
            buffered_.erase(0, end + 1);
            return line;
        }
        pollfd wait{out_.get(), POLLIN, 0};
        const double left = until - monotonicSeconds();
        const int ready = left <= 0 ? 0 : ::poll(&wait, 1, int(1e3 * left) + 1);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return Error{ErrorCode::Timeout, fmt::format("python peer: no answer within {:.0f} s", seconds)};
        char bytes[4096];
        const ssize_t got = ::read(out_.get(), bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return Error{ErrorCode::RankFailed, "python peer: the process ended"};
        buffered_.append(bytes, size_t(got));
    }
}

Result<Json> PythonPeer::ask(const Json& request, double seconds)
{
    if (const auto sent = writeAll(in_.get(), request.dump() + "\n", "python peer"); !sent.ok())
        return sent.error();
    auto line = readLine(seconds);
    if (!line.ok()) {
        stop();
        return line.error();
    }
    MEGAGRAPH_TRY(Json answer, parseJson(*line, "python peer"));
    if (!answer.value("ok", false))
        return Error{ErrorCode::Unsupported, answer.value("reason", std::string("no reason given"))};
    return answer;
}

Result<Ok> PythonPeer::sameTorch()
{
    if (!torchFault_.empty())
        return Error{ErrorCode::Unsupported, torchFault_};
    if (found_.contains("torch_commit"))
        return Ok{};
    const auto answer = ask({{"op", "torch"}}, kPrepareSeconds);
    if (!answer.ok()) {
        torchFault_ = answer.error().message;
        return answer.error();
    }
    found_["torch"] = answer->value("torch", std::string());
    const std::string commit = answer->value("torch_commit", std::string());
    if (commit.empty() || at::show_config().find("COMMIT_SHA=" + commit) == std::string::npos) {
        torchFault_ = fmt::format("the torch of python ({}) is another build than the worker's", found_.value("torch", std::string()));
        return Error{ErrorCode::Unsupported, torchFault_};
    }
    found_["torch_commit"] = commit;
    return Ok{};
}

Result<std::string> PythonPeer::prepare(const std::string& peer, const std::map<std::string, at::Tensor>& tensors, const Json& settings)
{
    MEGAGRAPH_TRY(std::ignore, start());
    if (peer != "scipy" && peer != "networkx") {
        MEGAGRAPH_TRY(std::ignore, sameTorch());
    }
    Json request{{"op", "prepare"}, {"peer", peer}, {"settings", settings}, {"tensors", Json::object()}};
    for (const auto& [name, tensor] : tensors)
        request["tensors"][name] = writeTensor(tensor, options_.scratch, fmt::format("{}-{}.npy", name, ++files_));
    auto answer = ask(request, kPrepareSeconds);
    for (const auto& [name, path] : request["tensors"].items())
        ::unlink(path.get<std::string>().c_str());
    if (!answer.ok())
        return answer.error();
    return answer->value("backend", std::string());
}

Side PythonPeer::side()
{
    return [this] {
        const auto answer = ask({{"op", "round"}}, kRoundSeconds);
        if (!answer.ok())
            throw std::runtime_error(answer.error().message);
        return answer->value("ms", 0.0);
    };
}

Result<at::Tensor> PythonPeer::result()
{
    const std::string path = fmt::format("{}/result-{}.npy", options_.scratch, ++files_);
    const auto answer = ask({{"op", "result"}, {"path", path}}, kRoundSeconds);
    if (!answer.ok())
        return answer.error();
    auto text = readSmallFile(path, size_t(4) << 30);
    ::unlink(path.c_str());
    if (!text.ok())
        return text.error();
    MEGAGRAPH_TRY(const NpyHeader header, parseNpyHeader({reinterpret_cast<const uint8_t*>(text->data()), text->size()}, int64_t(text->size()), path));
    if (header.dtype() != "<f4" && header.dtype() != "<i4")
        return Error{ErrorCode::Corrupt, fmt::format("python peer: result of type {}, expected <f4 or <i4", header.dtype())};
    at::Tensor out = at::empty(header.shape, header.dtype() == "<f4" ? at::kFloat : at::kInt);
    std::memcpy(out.data_ptr(), text->data() + header.dataOffset, out.nbytes());
    return out;
}

int64_t PythonPeer::extraBytes()
{
    const auto answer = ask({{"op", "bytes"}}, kRoundSeconds);
    return answer.ok() ? answer->value("extra_bytes", int64_t(-1)) : -1;
}

} // namespace megagraph::runtime::bench
