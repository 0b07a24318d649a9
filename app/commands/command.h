// SPDX-License-Identifier: Apache-2.0
// One file per verb: each adds its CLI11 subcommand and a function that runs it. The document goes to stdout, progress and
// messages to stderr; the return value is the exit code (table of core/result.h).
#pragma once

#include "core/result.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace megagraph::app {

/// `supervises`, when set and true, says that this call supervises a run and takes INT, TERM and HUP itself.
struct Verb {
    CLI::App* app;
    std::function<int()> run;
    std::function<bool()> supervises = {};
};

/// Shared state of one invocation.
struct Invocation {
    bool json = false;    // --json (each verb adds it)
    bool events = false;  // --events: progress as JSON lines on stderr
    std::stop_token stop; // Ctrl-C
};

/// Prints the error once on stderr (as JSON {"error":{"code","message"}} on stdout with --json) and returns its exit code.
int report(const Error& error, bool json);
/// Progress line on a terminal, JSON event with --events, nothing otherwise.
void progress(const Invocation& invocation, const std::string& what, int64_t done, int64_t total);

Verb addDoctor(CLI::App& root, Invocation& invocation);
Verb addGenerate(CLI::App& root, Invocation& invocation);
Verb addImport(CLI::App& root, Invocation& invocation);
Verb addInspect(CLI::App& root, Invocation& invocation);
Verb addModel(CLI::App& root, Invocation& invocation);
Verb addProfile(CLI::App& root, Invocation& invocation);
Verb addPlan(CLI::App& root, Invocation& invocation);
Verb addTrain(CLI::App& root, Invocation& invocation);
Verb addVerify(CLI::App& root, Invocation& invocation);
Verb addWatch(CLI::App& root, Invocation& invocation);
Verb addStop(CLI::App& root, Invocation& invocation);
Verb addRuns(CLI::App& root, Invocation& invocation);
Verb addLibrary(CLI::App& root, Invocation& invocation);
Verb addBench(CLI::App& root, Invocation& invocation);

using AddVerb = Verb (*)(CLI::App& root, Invocation& invocation);
/// The verbs of this build, in the order of --help (app/commands/verbs.cpp).
std::vector<AddVerb> allVerbs();

} // namespace megagraph::app
