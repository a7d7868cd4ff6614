// A shard with what keeps it over the end of its process: checkpoints, update log, and the state at
// a start. All of a pserver but its network and its threads.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pserver/disk/checkpoint_throttle.h"
#include "pserver/shard/shard.h"
#include "pserver/storage/group_commit_log.h"
#include "pserver/storage/storage.h"

namespace tandem {

// Thread-safe.
class DurableShard {
 public:
  struct Options {
    Shard::Options shard;  // `on_checkpoint`, `log` and `keep_first` are set here
    bool logged = false;   // keep an update log (shard.replayable: of orders); REQUIRES a storage
    GroupLogOptions log;   // `on_full` is set here
    // Runs something on a thread that gives way to those that serve, and waits for its end; null:
    // on the caller's.
    std::function<void(const std::function<void()>&)> aside;
    // Runs something on a thread that may wait for the disk, when its turn comes. Not OK: it waits
    // for another one already, and this one is left out.
    std::function<Status(std::function<void()>)> later;
    CheckpointThrottle* pace = nullptr;  // of the storage: told of who wants images, and how soon
  };

  // `storage` may be null: nothing is kept. All but `options` must outlive this.
  DurableShard(Options options, Storage* storage, const Clock& clock, const Backend& backend,
               Device& device, Metrics& metrics);
  ~DurableShard();  // Close: those who wait for the log may still ask the shard

  Shard& shard() { return *shard_; }
  const Shard& shard() const { return *shard_; }
  GroupCommitLog* log() { return log_.get(); }                         // null: none
  uint64_t checkpoint_version() const { return checkpoint_version_; }  // 0: none

  // Takes up the checkpoint, and what the log has behind it; before anybody calls the shard. Gives
  // the version, 0 when there is nothing. A log is read whether or not this server goes on with it.
  StatusOr<uint64_t> Recover();
  // Version and bytes. FAILED_PRECONDITION without a storage or before the first values. `delta`:
  // as Shard::Image. `unless_kept`: nothing is written when the checkpoint holds the log up to this
  // number, or all there is to hold; 0: in any case. `patience`: rests are no longer in all
  // (checkpoint_throttle.h).
  StatusOr<std::pair<uint64_t, size_t>> Save(bool delta = false, uint64_t unless_kept = 0,
                                             Duration patience = {});
  // Back to the checkpoint, or to a cut (0: none); gives its version.
  StatusOr<uint64_t> Restore(uint64_t cut = 0);
  // What a server has of a cut over all of them.
  struct CutFile {
    uint64_t version = 0;
    size_t bytes = 0;
    Duration held{};  // so long no new pushes were taken
  };
  // Shard::TakeCut, and writes it; cuts before number `complete` are dropped then. The same call
  // again gets the same answer, until another cut begins. FAILED_PRECONDITION without a storage.
  void TakeCut(const std::string& job, SnapshotRequest order, uint64_t complete,
               std::function<void(const StatusOr<CutFile>&)> done);
  StatusOr<std::vector<KeptCut>> Cuts() const;  // ascending; empty without a storage
  // OK, or why no rows move from and to this server: what it said about a move must be true behind
  // a restart too, so that it has to keep a log, or nothing.
  Status CheckMoves() const;
  // OK, or why pushes are refused or (without a log) checkpoints are not written.
  Status StorageStatus() const;
  // Calls `done` when everything that was changed up to now survives everything that this server is
  // to survive, the loss of power too; without a log at once.
  void WhenDurable(WriteAheadLog::Written done);
  // Calls `done` when a trainer that completed is needed no more: what it pushed is written, and
  // kept where nobody else has it.
  void WhenSafeToLeave(WriteAheadLog::Written done);
  // No more changes: those who wait for one that is not written are told so. REQUIRES: as
  // GroupCommitLog::Close.
  void Close();

 private:
  // Images come from several threads: an older one does not replace a newer one, which has dropped
  // the log that the older one needs.
  StatusOr<std::pair<uint64_t, size_t>> Write(const ShardSnapshot& image);
  StatusOr<std::pair<uint64_t, size_t>> WriteAside(const ShardSnapshot& image);
  void SaveLater(uint64_t version, SnapshotFn copy);
  void ShortenLog();

  StatusOr<CutFile> WriteCut(uint64_t cut, const PendingSnapshot& image, uint64_t complete);
  void CutEnded(uint64_t cut, const StatusOr<CutFile>& file);

  // The checkpoint on disk is that of `version`, and what is served no older.
  void Keeps(uint64_t version);

  const std::function<void(const std::function<void()>&)> aside_;
  const std::function<Status(std::function<void()>)> later_;
  CheckpointThrottle* const pace_;
  const Clock& clock_;
  Histogram& checkpoint_seconds_;
  Gauge& checkpoint_time_;
  Storage* const storage_;
  std::atomic<uint64_t> checkpoint_version_{0};
  Mutex save_mu_;  // of those who save for the same reason one does
  mutable Mutex status_mu_;
  Status saved_ TD_GUARDED_BY(status_mu_);         // how the last write of a checkpoint ended
  Mutex mu_;                                       // held while a checkpoint is written
  uint64_t written_order_ TD_GUARDED_BY(mu_) = 0;  // ShardSnapshot::order of the last one
  // The newest cut that somebody wanted, and who waits for it.
  struct WantedCut {
    uint64_t cut = 0;
    std::optional<StatusOr<CutFile>> file;  // when it is there, or is given up
    std::vector<std::function<void(const StatusOr<CutFile>&)>> waiting;
  };
  Mutex cut_mu_;
  WantedCut cut_ TD_GUARDED_BY(cut_mu_);
  std::unique_ptr<GroupCommitLog> log_;
  std::unique_ptr<Shard> shard_;  // destroyed before its log
};

}  // namespace tandem
