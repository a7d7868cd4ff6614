// The disk of a simulated server. It models which data survives the death of the process and which
// survives a loss of power. A process accesses it through Storage.
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

// Not thread-safe.
class SimDisk {
 public:
  // `forget_previous`: a deliberate bug; checkpoints lack the data that ShardSnapshot::has_previous
  // announces.
  SimDisk(SimWorld& world, bool forget_previous)
      : world_(world), forget_previous_(forget_previous) {}

  // Opens the disk for one process. After Revoke (the death of the process) its operations no
  // longer reach the disk.
  std::unique_ptr<Storage> Open();
  void Revoke();
  // Keeps a random prefix, possibly empty, of the log entries that were not synced.
  void LosePower();
  // Kills the process in one operation after `operations` more, either before the operation takes
  // effect or after it.
  void DieIn(uint64_t operations, std::function<void()> kill);
  void FullUntil(Time when) { full_until_ = when; }
  const std::map<uint64_t, ShardSnapshot>& cuts() const { return cuts_; }  // by number

  // Records a PushRequest that a trainer sent. The log leaves its values to the trainer
  // (OrderRecord).
  void Sent(const std::string& request);

  // The recorded order: a checkpoint, and every log entry since then, even if a later checkpoint
  // dropped it. Entries that a power loss destroyed are not included.
  const std::optional<ShardSnapshot>& base() const { return base_; }
  std::vector<LogEntry> History() const;

 private:
  class Session;
  friend class Session;
  // Every operation calls Begin; if it returns OK, the operation (a write or only a sync) takes
  // place. `End` then returns whether the process is still alive.
  Status Begin(uint64_t session, bool writes = true);
  Status End(uint64_t session);

  SimWorld& world_;
  const bool forget_previous_;
  uint64_t session_ = 0;  // the session that may write; 0: none
  uint64_t sessions_ = 0;
  Time full_until_ = Time::min();
  std::optional<uint64_t> operations_left_;
  bool die_behind_ = false;
  std::function<void()> kill_;

  std::optional<ShardSnapshot> base_, checkpoint_;
  std::map<uint64_t, ShardSnapshot> cuts_;   // by number; a write syncs them
  std::map<uint64_t, std::string> log_;      // by number, in the format of log_record.h
  std::map<uint64_t, std::string> history_;  // the same, but never dropped
  // By trainer, incarnation and sequence number, in the format of log entries.
  std::map<std::tuple<int, uint64_t, uint64_t>, std::string> sent_;
  uint64_t synced_ = 0;  // entries up to this number survive a power loss
};

}  // namespace tandem::pserver
