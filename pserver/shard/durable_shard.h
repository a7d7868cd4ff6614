// A shard with its persistence: checkpoints, WAL and recovery. It contains everything of a pserver
// except network and threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pserver/disk/checkpoint_throttle.h"
#include "pserver/shard/shard.h"
#include "pserver/storage/group_commit_log.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

// Call Recover before the first call of the shard. Thread-safe.
class DurableShard {
 public:
  struct Options {
    Shard::Options shard;  // `on_checkpoint`, `log` and `keep_first` are set by DurableShard
    // Keep a WAL (shard.replayable: only the order of pushes); REQUIRES a storage.
    bool logged = false;
    GroupLogOptions log;  // `on_full` is set by DurableShard
    // Runs a function on a low-priority thread and waits for its end; null: runs it on the caller's
    // thread.
    std::function<void(const std::function<void()>&)> aside;
    // Queues a function for a thread that may wait for the disk. Not OK: another one is already
    // queued, and this one is dropped.
    std::function<Status(std::function<void()>)> later;
    // Throttle of the storage; receives the requests for snapshots with their patience.
    CheckpointThrottle* pace = nullptr;
  };

  // `storage` may be null: nothing is stored. All arguments except `options` must outlive this.
  DurableShard(Options options, Storage* storage, const Clock& clock, const Backend& backend,
               Device& device, Metrics& metrics);
  ~DurableShard();  // calls Close, because callbacks that wait for the log may still use the shard

  Shard& shard() { return *shard_; }
  const Shard& shard() const { return *shard_; }
  GroupCommitLog* log() { return log_.get(); }                         // null: no WAL
  uint64_t checkpoint_version() const { return checkpoint_version_; }  // 0: none

  // Restores the checkpoint and the WAL entries after it. Call before any other call of the shard.
  // Returns the version, 0 if there is nothing. Reads an existing WAL even if this server keeps
  // none.
  StatusOr<uint64_t> Recover();
  // Writes a checkpoint. FAILED_PRECONDITION: no storage, or no initial
  // values yet. `delta`: as in Shard::Checkpoints::Take. `unless_kept`: writes nothing if the
  // checkpoint contains the log up to this number, or all applied updates; 0: always writes.
  // `patience`: maximum total rest (checkpoint_throttle.h).
  StatusOr<SavedCheckpoint> Save(bool delta = false, uint64_t unless_kept = 0,
                                 Duration patience = {});
  // Restores the checkpoint, or a global snapshot (0: none); returns its version.
  StatusOr<uint64_t> Restore(uint64_t number = 0);
  // One server's part of a global snapshot.
  struct SnapshotPart {
    uint64_t version = 0;
    size_t bytes = 0;
    Duration held{};  // time without new pushes
  };
  // Calls Shard::GlobalSnapshots::Take and writes the result. Then drops snapshots with numbers
  // below `complete`. A repeated call gets the same reply until another snapshot begins.
  // FAILED_PRECONDITION: no storage.
  void TakeGlobalSnapshot(const std::string& job, SnapshotRequest order, uint64_t complete,
                          std::function<void(const StatusOr<SnapshotPart>&)> done);
  StatusOr<std::vector<StoredGlobalSnapshot>> GlobalSnapshots()
      const;  // ascending; empty without a storage
  // OK if rows may move from and to this server. Its statements about moves must survive a restart,
  // so it must keep a log of all changes, or store nothing at all.
  Status CheckMoves() const;
  // OK, or the reason why pushes are rejected or (without a log) checkpoints are not written.
  Status StorageStatus() const;
  // Calls `done` when all changes up to now are durable, including against loss of power; without a
  // log, immediately.
  void WhenDurable(WriteAheadLog::Written done);
  // Calls `done` when a trainer that completed may exit: its pushes are logged, and in a checkpoint
  // if the log lacks their values (replayable).
  void WhenSafeToLeave(WriteAheadLog::Written done);
  // Ends all changes: callbacks that wait for unwritten changes receive an error. REQUIRES: as
  // GroupCommitLog::Close.
  void Close();

 private:
  // Snapshots come from several threads. An older one must not replace a newer one, which has
  // dropped the log entries that the older one needs.
  StatusOr<SavedCheckpoint> Write(const ShardSnapshot& image);
  StatusOr<SavedCheckpoint> WriteAside(const ShardSnapshot& image);
  void SaveLater(uint64_t version, SnapshotFn copy);
  void ShortenLog();

  StatusOr<SnapshotPart> WriteGlobalSnapshot(uint64_t number, const PendingSnapshot& pending,
                                             uint64_t complete);
  void OnGlobalSnapshotEnd(uint64_t number, const StatusOr<SnapshotPart>& part);

  // Records that the checkpoint on disk is of `version`, and that the shard has at least this
  // version.
  void Keeps(uint64_t version);

  const std::function<void(const std::function<void()>&)> aside_;
  const std::function<Status(std::function<void()>)> later_;
  CheckpointThrottle* const pace_;
  const Clock& clock_;
  Histogram& checkpoint_seconds_;
  Gauge& checkpoint_time_;
  Storage* const storage_;
  std::atomic<uint64_t> checkpoint_version_{0};
  Mutex save_mu_;  // serialises saves for the same reason, of which one suffices
  mutable Mutex status_mu_;
  Status saved_ TD_GUARDED_BY(status_mu_);         // status of the last checkpoint write
  Mutex mu_;                                       // held while a checkpoint is written
  uint64_t written_order_ TD_GUARDED_BY(mu_) = 0;  // ShardSnapshot::order of the last one
  // The newest requested global snapshot, and the calls that wait for it.
  struct WantedSnapshot {
    uint64_t number = 0;
    std::optional<StatusOr<SnapshotPart>> part;  // set when it is written or abandoned
    std::vector<std::function<void(const StatusOr<SnapshotPart>&)>> waiting;
  };
  Mutex wanted_mu_;
  WantedSnapshot wanted_ TD_GUARDED_BY(wanted_mu_);
  std::unique_ptr<GroupCommitLog> log_;
  std::unique_ptr<Shard> shard_;  // destroyed before its log
};

}  // namespace tandem::pserver
