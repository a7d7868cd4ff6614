// Status and StatusOr report failures with an outside cause (user input, files, network, devices).
// The codes are gRPC's, so a Status crosses the network unchanged. A violated invariant of Tandem
// itself is a CHECK (common/base/check.h), never a Status. Tandem throws no exceptions; exceptions
// of third-party libraries become a Status at the call.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace tandem {

using absl::OkStatus;
using absl::Status;
using absl::StatusCode;
using absl::StatusOr;

// Defines function `Name`, which makes a Status with the code `Code`. Example of a call:
// InvalidArgument("%s: expected %d", name, n).
#define TANDEM_STATUS_MAKER(Name, Code)                                               \
  template <typename... A>                                                            \
  [[nodiscard]] Status Name(const absl::FormatSpec<A...>& format, const A&... args) { \
    return Status(StatusCode::Code, absl::StrFormat(format, args...));                \
  }
TANDEM_STATUS_MAKER(Aborted, kAborted)
TANDEM_STATUS_MAKER(AlreadyExists, kAlreadyExists)
TANDEM_STATUS_MAKER(Cancelled, kCancelled)
TANDEM_STATUS_MAKER(DataLoss, kDataLoss)
TANDEM_STATUS_MAKER(DeadlineExceeded, kDeadlineExceeded)
TANDEM_STATUS_MAKER(FailedPrecondition, kFailedPrecondition)
TANDEM_STATUS_MAKER(Internal, kInternal)
TANDEM_STATUS_MAKER(InvalidArgument, kInvalidArgument)
TANDEM_STATUS_MAKER(NotFound, kNotFound)
TANDEM_STATUS_MAKER(OutOfRange, kOutOfRange)
TANDEM_STATUS_MAKER(PermissionDenied, kPermissionDenied)
TANDEM_STATUS_MAKER(ResourceExhausted, kResourceExhausted)
TANDEM_STATUS_MAKER(Unauthenticated, kUnauthenticated)
TANDEM_STATUS_MAKER(Unavailable, kUnavailable)
TANDEM_STATUS_MAKER(Unimplemented, kUnimplemented)
#undef TANDEM_STATUS_MAKER

// Returns `status` with `where` and ": " in front of its message. An OK status stays unchanged.
[[nodiscard]] Status Annotate(const Status& status, std::string_view where);

// Returns "message (CODE)", a text for the user.
std::string ToString(const Status& status);

// Returns the errno value `error` as text, for messages about files and sockets.
std::string ErrnoText(int error);

// Exit codes of Tandem's programs (sysexits.h), for systemd and Kubernetes. Codes 1 to 127: the
// error is permanent. Codes 128 to 255: a restart may help.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,
  kExitUsage = 2,         // a wrong flag, knob, strategy or job file
  kExitData = 65,         // wrong data, or a wrong model
  kExitUnavailable = 69,  // a service is absent, or a port is in use
  kExitIo = 74,
  kExitPermission = 77,  // TLS, token or file permissions deny the access
  kExitConfig = 78,
  kExitLostPeer = 200,  // a peer was lost; a restart may help
  kExitStorage = 201,   // a store failed while in use; a new process can read the store
};
int ExitCodeOf(const Status& status);

}  // namespace tandem

#define TANDEM_CONCAT_INNER(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_INNER(a, b)

#define TD_RETURN_IF_ERROR(expr)                      \
  do {                                                \
    if (::tandem::Status td_s = (expr); !td_s.ok()) { \
      return td_s;                                    \
    }                                                 \
  } while (false)

#define TD_ASSIGN_OR_RETURN(lhs, expr) \
  TD_ASSIGN_OR_RETURN_IMPL(TANDEM_CONCAT(td_or_, __LINE__), lhs, expr)
#define TD_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = std::move(tmp).value()
