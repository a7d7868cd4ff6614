// The state of a standby or a replica, which a LogFollower keeps equal to the primary's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/replication/log_fetcher.h"
#include "pserver/server_parts.h"
#include "pserver/storage/checkpoint_files.h"

namespace tandem::pserver {

// Stores and applies what the primary has written. Not thread-safe: after Recover, the thread of
// the LogFollower makes all calls.
class FollowerState final : public StandbyState {
 public:
  // `parts` must outlive this object. `job`: name of the job. `before_install`: called before a
  // fetched checkpoint replaces the shard of `parts`; null: not called.
  FollowerState(ServerParts& parts, std::string job, std::function<void()> before_install = nullptr)
      : parts_(parts), job_(std::move(job)), before_install_(std::move(before_install)) {}

  // Restores the stored state. A damaged state is dropped, because the primary has all of it.
  Status Recover();

  Position position() const override { return position_; }
  Status Append(std::vector<LogEntry> entries) override;
  Status SetTerm(const LogTerm& term) override;
  Status SetComplete() override;
  StatusOr<std::string> NewValuesFile() override { return files().NewValuesFile(); }
  Status Install(const std::string& record, const std::string& path, const LogTerm& term) override;

 private:
  CheckpointFiles& files() const { return *parts_.storage()->files(); }

  ServerParts& parts_;
  const std::string job_;
  const std::function<void()> before_install_;
  Position position_;
};

}  // namespace tandem::pserver
