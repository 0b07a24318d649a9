// SPDX-License-Identifier: Apache-2.0
// The rank process of the supervisor's tests: a scripted child that speaks the pipe contract of core/event.h, without Torch.
// It "trains" a vector of 1,000 floats that depends on every former step, so that a resumed run can be compared bit by bit, and
// writes real checkpoints. Ranks meet at each step through a map of DIR/store.aN, as collectives do. The script is the JSON file
// beside the program name: ARGV0.json = {"step_ms","checkpoint_every","faults":[{"rank","attempt","at_step","where","do",..}]}.
#include "core/checkpoint.h"
#include "core/event.h"
#include "core/file.h"
#include "core/json.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using megagraph::Json;

namespace {

constexpr int64_t kElements = 1000, kMostSteps = 4096;
enum Order : int { None = 0, Stop = 1, Checkpoint = 2, Terminate = 3 };

struct Meeting { std::atomic<int> arrived[kMostSteps], order[kMostSteps], done; };

std::atomic<int> gOrder{None};
std::atomic<int64_t> gCommitted{-1}, gAbandoned{-1};

void say(const Json& line)
{
    (void)megagraph::writeAll(3, megagraph::encodeLine(line), "report").ok();
}

/// The lifeline thread of a real worker: commands, and the end of the pipe.
void listen()
{
    std::string held;
    char block[512];
    for (;;) {
        const ssize_t got = ::read(4, block, sizeof block);
        if (got == 0)
            _exit(86);
        if (got < 0)
            continue;
        held.append(block, size_t(got));
        for (size_t end; (end = held.find('\n')) != std::string::npos; held.erase(0, end + 1)) {
            const auto line = megagraph::decodeLine(held.substr(0, end));
            if (!line.ok())
                continue;
            const std::string what = line->value("do", "");
            if (what == "stop")
                gOrder = Stop;
            else if (what == "terminate")
                gOrder = Terminate;
            else if (what == "checkpoint")
                gOrder = Checkpoint;
            else if (what == "committed")
                gCommitted = line->value("step", int64_t(-1));
            else if (what == "abandon")
                gAbandoned = line->value("step", int64_t(-1));
        }
    }
}

struct Worker {
    int64_t rank = 0, world = 1, steps = 0, attempt = 1, stepMs = 2, every = 0;
    std::string folder, kind, role;
    Json script;
    Meeting* meeting = nullptr;
    std::vector<float> weights = std::vector<float>(kElements);

    void fault(const char* where, int64_t step);
    void start();
    void meet(int64_t step);
    void load(int64_t step);
    void checkpoint(int64_t step);
    int train(int64_t from);
    void leave(int code);
};

[[noreturn]] void hang()
{
    for (;;)
        ::pause();
}

void Worker::fault(const char* where, int64_t step)
{
    for (const Json& fault : script.value("faults", Json::array())) {
        if (fault.value("rank", int64_t(0)) != rank || fault.value("attempt", attempt) != attempt ||
            fault.value("where", std::string("step")) != where || fault.value("at_step", step) != step)
            continue;
        const std::string what = fault.value("do", "");
        if (what == "exit")
            ::_exit(fault.value("code", 0));
        if (what == "signal")
            ::kill(::getpid(), fault.value("signal", SIGKILL));
        if (what == "sleep")
            ::usleep(useconds_t(fault.value("ms", 100)) * 1000);
        if (what == "hang")
            hang();
        if (what == "hang_deaf") { // takes no TERM
            ::signal(SIGTERM, SIG_IGN);
            hang();
        }
        if (what == "garbage")
            for (int i = 0; i < fault.value("lines", 3); ++i)
                (void)megagraph::writeAll(3, "}{ this is no line \x01\xff\n", "report").ok();
        if (what == "long_line")
            (void)megagraph::writeAll(3, std::string(100'000, 'x') + "\n", "report").ok();
        if (what == "cut_line") {
            (void)megagraph::writeAll(3, R"({"kind":"beat","ste)", "report").ok();
            ::kill(::getpid(), SIGKILL);
        }
        if (what == "flood")
            for (int64_t left = fault.value("bytes", int64_t(0)); left > 0; left -= 65536)
                (void)megagraph::writeAll(1, std::string(65536, 'f'), "log").ok();
        if (what == "stray" && ::fork() == 0) { // a child in a group of its own that outlives the worker
            ::setsid();
            ::sleep(600);
            ::_exit(0);
        }
        if (what == "oom") {
            say(Json{{"kind", "oom"}, {"step", step}, {"phase", "forward"}, {"layer", "block1"}, {"op", "softmax"}, {"tensor", "block1.scores"},
                     {"category", "activations"}, {"requested_bytes", 512 << 20}, {"in_use_bytes", 700 << 20}, {"budget_bytes", int64_t(1) << 30},
                     {"categories", {{"activations", 600 << 20}}}});
            ::_exit(23);
        }
        if (what == "last_words") {
            (void)megagraph::writeAll(2, "some line\n" + fault.value("text", "") + "\n\n", "log").ok();
            ::_exit(fault.value("code", 1));
        }
        if (what == "error") {
            say(Json{{"kind", "error"}, {"code", "InvalidInput"}, {"message", fault.value("message", "")}, {"exit_code", fault.value("code", 22)}});
            ::_exit(fault.value("code", 22));
        }
    }
}

void Worker::start()
{
    const std::string path = fmt::format("{}/store.a{}", folder, attempt);
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(Meeting)) != 0)
        ::_exit(70);
    meeting = static_cast<Meeting*>(::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    fault("start", 0);
    say(Json{{"kind", "rank.ready"}, {"torch", "none"}, {"build", "fake"}, {"backend", "map"}, {"load_s", 0.001}, {"rss_bytes", 1000}, {"base_bytes", 1'000'000}});
    say(Json{{"kind", "mesh.formed"}, {"groups", 1}, {"took_s", 0.001}});
}

void Worker::meet(int64_t step)
{
    if (rank == 0)
        meeting->order[step] = gOrder.exchange(None);
    ++meeting->arrived[step];
    while (meeting->arrived[step] < world) // a lost peer is waited for in vain: the supervisor has to end this rank
        ::usleep(200);
}

void Worker::load(int64_t step)
{
    auto entry = megagraph::findCheckpoint(folder, step);
    if (!entry.ok())
        ::_exit(25);
    auto reader = megagraph::CheckpointReader::open(entry->folder);
    if (!reader.ok() || !reader->read("weights/w", 0, kElements, weights.data(), kElements * 4).ok())
        ::_exit(25);
}

void Worker::checkpoint(int64_t step)
{
    fault("checkpoint", step);
    const std::string target = folder + "/checkpoints/" + megagraph::checkpointTempName(step, attempt);
    say(Json{{"kind", "checkpoint.begin"}, {"step", step}, {"bytes", kElements * 4}});
    megagraph::TensorSlice slice;
    slice.tensor = "weights/w";
    slice.shape = {kElements};
    slice.begin = kElements * rank / world;
    slice.end = kElements * (rank + 1) / world;
    const auto report = megagraph::writeShard(target, rank, step, {{slice, weights.data() + slice.begin}}, rank == 0 ? Json{{"step", step}} : Json());
    if (!report.ok())
        ::_exit(25);
    fault("shard_written", step);
    say(Json{{"kind", "checkpoint.shard"}, {"step", step}, {"folder", target}, {"files", Json::array({megagraph::shardReportToJson(*report)})}, {"blocked_s", 0.001}, {"write_s", 0.001}});
    while (gCommitted < step && gAbandoned < step)
        ::usleep(200);
}

int Worker::train(int64_t from)
{
    int64_t step = from;
    if (from == 0 && every > 0)
        checkpoint(0);
    std::string reason = "steps";
    const auto lossOf = [this] {
        double sum = 0;
        for (const float w : weights)
            sum += double(w) * double(w);
        return sum;
    };
    double loss = lossOf(); // a run that is resumed at its last step ends with that step's loss
    while (step < steps) {
        fault("step", step);
        for (int64_t i = 0; i < kElements; ++i)
            weights[size_t(i)] = 0.9f * weights[size_t(i)] + 0.1f * std::sin(float(step * 31 + i));
        loss = lossOf();
        ::usleep(useconds_t(stepMs) * 1000);
        meet(step);
        const int order = meeting->order[step];
        ++step;
        if (rank == 0)
            say(Json{{"kind", "step"}, {"step_from", step - 1}, {"step_to", step}, {"loss", {loss}}, {"lr", {0.1}}, {"grad_norm", {1.0}}, {"item_count", {10}}, {"step_s", {0.002}}});
        else
            say(Json{{"kind", "rank"}, {"step", step}, {"compute_s", 0.001}});
        if (rank == 0 && step % 5 == 0)
            say(Json{{"kind", "eval"}, {"step", step}, {"split", "valid"}, {"metric", "accuracy"}, {"value", 0.5}, {"item_count", 10}, {"loss", loss}});
        if (rank == 0 && kind == "verify" && role == "plan")
            say(Json{{"kind", "verify.step"}, {"step", step - 1}, {"loss_rel", script.contains("loss_rel") ? script["loss_rel"] : Json(1e-7)}, {"gradient_rel", script.value("gradient_rel", 1e-6)}, {"parameter", "weights"}});
        if (order == Terminate)
            return 10;
        if (order == Stop || order == Checkpoint || (every > 0 && step % every == 0))
            checkpoint(step);
        if (order == Stop) {
            reason = "stopped";
            break;
        }
    }
    Json done{{"kind", "done"}, {"steps", step}, {"best_step", step}, {"reason", reason}, {"peak_bytes", 2'000'000 + rank}};
    if (rank == 0)
        done["result"] = Json{{"train", {{"loss", loss}}}, {"valid", {{"metric", "accuracy"}, {"value", 0.5}}}, {"test", {{"metric", "accuracy"}, {"value", 0.25}}}};
    say(done);
    ++meeting->done;
    while (meeting->done < world)
        ::usleep(200);
    return reason == "stopped" ? 10 : 0;
}

int64_t number(const char* name, int64_t otherwise)
{
    const char* value = std::getenv(name);
    return value ? std::strtoll(value, nullptr, 10) : otherwise;
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 5)
        return 2;
    Worker worker;
    worker.folder = argv[2];
    worker.rank = std::strtoll(argv[4], nullptr, 10);
    const auto run = megagraph::readJsonFile(worker.folder + "/run.json");
    const auto script = megagraph::readJsonFile(std::string(argv[0]) + ".json");
    if (!run.ok() || !script.ok())
        return 70;
    worker.script = *script;
    worker.steps = run->value("steps", int64_t(0));
    worker.kind = run->value("kind", "train");
    worker.role = run->contains("verify") ? (*run)["verify"].value("role", "") : "";
    worker.world = number("WORLD_SIZE", 1);
    worker.attempt = number("MEGAGRAPH_ATTEMPT", 1);
    worker.stepMs = script->value("step_ms", int64_t(2));
    worker.every = script->value("checkpoint_every", int64_t(0));
    std::thread(listen).detach();
    worker.start();
    const int64_t resume = number("MEGAGRAPH_RESUME_STEP", -1);
    if (resume >= 0)
        worker.load(resume);
    const int code = worker.train(std::max<int64_t>(0, resume));
    ::_exit(code);
}
