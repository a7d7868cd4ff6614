#include "pserver/shard/durable_shard.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "common/base/require.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/global_snapshot_calls.h"
#include "pserver/shard/state_replay.h"

namespace tandem::pserver {
namespace {

// Maximum number of stored snapshots that not all servers have, and that are newer than the newest
// one that all servers have.
constexpr size_t kPartialMax = 3;

Status NoFolder() {
  return FailedPrecondition(
      "this server writes no checkpoints, because it was started without a directory [TD4011]; "
      "hint: set --data_dir=DIR (tandemrun: --pserver_data_dir)");
}

}  // namespace

DurableShard::DurableShard(Options options, Storage* storage, const Clock& clock,
                           const exec::Backend& backend, Device& device, Metrics& metrics)
    : aside_(std::move(options.aside)),
      later_([this, later = std::move(options.later)](std::function<void()> work) {
        return later([this, work = std::move(work)] {
          work();
          logged_snapshots_.WriteAll();
        });
      }),
      pace_(options.pace),
      keep_(options.keep),
      restoring_{std::move(options.on_restore_begin), std::move(options.on_restore_end)},
      clock_(clock),
      backend_(backend),
      device_(device),
      server_(options.shard.index),
      replication_(options.shard.replication),
      checkpoint_seconds_(metrics.GetHistogram("tandem_pserver_checkpoint_seconds",
                                               "Time to write a checkpoint",
                                               {1e-3, 1e-2, 0.1, 1, 10, 100})),
      checkpoint_time_(
          metrics.GetGauge("tandem_pserver_checkpoint_timestamp_seconds",
                           "Time of the last checkpoint written or read, in Unix time; 0: never")),
      storage_(storage),
      logged_snapshots_([this](const SnapshotRecord& record, const SnapshotFn& copy) {
        return WriteLoggedSnapshot(record, copy);
      }) {
  Shard::Options& shard = options.shard;
  TD_REQUIRE((restoring_.begin == nullptr) == (restoring_.end == nullptr));
  if (storage_ != nullptr) {
    shard.on_checkpoint = [this](uint64_t version, SnapshotFn copy) {
      SaveLater(version, std::move(copy));
    };
  }
  TD_REQUIRE(options.logged || !options.logs_snapshots);
  if (options.logs_snapshots) {
    // If no further function can wait, one that waits or runs writes the snapshot at its end.
    shard.on_logged_snapshot = [this](const SnapshotRecord& record, SnapshotFn copy) {
      logged_snapshots_.Add(record, std::move(copy));
      (void)later_([] {});
    };
  }
  if (options.logged) {
    CHECK(storage_ != nullptr);
    options.log.on_full = [this] { ShortenLog(); };
    log_ = std::make_unique<GroupCommitLog>(std::move(options.log), clock, *storage_, metrics);
    shard.log = log_.get();
    shard.save_soon = [this] { ShortenLog(); };
    shard.keep_first = [this,
                        stored = std::move(options.on_first_stored)](const ShardSnapshot& image) {
      Status written = Write(image).status();
      if (written.ok() && stored) stored();
      return written;
    };
  }
  shard_ = std::make_unique<Shard>(std::move(shard), clock, backend, device, metrics);
}

DurableShard::~DurableShard() { Close(); }

void DurableShard::Keeps(uint64_t version) {
  checkpoint_version_ = version;
  checkpoint_time_.SetToCurrentTime();
}

StatusOr<SavedCheckpoint> DurableShard::Write(const ShardSnapshot& image) {
  MutexLock lock(mu_);
  return WriteLocked(image);
}

StatusOr<SavedCheckpoint> DurableShard::WriteLocked(const ShardSnapshot& image) {
  if (image.order < orders_.written) {
    return SavedCheckpoint{.version = image.version, .bytes = image.bytes()};
  }
  const Time begin = clock_.Now();
  const StatusOr<size_t> bytes = storage_->Write(image);
  {
    MutexLock status_lock(status_mu_);
    saved_ = bytes.status();
  }
  TD_RETURN_IF_ERROR(bytes.status());
  checkpoint_seconds_.Observe(Seconds(clock_.Now() - begin));
  orders_.written = image.order;
  if (restoring_.phase == Restoring::Phase::kNotStored)
    restoring_.phase = Restoring::Phase::kStored;
  Keeps(image.version);
  if (shard_ != nullptr) shard_->checkpoints().OnStored(image);
  return SavedCheckpoint{.version = image.version, .bytes = *bytes};
}

Status DurableShard::StorageStatus() const {
  if (log_ != nullptr) return log_->Ready(0);
  MutexLock lock(status_mu_);
  return saved_;
}

StatusOr<SavedCheckpoint> DurableShard::WriteAside(const ShardSnapshot& image) {
  logged_snapshots_.WriteAll();  // the checkpoint removes their entries from the log
  StatusOr<SavedCheckpoint> written;
  const auto write = [&] { written = Write(image); };
  aside_ ? aside_(write) : write();
  EndStoredRestore();
  return written;
}

void DurableShard::EndStoredRestore() {
  if (restoring_.phase != Restoring::Phase::kStored || !restoring_.end) return;
  MutexLock lock(restore_mu_);
  if (restoring_.phase != Restoring::Phase::kStored) return;
  const Status ended = restoring_.end(RestoreEnd::kStored);
  if (ended.ok()) restoring_.phase = Restoring::Phase::kNone;
  LOG_IF(ERROR, !ended.ok()) << "standbys do not get the restored state until the next checkpoint: "
                             << ToString(ended);
}

StatusOr<SavedCheckpoint> DurableShard::Save(bool delta, uint64_t unless_kept, Duration patience) {
  if (storage_ == nullptr) return NoFolder();
  const CheckpointThrottle::Wish wish(pace_, patience);
  if (unless_kept != 0) {
    MutexLock lock(save_mu_);
    // Also writes nothing if the checkpoint contains all applied updates. Entries up to
    // `unless_kept` that are not applied yet cannot be in any checkpoint now.
    const Shard::Checkpoints checkpoints = shard_->checkpoints();
    if (checkpoints.stored_number() >= std::min(unless_kept, checkpoints.settled_number())) {
      return SavedCheckpoint{.version = checkpoint_version(), .bytes = 0};
    }
    return Save(delta, 0, patience);
  }
  TD_ASSIGN_OR_RETURN(const ShardSnapshot image, shard_->checkpoints().Take(delta));
  return WriteAside(image);
}

Status DurableShard::ReadState(uint64_t number, SnapshotSink& sink) const {
  if (number != 0) return storage_->ReadGlobalSnapshot(number, sink);
  TD_ASSIGN_OR_RETURN(const bool found, storage_->Read(sink));
  return found ? OkStatus() : NotFound("this server has no checkpoint [TD4011]");
}

StatusOr<uint64_t> DurableShard::Restore(uint64_t number) {
  if (storage_ == nullptr) return NoFolder();
  const CheckpointThrottle::Wish hurry(pace_, {});
  MutexLock lock(restore_mu_);
  if (restoring_.begin) TD_RETURN_IF_ERROR(restoring_.begin());
  RestoreEnd end = RestoreEnd::kUnchanged;
  StatusOr<uint64_t> version = ReplaceState(number, &end);
  if (restoring_.end) TD_RETURN_IF_ERROR(restoring_.end(end));
  if (end == RestoreEnd::kStored) restoring_.phase = Restoring::Phase::kNone;
  return version;
}

StatusOr<uint64_t> DurableShard::ReplaceState(uint64_t number, RestoreEnd* end) {
  const bool recorded = log_ != nullptr || number != 0;
  const auto record = [&](uint64_t last) -> Status {
    return recorded ? storage_->BeginRestore({.number = last, .snapshot = number}) : OkStatus();
  };
  // No checkpoint of the old state is written from the read on.
  MutexLock lock(mu_);
  TD_ASSIGN_OR_RETURN(
      const ShardSnapshot restored,
      shard_->checkpoints().Restore(
          [this, number](SnapshotSink& sink) { return ReadState(number, sink); }, record));
  orders_.written = orders_.restored = shard_->checkpoints().NextOrder();
  *end = RestoreEnd::kNotStored;
  restoring_.phase = Restoring::Phase::kNotStored;
  if (number == 0) Keeps(restored.version);
  // The log entries belong to the state before the restore. A new checkpoint deletes these entries.
  if (recorded) {
    TD_ASSIGN_OR_RETURN(const ShardSnapshot image, shard_->checkpoints().Take());
    TD_RETURN_IF_ERROR(WriteLocked(image).status());
  }
  *end = RestoreEnd::kStored;
  return restored.version;
}

StatusOr<std::vector<StoredGlobalSnapshot>> DurableShard::GlobalSnapshots() const {
  if (storage_ == nullptr) return std::vector<StoredGlobalSnapshot>();
  return storage_->GlobalSnapshots();
}

void DurableShard::TakeGlobalSnapshot(
    const std::string& job, GlobalSnapshotOrder order,
    const std::function<void(const StatusOr<SnapshotPart>&)>& done) {
  if (storage_ == nullptr) return done(NoFolder());
  const uint64_t number = order.request.record.number;
  if (number == 0)
    return done(InvalidArgument("the number of a snapshot is 0, expected at least 1"));
  bool first = false;
  std::optional<StatusOr<SnapshotPart>> known;
  {
    MutexLock lock(wanted_mu_);
    first = wanted_.number != number;
    if (first && !wanted_.waiting.empty()) {
      known =
          Unavailable("snapshot %d is still being written; hint: try again later", wanted_.number);
    } else if (first) {
      wanted_ = {.number = number, .taker = order.request.taker, .part = {}, .waiting = {}};
    } else if (wanted_.taker != order.request.taker) {
      known = Unavailable(
          "another command takes snapshot %d at the same time [TD4020]; hint: run the command "
          "again",
          number);
    } else {
      known = wanted_.part;
    }
    if (!known) wanted_.waiting.push_back(done);
  }
  if (known) return done(*known);
  if (!first) return;
  if (order.rebuilt) return BeginRebuild(order);
  const auto begun = [this, record = order.request.record](StatusOr<PendingSnapshot> pending) {
    const uint64_t number = record.number;
    if (!pending.ok()) return OnGlobalSnapshotEnd(number, pending.status());
    auto wish =
        std::make_shared<const CheckpointThrottle::Wish>(pace_, CheckpointThrottle::kAnswer);
    const Status posted = later_([this, pending = *std::move(pending), record, wish] {
      OnGlobalSnapshotEnd(record.number, WriteGlobalSnapshot(record, pending));
    });
    if (!posted.ok()) OnGlobalSnapshotEnd(number, Annotate(posted, "writing the snapshot"));
  };
  shard_->global_snapshots().Take(job, std::move(order.request), begun);
}

Status DurableShard::WriteLoggedSnapshot(const SnapshotRecord& record, const SnapshotFn& copy) {
  TD_ASSIGN_OR_RETURN(const std::vector<StoredGlobalSnapshot> stored, GlobalSnapshots());
  // The facts of an old record do not fit the later snapshots, and the rules may have removed it.
  if (!stored.empty() && stored.back().number >= record.number) return OkStatus();
  const CheckpointThrottle::Wish wish(pace_, CheckpointThrottle::kPeriodic);
  return WriteGlobalSnapshot(record, {.copy = copy}).status();
}

void DurableShard::BeginRebuild(const GlobalSnapshotOrder& order) {
  const uint64_t number = order.request.record.number;
  const uint64_t last = shard_->Info().last_snapshot;
  if (number <= last) {
    return OnGlobalSnapshotEnd(
        number, FailedPrecondition("snapshot %d: the number must be higher than the number of the "
                                   "last snapshot, %d [TD4020]; hint: run the command again",
                                   number, last));
  }
  // A failed attempt uses up its number too, because a repeated call gets the same reply.
  shard_->global_snapshots().OnTaken(number);
  const Status posted =
      later_([this, number, order] { OnGlobalSnapshotEnd(number, Rebuild(order)); });
  if (!posted.ok()) OnGlobalSnapshotEnd(number, Annotate(posted, "rebuilding a state"));
}

StatusOr<std::vector<uint64_t>> DurableShard::RemovableSnapshots(const SnapshotRecord& record,
                                                                 bool rebuilt) const {
  TD_REQUIRE(storage_ != nullptr && record.number != 0);
  std::vector<uint64_t> removed;
  TD_ASSIGN_OR_RETURN(const std::vector<StoredGlobalSnapshot> stored, storage_->GlobalSnapshots());
  const auto whole = [&record](const StoredGlobalSnapshot& s) {
    return s.number == record.complete ||
           std::count(record.whole.begin(), record.whole.end(), s.number) != 0;
  };
  // A snapshot that not all servers have, or that was abandoned by a restore, must not take the
  // place of another one.
  std::vector<KeptState> candidates = {{record.number, record.time_us}};
  std::vector<uint64_t> partial;  // ascending
  for (const StoredGlobalSnapshot& s : stored) {
    if (!whole(s)) partial.push_back(s.number);
    if (whole(s) && !s.abandoned) candidates.push_back({s.number, s.time_us});
  }
  const std::set<uint64_t> kept = Kept(keep_, std::move(candidates));
  const uint64_t oldest_partial =
      partial.size() > kPartialMax ? partial[partial.size() - kPartialMax] : 0;
  for (const StoredGlobalSnapshot& s : stored) {
    const bool old = s.number < record.complete && !kept.contains(s.number);
    // A partial snapshot may still be being written on another server, or another server was
    // replaced by one without snapshots.
    const bool leftover = whole(s) ? s.abandoned && s.rebuilt : s.number < oldest_partial;
    // A rebuilt snapshot needs older ones as its base, on this or on another server.
    const bool base = rebuilt && !(s.abandoned && s.rebuilt);
    if ((leftover || old) && !base) removed.push_back(s.number);
  }
  return removed;
}

StatusOr<DurableShard::SnapshotPart> DurableShard::WriteGlobalSnapshot(
    const SnapshotRecord& record, const PendingSnapshot& pending) {
  TD_ASSIGN_OR_RETURN(const ShardSnapshot copy, pending.copy());
  TD_ASSIGN_OR_RETURN(const std::vector<uint64_t> removed,
                      RemovableSnapshots(record, /*rebuilt=*/false));
  const SnapshotName name{.number = record.number, .time_us = record.time_us};
  StatusOr<size_t> bytes;
  const auto write = [&] {
    MutexLock lock(mu_);  // no other state is restored between the check and the write
    bytes = copy.order < orders_.restored
                ? Aborted(
                      "snapshot %d was not stored, because another state was restored "
                      "meanwhile [TD4020]; hint: run the command again",
                      name.number)
                : storage_->WriteGlobalSnapshot(name, copy, removed);
  };
  aside_ ? aside_(write) : write();
  if (!bytes.ok()) return bytes.status();
  return SnapshotPart{copy.version, *bytes, pending.held};
}

StatusOr<StoredGlobalSnapshot> DurableShard::BaseOf(uint64_t version) const {
  TD_ASSIGN_OR_RETURN(const std::vector<StoredGlobalSnapshot> stored, storage_->GlobalSnapshots());
  TD_ASSIGN_OR_RETURN(const std::optional<LogBreak> unfinished, storage_->UnfinishedRestore());
  TD_ASSIGN_OR_RETURN(const LogBreak last_break, storage_->LastBreak());
  std::optional<StoredGlobalSnapshot> best;
  uint64_t lowest = UINT64_MAX;
  const auto offer = [&](const StoredGlobalSnapshot& state) {
    lowest = std::min(lowest, state.version);
    if (state.version <= version && (!best || best->version < state.version)) best = state;
  };
  // A snapshot that was taken before the last restore is of another history, unless it is the
  // restored one, to which the entries after the restore belong.
  for (StoredGlobalSnapshot s : stored) {
    if (last_break.number == 0 || s.log_number > last_break.number) offer(s);
    if (last_break.snapshot != s.number) continue;
    s.log_number = last_break.number;
    offer(s);
  }
  // The checkpoint is of the state before an unfinished restore.
  const uint64_t stored_number = shard_->checkpoints().stored_number();
  if (!unfinished) {
    offer({.number = 0, .version = checkpoint_version(), .log_number = stored_number});
  }
  if (best) return *best;
  return FailedPrecondition(
      "step %d cannot be restored: the oldest state since the last restore is of step %d [TD4020]; "
      "hint: run tandem snapshots to see the kept states",
      version, lowest);
}

StatusOr<DurableShard::SnapshotPart> DurableShard::Rebuild(const GlobalSnapshotOrder& order) {
  TD_REQUIRE(order.rebuilt.has_value());
  const uint64_t version = *order.rebuilt;
  const ShardInfo info = shard_->Info();
  if (!info.initialised || info.config.mode != UpdatePolicy::kSync || log_ == nullptr) {
    return FailedPrecondition(
        "a step can be restored only in sync mode with --durability=logged, where a step is one "
        "state of all servers [TD4020]; hint: run tandem restore --snapshot=N or --at=TIME");
  }
  StateReplay replay(server_, backend_, device_);
  StoredGlobalSnapshot base;
  {
    MutexLock lock(mu_);  // no other checkpoint is written between the choice and the read
    TD_ASSIGN_OR_RETURN(base, BaseOf(version));
    TD_REQUIRE(base.version <= version);
    const auto read = [&](SnapshotSink& sink) { return ReadState(base.number, sink); };
    TD_RETURN_IF_ERROR(replay.Begin(read, base.log_number));
  }
  TD_RETURN_IF_ERROR(ReplayUpTo(version, base, &replay));
  TD_ASSIGN_OR_RETURN(const ShardSnapshot image, replay.Snapshot());
  const SnapshotRecord& record = order.request.record;
  std::vector<uint64_t> removed;
  // A coordinator of an earlier version sends no facts about snapshots with this order.
  if (order.request.taker != 0) {
    TD_ASSIGN_OR_RETURN(removed, RemovableSnapshots(record, /*rebuilt=*/true));
  }
  const SnapshotName name{.number = record.number, .time_us = record.time_us, .rebuilt = true};
  TD_ASSIGN_OR_RETURN(const size_t bytes, storage_->WriteGlobalSnapshot(name, image, removed));
  return SnapshotPart{version, bytes, Duration::zero()};
}

Status DurableShard::ReplayUpTo(uint64_t version, const StoredGlobalSnapshot& base,
                                StateReplay* replay) const {
  const auto reached = [&] { return replay->version() >= version; };
  uint64_t number = base.log_number;
  Status scanned =
      reached() ? OkStatus() : storage_->ScanLog(number + 1, [&](ScannedEntry scan) -> Status {
        if (scan.restored && number != base.log_number) {
          return Aborted(
              "step %d cannot be restored: another state was restored meanwhile [TD4020]", version);
        }
        if (scan.entry.number != ++number) {
          return FailedPrecondition(
              "step %d cannot be restored: after the state of step %d the log begins with entry "
              "%d, expected entry %d [TD4020]; hint: keep more of the log (--log_keep_mb)",
              version, base.version, scan.entry.number, number);
        }
        TD_RETURN_IF_ERROR(replay->Add(std::move(scan.entry)));
        return reached() ? Cancelled("the version is reached") : OkStatus();
      });
  if (!reached() && !scanned.ok()) return scanned;
  if (replay->version() == version) return OkStatus();
  return FailedPrecondition(
      "step %d cannot be restored: the log ends at step %d [TD4020]; hint: choose an earlier step",
      version, replay->version());
}

void DurableShard::OnGlobalSnapshotEnd(uint64_t number, const StatusOr<SnapshotPart>& part) {
  std::vector<std::function<void(const StatusOr<SnapshotPart>&)>> waiting;
  {
    MutexLock lock(wanted_mu_);
    if (wanted_.number != number) return;
    wanted_.part = part;
    waiting.swap(wanted_.waiting);
  }
  for (const auto& done : waiting) done(part);
}

void DurableShard::LoadReplaced(const LogBreak& unfinished) {
  TD_REQUIRE(storage_ != nullptr);
  Shard::Checkpoints checkpoints = shard_->checkpoints();
  const StatusOr<ShardSnapshot> old =
      checkpoints.Restore([this](SnapshotSink& sink) { return ReadState(0, sink); });
  Status read = old.status();
  if (old.ok()) {
    read = storage_->ReadLog(old->log_number, [&](LogEntry entry) -> Status {
      if (entry.number > unfinished.number) return Cancelled("the restored state begins");
      return checkpoints.Replay(std::move(entry));
    });
  }
  // The log may lack its last entries, which were not acknowledged.
  LOG_IF(WARNING, !read.ok() && read.code() != StatusCode::kCancelled)
      << "the state before the restore cannot be read: " << ToString(read);
}

StatusOr<std::optional<ShardSnapshot>> DurableShard::LoadStored(
    const std::optional<LogBreak>& unfinished) {
  const uint64_t number = unfinished ? unfinished->snapshot : 0;
  Shard::Checkpoints checkpoints = shard_->checkpoints();
  StatusOr<ShardSnapshot> restored = checkpoints.Restore([&](SnapshotSink& sink) {
    if (!unfinished) return ReadState(number, sink);
    NumberedSink numbered(sink, unfinished->number);
    return ReadState(number, numbered);
  });
  if (!unfinished && restored.status().code() == StatusCode::kNotFound) {
    return std::optional<ShardSnapshot>();
  }
  TD_RETURN_IF_ERROR(restored.status());
  if (!unfinished) {
    checkpoints.Resume(*restored);
    Keeps(restored->version);
  }
  return std::optional<ShardSnapshot>(*std::move(restored));
}

StatusOr<uint64_t> DurableShard::Recover() {
  if (storage_ == nullptr) return uint64_t{0};
  TD_ASSIGN_OR_RETURN(const uint64_t last_snapshot, storage_->LastSnapshotNumber());
  shard_->global_snapshots().OnTaken(last_snapshot);
  Shard::Checkpoints checkpoints = shard_->checkpoints();
  TD_ASSIGN_OR_RETURN(const std::optional<LogBreak> unfinished, storage_->UnfinishedRestore());
  if (unfinished) {
    logged_snapshots_.Ignore(true);  // they are of the state before the restore
    LoadReplaced(*unfinished);
    logged_snapshots_.Ignore(false);
  }
  TD_ASSIGN_OR_RETURN(const std::optional<ShardSnapshot> restored, LoadStored(unfinished));
  // Without initial values, no change was acknowledged, so the entries of the log are not needed.
  if (!restored) {
    TD_RETURN_IF_ERROR(storage_->ClearLog());
    return uint64_t{0};
  }
  const ShardSnapshot& image = *restored;
  uint64_t entries = 0;
  TD_RETURN_IF_ERROR(storage_->ReadLog(image.log_number, [&](LogEntry entry) {
    ++entries;
    return checkpoints.Replay(std::move(entry));
  }));
  // Syncs the log, because the previous process may have left unsynced entries. The sync interval
  // of this process covers only its own entries.
  if (entries != 0) TD_RETURN_IF_ERROR(storage_->SyncLog());
  if (log_ != nullptr) log_->Resume(image.log_number + entries);
  const uint64_t version = shard_->Info().version;
  if (const size_t missing = checkpoints.missing_pushes(); missing != 0) {
    if (log_ == nullptr) {
      return FailedPrecondition(
          "the server cannot recover: only the trainers have the values of %d pushes after the "
          "checkpoint of version %d, and trainers send values again only to a server with "
          "--durability=replayable [TD4012]; hint: start this server with --durability=replayable",
          missing, image.version);
    }
    LOG(INFO) << "waiting for trainers to retransmit " << missing << " pushes";
  }
  LOG_IF(INFO, entries != 0) << "checkpoint of version " << image.version << " and " << entries
                             << " entries of the write-ahead log restored: version " << version;
  // This server keeps no log, so its changes would not follow the old log entries. A checkpoint
  // deletes the old entries.
  if (log_ == nullptr && entries != 0) {
    TD_RETURN_IF_ERROR(Save().status());
  } else if (unfinished) {
    FinishRestore(*unfinished);
  }
  return version;
}

void DurableShard::FinishRestore(const LogBreak& unfinished) {
  TD_REQUIRE(storage_ != nullptr);
  const Status saved = Save().status();
  LOG(INFO) << "the server ended during the restore of "
            << (unfinished.snapshot == 0 ? std::string("its checkpoint")
                                         : absl::StrFormat("snapshot %d", unfinished.snapshot))
            << ", which is restored now";
  // The next checkpoint stores the restored state, and until then each start restores it again.
  LOG_IF(WARNING, !saved.ok()) << "the restored state has no checkpoint yet: " << ToString(saved);
}

Status DurableShard::CheckMoves() const {
  if (storage_ == nullptr || log_ != nullptr) return OkStatus();
  return FailedPrecondition(
      "rows cannot move to a server without durability, because such a server would lose the rows "
      "on a restart [TD4012]; hint: start the pservers with --durability=logged");
}

void DurableShard::WhenDurable(WriteAheadLog::Written done) {
  if (log_ == nullptr) return done(OkStatus());
  shard_->WhenLogged([this, done = std::move(done)](const Status& written) {
    done(written.ok() ? storage_->SyncLog() : written);
  });
}

void DurableShard::WhenSafeToLeave(WriteAheadLog::Written done) {
  Status saved;
  if (shard_->replayable() && shard_->Info().initialised)
    saved = Save(false, shard_->checkpoints().settled_number()).status();
  const auto leave = [done = std::move(done), saved](const Status& written) {
    done(written.ok() ? saved : written);
  };
  // A trainer that has left cannot report its pushes again, so the standbys must know them.
  if (replication_ == Replication::kAsync) return log()->WhenReplicated(leave);
  shard_->WhenLogged(leave);
}

void DurableShard::SaveLater(uint64_t version, SnapshotFn copy) {
  // The request is pending from now on, and not only while the snapshot is written: until the
  // queued snapshot is copied, updates must save rows for it.
  auto wish =
      std::make_shared<const CheckpointThrottle::Wish>(pace_, CheckpointThrottle::kPeriodic);
  const Status posted = later_([this, version, copy = std::move(copy), wish] {
    const StatusOr<ShardSnapshot> image = copy();
    const Status written = image.ok() ? WriteAside(*image).status() : image.status();
    if (written.ok()) return;
    LOG(ERROR) << "checkpoint of version " << version << " failed: " << ToString(written);
  });
  if (!posted.ok()) {
    LOG(WARNING) << "checkpoint of version " << version
                 << " skipped, because the previous one is still being written";
  }
}

void DurableShard::ShortenLog() {
  const Status posted = later_([this] {
    if (const auto saved = Save(); !saved.ok())
      LOG(ERROR) << "checkpoint: " << ToString(saved.status());
  });
  LOG_IF(WARNING, !posted.ok()) << "checkpoint skipped: " << ToString(posted);
}

void DurableShard::Close() {
  shard_->Shutdown();
  logged_snapshots_.Clear();  // they use the shard
  if (log_ != nullptr) log_->Close();
}

}  // namespace tandem::pserver
