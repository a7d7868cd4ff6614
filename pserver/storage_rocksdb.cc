#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/mutex.h"
#include "proto/pserver.pb.h"
#include "pserver/buffer_pool.h"
#include "pserver/disk_space.h"
#include "pserver/log_record.h"
#include "pserver/proto_convert.h"
#include "pserver/storage.h"

namespace tandem {
namespace {

constexpr uint32_t kFormat = 1;
constexpr const char* kMetaKey = "meta";

Status FromRocksdb(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return OkStatus();
  const std::string text = what + ": " + status.ToString();
  if (status.IsCorruption()) {
    return DataLoss("%s; move the folder away to start without this checkpoint", text);
  }
  if (status.IsNoSpace()) return ResourceExhausted("%s", text);
  return Unavailable("%s", text);
}

std::string ParamKey(size_t slice) { return absl::StrFormat("v/%08d", slice); }
std::string SlotKey(size_t slice, size_t slot) {
  return absl::StrFormat("v/%08d/%03d", slice, slot);
}
std::string RowsKey(size_t table, int bucket) {
  return absl::StrFormat("t/%08d/%04d", table, bucket);
}
std::string LogKey(uint64_t number) { return absl::StrFormat("log/%016x", number); }
constexpr const char* kLogBegin = "log/";
constexpr const char* kLogEnd = "log0";  // '0' follows '/'

rocksdb::Slice Bytes(const Buffer& values, int64_t numel) {
  return {reinterpret_cast<const char*>(values.get()), static_cast<size_t>(numel) * sizeof(float)};
}

StatusOr<Buffer> ToBuffer(const std::string& value, int64_t numel, const std::string& key) {
  if (value.size() != static_cast<size_t>(numel) * sizeof(float)) {
    return DataLoss("checkpoint record %s has %d bytes, expected %d", key, value.size(),
                    static_cast<size_t>(numel) * sizeof(float));
  }
  BufferPool pool(0);
  TD_ASSIGN_OR_RETURN(Buffer buffer, pool.Take(value.size()));
  std::memcpy(buffer.get(), value.data(), value.size());
  return buffer;
}

ShardMeta MakeMeta(const ShardImage& image) {
  ShardMeta meta;
  meta.set_format(kFormat);
  ToProto(image.config, meta.mutable_config());
  meta.set_version(image.version);
  meta.set_log_number(image.log_number);
  for (const PushMark& m : image.marks) {
    TrainerMark* mark = meta.add_mark();
    mark->set_trainer_id(static_cast<uint32_t>(m.trainer));
    mark->set_incarnation(m.incarnation);
    mark->set_sequence(m.applied.highest());
    mark->set_completed(m.completed);
    for (uint64_t word : m.applied.words()) mark->add_window(word);
  }
  return meta;
}

// Adds a record for each bucket that has rows, and says in `meta` which ones.
void PutTables(const ShardImage& image, rocksdb::WriteBatch& batch, ShardMeta& meta,
               uint32_t* sum) {
  for (size_t i = 0; i < image.tables.size(); ++i) {
    TableMeta* table = meta.add_table();
    for (const auto& [bucket, rows] : image.tables[i].buckets) {
      table->add_bucket(static_cast<uint32_t>(bucket));
      TableRows record;
      ToProto(rows, &record);
      const std::string text = record.SerializeAsString();
      *sum = Crc32c(*sum, text.data(), text.size());
      (void)batch.Put(RowsKey(i, bucket), text);
    }
    for (const auto& [name, value] : image.tables[i].scalars) {
      TableMeta::Scalar* slot = table->add_slot();
      slot->set_name(name);
      slot->set_value(value);
    }
  }
}

StatusOr<PushMark> MarkFromProto(const TrainerMark& mark) {
  std::array<uint64_t, SequenceWindow::kWords> words{};
  if (mark.window_size() != static_cast<int>(words.size())) {
    return DataLoss("the checkpoint's window of trainer %d has %d words, expected %d",
                    mark.trainer_id(), mark.window_size(), words.size());
  }
  std::copy(mark.window().begin(), mark.window().end(), words.begin());
  return PushMark{static_cast<int>(mark.trainer_id()), mark.incarnation(), mark.completed(),
                  SequenceWindow::FromParts(mark.sequence(), words)};
}

class RocksdbStorage final : public Storage {
 public:
  RocksdbStorage(std::string dir, uint64_t free_bytes_min)
      : dir_(std::move(dir)), free_bytes_min_(free_bytes_min) {}

  Status Open() {
    std::error_code error;
    std::filesystem::create_directories(dir_, error);
    if (error) return Unavailable("data folder %s: %s", dir_, error.message());
    TD_RETURN_IF_ERROR(CheckSpace(0));
    rocksdb::Options options;
    options.create_if_missing = true;
    // The default mode drops everything after a damaged record without a word; this one refuses,
    // except where the last record was being written.
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    options.paranoid_checks = true;
    options.max_total_wal_size = 64 << 20;
    options.keep_log_file_num = 2;
    options.compression = rocksdb::kNoCompression;  // gradients do not become smaller
    options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, dir_, &db);
    db_.reset(db);
    return FromRocksdb(status, "checkpoint store " + dir_);
  }

  StatusOr<size_t> Write(const ShardImage& image) override {
    MutexLock lock(mu_);
    const size_t bytes = image.bytes();
    TD_RETURN_IF_ERROR(CheckSpace(bytes));
    ShardMeta meta = MakeMeta(image);
    rocksdb::WriteBatch batch;
    (void)batch.DeleteRange("v/", "v0");  // '0' follows '/'
    (void)batch.DeleteRange("t/", "t0");
    (void)batch.DeleteRange(kLogBegin, LogKey(image.log_number + 1));
    uint32_t sum = 0;
    for (size_t i = 0; i < image.slices.size(); ++i) {
      const rocksdb::Slice param = Bytes(image.slices[i].param, image.config.slices[i].numel);
      sum = Crc32c(sum, param.data(), param.size());
      (void)batch.Put(ParamKey(i), param);
      std::string names;
      for (size_t j = 0; j < image.slices[i].slots.size(); ++j) {
        const SliceImage::Slot& slot = image.slices[i].slots[j];
        const rocksdb::Slice values = Bytes(slot.values, slot.numel);
        sum = Crc32c(sum, values.data(), values.size());
        (void)batch.Put(SlotKey(i, j), values);
        names += (j == 0 ? "" : "\n") + slot.name;
      }
      meta.add_slots(names);
    }
    PutTables(image, batch, meta, &sum);
    meta.set_values_crc32c(sum);
    (void)batch.Put(kMetaKey, meta.SerializeAsString());
    rocksdb::WriteOptions sync;
    sync.sync = true;
    TD_RETURN_IF_ERROR(FromRocksdb(db_->Write(sync, &batch), "writing checkpoint to " + dir_));
    TD_RETURN_IF_ERROR(WriteAcknowledged(image.version));
    return bytes;
  }

  StatusOr<std::optional<ShardImage>> Read() override {
    MutexLock lock(mu_);
    std::string text;
    const rocksdb::Status got = db_->Get({}, kMetaKey, &text);
    const StatusOr<uint64_t> acknowledged = ReadAcknowledged();
    if (!acknowledged.ok()) return acknowledged.status();
    if (got.IsNotFound()) {
      if (*acknowledged == 0) return std::optional<ShardImage>();
      return DataLoss("%s: checkpoint of version %d was acknowledged, but there is none", dir_,
                      *acknowledged);
    }
    TD_RETURN_IF_ERROR(FromRocksdb(got, "reading checkpoint of " + dir_));
    ShardMeta meta;
    if (!meta.ParseFromString(text)) return DataLoss("%s: record meta is damaged", dir_);
    if (meta.format() != kFormat) {
      return FailedPrecondition("%s: checkpoint format %d; this program reads format %d", dir_,
                                meta.format(), kFormat);
    }
    // Gap check: what was acknowledged must be there. Going back to an older version on purpose
    // (RestoreCheckpoint, then training on) writes the file anew, so equal is what is expected.
    if (meta.version() < *acknowledged) {
      return DataLoss("%s: the newest checkpoint is of version %d, but %d was acknowledged", dir_,
                      meta.version(), *acknowledged);
    }
    TD_ASSIGN_OR_RETURN(ShardImage image, ReadValues(meta));
    return std::optional<ShardImage>(std::move(image));
  }

  StatusOr<size_t> AppendLog(std::span<const LogEntry> entries, bool sync) override {
    rocksdb::WriteBatch batch;
    for (const LogEntry& entry : entries) {
      const EncodedMessage message = EncodeLogEntry(entry);
      std::vector<rocksdb::Slice> pieces;
      for (const EncodedMessage::Piece& p : message.pieces) {
        pieces.emplace_back(p.data != nullptr ? static_cast<const char*>(p.data) : p.owned.data(),
                            p.data != nullptr ? p.bytes : p.owned.size());
      }
      const std::string key = LogKey(entry.number);
      const rocksdb::Slice key_slice(key);
      (void)batch.Put(rocksdb::SliceParts(&key_slice, 1),
                      rocksdb::SliceParts(pieces.data(), static_cast<int>(pieces.size())));
    }
    const size_t bytes = batch.GetDataSize();
    TD_RETURN_IF_ERROR(CheckSpace(bytes));
    rocksdb::WriteOptions options;
    options.sync = sync;
    TD_RETURN_IF_ERROR(FromRocksdb(db_->Write(options, &batch), "writing the log of " + dir_));
    return bytes;
  }

  Status SyncLog() override { return FromRocksdb(db_->SyncWAL(), "syncing the log of " + dir_); }

  Status ReadLog(uint64_t after, const std::function<Status(LogEntry)>& take) override {
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    uint64_t expected = after + 1;
    for (it->Seek(LogKey(expected)); it->Valid() && it->key().starts_with(kLogBegin); it->Next()) {
      if (it->key() != LogKey(expected)) {
        return DataLoss("%s: entry %d of the update log is missing, %s is there", dir_, expected,
                        it->key().ToString());
      }
      TD_ASSIGN_OR_RETURN(LogEntry entry, DecodeLogEntry(expected, it->value().ToStringView()));
      TD_RETURN_IF_ERROR(take(std::move(entry)));
      ++expected;
    }
    return FromRocksdb(it->status(), "reading the log of " + dir_);
  }

  Status ClearLog() override {
    return FromRocksdb(db_->DeleteRange({}, db_->DefaultColumnFamily(), kLogBegin, kLogEnd),
                       "clearing the log of " + dir_);
  }

 private:
  Status CheckSpace(size_t bytes) const {
    return CheckDiskSpace("data folder", dir_, free_bytes_min_, bytes);
  }

  std::string AcknowledgedPath() const { return dir_ + "/TANDEM_ACKNOWLEDGED"; }

  Status WriteAcknowledged(uint64_t version) const {
    const std::string path = AcknowledgedPath(), fresh = path + ".tmp";
    const std::string text = std::to_string(version) + "\n";
    const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool ok = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
              fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0) close(fd);
    if (!ok) return Unavailable("writing %s: %s", fresh, ErrnoText(error));
    if (rename(fresh.c_str(), path.c_str()) != 0) {
      return Unavailable("renaming %s: %s", fresh, ErrnoText(errno));
    }
    return OkStatus();
  }

  StatusOr<uint64_t> ReadAcknowledged() const {
    std::ifstream file(AcknowledgedPath());
    if (!file) return uint64_t{0};
    uint64_t version = 0;
    if (!(file >> version)) return DataLoss("%s is damaged", AcknowledgedPath());
    return version;
  }

  StatusOr<std::string> Value(const std::string& key) const {
    std::string value;
    TD_RETURN_IF_ERROR(
        FromRocksdb(db_->Get({}, key, &value), absl::StrFormat("%s: record %s", dir_, key)));
    return value;
  }

  StatusOr<ShardImage> ReadValues(const ShardMeta& meta) const {
    ShardImage image;
    TD_ASSIGN_OR_RETURN(image.config, FromProto(meta.config()));
    TD_RETURN_IF_ERROR(CheckConfig(image.config));
    image.version = meta.version();
    image.log_number = meta.log_number();
    for (const TrainerMark& m : meta.mark()) {
      TD_ASSIGN_OR_RETURN(PushMark mark, MarkFromProto(m));
      image.marks.push_back(mark);
    }
    if (meta.slots_size() != static_cast<int>(image.config.slices.size())) {
      return DataLoss("%s: record meta is damaged", dir_);
    }
    uint32_t sum = 0;
    for (size_t i = 0; i < image.config.slices.size(); ++i) {
      SliceImage slice;
      TD_ASSIGN_OR_RETURN(const std::string param, Value(ParamKey(i)));
      sum = Crc32c(sum, param.data(), param.size());
      TD_ASSIGN_OR_RETURN(slice.param, ToBuffer(param, image.config.slices[i].numel, ParamKey(i)));
      const std::string& names = meta.slots(static_cast<int>(i));
      std::vector<std::string> slots;
      if (!names.empty()) slots = absl::StrSplit(names, '\n');
      for (size_t j = 0; j < slots.size(); ++j) {
        TD_ASSIGN_OR_RETURN(const std::string value, Value(SlotKey(i, j)));
        sum = Crc32c(sum, value.data(), value.size());
        const auto numel = static_cast<int64_t>(value.size() / sizeof(float));
        TD_ASSIGN_OR_RETURN(Buffer values, ToBuffer(value, numel, SlotKey(i, j)));
        slice.slots.push_back({slots[j], numel, std::move(values)});
      }
      image.slices.push_back(std::move(slice));
    }
    TD_RETURN_IF_ERROR(ReadTables(meta, image, &sum));
    if (sum != meta.values_crc32c()) {
      return DataLoss("%s: CRC32C of the values is %08x, the record says %08x", dir_, sum,
                      meta.values_crc32c());
    }
    return image;
  }

  Status ReadTables(const ShardMeta& meta, ShardImage& image, uint32_t* sum) const {
    if (meta.table_size() != static_cast<int>(image.config.tables.size())) {
      return DataLoss("%s: record meta is damaged", dir_);
    }
    for (int i = 0; i < meta.table_size(); ++i) {
      TableImage& table = image.tables.emplace_back();
      for (const uint32_t bucket : meta.table(i).bucket()) {
        const std::string key = RowsKey(static_cast<size_t>(i), static_cast<int>(bucket));
        TD_ASSIGN_OR_RETURN(const std::string text, Value(key));
        *sum = Crc32c(*sum, text.data(), text.size());
        TableRows rows;
        if (!rows.ParseFromString(text)) return DataLoss("%s: record %s is damaged", dir_, key);
        TD_ASSIGN_OR_RETURN(RowValues values, FromProto(rows));
        table.buckets.emplace_back(static_cast<int>(bucket), std::move(values));
      }
      for (const TableMeta::Scalar& slot : meta.table(i).slot()) {
        table.scalars.emplace_back(slot.name(), slot.value());
      }
    }
    return OkStatus();
  }

  const std::string dir_;
  const uint64_t free_bytes_min_;
  Mutex mu_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

StatusOr<std::unique_ptr<Storage>> OpenRocksdbStorage(const std::string& dir,
                                                      uint64_t free_bytes_min) {
  auto storage = std::make_unique<RocksdbStorage>(dir, free_bytes_min);
  TD_RETURN_IF_ERROR(storage->Open());
  return std::unique_ptr<Storage>(std::move(storage));
}

}  // namespace tandem
