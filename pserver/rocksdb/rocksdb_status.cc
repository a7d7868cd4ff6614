#include "pserver/rocksdb/rocksdb_status.h"

#include <rocksdb/status.h>

#include "pserver/disk/store_error.h"

namespace tandem::pserver {

Status FromRocksdb(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return OkStatus();
  const std::string text = what + ": " + status.ToString();
  if (status.IsCorruption()) {
    return DataLoss(
        "the checkpoint store is damaged: %s [TD4010]; hint: move the directory away to start "
        "without this checkpoint",
        text);
  }
  return status.IsNoSpace() ? DiskFull(text) : StoreFailed(text);
}

}  // namespace tandem::pserver
