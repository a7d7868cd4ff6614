#include "common/base/status.h"

#include <cstring>

namespace tandem {

Status Annotate(const Status& status, std::string_view where) {
  if (status.ok()) return status;
  std::string message(where);
  message += ": ";
  message.append(status.message().data(), status.message().size());
  return Status(status.code(), message);
}

std::string ToString(const Status& status) {
  if (status.ok()) return "OK";
  std::string text(status.message().data(), status.message().size());
  return text + " (" + absl::StatusCodeToString(status.code()) + ")";
}

std::string ErrnoText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof(buffer));
}

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kOutOfRange:
    case StatusCode::kUnimplemented:
      return kExitUsage;
    case StatusCode::kDataLoss:
      return kExitData;
    case StatusCode::kUnavailable:
    case StatusCode::kAlreadyExists:
      return kExitUnavailable;
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnauthenticated:
      return kExitPermission;
    case StatusCode::kFailedPrecondition:
      return kExitConfig;
    case StatusCode::kAborted:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
      return kExitLostPeer;
    case StatusCode::kResourceExhausted:
      return kExitIo;
    default:
      return kExitFailure;
  }
}

}  // namespace tandem
