#include "pserver/rocksdb/rocksdb_status.h"

#include <rocksdb/status.h>

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
  if (status.IsNoSpace()) {
    return ResourceExhausted("the disk is full: %s [TD2107]; hint: free space on the disk", text);
  }
  return Unavailable(
      "the checkpoint store failed: %s [TD2110]; hint: start the server again, which recovers its "
      "state from the directory",
      text);
}

}  // namespace tandem::pserver
