#include "pserver/disk/store_error.h"

#include <cerrno>

#include "common/os/host_limits.h"

namespace tandem::pserver {

Status StoreError(const std::string& what, int error) {
  const std::string text = absl::StrFormat("%s: %s", what, ErrnoText(error));
  if (error == EMFILE || error == ENFILE) return TooManyFiles(text);
  if (error == ENOSPC || error == EDQUOT) {
    return ResourceExhausted("the disk is full: %s [TD2107]; hint: free space on the disk", text);
  }
  return Unavailable(
      "the checkpoint store failed: %s [TD2110]; hint: start the server again, which recovers its "
      "state from the directory",
      text);
}

}  // namespace tandem::pserver
