// SPDX-License-Identifier: Apache-2.0
// `bench kernels`: starts the worker in bench mode and shows its rows as they come; with --json the document
// megagraph.kernel_bench at the end. A missed bar is a verdict, not a failure of the verb.
#include "app/commands/bench_table.h"
#include "app/commands/command.h"
#include "core/file.h"
#include "core/json.h"
#include "core/machine.h"
#include "core/places.h"
#include "core/process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <poll.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace megagraph::app {
namespace {

struct BenchOptions {
    std::vector<std::string> only;
    bool quick = false, noAmx = false;
    int threads = 0;
    double seconds = 60;
    std::string python = "python3", jsonFile;
};

/// A folder of its own that goes away with the run.
class Scratch {
  public:
    static Result<Scratch> make()
    {
        std::error_code error;
        std::string name = (std::filesystem::temp_directory_path(error) / "megagraph-bench-XXXXXX").string();
        if (error || ::mkdtemp(name.data()) == nullptr)
            return Error{ErrorCode::Io, fmt::format("bench: {}: cannot make a folder for tensors: {}; set TMPDIR", name, std::strerror(errno))};
        return Scratch(name);
    }
    Scratch(Scratch&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
    Scratch& operator=(Scratch&&) = delete;
    ~Scratch()
    {
        std::error_code ignored;
        if (!path_.empty())
            std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }

  private:
    explicit Scratch(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

/// Unlike the ranks of a run, the benchmark keeps the user's whole environment: it reports what steers the numbers, and
/// python3 needs it.
std::vector<std::pair<std::string, std::string>> wholeEnvironment()
{
    std::vector<std::pair<std::string, std::string>> all;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (const size_t equals = text.find('='); equals != std::string_view::npos)
            all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return all;
}

/// What the worker has said so far, put together to the document.
class Collected {
  public:
    Collected(const Invocation& invocation, bool table) : invocation_(invocation), table_(table) {}

    void take(Json line)
    {
        const std::string kind = line.value("kind", std::string());
        line.erase("kind");
        if (kind == "progress")
            progress(invocation_, line.value("what", std::string()), 0, 0);
        else if (kind == "warning")
            warn(line.value("text", std::string()));
        else if (kind == "machine")
            show(machineText(machine = line));
        else if (kind == "peaks")
            takePeaks(line);
        else if (kind == "python")
            machine["python"] = line.value("found", Json());
        else if (kind == "case") {
            show(caseText(line));
            cases.push_back(std::move(line));
        } else if (kind == "done")
            done = true;
    }
    Json document() const
    {
        return {{"format", "megagraph.kernel_bench"}, {"version", 1}, {"machine", machine}, {"warnings", warnings}, {"peaks", peaks}, {"cases", cases}};
    }

    Json machine = Json::object(), peaks = Json::object(), cases = Json::array(), warnings = Json::array();
    bool done = false;

  private:
    void clearLine() const
    {
        if (::isatty(STDERR_FILENO))
            fmt::print(stderr, "\r\033[K");
    }
    void show(const std::string& text) const
    {
        if (!table_)
            return;
        clearLine();
        fmt::print("{}", text);
        std::fflush(stdout);
    }
    void warn(const std::string& text)
    {
        clearLine();
        fmt::print(stderr, "megagraph: warning: {}\n", text);
        warnings.push_back(text);
    }
    void takePeaks(const Json& line)
    {
        const bool first = peaks.empty();
        peaks = line;
        if (first)
            show(peaksText(line));
    }
    const Invocation& invocation_;
    bool table_;
};

/// Reads lines until the worker closes the pipe, or a stop is asked for.
Result<Ok> follow(int pipe, Collected& collected, const std::stop_token& stop)
{
    std::string buffer;
    char bytes[1 << 14];
    for (;;) {
        if (stop.stop_requested())
            return Error{ErrorCode::Cancelled, fmt::format("bench kernels: stopped after {} rows", collected.cases.size())};
        pollfd wait{pipe, POLLIN, 0};
        if (const int ready = ::poll(&wait, 1, 100); ready <= 0)
            continue;
        const ssize_t got = ::read(pipe, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return Ok{};
        buffer.append(bytes, size_t(got));
        for (size_t end; (end = buffer.find('\n')) != std::string::npos; buffer.erase(0, end + 1)) {
            MEGAGRAPH_TRY(Json line, parseJson(buffer.substr(0, end), "bench worker"));
            collected.take(std::move(line));
        }
    }
}

Result<Child> startWorker(const BenchOptions& options, const std::string& scratch, int report)
{
    ChildOptions child;
    child.program = programPath("megagraph-worker");
    if (child.program.empty())
        return Error{ErrorCode::NotFound, "bench: megagraph-worker was not found beside this program or on PATH; build it with -DMEGAGRAPH_WORKER=ON"};
    const int threads = options.threads > 0 ? options.threads : int(usableCores().size());
    child.arguments = {"--bench", "--threads", std::to_string(threads), "--seconds", fmt::format("{}", options.seconds),
                       "--python", options.python, "--scratch", scratch};
    if (options.quick)
        child.arguments.push_back("--quick");
    for (const std::string& id : options.only)
        child.arguments.insert(child.arguments.end(), {"--only", id});
    child.environment = wholeEnvironment();
    if (options.noAmx) // oneDNN and MKL of the peers, and our own choice; reported as any variable that steers the numbers
        child.environment.insert(child.environment.end(), {{"ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16"}, {"MKL_ENABLE_INSTRUCTIONS", "AVX512_E3"}, {"MEGAGRAPH_CPU_KERNELS", "avx512bf16"}});
    child.descriptors = {{STDERR_FILENO, 1}, {STDERR_FILENO, 2}, {report, 3}}; // the document alone goes to stdout
    return spawn(child);
}

/// Exit status of the worker as an error; Ok when it ended well.
Result<Ok> reap(const Child& child, bool stopped)
{
    if (stopped)
        ::kill(pid_t(-child.pid), SIGKILL); // it holds nothing that needs an orderly end; its Python child dies with it
    int status = 0;
    while (::waitpid(pid_t(child.pid), &status, 0) < 0 && errno == EINTR) {
    }
    ::close(child.pidfd);
    if (stopped || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return Ok{};
    if (WIFEXITED(status) && WEXITSTATUS(status) == exitCode(ErrorCode::Usage))
        return Error{ErrorCode::Usage, "bench kernels: the worker refused its arguments (see above)"};
    return Error{ErrorCode::RankFailed, WIFSIGNALED(status) ? fmt::format("bench kernels: the worker was ended by signal {}", WTERMSIG(status))
                                                            : fmt::format("bench kernels: the worker ended with code {}", WEXITSTATUS(status))};
}

Result<int> benchKernels(const BenchOptions& options, const Invocation& invocation)
{
    MEGAGRAPH_TRY(const Scratch scratch, Scratch::make());
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return Error{ErrorCode::Io, fmt::format("bench: no pipe: {}", std::strerror(errno))};
    const FileDescriptor readEnd(ends[0]);
    FileDescriptor writeEnd(ends[1]);
    MEGAGRAPH_TRY(const Child worker, startWorker(options, scratch.path(), writeEnd.get()));
    writeEnd.reset();
    Collected collected(invocation, !invocation.json);
    const auto followed = follow(readEnd.get(), collected, invocation.stop);
    const auto ended = reap(worker, !followed.ok());
    progress(invocation, "bench", 1, 1);
    if (!followed.ok())
        return followed.error();
    if (!ended.ok())
        return ended.error();
    if (!collected.done)
        return Error{ErrorCode::RankFailed, "bench kernels: the worker ended before its last row"};
    if (!options.jsonFile.empty()) {
        MEGAGRAPH_TRY(std::ignore, writeFileAtomically(options.jsonFile, collected.document().dump(1) + "\n"));
    }
    if (invocation.json)
        fmt::print("{}\n", collected.document().dump(1));
    else
        fmt::print("{}", summaryText(collected.cases));
    return 0;
}

} // namespace

Verb addBench(CLI::App& root, Invocation& invocation)
{
    auto options = std::make_shared<BenchOptions>();
    CLI::App* app = root.add_subcommand("bench", "Measure this machine: our kernels beside their peers");
    app->require_subcommand(1);
    CLI::App* kernels = app->add_subcommand("kernels", "Attention, distance and encoding kernels beside LibTorch, PyG, SciPy in one run");
    kernels->add_option("--only", options->only, "Run one case: C1 to C9 (comparisons), B2 to B6 (goals), G1 to G8 (GPU); may be repeated")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    kernels->add_flag("--quick", options->quick, "Small sizes and few rounds: shows that all runs, judges nothing");
    kernels->add_flag("--no-amx", options->noAmx, "As on a processor without AMX: neither ours nor the peers use it");
    kernels->add_option("--threads", options->threads, "Threads of ours and of the peers (default: all cores of this process)")->check(CLI::Range(1, 1024));
    kernels->add_option("--seconds", options->seconds, "Most seconds per case")->check(CLI::Range(0.1, 60.0))->capture_default_str();
    kernels->add_option("--python", options->python, "Python for the peers that only it has")->capture_default_str();
    auto* json = kernels->add_option("--json", options->jsonFile, "The document on standard output, or in FILE (then the table is printed, too)")
                     ->expected(0, 1)
                     ->type_name("[FILE]");
    kernels->footer("Ours and the peer run in one process on the same tensors, round by round in turn: 3 warm-ups, then at least 10 rounds\n"
                    "and 2 s. Ratios are of medians. Peers of Python need a python3 with the same build of torch, or with the libraries\n"
                    "that the worker's own torch asks for; without it their rows say why they did not run. Close other programs first.\n"
                    "Exit code 0: everything ran; a missed bar is a verdict, not a failure. 10: stopped by Ctrl-C, nothing is written.\n"
                    "Example: megagraph bench kernels --only C2 --only C3 --json kernels.json");
    return {app, [options, json, &invocation] {
                invocation.json = json->count() > 0 && options->jsonFile.empty();
                const auto code = benchKernels(*options, invocation);
                return code.ok() ? *code : report(code.error(), invocation.json);
            }};
}

} // namespace megagraph::app
