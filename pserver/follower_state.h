// The state of a standby or a replica, which a LogFollower keeps equal to the primary's.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/replication/log_fetcher.h"
#include "pserver/replication/log_source.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/storage/checkpoint_files.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

// The parts of a server that a standby or replica uses. ServerParts has them; the simulator
// (tests/sim) has others. Not thread-safe.
class FollowerParts {
 public:
  virtual ~FollowerParts() = default;
  virtual DurableShard& durable() = 0;
  virtual Storage* storage() = 0;  // null: there is no data directory
  // Restores checkpoint and log (DurableShard::Recover). Returns the restored version.
  virtual StatusOr<uint64_t> Recover() = 0;
  // Replaces the shard by a new, empty one. REQUIRES: this server is a standby or a replica, and no
  // other object uses the old shard.
  virtual Status MakeEmptyShard() = 0;
  // Blocks until all entries of the log are as durable as acknowledged entries.
  virtual Status AwaitLogged() = 0;
  // Begins to send the log to standbys and replicas as the primary of a new term (TermKeeper).
  // REQUIRES: Recover returned OK, durability is kLogged, and a new history has no predecessor.
  virtual Status BeginReplication(LogTerm term,
                                  std::optional<LogSource::Predecessor> predecessor) = 0;
  // Does the same after a start as a primary. The term follows the stored term.
  virtual Status ResumeReplication() = 0;
};

// Stores and applies what the primary has written. Not thread-safe: after Recover, the thread of
// the LogFollower makes all calls. Promote and Begin need a stopped LogFollower.
class FollowerState final : public StandbyState {
 public:
  // `parts` must outlive this object. `job`: name of the job. `before_install`: called before a
  // fetched checkpoint replaces the shard of `parts`; null: not called.
  FollowerState(FollowerParts& parts, std::string job,
                std::function<void()> before_install = nullptr)
      : parts_(parts), job_(std::move(job)), before_install_(std::move(before_install)) {}

  // Restores the stored state. A damaged state is dropped, because the primary has all of it.
  Status Recover();
  // Begins the term `term` as the primary. `primary_last`: number of the last entry of the old
  // primary, for a message. FAILED_PRECONDITION: `term` is not higher than the term of the state,
  // or there is no state, or an incomplete one with kQuorum. With kAsync, the server counts the
  // pushes that an incomplete state lacks.
  Status Promote(uint64_t term, uint64_t primary_last, Replication replication);
  // Begins as the first primary of a new history. FAILED_PRECONDITION: there is a state, or a
  // damaged state was dropped.
  Status Begin();

  Position position() const override { return position_; }
  Status Append(std::vector<LogEntry> entries) override;
  Status SetTerm(const LogTerm& term) override;
  Status SetComplete() override;
  StatusOr<std::string> NewValuesFile() override { return files().NewValuesFile(); }
  Status Install(const std::string& record, const std::string& path, const LogTerm& term) override;

 private:
  CheckpointFiles& files() const { return *parts_.storage()->files(); }

  // Waits until the log has the entries in pending_, and applies them. RESOURCE_EXHAUSTED: the disk
  // is still full.
  Status StorePending();
  // Forgets the entries in pending_, which the log of a new term may not have. UNAVAILABLE: the log
  // has written them meanwhile, so the state has them.
  Status DropPending();
  Status Apply(std::vector<LogEntry> entries);

  FollowerParts& parts_;
  const std::string job_;
  const std::function<void()> before_install_;
  Position position_;
  // Entries after position_.last that the log has not written yet, because the disk is full. The
  // log writes them when there is room.
  std::vector<LogEntry> pending_;
};

}  // namespace tandem::pserver
