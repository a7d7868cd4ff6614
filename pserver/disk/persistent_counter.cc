#include "pserver/disk/persistent_counter.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/crc32c.h"
#include "pserver/disk/store_error.h"

namespace tandem::pserver {
namespace {

constexpr size_t kNumberBytes = sizeof(uint64_t);

// The contents of the file: the number, then its CRC32C.
using Record = std::array<char, kNumberBytes + sizeof(uint32_t)>;
static_assert(sizeof(Record) == 12, "the format of the file");

Record Encode(uint64_t number) {
  Record record;
  std::memcpy(record.data(), &number, kNumberBytes);
  const uint32_t sum = Crc32c(0, record.data(), kNumberBytes);
  std::memcpy(record.data() + kNumberBytes, &sum, sizeof(sum));
  return record;
}

}  // namespace

Status PersistentCounter::Note(uint64_t number) {
  const Record record = Encode(number);
  MutexLock lock(mu_);
  if (!file_.valid()) file_ = Fd(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  // The file must not end with a part of the record, because Read would reject it.
  size_t done = 0;
  ssize_t n = file_.valid() ? 0 : ssize_t{-1};
  while (n >= 0 && done < record.size()) {
    n = pwrite(file_.get(), record.data() + done, record.size() - done, static_cast<off_t>(done));
    if (n == 0) break;
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno == EINTR) n = 0;
  }
  if (done == record.size()) return OkStatus();
  return StoreError("cannot write " + path_, n < 0 ? errno : ENOSPC);
}

StatusOr<uint64_t> PersistentCounter::Read() const {
  const Fd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return uint64_t{0};
  Record record;
  size_t done = 0;
  while (file.valid() && done < record.size()) {
    const ssize_t n =
        pread(file.get(), record.data() + done, record.size() - done, static_cast<off_t>(done));
    if (n == 0) break;
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) return StoreError("cannot read " + path_, errno);
  }
  if (!file.valid()) return StoreError("cannot read " + path_, errno);
  if (done == 0) return uint64_t{0};
  if (done != record.size()) {
    return DataLoss(
        "%s is truncated [TD2118]; hint: restore a copy of the directory, or move the directory "
        "away to start with an empty state",
        path_);
  }
  uint64_t number = 0;
  std::memcpy(&number, record.data(), kNumberBytes);
  if (record != Encode(number)) {
    return DataLoss(
        "%s is damaged: its CRC32C is wrong [TD2118]; hint: restore a copy of the directory, or "
        "move the directory away to start with an empty state",
        path_);
  }
  return number;
}

}  // namespace tandem::pserver
