// A Storage that forwards to another one. Tests can make its operations fail.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "pserver/storage/storage.h"

namespace tandem {

// An operation that fails has no effect. `storage` must outlive this object.
class FailingStorage final : public pserver::Storage {
 public:
  explicit FailingStorage(pserver::Storage& storage) : storage_(storage) {}
  bool begin_fails = false, write_fails = false, append_fails = false;

  StatusOr<size_t> Write(const pserver::ShardSnapshot& snapshot) override {
    if (write_fails) return ResourceExhausted("the disk is full");
    return storage_.Write(snapshot);
  }
  StatusOr<bool> Read(pserver::SnapshotSink& sink) override { return storage_.Read(sink); }
  StatusOr<size_t> WriteGlobalSnapshot(const pserver::SnapshotName& name,
                                       const pserver::ShardSnapshot& snapshot,
                                       std::span<const uint64_t> removed) override {
    return storage_.WriteGlobalSnapshot(name, snapshot, removed);
  }
  Status ReadGlobalSnapshot(uint64_t number, pserver::SnapshotSink& sink) override {
    return storage_.ReadGlobalSnapshot(number, sink);
  }
  StatusOr<uint64_t> LastSnapshotNumber() override { return storage_.LastSnapshotNumber(); }
  StatusOr<std::vector<pserver::StoredGlobalSnapshot>> GlobalSnapshots() override {
    return storage_.GlobalSnapshots();
  }
  StatusOr<size_t> AppendLog(std::span<const pserver::LogEntry> entries, bool sync) override {
    if (append_fails) return ResourceExhausted("the disk is full");
    return storage_.AppendLog(entries, sync);
  }
  Status CheckRoom(uint64_t bytes) override { return storage_.CheckRoom(bytes); }
  Status SyncLog() override { return storage_.SyncLog(); }
  Status ReadLog(uint64_t after, const std::function<Status(pserver::LogEntry)>& take) override {
    return storage_.ReadLog(after, take);
  }
  Status ClearLog() override { return storage_.ClearLog(); }
  Status BeginRestore(const pserver::LogBreak& at) override {
    if (begin_fails) return ResourceExhausted("the disk is full");
    return storage_.BeginRestore(at);
  }
  StatusOr<std::optional<pserver::LogBreak>> UnfinishedRestore() override {
    return storage_.UnfinishedRestore();
  }
  StatusOr<pserver::LogBreak> LastBreak() override { return storage_.LastBreak(); }
  Status ScanLog(uint64_t first, const pserver::ScanSink& take) override {
    return storage_.ScanLog(first, take);
  }
  pserver::CheckpointFiles* files() override { return storage_.files(); }

 private:
  pserver::Storage& storage_;
};

}  // namespace tandem
