// The global snapshots that the replayed log of another server has (SnapshotRecord), until they are
// written.
#pragma once

#include <deque>
#include <functional>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// A queue that one thread at a time writes, in the order of the log. Thread-safe.
class LoggedSnapshots {
 public:
  // `write` stores a snapshot, of which the function copies the state.
  using Write = std::function<Status(const SnapshotRecord&, const SnapshotFn&)>;
  explicit LoggedSnapshots(Write write) : write_(std::move(write)) {}

  // Adds a snapshot, which is later in the log than those before. No effect while Ignore(true).
  void Add(const SnapshotRecord& record, SnapshotFn copy);
  // Writes the snapshots that wait. Returns when all that were added before are written or failed.
  void WriteAll();
  // Abandons the snapshots that wait. Does not wait for WriteAll.
  void Clear();
  // While `ignore` is true, Add has no effect.
  void Ignore(bool ignore);

 private:
  struct Waiting {
    SnapshotRecord record;
    SnapshotFn copy;
  };

  const Write write_;
  Mutex writing_mu_;  // held by the thread that writes; acquired before mu_
  Mutex mu_;
  std::deque<Waiting> waiting_ TD_GUARDED_BY(mu_);
  bool ignore_ TD_GUARDED_BY(mu_) = false;
};

}  // namespace tandem::pserver
