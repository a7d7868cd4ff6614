#include "pserver/rocksdb/store_reader.h"

#include <rocksdb/db.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/base/require.h"
#include "common/os/files.h"
#include "proto/pserver.pb.h"
#include "pserver/rocksdb/log_bounds.h"
#include "pserver/rocksdb/log_breaks.h"
#include "pserver/rocksdb/log_scan.h"
#include "pserver/rocksdb/old_log.h"
#include "pserver/rocksdb/rocksdb_status.h"
#include "pserver/rocksdb/snapshot_values.h"
#include "pserver/rocksdb/store_keys.h"
#include "pserver/rocksdb/store_meta.h"
#include "pserver/rocksdb/store_room.h"

namespace tandem::pserver {
namespace {

constexpr int kOpenedMax = 5;  // attempts to open the files of a log that its server changes

}  // namespace

StatusOr<std::unique_ptr<StoreReader>> StoreReader::Open(const std::string& dir) {
  if (!std::filesystem::exists(dir + "/CURRENT")) {
    return NotFound(
        "%s is not the directory of a pserver [TD4011]; hint: name the --pserver_data_dir of the "
        "job",
        dir);
  }
  std::unique_ptr<StoreReader> reader(new StoreReader(dir));
  std::error_code error;
  reader->scratch_ =
      (std::filesystem::temp_directory_path(error) / "tandem-reader-XXXXXX").string();
  if (mkdtemp(reader->scratch_.data()) == nullptr) {
    return FileError(reader->scratch_, "cannot be created", errno);
  }
  rocksdb::Options options = StoreOptions();
  options.create_if_missing = false;
  options.max_open_files = -1;  // a secondary instance needs this
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::OpenAsSecondary(options, dir, reader->scratch_, &db);
  if (!opened.ok()) {
    return Unavailable("cannot read %s: %s [TD2110]; hint: try again", dir, opened.ToString());
  }
  reader->db_.reset(db);
  TD_RETURN_IF_ERROR(reader->OpenLog());
  return reader;
}

Status StoreReader::OpenLog() {
  TD_REQUIRE(db_ != nullptr);
  TD_ASSIGN_OR_RETURN(const OldLog old, FindOldLog(*db_, dir_));
  if (old.entries != 0) {
    return FailedPrecondition(
        "an earlier version wrote the update log of %s [TD2119]; hint: start the server once with "
        "this version",
        dir_);
  }
  TD_ASSIGN_OR_RETURN(LogBounds bounds, ReadLogBounds(*db_, dir_));
  for (int opened = 0; opened < kOpenedMax; ++opened) {
    StatusOr<std::vector<LogFile>> files = OpenLogFiles(dir_, bounds.generation);
    const LogBounds before = bounds;
    TD_RETURN_IF_ERROR(
        FromRocksdb(db_->TryCatchUpWithPrimary(), "cannot read the checkpoint store " + dir_));
    TD_ASSIGN_OR_RETURN(bounds, ReadLogBounds(*db_, dir_));
    // The server may have removed files of the log meanwhile, also before they were listed.
    if (bounds == before && files.ok()) return UseFiles(*std::move(files), bounds.first);
    const bool removed = files.status().code() == StatusCode::kNotFound;
    if (!files.ok() && !removed) return files.status();
  }
  return Unavailable("%s changes while it is read [TD2110]; hint: try again", dir_);
}

Status StoreReader::UseFiles(std::vector<LogFile> files, uint64_t first) {
  files_ = std::move(files);
  // The server may append meanwhile. Every reading ends at the present end.
  for (LogFile& file : files_) {
    struct stat info {};
    if (fstat(file.fd.get(), &info) != 0) return FileError(file.path, "cannot be read", errno);
    file.end = static_cast<uint64_t>(info.st_size);
  }
  TD_ASSIGN_OR_RETURN(range_, RangeOf(files_, first));
  return OkStatus();
}

StoreReader::StoreReader(std::string dir) : dir_(std::move(dir)) {}

StoreReader::~StoreReader() {
  db_.reset();
  std::error_code ignored;
  if (!scratch_.empty()) std::filesystem::remove_all(scratch_, ignored);
}

StatusOr<std::vector<StoreReader::State>> StoreReader::States() const {
  std::vector<State> states;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
  const auto add = [&](uint64_t number) -> Status {
    TD_ASSIGN_OR_RETURN(const ShardMeta meta,
                        ParseMeta(dir_ + ": a state", it->value().ToString()));
    if (!meta.has_base()) states.push_back({number, meta.version(), meta.log_number()});
    return OkStatus();
  };
  uint64_t number = 0;
  for (it->Seek(keys::kSnapshotBegin);
       it->Valid() && keys::ParseNumbered(it->key().ToStringView(), keys::kSnapshotBegin, &number);
       it->Next()) {
    TD_RETURN_IF_ERROR(add(number));
  }
  it->Seek(keys::kMeta);
  if (it->Valid() && it->key() == keys::kMeta) TD_RETURN_IF_ERROR(add(0));
  std::stable_sort(states.begin(), states.end(),
                   [](const State& a, const State& b) { return a.log_number < b.log_number; });
  return states;
}

Status StoreReader::Read(const State& state, SnapshotSink& sink) const {
  std::string text;
  const rocksdb::Status got =
      db_->Get({}, state.number == 0 ? keys::kMeta : keys::Snapshot(state.number), &text);
  if (!got.ok()) return DataLoss("%s: a state is missing: %s [TD4010]", dir_, got.ToString());
  TD_ASSIGN_OR_RETURN(const ShardMeta meta, ParseMeta(dir_ + ": a state", text));
  if (meta.has_base()) return FailedPrecondition("%s: the checkpoint is a delta", dir_);
  TD_ASSIGN_OR_RETURN(ShardSnapshot head, SnapshotHeadOf(meta));
  return ReadValues(dir_ + "/" + meta.values_file(), meta, std::move(head), sink);
}

bool StoreReader::has_checkpoint() const {
  std::string text;
  return db_->Get({}, keys::kMeta, &text).ok();
}

StatusOr<std::optional<ShardConfig>> StoreReader::Config() const {
  std::string text;
  const rocksdb::Status got = db_->Get({}, keys::kMeta, &text);
  if (got.IsNotFound()) return std::optional<ShardConfig>();
  if (!got.ok())
    return DataLoss("%s: the checkpoint is missing: %s [TD4010]", dir_, got.ToString());
  TD_ASSIGN_OR_RETURN(const ShardMeta meta, ParseMeta(dir_ + ": the checkpoint", text));
  TD_ASSIGN_OR_RETURN(ShardSnapshot head, SnapshotHeadOf(meta));
  return std::optional(std::move(head.config));
}

StatusOr<std::optional<TableSpec>> StoreReader::Table(const std::string& name) const {
  TD_ASSIGN_OR_RETURN(const std::optional<ShardConfig> config, Config());
  if (!config) return std::optional<TableSpec>();
  for (const TableSpec& table : config->tables) {
    if (table.variable == name) return std::optional<TableSpec>(table);
  }
  return std::optional<TableSpec>();
}

StatusOr<LogTerm> StoreReader::Term() const {
  std::string text;
  const rocksdb::Status got = db_->Get({}, keys::kTerm, &text);
  if (got.IsNotFound()) return LogTerm();
  if (got.ok()) return ParseTerm(dir_, text);
  return Unavailable("cannot read the term of %s: %s [TD2110]; hint: try again", dir_,
                     got.ToString());
}

StatusOr<std::vector<LogBreak>> StoreReader::Breaks() const { return LogBreaks(*db_, dir_); }

Status StoreReader::ScanLog(uint64_t first, const ScanSink& take) const {
  TD_REQUIRE(take != nullptr);
  TD_ASSIGN_OR_RETURN(std::vector<LogBreak> breaks, Breaks());
  LogScan scan(std::move(breaks), dir_, take);
  return ReadLogFiles(files_, std::max(first, range_.first),
                      [&scan](const LogFrame& frame) { return scan.Add(frame); });
}

}  // namespace tandem::pserver
