#include "pserver/follower_state.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "pserver/shard/checkpoint_calls.h"

namespace tandem::pserver {

Status FollowerState::Recover() {
  TD_REQUIRE(parts_.storage() != nullptr && parts_.durable().log() != nullptr);
  const StatusOr<uint64_t> version = parts_.Recover();
  TD_ASSIGN_OR_RETURN(position_.term, files().Term());
  TD_ASSIGN_OR_RETURN(position_.complete, files().Complete());
  if (version.ok()) {
    TD_RETURN_IF_ERROR(CheckJob(job_, parts_.durable().shard().Job()));
    position_.has_state = parts_.durable().shard().Info().initialised;
    position_.dropped = false;
    position_.last = parts_.durable().log()->written();
    return OkStatus();
  }
  if (version.status().code() != StatusCode::kDataLoss) return version.status();
  LOG(ERROR) << "the stored state cannot be used, and the checkpoint is fetched again: "
             << ToString(version.status());
  position_.has_state = false;
  position_.last = 0;
  position_.dropped = true;
  return parts_.MakeEmptyShard();
}

Status FollowerState::Append(std::vector<LogEntry> entries) {
  TD_REQUIRE(!entries.empty() && entries.front().number == position_.last + 1);
  TD_RETURN_IF_ERROR(StorePending());
  std::erase_if(entries, [this](const LogEntry& e) { return e.number <= position_.last; });
  if (entries.empty()) return OkStatus();
  GroupCommitLog& log = *parts_.durable().log();
  uint64_t bytes = 0;
  for (const LogEntry& entry : entries) bytes += ValueBytes(entry);
  TD_RETURN_IF_ERROR(log.Ready(bytes));
  for (const LogEntry& entry : entries) log.Append(entry);
  pending_ = std::move(entries);
  return StorePending();
}

Status FollowerState::StorePending() {
  if (pending_.empty()) return OkStatus();
  Status stored = parts_.AwaitLogged();
  // The state stays, and lags until the disk has room. The log still has the entries.
  if (stored.code() == StatusCode::kResourceExhausted) {
    return Annotate(stored, "the standby lags");
  }
  std::vector<LogEntry> entries = std::exchange(pending_, {});
  if (!stored.ok()) {
    // The log has ended, and may have written these entries. A fetched checkpoint replaces the log.
    position_.has_state = false;
    return stored;
  }
  return Apply(std::move(entries));
}

Status FollowerState::Apply(std::vector<LogEntry> entries) {
  position_.last = entries.back().number;
  for (LogEntry& entry : entries) {
    Status applied = parts_.durable().shard().checkpoints().Replay(std::move(entry));
    if (applied.ok()) continue;
    position_.has_state = false;  // fetches the checkpoint again
    return applied;
  }
  return OkStatus();
}

Status FollowerState::DropPending() {
  if (pending_.empty()) return OkStatus();
  GroupCommitLog& log = *parts_.durable().log();
  log.DropUnwritten();
  std::vector<LogEntry> entries = std::exchange(pending_, {});
  // The log writes entries as they come, so it may have written only the first of these.
  std::erase_if(entries, [&log](const LogEntry& e) { return e.number > log.written(); });
  if (entries.empty()) return OkStatus();
  // The primary of the new term may have other entries with these numbers. It decides when the
  // standby requests the entries after these.
  TD_RETURN_IF_ERROR(Apply(std::move(entries)));
  return Unavailable(
      "the standby has written entries of term %d that a full disk had held back, and asks the "
      "primary again",
      position_.term.number);
}

Status FollowerState::SetTerm(const LogTerm& term) {
  TD_REQUIRE(position_.has_state);
  TD_RETURN_IF_ERROR(DropPending());
  TD_RETURN_IF_ERROR(files().SetTerm(term));
  position_.term = term;
  return OkStatus();
}

Status FollowerState::SetComplete() {
  TD_RETURN_IF_ERROR(files().SetComplete());
  position_.complete = true;
  return OkStatus();
}

Status FollowerState::Install(const std::string& record, const std::string& path,
                              const LogTerm& term) {
  TD_REQUIRE(!path.empty() && term.history != 0);
  position_.has_state = false;
  pending_.clear();
  if (before_install_) before_install_();
  TD_RETURN_IF_ERROR(parts_.MakeEmptyShard());  // ends the writes of the old shard
  TD_RETURN_IF_ERROR(files().InstallCheckpoint(record, path, term));
  TD_RETURN_IF_ERROR(Recover());
  if (position_.has_state) return OkStatus();
  return DataLoss("the fetched checkpoint cannot be restored [TD4010]");
}

Status FollowerState::Promote(uint64_t term, uint64_t primary_last, Replication replication) {
  if (!position_.has_state) {
    return FailedPrecondition(
        "this standby cannot be promoted, because it has no state: it has not fetched a checkpoint "
        "[TD4029]; hint: promote another standby, or start the job from a checkpoint");
  }
  if (!position_.complete && replication == Replication::kQuorum) {
    return FailedPrecondition(
        "this standby cannot be promoted, because it has fetched a checkpoint and has not yet "
        "received the entries after it, up to entry %d [TD4029]; hint: promote another standby, or "
        "start the primary again",
        primary_last);
  }
  if (term <= position_.term.number) {
    return FailedPrecondition(
        "this standby has term %d and cannot be promoted to term %d [TD4029]; hint: use a higher "
        "term",
        position_.term.number, term);
  }
  TD_RETURN_IF_ERROR(Annotate(StorePending(), "this standby cannot be promoted"));
  // Trainers have called the old primary until now.
  parts_.durable().shard().checkpoints().HearAllTrainers();
  // The state of a server without standbys has no history.
  std::optional<LogSource::Predecessor> predecessor;
  if (position_.term.history != 0) predecessor = {position_.term, position_.last};
  return parts_.BeginReplication({position_.term.history, term, 0}, predecessor);
}

Status FollowerState::Begin() {
  if (position_.has_state) {
    return FailedPrecondition(
        "this standby has a state of term %d and cannot begin a new history [TD4029]; hint: "
        "promote it",
        position_.term.number);
  }
  if (position_.dropped) {
    return FailedPrecondition(
        "this standby has dropped a damaged state and cannot begin a new history [TD4029]; hint: "
        "restore a copy of its directory, or remove the directory if its state is not needed");
  }
  return parts_.ResumeReplication();
}

}  // namespace tandem::pserver
