// The disk of a simulated server. The disk models which data survives the death of the process, and
// which data survives a loss of power. A process accesses the disk through Storage.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pserver/storage/storage.h"
#include "tests/sim/world.h"

namespace tandem::pserver {

// The checkpoints that were opened on any disk of a job, so that another disk can install them.
// When a standby copies the file with the values of a checkpoint, the copy contains only the index
// of the checkpoint in this list.
struct SimCheckpoints {
  struct Opened {
    ShardSnapshot image;
    std::set<uint64_t> cuts;  // ShardMeta.predecessors
  };
  std::vector<Opened> opened;
  // Size in bytes of each file with values. A standby fetches a file of more than 4 MiB in several
  // parts.
  uint64_t bytes = sizeof(uint64_t);
};

// A simulated disk. The disk outlives the processes that use it. Not thread-safe.
class SimDisk {
 public:
  // If `forget_previous` is true, the disk injects a bug: checkpoints lack the previous parameters,
  // although ShardSnapshot::has_previous announces them.
  // `checkpoints` null: the Storage has no files().
  SimDisk(SimWorld& world, bool forget_previous,
          std::shared_ptr<SimCheckpoints> checkpoints = nullptr)
      : world_(world), forget_previous_(forget_previous), checkpoints_(std::move(checkpoints)) {}

  // Open returns the Storage for a new process. Revoke is called when the process dies: after that,
  // operations of the process have no effect and fail.
  std::unique_ptr<Storage> Open();
  void Revoke();
  // Simulates a power loss: of the log entries that were not synced, only a random prefix (possibly
  // empty) survives.
  void LosePower();
  void Clear();  // loses all data: the disk is replaced by an empty one
  // Calls `kill` during an operation, after `operations` more operations. The interrupted operation
  // may or may not take effect.
  void DieIn(uint64_t operations, std::function<void()> kill);
  void FullUntil(Time when) { full_until_ = when; }
  bool full() const { return world_.Now() < full_until_; }
  // Global snapshots by number.
  const std::map<uint64_t, ShardSnapshot>& cuts() const { return cuts_; }

  // Returns whether a member could become the primary with the data of this disk.
  bool has_complete_state() const { return checkpoint_.has_value() && complete_; }

  // Records a PushRequest that a trainer sent. The log of a replayable server does not contain the
  // values of the push, because the trainer keeps them (OrderRecord).
  void Sent(const std::string& request);

  // The recorded order: a snapshot (`base`), and every later log entry (`History`), including
  // entries that a later checkpoint dropped from the log. Excludes entries that a power loss
  // destroyed.
  const std::optional<ShardSnapshot>& base() const { return base_; }
  std::vector<LogEntry> History() const;

 private:
  class Session;
  friend class Session;
  // Every operation calls Begin first, and takes effect only if Begin returns OK. `writes`: whether
  // the operation writes; false for an operation that only syncs. The operation ends with End,
  // which returns an error if the process has died.
  Status Begin(uint64_t session, bool writes = true);
  Status End(uint64_t session);

  SimWorld& world_;
  const bool forget_previous_;
  const std::shared_ptr<SimCheckpoints> checkpoints_;
  uint64_t session_ = 0;  // session of the process that may use the disk; 0: none
  uint64_t sessions_ = 0;
  Time full_until_ = Time::min();
  std::optional<uint64_t> operations_left_;
  bool die_behind_ = false;
  std::function<void()> kill_;

  std::optional<ShardSnapshot> base_, checkpoint_;
  std::set<uint64_t> cuts_of_checkpoint_;  // numbers in cuts_ when the checkpoint was written
  // Global snapshots by number. Each write of a global snapshot includes a sync.
  std::map<uint64_t, ShardSnapshot> cuts_;
  std::map<uint64_t, std::string> log_;  // log entries by number, in the format of log_record.h
  // All log entries by number, including entries that a checkpoint dropped from log_.
  std::map<uint64_t, std::string> history_;
  // All pushes that Sent recorded, by trainer, incarnation and sequence number. Each value has the
  // format of a log entry.
  std::map<std::tuple<int, uint64_t, uint64_t>, std::string> sent_;
  LogTerm term_;          // each write of the term includes a sync
  bool complete_ = true;  // CheckpointFiles::Complete; each write includes a sync
  Fd installing_;         // file of values that a standby fetches
  uint64_t synced_ = 0;   // log entries up to this number survive a power loss
};

}  // namespace tandem::pserver
