// SPDX-License-Identifier: Apache-2.0
// The one error type. A fault is described once, where it is found, as
//   thing: place: what is wrong, got X, expected Y; what to do.
// Values only, no threads. Nothing in core, kernels, planner, launch or ui throws across its border.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace megagraph {

enum class ErrorCode {
    InvalidInput,
    NotFound,
    Unsupported,
    Infeasible,
    Io,
    Corrupt,
    VersionMismatch,
    Cancelled,
    Timeout,
    RankFailed,
    OutOfMemory,
    Internal,
    Usage,   // command line only
    Refused, // stale profile or pre-flight check without consent
};

/// Name of the code as documents and events write it, e.g. "InvalidInput".
const char* errorCodeName(ErrorCode code);

/// Process exit code of a verb that ends with this error (table at the end of the planner design, section 8):
/// 1 Infeasible, 2 usage, 3 InvalidInput, 4 NotFound, 5 Unsupported, 6 Io, 7 Corrupt, 8 VersionMismatch,
/// 9 Timeout, 10 Cancelled, 11 refused, 12 RankFailed, OutOfMemory, Internal.
int exitCode(ErrorCode code);

struct [[nodiscard]] Error {
    ErrorCode code = ErrorCode::Internal;
    std::string message;

    /// The same error with context put in front: "context: message".
    Error within(const std::string& context) const { return {code, context + ": " + message}; }
};

/// Success without a value.
struct Ok {};

/// Either a value or an Error. Cannot be default-made; must be looked at.
template <class T = Ok> class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }

    T& value() & { return std::get<0>(state_); }
    const T& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const Error& error() const& { return std::get<1>(state_); }
    Error&& error() && { return std::get<1>(std::move(state_)); }

  private:
    std::variant<T, Error> state_;
};

[[noreturn]] void checkFailed(const char* file, int line, const char* expression, const std::string& values);

} // namespace megagraph

#define MEGAGRAPH_CONCAT_(a, b) a##b
#define MEGAGRAPH_CONCAT(a, b) MEGAGRAPH_CONCAT_(a, b)

/// `MEGAGRAPH_TRY(auto x, f());` declares x from the value, or returns the error from the enclosing function.
/// `MEGAGRAPH_TRY(std::ignore, f());` is the form for a Result<Ok> (include <tuple>).
#define MEGAGRAPH_TRY(lhs, expression)                                                                                 \
    auto&& MEGAGRAPH_CONCAT(tried_, __LINE__) = (expression);                                                          \
    if (!MEGAGRAPH_CONCAT(tried_, __LINE__).ok())                                                                      \
        return std::move(MEGAGRAPH_CONCAT(tried_, __LINE__)).error();                                                  \
    lhs = std::move(MEGAGRAPH_CONCAT(tried_, __LINE__)).value()

/// Aborts with file, line and values. For our own bugs only: no file, flag, click, peer or full disk may reach it.
#define MEGAGRAPH_CHECK(condition, values)                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ::megagraph::checkFailed(__FILE__, __LINE__, #condition, (values));                                        \
    } while (false)
