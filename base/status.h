// Errors as sentences with values: absl::Status made by printf-style constructors, and the macros
// that pass them on.
//
//   return InvalidArgument("reduce_sum: axis %d is outside [0, %d)", axis, rank);
//   DUOTONE_RETURN_IF_ERROR(pass.Run(graph, context)).With("pass %s", pass.name());
//   DUOTONE_ASSIGN_OR_RETURN(Module module, Parse(text));
#ifndef DUOTONE_BASE_STATUS_H_
#define DUOTONE_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace duotone {

// What a user gave is wrong: a graph, a file, a flag, a shape.
template <typename... Args>
absl::Status InvalidArgument(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrFormat(format, args...));
}

// A file, name or entry that was asked for does not exist.
template <typename... Args>
absl::Status NotFound(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::NotFoundError(absl::StrFormat(format, args...));
}

// The request is well formed, but the state of things does not allow it.
template <typename... Args>
absl::Status FailedPrecondition(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::FailedPreconditionError(absl::StrFormat(format, args...));
}

// This build or device cannot do it.
template <typename... Args>
absl::Status Unimplemented(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::UnimplementedError(absl::StrFormat(format, args...));
}

// Memory, disk or a limit of ours is used up.
template <typename... Args>
absl::Status ResourceExhausted(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::ResourceExhaustedError(absl::StrFormat(format, args...));
}

// A library or our own code failed in a way the user cannot mend.
template <typename... Args>
absl::Status Internal(const absl::FormatSpec<Args...>& format, const Args&... args) {
  return absl::InternalError(absl::StrFormat(format, args...));
}

// An error on its way to the caller, to which context can be put in front.
class StatusBuilder {
 public:
  explicit StatusBuilder(absl::Status status) : status_(std::move(status)) {}
  template <typename T>
  explicit StatusBuilder(const absl::StatusOr<T>& status) : status_(status.status()) {}

  bool ok() const { return status_.ok(); }

  // Prefixes the message: "<context>: <message>".
  template <typename... Args>
  StatusBuilder& With(const absl::FormatSpec<Args...>& format, const Args&... args) {
    if (!status_.ok()) {
      status_ =
          absl::Status(status_.code(), absl::StrFormat("%s: %s", absl::StrFormat(format, args...),
                                                       std::string(status_.message())));
    }
    return *this;
  }

  operator absl::Status() const { return status_; }  // NOLINT(google-explicit-constructor)
  template <typename T>
  operator absl::StatusOr<T>() const {  // NOLINT(google-explicit-constructor)
    return status_;
  }

 private:
  absl::Status status_;
};

}  // namespace duotone

// Returns from the enclosing function if `expr` (Status or StatusOr) is an error; `.With(...)` may
// follow.
#define DUOTONE_RETURN_IF_ERROR(expr)                                                       \
  if (::duotone::StatusBuilder duotone_status_builder(expr); duotone_status_builder.ok()) { \
  } else /* NOLINT */                                                                       \
    return duotone_status_builder

#define DUOTONE_STATUS_CONCAT_INNER_(a, b) a##b
#define DUOTONE_STATUS_CONCAT_(a, b) DUOTONE_STATUS_CONCAT_INNER_(a, b)
#define DUOTONE_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                   \
  if (!tmp.ok()) return std::move(tmp).status();       \
  lhs = *std::move(tmp)

// Evaluates `expr` (a StatusOr), returns its error or assigns its value to `lhs`.
#define DUOTONE_ASSIGN_OR_RETURN(lhs, expr) \
  DUOTONE_ASSIGN_OR_RETURN_IMPL_(DUOTONE_STATUS_CONCAT_(duotone_status_or_, __LINE__), lhs, expr)

#endif  // DUOTONE_BASE_STATUS_H_
