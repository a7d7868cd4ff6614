// Copies the checkpoint of a store to the store of another server, as bytes.
#pragma once

#include <cstdint>
#include <string>

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

// The part of a store that replication needs. Thread-safe.
class CheckpointFiles {
 public:
  virtual ~CheckpointFiles() = default;
  // Opens the newest checkpoint. NOT_FOUND: there is none. FAILED_PRECONDITION: the newest
  // checkpoint is a delta.
  virtual StatusOr<OpenedCheckpoint> OpenCheckpoint() = 0;
  // Returns the path of a new file of values in the store, which the caller writes and syncs before
  // Install. The next checkpoint removes a file that was not installed.
  virtual std::string NewValuesFile() = 0;
  // Replaces the checkpoint by `record` with the file `path`, empties the log, and sets the term.
  // All of this is durable and atomic. `path`: from NewValuesFile. DATA_LOSS: the record is
  // damaged.
  virtual Status InstallCheckpoint(const std::string& record, const std::string& path,
                                   uint64_t term) = 0;
  // The term of the state (FetchLogReply in proto/pserver.proto); 0: none was set.
  virtual StatusOr<uint64_t> Term() = 0;
  // Sets the term durably.
  virtual Status SetTerm(uint64_t term) = 0;
};

}  // namespace tandem::pserver
