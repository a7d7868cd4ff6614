// The disk of a simulated server. It models which data survives the death of the process, and which
// data survives a loss of power. A process accesses the disk through Storage.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "pserver/storage/storage.h"
#include "tests/sim/world.h"

namespace tandem::pserver {

// A simulated disk. It survives the processes that use it. Not thread-safe.
class SimDisk {
 public:
  // `forget_previous` injects a bug: checkpoints lack the previous parameters, although
  // ShardSnapshot::has_previous announces them.
  SimDisk(SimWorld& world, bool forget_previous)
      : world_(world), forget_previous_(forget_previous) {}

  // Open returns the disk for one process. Revoke is called when the process dies: later operations
  // of the process do not reach the disk.
  std::unique_ptr<Storage> Open();
  void Revoke();
  // Simulates a power loss: of the log entries that were not synced, only a random prefix (possibly
  // empty) survives.
  void LosePower();
  // Kills the process during an operation, after `operations` more operations. The operation may or
  // may not take effect.
  void DieIn(uint64_t operations, std::function<void()> kill);
  void FullUntil(Time when) { full_until_ = when; }
  // Global snapshots by number.
  const std::map<uint64_t, ShardSnapshot>& cuts() const { return cuts_; }

  // Records a PushRequest that a trainer sent. The server's log does not contain its values,
  // because the trainer keeps them (OrderRecord).
  void Sent(const std::string& request);

  // The recorded order: a checkpoint, and every later log entry, even if a later checkpoint dropped
  // it from the log. Entries that a power loss destroyed are not included.
  const std::optional<ShardSnapshot>& base() const { return base_; }
  std::vector<LogEntry> History() const;

 private:
  class Session;
  friend class Session;
  // Every operation calls Begin, and takes place only if Begin returns OK. `writes`: false for an
  // operation that only syncs. Afterwards End returns whether the process is still alive.
  Status Begin(uint64_t session, bool writes = true);
  Status End(uint64_t session);

  SimWorld& world_;
  const bool forget_previous_;
  uint64_t session_ = 0;  // session of the process that may use the disk; 0: none
  uint64_t sessions_ = 0;
  Time full_until_ = Time::min();
  std::optional<uint64_t> operations_left_;
  bool die_behind_ = false;
  std::function<void()> kill_;

  std::optional<ShardSnapshot> base_, checkpoint_;
  // Global snapshots by number; each is synced when it is written.
  std::map<uint64_t, ShardSnapshot> cuts_;
  std::map<uint64_t, std::string> log_;  // log entries by number, in the format of log_record.h
  // All log entries by number, including those that a checkpoint dropped from log_.
  std::map<uint64_t, std::string> history_;
  // All pushes that Sent recorded, by trainer, incarnation and sequence number. Each value has the
  // format of a log entry.
  std::map<std::tuple<int, uint64_t, uint64_t>, std::string> sent_;
  uint64_t synced_ = 0;  // log entries up to this number survive a power loss
};

}  // namespace tandem::pserver
