#include "pserver/disk/store_error.h"

#include <cerrno>

#include "common/os/host_limits.h"

namespace tandem::pserver {

Status DiskFull(const std::string& text) {
  return ResourceExhausted("the disk is full: %s [TD2107]; hint: free space on the disk", text);
}

Status StoreFailed(const std::string& text) {
  return Unavailable(
      "the checkpoint store failed: %s [TD2110]; hint: start the server again, which recovers its "
      "state from the directory",
      text);
}

Status StoreError(const std::string& what, int error) {
  const std::string text = absl::StrFormat("%s: %s", what, ErrnoText(error));
  if (error == EMFILE || error == ENFILE) return TooManyFiles(text);
  return error == ENOSPC || error == EDQUOT ? DiskFull(text) : StoreFailed(text);
}

}  // namespace tandem::pserver
