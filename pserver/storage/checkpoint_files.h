// Copies the checkpoint of a store to the store of another server, as bytes.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/require.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::pserver {

// A full checkpoint of a store, opened for reading. The file stays readable after the store has
// replaced the checkpoint.
struct OpenedCheckpoint {
  std::string record;  // a serialized ShardMeta (proto/pserver.proto)
  Fd values;           // the file of values, readable at any offset
  uint64_t bytes = 0;  // size of the file of values in bytes
};

// Identifies the changes in a log: entries of two logs with the same term and number are equal
// (docs/internals/replication.md).
struct LogTerm {
  uint64_t history = 0;  // a random number of the first primary; 0: there was none yet
  uint64_t number = 0;  // increases with each promotion and each restored checkpoint; 0: the server
                        // has no standbys
  // Increases with each start of the primary of this number; with the number 0 also with each
  // restored checkpoint.
  uint64_t start = 0;
  friend bool operator==(const LogTerm&, const LogTerm&) = default;
  // Returns whether this term is later than `other`. REQUIRES: both have the same history.
  bool After(const LogTerm& other) const {
    TD_REQUIRE(history == other.history);
    return number != other.number ? number > other.number : start > other.start;
  }
};

// The part of a store that replication needs. Thread-safe.
class CheckpointFiles {
 public:
  virtual ~CheckpointFiles() = default;
  // Opens the newest checkpoint. NOT_FOUND: there is none. FAILED_PRECONDITION: the newest
  // checkpoint is a delta, or it has the state before a restore (Storage::UnfinishedRestore).
  virtual StatusOr<OpenedCheckpoint> OpenCheckpoint() = 0;
  // Returns the path of a new file of values in the store, which the caller writes and syncs before
  // Install. A file that was not installed is removed by a checkpoint that follows another call, or
  // after the next start.
  virtual std::string NewValuesFile() = 0;
  // Replaces the checkpoint by `record` with the file `path`, empties the log, sets the term, and
  // marks the state as incomplete. All of this is durable and atomic. `path`: the last result of
  // NewValuesFile. DATA_LOSS: the record or the file is damaged; nothing changed.
  virtual Status InstallCheckpoint(const std::string& record, const std::string& path,
                                   const LogTerm& term) = 0;
  virtual StatusOr<LogTerm> Term() = 0;
  // Sets the term durably.
  virtual Status SetTerm(const LogTerm& term) = 0;
  // Returns whether the state has all entries that this store had before. false: a checkpoint was
  // installed, which may lack entries that the store had acknowledged before.
  virtual StatusOr<bool> Complete() = 0;
  // Marks the state as complete, durably.
  virtual Status SetComplete() = 0;
};

}  // namespace tandem::pserver
