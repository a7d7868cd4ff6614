// Reads the directory of a server, which may be running, without changing it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/log_files/log_file.h"
#include "pserver/state/shard_config.h"
#include "pserver/storage/checkpoint_files.h"
#include "pserver/storage/scanned_entry.h"
#include "pserver/storage/snapshot_chunks.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace tandem::pserver {

// The directory as it was when Open was called. Not thread-safe.
class StoreReader {
 public:
  // A stored state: the checkpoint or a global snapshot.
  struct State {
    uint64_t number = 0;  // number of the global snapshot; 0: the checkpoint
    uint64_t version = 0;
    uint64_t log_number = 0;  // number of the last log entry that the state contains
  };

  // Opens the directory of one server, such as DIR/pserver-0/shard-0. NOT_FOUND: it has no store.
  // UNAVAILABLE: the server replaced its log meanwhile. FAILED_PRECONDITION: the log is of an
  // earlier version.
  static StatusOr<std::unique_ptr<StoreReader>> Open(const std::string& dir);
  ~StoreReader();

  // Returns the stored states by ascending log numbers; the checkpoint follows global snapshots
  // with the same log number.
  StatusOr<std::vector<State>> States() const;
  // Passes a state to `sink`. DATA_LOSS: it is damaged, or a running server has removed it.
  // FAILED_PRECONDITION: it is a delta checkpoint.
  Status Read(const State& state, SnapshotSink& sink) const;
  // Returns the configuration in the checkpoint; nullopt: there is no checkpoint.
  StatusOr<std::optional<ShardConfig>> Config() const;
  // Returns a table of the configuration in the checkpoint; nullopt: it has no such table, or there
  // is no checkpoint.
  StatusOr<std::optional<TableSpec>> Table(const std::string& name) const;
  bool has_checkpoint() const;
  // Returns the term of the log. `history` 0: there is none.
  StatusOr<LogTerm> Term() const;
  // Returns the restores in the log, by ascending numbers.
  StatusOr<std::vector<LogBreak>> Breaks() const;
  // Numbers of the first and the last entry of the log; 0: the log is empty.
  uint64_t first_entry() const { return range_.first; }
  uint64_t last_entry() const { return range_.last; }
  // Calls `take` for the entries with the number `first` or a later one, by ascending numbers, and
  // returns its first error. The log may begin later than `first`. DATA_LOSS: an entry is missing
  // or damaged.
  Status ScanLog(uint64_t first, const ScanSink& take) const;

 private:
  explicit StoreReader(std::string dir);
  Status OpenLog();
  // Sets the files of the log, and the numbers of the entries from `first` on.
  Status UseFiles(std::vector<LogFile> files, uint64_t first);

  const std::string dir_;
  std::string scratch_;  // directory for the messages of RocksDB, removed by the destructor
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<LogFile> files_;  // files of the log
  LogRange range_;
};

}  // namespace tandem::pserver
