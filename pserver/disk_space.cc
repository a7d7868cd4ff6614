#include "pserver/disk_space.h"

#include <sys/statvfs.h>

#include <cerrno>

namespace tandem {

Status CheckDiskSpace(const std::string& what, const std::string& dir, uint64_t floor,
                      uint64_t bytes) {
  struct statvfs info {};
  if (statvfs(dir.c_str(), &info) != 0) {
    return Unavailable("%s %s: %s", what, dir, ErrnoText(errno));
  }
  const uint64_t free = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  const uint64_t need = floor + 3 * bytes;
  if (free >= need) return OkStatus();
  return ResourceExhausted("%s %s: %d bytes free, %d needed [TD2107]; nothing was written", what,
                           dir, free, need);
}

}  // namespace tandem
