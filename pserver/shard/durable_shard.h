// A shard with its persistent state: checkpoints, WAL and recovery. It contains all parts of a
// pserver except the network and the threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/keep_rules.h"
#include "pserver/disk/checkpoint_throttle.h"
#include "pserver/shard/logged_snapshots.h"
#include "pserver/shard/shard.h"
#include "pserver/storage/group_commit_log.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

class StateReplay;

// An order of a coordinator to take and store a global snapshot.
struct GlobalSnapshotOrder {
  SnapshotRequest request;
  // Set: the snapshot is of this earlier version. It is made of a stored state and the log.
  std::optional<uint64_t> rebuilt = {};
};

// A shard that stores its state. The owner calls Recover before any other call of the shard.
// Thread-safe.
class DurableShard {
 public:
  enum class RestoreEnd : uint8_t {
    kUnchanged,  // nothing changed
    kStored,     // the state was replaced, and the store has a checkpoint of the new state
    kNotStored   // the state was replaced, but the store has no checkpoint of the new state
  };
  struct Options {
    Shard::Options shard;  // `on_checkpoint`, `log` and `keep_first` are set by DurableShard
    // true: keeps a WAL (with shard.replayable: only the order of pushes). REQUIRES: there is a
    // storage.
    bool logged = false;
    // true: the log has the global snapshots that this server takes (SnapshotRecord), and this
    // server takes those of a log that it replays. REQUIRES: `logged`.
    bool logs_snapshots = false;
    GroupLogOptions log;  // `on_full` is set by DurableShard
    KeepRules keep;       // the global snapshots that stay on the disk
    // Runs a function on a low-priority thread and returns when the function has ended. null:
    // functions run on the thread of the caller.
    std::function<void(const std::function<void()>&)> aside;
    // Queues a function for a thread that may wait for the disk. Not OK: another function is
    // already queued, and the new function was dropped.
    std::function<Status(std::function<void()>)> later;
    // The throttle that the storage uses. DurableShard adds a request (Wish) to the throttle for
    // each snapshot, with the `patience` of Save.
    CheckpointThrottle* pace = nullptr;
    // Called before and after each Restore, by one thread at a time. null: not called. After
    // kNotStored, or after a failed call with kStored, `on_restore_end` is called again with
    // kStored when a later checkpoint has stored the new state, by the thread that saved it.
    std::function<Status()> on_restore_begin;
    std::function<Status(RestoreEnd)> on_restore_end;
    // Called when the initial values are stored, before a trainer learns of it. null: not called.
    std::function<void()> on_first_stored;
  };

  // `storage` null: nothing is stored. All arguments except `options` must outlive this object.
  DurableShard(Options options, Storage* storage, const Clock& clock, const exec::Backend& backend,
               Device& device, Metrics& metrics);
  ~DurableShard();  // calls Close first, because callbacks that wait for the log may use the shard

  Shard& shard() { return *shard_; }
  const Shard& shard() const { return *shard_; }
  GroupCommitLog* log() { return log_.get(); }  // null: there is no WAL
  // Version of the checkpoint on the disk; 0: none.
  uint64_t checkpoint_version() const { return checkpoint_version_; }

  // Restores the checkpoint and the WAL entries after the checkpoint. Called before any other call
  // of the shard. Returns the restored version; 0: nothing was stored. Reads an existing WAL even
  // if this server keeps no WAL.
  StatusOr<uint64_t> Recover();
  // Writes a checkpoint. FAILED_PRECONDITION: there is no storage, or the initial values are
  // missing. `delta`: see Shard::Checkpoints::Take. `unless_kept`: writes nothing if the newest
  // checkpoint contains the log up to this number or all applied updates; 0: always writes.
  // `patience`: maximum total pause during the write (checkpoint_throttle.h).
  StatusOr<SavedCheckpoint> Save(bool delta = false, uint64_t unless_kept = 0,
                                 Duration patience = {});
  // Restores global snapshot `number`; 0: restores the checkpoint. Returns the restored version.
  // After a crash, Recover restores either the state before this call or the restored state with
  // the changes after it. NOT_FOUND: there is no such snapshot or checkpoint.
  StatusOr<uint64_t> Restore(uint64_t number = 0);
  // One server's part of a global snapshot.
  struct SnapshotPart {
    uint64_t version = 0;
    size_t bytes = 0;
    Duration held{};  // time for which the server paused new pushes
  };
  // Calls Shard::GlobalSnapshots::Take and writes the snapshot. Removes older snapshots that the
  // rules (Options::keep) do not keep, but never the newest one that all servers have. Snapshots
  // that are abandoned or that not all servers have take no place in the rules; of the latter the
  // newest 3 stay until a newer snapshot is complete. A repeated call of the same taker gets the
  // same reply as the first call, until another snapshot begins. If GlobalSnapshotOrder::rebuilt is
  // set, pushes continue meanwhile, and no snapshot is removed that could be restored; the call
  // needs the memory for a second copy of the state. FAILED_PRECONDITION: there is no storage, or
  // the log does not reach this version. UNAVAILABLE: another snapshot is being written. ABORTED:
  // another state was restored meanwhile.
  void TakeGlobalSnapshot(const std::string& job, GlobalSnapshotOrder order,
                          const std::function<void(const StatusOr<SnapshotPart>&)>& done);
  // Global snapshots on the disk, ascending; empty without a storage.
  StatusOr<std::vector<StoredGlobalSnapshot>> GlobalSnapshots() const;
  // Returns OK if rows may move from and to this server. FAILED_PRECONDITION: the server stores
  // checkpoints without a log, so the moves that it reports would not survive its restart.
  Status CheckMoves() const;
  // Returns OK, or the reason why the server rejects pushes or (without a log) wrote no checkpoint.
  Status StorageStatus() const;
  // Calls `done` when all changes made so far survive a loss of power. Without a log, calls `done`
  // immediately.
  void WhenDurable(WriteAheadLog::Written done);
  // Calls `done` when a trainer that completed may exit, because its pushes are logged. If the log
  // has no values (replayable), first writes a checkpoint that contains the pushes.
  void WhenSafeToLeave(WriteAheadLog::Written done);
  // Ends all changes. Callbacks that wait for unwritten changes receive an error. REQUIRES: as
  // GroupCommitLog::Close.
  void Close();

 private:
  // Writes a snapshot, unless a newer snapshot was written before. Snapshots come from several
  // threads. An older snapshot must not replace a newer one: the newer snapshot has deleted the log
  // entries that a restart from the older snapshot needs.
  StatusOr<SavedCheckpoint> Write(const ShardSnapshot& image);
  StatusOr<SavedCheckpoint> WriteLocked(const ShardSnapshot& image) TD_REQUIRES(mu_);
  // Calls Write on a low-priority thread, and ends an unfinished restore.
  StatusOr<SavedCheckpoint> WriteAside(const ShardSnapshot& image);
  void SaveLater(uint64_t version, SnapshotFn copy);
  void ShortenLog();

  // Passes global snapshot `number` to `sink`; 0: the checkpoint. NOT_FOUND: it does not exist.
  Status ReadState(uint64_t number, SnapshotSink& sink) const;
  // Restores as Restore, and sets *end.
  StatusOr<uint64_t> ReplaceState(uint64_t number, RestoreEnd* end);
  // Calls on_restore_end for a restore whose state a later checkpoint has stored, if there is one.
  // Waits for a restore in progress.
  void EndStoredRestore();
  // Loads the state before an unfinished restore, as far as it is stored, so that the shard knows
  // which trainers had pushed more than the restored state has.
  void LoadReplaced(const LogBreak& unfinished);
  // Loads the stored state that Recover continues. nullopt: there is none.
  StatusOr<std::optional<ShardSnapshot>> LoadStored(const std::optional<LogBreak>& unfinished);
  // Stores the state of a restore that a crash had interrupted.
  void FinishRestore(const LogBreak& unfinished);

  StatusOr<SnapshotPart> WriteGlobalSnapshot(const SnapshotRecord& record,
                                             const PendingSnapshot& pending);
  // Stores a global snapshot of a replayed log, unless the store has it or a later one from an
  // earlier replay.
  Status WriteLoggedSnapshot(const SnapshotRecord& record, const SnapshotFn& copy);
  // Returns the numbers of the stored snapshots that may be removed when `record` is stored.
  // `rebuilt`: its state is made of a stored state and the log.
  StatusOr<std::vector<uint64_t>> RemovableSnapshots(const SnapshotRecord& record,
                                                     bool rebuilt) const;
  void BeginRebuild(const GlobalSnapshotOrder& order);
  StatusOr<SnapshotPart> Rebuild(const GlobalSnapshotOrder& order);
  // Returns the newest stored state up to `version` from which the log continues to the present
  // state. number 0: the checkpoint. FAILED_PRECONDITION: there is none.
  StatusOr<StoredGlobalSnapshot> BaseOf(uint64_t version) const TD_REQUIRES(mu_);
  // Applies the log after the state `base`, which `replay` has, up to version `version`.
  Status ReplayUpTo(uint64_t version, const StoredGlobalSnapshot& base, StateReplay* replay) const;
  void OnGlobalSnapshotEnd(uint64_t number, const StatusOr<SnapshotPart>& part);

  // Records `version` as the version of the checkpoint on the disk.
  void Keeps(uint64_t version);

  const std::function<void(const std::function<void()>&)> aside_;
  const std::function<Status(std::function<void()>)> later_;
  CheckpointThrottle* const pace_;
  const KeepRules keep_;
  // The calls of Options, and the restore for which `end` was not called with kStored.
  struct Restoring {
    enum class Phase : uint8_t { kNone, kNotStored, kStored };  // whether the store has its state
    const std::function<Status()> begin;
    const std::function<Status(RestoreEnd)> end;
    // Only a thread with `mu_` sets kNotStored and kStored, and only one with `restore_mu_` sets
    // kNotStored and kNone.
    std::atomic<Phase> phase = Phase::kNone;
  };
  Restoring restoring_;
  const Clock& clock_;
  const exec::Backend& backend_;
  Device& device_;
  const int server_;  // index of this server
  const Replication replication_;
  Histogram& checkpoint_seconds_;
  Gauge& checkpoint_time_;
  Storage* const storage_;
  std::atomic<uint64_t> checkpoint_version_{0};
  // Allows one save at a time, so that several equal requests cause one write.
  Mutex save_mu_;
  Mutex restore_mu_;  // allows one restore at a time
  mutable Mutex status_mu_;
  Status saved_ TD_GUARDED_BY(status_mu_);  // status of the last checkpoint write
  Mutex mu_;                                // locked while a checkpoint or snapshot is written
  // Values of ShardSnapshot::order. Snapshots with a lower one are of the state before.
  struct Orders {
    uint64_t written = 0;   // the last written checkpoint or the last restore
    uint64_t restored = 0;  // the last restore
  };
  Orders orders_ TD_GUARDED_BY(mu_);
  // The newest global snapshot that was requested, and the callbacks that wait for it.
  struct WantedSnapshot {
    uint64_t number = 0;
    uint64_t taker = 0;                          // SnapshotRequest::taker of the request
    std::optional<StatusOr<SnapshotPart>> part;  // set when the snapshot is written or abandoned
    std::vector<std::function<void(const StatusOr<SnapshotPart>&)>> waiting;
  };
  Mutex wanted_mu_;
  WantedSnapshot wanted_ TD_GUARDED_BY(wanted_mu_);
  LoggedSnapshots logged_snapshots_;
  std::unique_ptr<GroupCommitLog> log_;
  std::unique_ptr<Shard> shard_;  // last member, so that it is destroyed before its log
};

}  // namespace tandem::pserver
