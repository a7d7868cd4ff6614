#include "pserver/disk/disk_space.h"

#include <sys/statvfs.h>

#include <cerrno>

namespace tandem::pserver {

StatusOr<uint64_t> FreeBytes(const std::string& what, const std::string& dir) {
  struct statvfs info {};
  if (statvfs(dir.c_str(), &info) == 0) return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  return Unavailable(
      "cannot read the free space of %s %s: %s [TD2110]; hint: check that the directory exists",
      what, dir, ErrnoText(errno));
}

Status CheckFree(const std::string& what, const std::string& dir, uint64_t needed) {
  TD_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(what, dir));
  if (free >= needed) return OkStatus();
  return ResourceExhausted(
      "cannot write to %s %s: the disk has %d free bytes, but %d bytes are needed [TD2107]; "
      "nothing was written; hint: free space on the disk",
      what, dir, free, needed);
}

Status CheckDiskSpace(const std::string& what, const std::string& dir, uint64_t floor,
                      uint64_t bytes) {
  return CheckFree(what, dir, floor + 3 * bytes);
}

}  // namespace tandem::pserver
