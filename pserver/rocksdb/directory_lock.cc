#include "pserver/rocksdb/directory_lock.h"

#include <rocksdb/env.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "common/base/predecessor.h"

namespace tandem::pserver {

Status WaitForDirectoryLock(const char* called, const std::string& dir, const char* choice) {
  const std::string file = dir + "/LOCK";
  rocksdb::Env* const env = rocksdb::Env::Default();
  const auto held = [&] {
    rocksdb::FileLock* lock = nullptr;
    const rocksdb::Status status = env->LockFile(file, &lock);
    if (status.ok()) {
      // Releases the lock, because RocksDB itself acquires the lock when it opens the directory.
      env->UnlockFile(lock).PermitUncheckedError();
      return false;
    }
    const std::string text = status.ToString();
    return absl::StrContains(text, ErrnoText(EAGAIN)) || absl::StrContains(text, "lock hold by");
  };
  const std::string what = absl::StrFormat("%s %s is in use by another process", called, dir);
  if (WaitForPreviousInstance(what, held)) return OkStatus();
  return Unavailable(
      "%s %s is still in use by another process after %.0f s [TD2104]; hint: find that process "
      "with fuser %s and stop it, or choose another %s",
      called, dir, Seconds(kPredecessorPatience), file, choice);
}

}  // namespace tandem::pserver
