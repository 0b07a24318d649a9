// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/failure.h"

#include "core/places.h"
#include "core/units.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace megagraph::launch {
namespace {

std::string text(const Json& line, const char* key)
{
    return line.is_object() && line.contains(key) && line[key].is_string() ? line[key].get<std::string>() : "";
}

int64_t number(const Json& line, const char* key)
{
    return line.is_object() && line.contains(key) && line[key].is_number() ? line[key].get<int64_t>() : 0;
}

const char* exitMeaning(int code)
{
    switch (code) {
    case 20: return "lost its peers";
    case 21: return "ranks disagree before the start";
    case 22: return "invalid input";
    case 23: return "out of memory";
    case 24: return "non-finite numbers";
    case 25: return "checkpoint could not be written or read";
    case 70: return "internal error";
    case 86: return "lost the supervisor";
    case 127: return "the program could not be started";
    default: return "unexpected end";
    }
}

std::string causeOf(const Rank& rank, const FailureContext& context)
{
    switch (rank.ended) {
    case ExitClass::OutOfMemory: return "oom_device";
    case ExitClass::Early: return "exited_early";
    case ExitClass::Broken: return "internal";
    case ExitClass::Consequence: return "lost_contact";
    case ExitClass::Signal:
        if (rank.signal == SIGKILL)
            return context.oomKillsAfter > context.oomKillsBefore ? "oom_kernel" : "killed";
        return rank.signal == SIGTERM || rank.signal == SIGINT ? "killed" : "crashed";
    default: break;
    }
    constexpr std::pair<int, const char*> table[] = {{21, "mismatch"}, {24, "nonfinite"}, {25, "io"}};
    for (const auto& [code, cause] : table)
        if (rank.code == code)
            return cause;
    return rank.code == 70 ? "internal" : "crashed";
}

/// "allocating block1.scores (op softmax, layer block1, category activations): 512 MiB requested, 700 MiB in use, budget 1 GiB"
std::string memoryText(const Json& oom)
{
    if (!oom.is_object())
        return "the worker gave no details";
    std::string what = text(oom, "tensor").empty() ? text(oom, "op") : text(oom, "tensor");
    if (what.empty())
        what = "a tensor";
    std::string place;
    for (const char* key : {"op", "layer", "category", "phase"})
        if (const std::string value = text(oom, key); !value.empty() && value != what)
            place += fmt::format("{}{} {}", place.empty() ? "" : ", ", key, value);
    const int64_t budget = number(oom, "budget_bytes");
    return fmt::format("allocating {}{}: {} requested, {} in use{}", what, place.empty() ? "" : " (" + place + ")",
                       bytesText(number(oom, "requested_bytes")), bytesText(number(oom, "in_use_bytes")),
                       budget > 0 ? ", budget " + bytesText(budget) : "");
}

/// The last line that says something, without control characters: often all that a loader or a library leaves behind.
std::string lastLogLine(const std::string& tail)
{
    std::string line;
    for (size_t at = 0; at < tail.size();) {
        const size_t end = std::min(tail.find('\n', at), tail.size());
        if (tail.find_first_not_of(" \t\r", at) < end)
            line = tail.substr(at, end - at);
        at = end + 1;
    }
    for (char& c : line)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            c = ' ';
    return line.substr(0, 300);
}

std::string howItEnded(const Rank& rank, const std::string& cause)
{
    if (rank.ended == ExitClass::Broken)
        return fmt::format("sent {} unreadable report lines and was ended", rank.badLines);
    if (cause == "oom_kernel")
        return "was killed by the kernel for memory (signal 9, the kernel's oom_kill counter rose)";
    const std::string words = rank.signal == SIGKILL || rank.signal == SIGTERM ? "" : lastLogLine(rank.logSink.tail());
    const std::string said = words.empty() ? "" : fmt::format(", its last words: {}", words);
    if (rank.signal != 0)
        return fmt::format("was ended by signal {} ({}){}", rank.signal, ::strsignal(rank.signal), said);
    if (rank.ended == ExitClass::OutOfMemory)
        return "ran out of memory " + memoryText(rank.oomLine);
    if (rank.ended == ExitClass::Early)
        return fmt::format("ended early with exit code {}, before its work was done{}", rank.code, said);
    std::string how = fmt::format("ended with exit code {} ({})", rank.code, exitMeaning(rank.code));
    if (const std::string message = text(rank.errorLine, "message"); !message.empty())
        how += ": " + message;
    else
        how += said;
    return how;
}

Json actionFor(const FailureContext& context, const std::string& nearest)
{
    Json action = Json::object();
    if (!nearest.empty())
        action["text"] = "take a plan that fits: " + nearest;
    else if (context.lastCommit >= 0)
        action["text"] = fmt::format("resume from step {}", context.lastCommit);
    else
        action["text"] = "nothing was committed yet: start again";
    const bool resume = nearest.empty() && context.lastCommit >= 0 && context.spec->kind == "train";
    const size_t offered = nearest.find("megagraph train --plan ");
    if (offered != std::string::npos)
        action["command"] = nearest.substr(offered);
    else
        action["command"] = resume ? "megagraph train --resume " + context.spec->id : "megagraph train --plan " + context.folder + "/plan.json";
    return action;
}

std::string sentenceOf(const Rank& root, const FailureContext& context, const std::string& cause, const Json& action)
{
    const std::string commit = context.lastCommit >= 0 ? fmt::format("last committed checkpoint: step {}", context.lastCommit)
                                                       : "no checkpoint is committed";
    const std::string phase = root.phase.empty() ? "" : " in " + root.phase;
    const std::string next = action["command"].get<std::string>().find("--resume") != std::string::npos
                                 ? "resume: " + action["command"].get<std::string>()
                                 : action["text"].get<std::string>();
    return fmt::format("rank {} on {} (pid {}) {}, at step {}{}; {}; {}", root.number, context.host, root.child.pid, howItEnded(root, cause),
                       std::max(root.step, context.step), phase, commit, next);
}

bool couldHavePlans(const Rank& root)
{
    return root.ended == ExitClass::OutOfMemory;
}

} // namespace

const Rank* rootCause(const std::vector<std::unique_ptr<Rank>>& ranks)
{
    const Rank* root = nullptr;
    const auto when = [](const Rank& rank) { return rank.broken ? rank.brokenAt : rank.endedAt; };
    const auto rankOf = [](const Rank& rank) { return rank.ended == ExitClass::Consequence ? 1 : 0; };
    for (const auto& rank : ranks) {
        if (!isFailure(rank->ended))
            continue;
        if (!root || std::pair(rankOf(*rank), when(*rank)) < std::pair(rankOf(*root), when(*root)))
            root = rank.get();
    }
    return root;
}

Json failureCard(const Rank& root, const std::vector<std::unique_ptr<Rank>>& ranks, const FailureContext& context)
{
    const std::string cause = causeOf(root, context);
    std::string nearest;
    if (couldHavePlans(root) && context.nearestPlan)
        nearest = context.nearestPlan(root.oomLine);
    const Json action = actionFor(context, nearest);
    Json consequences = Json::array();
    for (const auto& rank : ranks)
        if (rank.get() != &root && isFailure(rank->ended))
            consequences.push_back(Json{{"rank", rank->number}, {"class", exitClassName(rank->ended)}, {"code", rank->code}, {"signal", rank->signal}});
    const int64_t step = std::max(root.step, context.step);
    return Json{{"format", "megagraph.failure_card"},
                {"version", 1},
                {"number", nullptr},
                {"run", context.spec->id},
                {"attempt", context.attempt},
                {"utc", utcNow()},
                {"cause", cause},
                {"certainty", "certain"},
                {"sentence", sentenceOf(root, context, cause, action)},
                {"rank", root.number},
                {"host", context.host},
                {"device", nullptr},
                {"pid", root.child.pid},
                {"code", root.signal == 0 ? Json(root.code) : Json()},
                {"signal", root.signal != 0 ? Json(root.signal) : Json()},
                {"phase", root.phase.empty() ? Json() : Json(root.phase)},
                {"step", step},
                {"action_name", nullptr},
                {"last_committed_step", context.lastCommit >= 0 ? Json(context.lastCommit) : Json()},
                {"lost_steps", std::max<int64_t>(0, step - std::max<int64_t>(0, context.lastCommit))},
                {"detected_after_ms", nullptr},
                {"waiting", Json::array()},
                {"missing", Json::array()},
                {"memory", root.oomLine},
                {"nonfinite", root.nonfiniteLine},
                {"consequences", consequences},
                {"evidence", Json::array({fmt::format("logs/r{}.a{}.log", root.number, context.attempt)})},
                {"decision", "stopped"},
                {"action", action}};
}

int64_t writeCard(Json& card, const Rank& root, const std::string& folder)
{
    int64_t number = 1;
    struct stat info{};
    while (::stat(fmt::format("{}/failures/{}", folder, number).c_str(), &info) == 0)
        ++number;
    const std::string place = fmt::format("{}/failures/{}", folder, number);
    card["number"] = number;
    if (!makeFolders(place).ok())
        return number; // the sentence is in the journal all the same
    (void)writeFileAtomically(place + "/card.json", card.dump(1) + "\n").ok();
    (void)writeFileAtomically(fmt::format("{}/tail-r{}.log", place, root.number), root.logSink.tail()).ok();
    return number;
}

int64_t kernelMemoryKills()
{
    const auto counter = [](const std::string& path) -> int64_t {
        const auto text = readSmallFile(path, 64 * 1024);
        if (!text.ok())
            return -1;
        const size_t at = text->find("oom_kill ");
        return at == std::string::npos ? -1 : std::strtoll(text->c_str() + at + 9, nullptr, 10);
    };
    if (const auto line = readSmallFile("/proc/self/cgroup", 64 * 1024); line.ok() && line->rfind("0::", 0) == 0)
        if (const int64_t kills = counter("/sys/fs/cgroup" + line->substr(3, line->find('\n') - 3) + "/memory.events"); kills >= 0)
            return kills;
    return counter("/proc/vmstat");
}

} // namespace megagraph::launch
