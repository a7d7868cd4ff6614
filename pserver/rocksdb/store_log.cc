#include "pserver/rocksdb/store_log.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/require.h"
#include "pserver/disk/disk_space.h"
#include "pserver/rocksdb/log_bounds.h"
#include "pserver/rocksdb/log_breaks.h"
#include "pserver/rocksdb/log_scan.h"
#include "pserver/rocksdb/old_log.h"
#include "pserver/rocksdb/rocksdb_status.h"
#include "pserver/rocksdb/store_keys.h"
#include "pserver/rocksdb/store_room.h"
#include "pserver/rocksdb/store_writer.h"
#include "pserver/wire/log_record.h"

namespace tandem::pserver {
namespace {

constexpr uint64_t kFileBytesMin = 1 << 20, kFileBytesMax = 64 << 20;
constexpr uint64_t kKeptFiles = 16, kKeptFilesMax = 64;

// Returns the size of a file. The log removes whole files, so kept entries are in kKeptFiles files
// or more, and in kKeptFilesMax files at most, because readers open all of them.
uint64_t FileBytes(uint64_t keep_bytes) {
  if (keep_bytes == 0) return kFileBytesMax;
  const uint64_t most = std::max(kFileBytesMax, keep_bytes / kKeptFilesMax);
  return std::clamp(keep_bytes / kKeptFiles, kFileBytesMin, most);
}

int64_t NowUs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

StoreLog::StoreLog(std::string dir, uint64_t keep_bytes)
    : dir_(std::move(dir)),
      keep_bytes_(keep_bytes),
      synced_(dir_ + "/TANDEM_LOG_SYNCED"),
      files_(dir_, FileBytes(keep_bytes)) {}

Status StoreLog::Open(rocksdb::DB& db, StoreWriter& writer, std::optional<uint64_t> checkpoint,
                      uint64_t free_bytes) {
  TD_REQUIRE(db_ == nullptr);
  db_ = &db;
  TD_ASSIGN_OR_RETURN(const LogBounds bounds, ReadLogBounds(db, dir_));
  first_ = bounds.first;
  TD_RETURN_IF_ERROR(files_.Open(bounds.generation));
  TD_ASSIGN_OR_RETURN(const OldLog old, FindOldLog(db, dir_));
  if (old.entries == 0 && (old.marked || !checkpoint)) return OkStatus();
  rocksdb::WriteBatch batch;
  if (old.entries != 0) {
    if (free_bytes < old.bytes + kStoreBytesMin) {
      return ResourceExhausted(
          "cannot move the update log of %s to files: the disk has %d free bytes, but %d bytes are "
          "needed [TD2107]; hint: free space on the disk",
          dir_, free_bytes, old.bytes + kStoreBytesMin);
    }
    files_.Begin(bounds.generation + 1);
    TD_RETURN_IF_ERROR(CopyOldLog(db, dir_, files_, &batch));
    (void)batch.Put(keys::kLogGeneration, std::to_string(bounds.generation + 1));
    LOG(INFO) << "moved " << old.entries << " entries of the update log of " << dir_
              << " from RocksDB, where an earlier version wrote them, to files";
  }
  MarkLogInFiles(checkpoint.value_or(0) + 1, &batch);
  rocksdb::WriteOptions sync;
  sync.sync = true;
  return FromRocksdb(writer.Write(sync, &batch), "cannot write to " + dir_);
}

StatusOr<size_t> StoreLog::Append(std::span<const LogEntry> entries, bool sync) {
  TD_REQUIRE(!entries.empty());
  std::vector<codec::EncodedMessage> messages;
  std::vector<LogPayload> payloads;
  messages.reserve(entries.size());
  payloads.reserve(entries.size());
  for (const LogEntry& entry : entries) {
    messages.push_back(EncodeLogEntry(entry));
    LogPayload& payload = payloads.emplace_back(LogPayload{.number = entry.number, .pieces = {}});
    for (const codec::EncodedMessage::Piece& p : messages.back().pieces) {
      payload.pieces.push_back(p.data != nullptr
                                   ? std::string_view(static_cast<const char*>(p.data), p.bytes)
                                   : std::string_view(p.owned));
    }
  }
  TD_ASSIGN_OR_RETURN(const size_t bytes, files_.Append(payloads, NowUs(), sync));
  if (sync) TD_RETURN_IF_ERROR(NoteSynced(entries.back().number));
  return bytes;
}

Status StoreLog::Sync() {
  TD_ASSIGN_OR_RETURN(const uint64_t last, files_.Sync());
  return last == 0 ? OkStatus() : NoteSynced(last);
}

Status StoreLog::NoteSynced(uint64_t number) {
  Status noted = synced_.Note(number);
  // The entries are durable, so the caller must not append them again. The next sync notes them.
  return noted.code() == StatusCode::kResourceExhausted ? OkStatus() : noted;
}

Status StoreLog::Read(uint64_t after, const std::function<Status(LogEntry)>& take) const {
  uint64_t expected = after + 1;
  TD_RETURN_IF_ERROR(files_.Read(std::max<uint64_t>(expected, first_), [&](const LogFrame& frame) {
    if (frame.head.number != expected) {
      return DataLoss(
          "%s: the update log lacks entry %d and continues with entry %d [TD2118]; hint: restore "
          "a copy of the directory, or move the directory away to start with an empty state",
          dir_, expected, frame.head.number);
    }
    StatusOr<LogEntry> entry = DecodeLogEntry(expected, frame.payload);
    if (!entry.ok()) return Annotate(entry.status(), dir_);
    ++expected;
    return take(*std::move(entry));
  }));
  TD_ASSIGN_OR_RETURN(const uint64_t synced, synced_.Read());
  if (expected > synced) return OkStatus();
  return DataLoss(
      "%s: the update log ends at entry %d, expected entry %d, which was durable [TD2118]; hint: "
      "restore a copy of the directory, or move the directory away to start with an empty state",
      dir_, expected - 1, synced);
}

Status StoreLog::Scan(uint64_t first, const ScanSink& take) const {
  TD_REQUIRE(db_ != nullptr);
  // A restore is recorded before the entries after it, so all that precede an entry of the files
  // are read if the files are opened first. Read opens them before its first entry.
  std::optional<LogScan> scan;
  return files_.Read(std::max<uint64_t>(first, first_), [&](const LogFrame& frame) -> Status {
    if (!scan) {
      TD_ASSIGN_OR_RETURN(std::vector<LogBreak> breaks, LogBreaks(*db_, dir_));
      scan.emplace(std::move(breaks), dir_, take);
    }
    return scan->Add(frame);
  });
}

uint64_t StoreLog::AddRemoval(uint64_t last, uint64_t free_bytes,
                              rocksdb::WriteBatch* batch) const {
  TD_REQUIRE(db_ != nullptr && batch != nullptr);
  const uint64_t needed = last + 1;
  const uint64_t kept = files_.FirstKept(needed, std::min(keep_bytes_, free_bytes / 2));
  const uint64_t first = std::max<uint64_t>(first_, kept);
  (void)batch->Put(keys::kLogFirst, std::to_string(first));
  MarkLogInFiles(needed, batch);
  RemoveLogBreaks(*db_, first, batch);
  return first;
}

void StoreLog::OnRemoval(uint64_t first) {
  first_ = first;
  files_.RemoveBelow(first);
}

uint64_t StoreLog::AddClear(std::optional<uint64_t> last, rocksdb::WriteBatch* batch) const {
  TD_REQUIRE(batch != nullptr);
  const uint64_t generation = files_.generation() + 1;
  (void)batch->Put(keys::kLogGeneration, std::to_string(generation));
  (void)batch->Delete(keys::kLogFirst);
  if (last) MarkLogInFiles(*last + 1, batch);
  RemoveAllLogBreaks(batch);
  return generation;
}

void StoreLog::OnClear(uint64_t generation) {
  TD_REQUIRE(generation > files_.generation());
  first_ = 0;
  files_.Begin(generation);
}

}  // namespace tandem::pserver
