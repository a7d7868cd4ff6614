// A Storage in memory. Tests can make its operations fail.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "pserver/storage/storage.h"

namespace tandem {

// A Storage in memory for one test. Not thread-safe.
class FakeStorage final : public pserver::Storage {
 public:
  Status append_fails, sync_fails;
  uint64_t room = std::numeric_limits<uint64_t>::max();
  std::vector<uint64_t> written;  // numbers of the log entries that were written
  int syncs = 0;

  StatusOr<size_t> Write(const pserver::ShardSnapshot& image) override { return image.bytes(); }
  StatusOr<bool> Read(pserver::SnapshotSink& /*taker*/) override { return false; }
  StatusOr<size_t> WriteGlobalSnapshot(const pserver::SnapshotName& /*name*/,
                                       const pserver::ShardSnapshot& image,
                                       std::span<const uint64_t>) override {
    return image.bytes();
  }
  Status ReadGlobalSnapshot(uint64_t cut, pserver::SnapshotSink& /*taker*/) override {
    return NotFound("no snapshot %d", cut);
  }
  StatusOr<std::vector<pserver::StoredGlobalSnapshot>> GlobalSnapshots() override {
    return std::vector<pserver::StoredGlobalSnapshot>();
  }
  StatusOr<size_t> AppendLog(std::span<const pserver::LogEntry> entries, bool /*sync*/) override {
    TD_RETURN_IF_ERROR(append_fails);
    for (const pserver::LogEntry& entry : entries) written.push_back(entry.number);
    return entries.size();
  }
  Status CheckRoom(uint64_t bytes) override {
    if (bytes <= room) return OkStatus();
    return ResourceExhausted("%d bytes free, %d needed", room, bytes);
  }
  Status SyncLog() override {
    ++syncs;
    return sync_fails;
  }
  Status ReadLog(uint64_t /*after*/,
                 const std::function<Status(pserver::LogEntry)>& /*take*/) override {
    return OkStatus();
  }
  Status ClearLog() override { return OkStatus(); }
};

}  // namespace tandem
