#include "pserver/rocksdb/storage_rocksdb.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/os/fd.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "proto/pserver.pb.h"
#include "pserver/disk/disk_space.h"
#include "pserver/rocksdb/acknowledged_version.h"
#include "pserver/rocksdb/directory_lock.h"
#include "pserver/rocksdb/log_breaks.h"
#include "pserver/rocksdb/rocksdb_status.h"
#include "pserver/rocksdb/snapshot_records.h"
#include "pserver/rocksdb/snapshot_values.h"
#include "pserver/rocksdb/store_keys.h"
#include "pserver/rocksdb/store_log.h"
#include "pserver/rocksdb/store_meta.h"
#include "pserver/rocksdb/store_room.h"
#include "pserver/rocksdb/store_writer.h"
#include "pserver/storage/group_commit_log.h"
#include "pserver/storage/snapshot_delta.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {
namespace {

class RocksdbStorage final : public Storage, public CheckpointFiles {
 public:
  RocksdbStorage(std::string dir, const StoreSettings& settings, CheckpointThrottle* pace)
      : dir_(std::move(dir)),
        free_bytes_min_(settings.free_bytes_min),
        pace_(pace),
        acknowledged_(dir_ + "/TANDEM_ACKNOWLEDGED"),
        log_(dir_, settings.log_keep_bytes),
        records_(dir_) {}

  Status Open() {
    TD_RETURN_IF_ERROR(MakeDirs("data folder " + dir_, dir_));
    const Status own = MakeOwnDir(dir_, OwnRule::kGroup).status();
    TD_RETURN_IF_ERROR(Annotate(own, "data folder"));
    TD_RETURN_IF_ERROR(CheckFree("data folder", dir_, kStoreBytesMin));
    TD_RETURN_IF_ERROR(WaitForDirectoryLock("checkpoint store", dir_, "--data_dir"));
    // RocksDB writes the records of its log files to table files. Only a log of an earlier version
    // may need more than kStoreBytesMin, because its entries are among the records.
    TD_ASSIGN_OR_RETURN(const uint64_t record_bytes, SyncRecordFiles(dir_));
    TD_RETURN_IF_ERROR(CheckFree("data folder", dir_, std::max(kStoreBytesMin, 2 * record_bytes)));
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(StoreOptions(), dir_, &db);
    db_.reset(db);
    TD_RETURN_IF_ERROR(FromRocksdb(status, "cannot open checkpoint store " + dir_));
    writer_.Open(db_.get());
    records_.Open(db_.get());
    std::optional<uint64_t> logged;
    if (std::string text; db_->Get({}, keys::kMeta, &text).ok()) {
      logged = CheckpointRecord().log_number();
    }
    TD_ASSIGN_OR_RETURN(const uint64_t free, FreeBytes("data folder", dir_));
    TD_RETURN_IF_ERROR(log_.Open(*db_, writer_, logged, free));
    const Status room = CheckRoom(0);
    LOG_IF(WARNING, !room.ok()) << "pushes are rejected until the disk has free space: "
                                << room.message();
    MutexLock lock(mu_);
    // A new file must not replace one that a record names.
    return EachFile([this](uint64_t number)
                        TD_NO_ANALYSIS { last_file_ = std::max(last_file_, number); });
  }

  StatusOr<size_t> Write(const ShardSnapshot& snapshot) override {
    TD_REQUIRE(!snapshot.base || *snapshot.base <= snapshot.version);
    MutexLock lock(mu_);
    const size_t bytes = snapshot.bytes();
    const Time begin = SteadyNow();
    TD_RETURN_IF_ERROR(CheckSpace(bytes));
    LOG_EVERY_T(INFO, 1.0) << "writing a checkpoint of version " << snapshot.version << ": "
                           << bytes << " bytes";
    ShardMeta meta = MakeMeta(snapshot);
    if (snapshot.base) {
      TD_ASSIGN_OR_RETURN(*meta.mutable_base(), ReadBase(snapshot));
    }
    {
      MutexLock names(names_mu_);
      TD_ASSIGN_OR_RETURN(const std::optional<LogBreak> unfinished, UnfinishedRestore());
      TD_RETURN_IF_ERROR(records_.ListPredecessors(CheckpointRecord(),
                                                   unfinished ? unfinished->snapshot : 0, &meta));
    }
    meta.set_values_file(ValuesName(++last_file_));
    if (Status status = WriteValues(ValuesPath(meta), snapshot, pace_, meta); !status.ok()) {
      unlink(ValuesPath(meta).c_str());
      return Annotate(status, "cannot write a checkpoint to " + dir_);
    }
    // A restored state has a lower version than the acknowledged one. A crash after this line
    // leaves the old checkpoint, which has a version that is acknowledged too.
    TD_ASSIGN_OR_RETURN(const uint64_t acknowledged, acknowledged_.Read());
    if (snapshot.version < acknowledged) TD_RETURN_IF_ERROR(acknowledged_.Write(snapshot.version));
    // This batch atomically replaces the record of the old checkpoint, which names the old value
    // file.
    rocksdb::WriteBatch batch;
    const uint64_t first = log_.AddRemoval(snapshot.log_number, BytesForLog(), &batch);
    (void)batch.Delete(keys::kRestoring);
    (void)batch.Put(keys::kMeta, meta.SerializeAsString());
    TD_RETURN_IF_ERROR(WriteSynced(&batch, "cannot write the checkpoint record to " + dir_));
    TD_RETURN_IF_ERROR(acknowledged_.Write(snapshot.version));
    RemoveValuesBut(meta);
    log_.OnRemoval(first);
    LOG_EVERY_T(INFO, 1.0) << "checkpoint of version " << snapshot.version << " written: " << bytes
                           << " bytes in " << Seconds(SteadyNow() - begin) << " s";
    return bytes;
  }

  StatusOr<bool> Read(SnapshotSink& sink) override {
    MutexLock lock(mu_);
    std::string text;
    const rocksdb::Status got = db_->Get({}, keys::kMeta, &text);
    const StatusOr<uint64_t> acknowledged = acknowledged_.Read();
    if (!acknowledged.ok()) return acknowledged.status();
    if (got.IsNotFound()) {
      if (*acknowledged == 0) return false;
      return DataLoss(
          "%s: the acknowledged checkpoint of version %d is missing [TD4010]; hint: restore a copy "
          "of the directory",
          dir_, *acknowledged);
    }
    TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read the checkpoint of " + dir_));
    TD_ASSIGN_OR_RETURN(const ShardMeta meta, ParseMeta(dir_ + ": record meta", text));
    // DATA_LOSS if an acknowledged version is missing. After RestoreCheckpoint returned to an older
    // version, further training writes a checkpoint of an acknowledged version again, so equal
    // versions are valid.
    if (meta.version() < *acknowledged) {
      return DataLoss(
          "%s: the newest checkpoint has version %d, but version %d was acknowledged [TD4010]; "
          "hint: restore a copy of the directory",
          dir_, meta.version(), *acknowledged);
    }
    TD_RETURN_IF_ERROR(meta.has_base() ? ReadDelta(meta, sink) : ReadWhole(meta, sink));
    RemoveValuesBut(meta);
    return true;
  }

  StatusOr<size_t> WriteGlobalSnapshot(const SnapshotName& name, const ShardSnapshot& snapshot,
                                       std::span<const uint64_t> removed) override {
    TD_REQUIRE(!snapshot.base.has_value());
    MutexLock lock(mu_);
    const size_t bytes = snapshot.bytes();
    if (Status space = CheckSpace(bytes); !space.ok() && !removed.empty()) {
      MutexLock names(names_mu_);
      rocksdb::WriteBatch batch;
      TD_RETURN_IF_ERROR(ChangeSnapshots(removed, nullptr, 0, &batch));
      TD_RETURN_IF_ERROR(WriteSynced(&batch, "cannot remove snapshots from " + dir_));
      RemoveUnnamedValues();
    }
    TD_RETURN_IF_ERROR(CheckSpace(bytes));
    ShardMeta meta = MakeMeta(snapshot);
    meta.set_taken_us(name.time_us);
    meta.set_rebuilt(name.rebuilt);
    meta.set_values_file(ValuesName(++last_file_));
    if (Status status = WriteValues(ValuesPath(meta), snapshot, pace_, meta); !status.ok()) {
      unlink(ValuesPath(meta).c_str());
      return Annotate(status, absl::StrFormat("cannot write snapshot %d to %s", name.number, dir_));
    }
    {
      MutexLock names(names_mu_);
      rocksdb::WriteBatch batch;
      TD_RETURN_IF_ERROR(ChangeSnapshots(removed, &meta, name.number, &batch));
      TD_RETURN_IF_ERROR(WriteSynced(&batch, "cannot write a snapshot to " + dir_));
    }
    RemoveUnnamedValues();
    return bytes;
  }

  Status ReadGlobalSnapshot(uint64_t number, SnapshotSink& sink) override {
    MutexLock lock(mu_);
    TD_ASSIGN_OR_RETURN(const std::string text, records_.Get(number));
    TD_ASSIGN_OR_RETURN(const ShardMeta meta,
                        ParseMeta(absl::StrFormat("%s: snapshot %d", dir_, number), text));
    return ReadWhole(meta, sink);
  }

  StatusOr<std::vector<StoredGlobalSnapshot>> GlobalSnapshots() override {
    MutexLock names(names_mu_);
    return records_.List();
  }

  StatusOr<uint64_t> LastSnapshotNumber() override {
    TD_ASSIGN_OR_RETURN(const std::vector<StoredGlobalSnapshot> stored, GlobalSnapshots());
    uint64_t last = stored.empty() ? 0 : stored.back().number;
    const ShardMeta checkpoint = CheckpointRecord();
    for (const uint64_t number : checkpoint.predecessors().number()) last = std::max(last, number);
    return last;
  }

  StatusOr<size_t> AppendLog(std::span<const LogEntry> entries, bool sync) override {
    uint64_t bytes = 0;
    for (const LogEntry& entry : entries) bytes += ValueBytes(entry);
    TD_RETURN_IF_ERROR(CheckFree("data folder", dir_, RoomFor(*db_, bytes) + free_bytes_min_ / 2));
    return log_.Append(entries, sync);
  }

  Status CheckRoom(uint64_t bytes) override {
    return CheckFree("data folder", dir_, RoomFor(*db_, bytes) + free_bytes_min_);
  }

  Status SyncLog() override { return log_.Sync(); }

  Status ReadLog(uint64_t after, const std::function<Status(LogEntry)>& take) override {
    return log_.Read(after, take);
  }

  Status ClearLog() override {
    TD_RETURN_IF_ERROR(log_.ForgetSynced());
    rocksdb::WriteBatch batch;
    const uint64_t generation = log_.AddClear(std::nullopt, &batch);
    TD_RETURN_IF_ERROR(WriteSynced(&batch, "cannot clear the write-ahead log of " + dir_));
    log_.OnClear(generation);
    return OkStatus();
  }

  Status BeginRestore(const LogBreak& at) override {
    MutexLock names(names_mu_);
    rocksdb::WriteBatch batch;
    if (at.snapshot != 0) {
      TD_RETURN_IF_ERROR(records_.Get(at.snapshot).status());
      SnapshotRecords::SetRestored(at.snapshot, &batch);
    }
    AddLogBreak(at, &batch);
    (void)batch.Put(keys::kRestoring, absl::StrFormat("%d %d", at.number, at.snapshot));
    return WriteSynced(&batch, "cannot write to " + dir_);
  }

  StatusOr<std::optional<LogBreak>> UnfinishedRestore() override {
    std::string text;
    const rocksdb::Status got = db_->Get({}, keys::kRestoring, &text);
    if (got.IsNotFound()) return std::optional<LogBreak>();
    TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read " + dir_));
    LogBreak at;
    const std::vector<std::string> parts = absl::StrSplit(text, ' ');
    if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &at.number) &&
        absl::SimpleAtoi(parts[1], &at.snapshot)) {
      return std::optional<LogBreak>(at);
    }
    return DataLoss(
        "%s: the record of a restore is damaged [TD2118]; hint: restore a copy of the directory, "
        "or move the directory away to start with an empty state",
        dir_);
  }

  StatusOr<LogBreak> LastBreak() override {
    TD_ASSIGN_OR_RETURN(const std::vector<LogBreak> breaks, LogBreaks(*db_, dir_));
    return breaks.empty() ? LogBreak() : breaks.back();
  }

  Status ScanLog(uint64_t first, const ScanSink& take) override { return log_.Scan(first, take); }

  CheckpointFiles* files() override { return this; }

  StatusOr<OpenedCheckpoint> OpenCheckpoint() override {
    MutexLock lock(mu_);
    TD_ASSIGN_OR_RETURN(const std::optional<LogBreak> unfinished, UnfinishedRestore());
    if (unfinished) {
      return FailedPrecondition("the newest checkpoint of %s has the state before a restore", dir_);
    }
    OpenedCheckpoint opened;
    const rocksdb::Status got = db_->Get({}, keys::kMeta, &opened.record);
    if (got.IsNotFound()) return NotFound("%s has no checkpoint yet [TD4011]", dir_);
    TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read the checkpoint of " + dir_));
    TD_ASSIGN_OR_RETURN(const ShardMeta meta, ParseMeta(dir_ + ": record meta", opened.record));
    if (meta.has_base()) return FailedPrecondition("the newest checkpoint of %s is a delta", dir_);
    const std::string path = ValuesPath(meta);
    opened.values = Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat found {};
    if (!opened.values.valid() || fstat(opened.values.get(), &found) != 0) {
      return FileError(path, "cannot be opened", errno);
    }
    opened.bytes = static_cast<uint64_t>(found.st_size);
    return opened;
  }

  std::string NewValuesFile() override {
    MutexLock lock(mu_);
    pending_file_ = ValuesName(++last_file_);
    return dir_ + "/" + pending_file_;
  }

  Status InstallCheckpoint(const std::string& record, const std::string& path,
                           const LogTerm& term) override {
    MutexLock lock(mu_);
    TD_ASSIGN_OR_RETURN(ShardMeta meta, ParseMeta("the record of the fetched checkpoint", record));
    if (meta.has_base()) return DataLoss("the fetched checkpoint is a delta");
    TD_REQUIRE(path == dir_ + "/" + pending_file_);
    meta.set_values_file(pending_file_);
    NoSink none;  // checks all checksums before the old state is removed
    TD_RETURN_IF_ERROR(ReadWhole(meta, none));
    // The new state may have a lower version than the acknowledged one, and its log other numbers.
    // A crash after these two lines leaves the old state, which is complete.
    TD_RETURN_IF_ERROR(acknowledged_.Write(0));
    TD_RETURN_IF_ERROR(log_.ForgetSynced());
    MutexLock names(names_mu_);
    rocksdb::WriteBatch batch;
    TD_RETURN_IF_ERROR(records_.KeepPredecessors(meta, &batch));
    const uint64_t generation = log_.AddClear(meta.log_number(), &batch);
    (void)batch.Put(keys::kMeta, meta.SerializeAsString());
    (void)batch.Put(keys::kTerm, TermText(term));
    (void)batch.Put(keys::kIncomplete, "");
    (void)batch.Delete(keys::kRestoring);
    TD_RETURN_IF_ERROR(WriteSynced(&batch, "cannot install a checkpoint in " + dir_));
    log_.OnClear(generation);
    pending_file_.clear();
    TD_RETURN_IF_ERROR(acknowledged_.Write(meta.version()));
    RemoveValuesBut(meta);
    return OkStatus();
  }

  StatusOr<LogTerm> Term() override {
    std::string text;
    const rocksdb::Status got = db_->Get({}, keys::kTerm, &text);
    if (got.IsNotFound()) return LogTerm();
    TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read the term of " + dir_));
    return ParseTerm(dir_, text);
  }

  Status SetTerm(const LogTerm& term) override {
    rocksdb::WriteBatch batch;
    (void)batch.Put(keys::kTerm, TermText(term));
    return WriteSynced(&batch, "cannot write the term of " + dir_);
  }

  StatusOr<bool> Complete() override {
    std::string text;
    const rocksdb::Status got = db_->Get({}, keys::kIncomplete, &text);
    if (got.IsNotFound()) return true;
    TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read " + dir_));
    return false;
  }

  Status SetComplete() override {
    rocksdb::WriteBatch batch;
    (void)batch.Delete(keys::kIncomplete);
    return WriteSynced(&batch, "cannot write to " + dir_);
  }

 private:
  // Drops a snapshot that is read only for its checksums.
  class NoSink final : public SnapshotSink {
   public:
    Status Begin(ShardSnapshot /*head*/) override { return OkStatus(); }
    Status Take(SnapshotChunk /*chunk*/) override { return OkStatus(); }
  };
  Status WriteSynced(rocksdb::WriteBatch* batch, const std::string& what) {
    rocksdb::WriteOptions sync;
    sync.sync = true;
    return FromRocksdb(writer_.Write(sync, batch), what);
  }

  // Checks the free disk space for a value file of `bytes` bytes and for the record that names the
  // file.
  Status CheckSpace(size_t bytes) const {
    return CheckFree("data folder", dir_, RoomFor(*db_, bytes) + free_bytes_min_ / 2);
  }

  // Returns the free bytes of which entries that a checkpoint contains may use a part. Such entries
  // are no reason to reject a push for lack of space.
  uint64_t BytesForLog() const {
    const StatusOr<uint64_t> free = FreeBytes("data folder", dir_);
    return free.ok() && *free >= 4 * free_bytes_min_ ? *free : 0;
  }

  std::string ValuesPath(const ShardMeta& meta) const { return dir_ + "/" + meta.values_file(); }

  // Calls `take` with the number of each value file in the directory. An error: the directory
  // cannot be listed.
  Status EachFile(const std::function<void(uint64_t)>& take) const {
    TD_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(dir_));
    for (const std::string& name : names) {
      const std::optional<uint64_t> number = ValuesNumber(name);
      if (number) take(*number);
    }
    return OkStatus();
  }

  // Calls SnapshotRecords::Change. Keeps the snapshot of an unfinished restore.
  Status ChangeSnapshots(std::span<const uint64_t> removed, ShardMeta* made, uint64_t number,
                         rocksdb::WriteBatch* batch) TD_REQUIRES(names_mu_) {
    TD_ASSIGN_OR_RETURN(const std::optional<LogBreak> unfinished, UnfinishedRestore());
    std::vector<uint64_t> gone(removed.begin(), removed.end());
    if (unfinished) std::erase(gone, unfinished->snapshot);
    return records_.Change(gone, made, number, batch);
  }

  // Returns the record of the newest checkpoint; the default: there is none, or it is damaged.
  ShardMeta CheckpointRecord() const {
    std::string text;
    ShardMeta meta;
    if (db_->Get({}, keys::kMeta, &text).ok()) (void)meta.ParseFromString(text);
    return meta;
  }

  // Removes the value files that neither `meta`, nor its base, nor a global snapshot names: files
  // of older checkpoints, and of checkpoints that were never completed.
  void RemoveValuesBut(const ShardMeta& meta) const TD_REQUIRES(mu_) {
    std::set<std::string> needed = {meta.values_file(), meta.base().values_file(), pending_file_};
    bool known = true;
    const Status listed = records_.Each([&](uint64_t, std::string_view text) {
      ShardMeta snapshot;
      known &= snapshot.ParseFromArray(text.data(), static_cast<int>(text.size()));
      needed.insert(snapshot.values_file());
    });
    if (!known || !listed.ok()) return;  // a record that cannot be parsed may name any of the files
    // The next call removes the files if the directory cannot be listed now.
    (void)EachFile([&](uint64_t number) {
      const std::string other = ValuesName(number);
      if (!needed.contains(other)) unlink((dir_ + "/" + other).c_str());
    });
  }

  // Removes the value files that no record names.
  void RemoveUnnamedValues() const TD_REQUIRES(mu_) {
    std::string text;
    ShardMeta checkpoint;
    const rocksdb::Status got = db_->Get({}, keys::kMeta, &text);
    if (got.ok() && checkpoint.ParseFromString(text)) RemoveValuesBut(checkpoint);
  }

  // Returns the metadata of the full checkpoint on which the delta is based.
  StatusOr<ShardMeta> ReadBase(const ShardSnapshot& delta) const {
    TD_REQUIRE(delta.base.has_value());
    std::string text;
    const rocksdb::Status got = db_->Get({}, keys::kMeta, &text);
    TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read the checkpoint of " + dir_));
    TD_ASSIGN_OR_RETURN(ShardMeta meta, ParseMeta(dir_ + ": record meta", text));
    if (meta.has_base()) {
      const ShardMeta whole = meta.base();
      meta = whole;
    }
    if (meta.version() == *delta.base) return meta;
    return FailedPrecondition(
        "a delta of version %d needs a full checkpoint of version %d, but the full checkpoint has "
        "version %d",
        delta.version, *delta.base, meta.version());
  }

  Status ReadWhole(const ShardMeta& meta, SnapshotSink& sink) const {
    TD_ASSIGN_OR_RETURN(ShardSnapshot head, SnapshotHeadOf(meta));
    head.whole = meta.version();
    return ReadValues(ValuesPath(meta), meta, std::move(head), sink);
  }
  // Merges a delta with its base and passes the result to `sink`. Reads both snapshots into memory.
  Status ReadDelta(const ShardMeta& meta, SnapshotSink& sink) const {
    TD_REQUIRE(meta.has_base());
    SnapshotAssembler delta, base;
    TD_RETURN_IF_ERROR(ReadWhole(meta, delta));
    TD_RETURN_IF_ERROR(ReadWhole(meta.base(), base));
    TD_RETURN_IF_ERROR(MergeDelta(base.snapshot(), delta.snapshot()));
    delta.snapshot().whole = meta.base().version();
    return SendChunks(std::move(delta.snapshot()), sink);
  }

  const std::string dir_;
  const uint64_t free_bytes_min_;
  CheckpointThrottle* const pace_;
  const AcknowledgedVersion acknowledged_;
  StoreLog log_;
  SnapshotRecords records_;
  Mutex names_mu_;  // guards the records of global snapshots, the head and an unfinished restore
  Mutex mu_;        // acquired before names_mu_
  uint64_t last_file_ TD_GUARDED_BY(mu_) = 0;  // number of the newest value file
  // The value file that the last NewValuesFile named, until it is installed; "": none.
  std::string pending_file_ TD_GUARDED_BY(mu_);
  std::unique_ptr<rocksdb::DB> db_;
  StoreWriter writer_;
};

}  // namespace

StatusOr<std::unique_ptr<Storage>> OpenRocksdbStorage(const std::string& dir,
                                                      CheckpointThrottle* pace,
                                                      const StoreSettings& settings) {
  auto storage = std::make_unique<RocksdbStorage>(dir, settings, pace);
  TD_RETURN_IF_ERROR(storage->Open());
  return std::unique_ptr<Storage>(std::move(storage));
}

}  // namespace tandem::pserver
