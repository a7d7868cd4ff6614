#include "pserver/standby.h"

#include <chrono>
#include <future>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "pserver/server_parts.h"
#include "pserver/shard/checkpoint_calls.h"

namespace tandem::pserver {
namespace {

// The clock of the host, so that a later start has a higher number.
uint64_t StandbyIncarnation() {
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
}

}  // namespace

// The state of the standby for its LogFollower.
class Standby::State final : public StandbyState {
 public:
  State(ServerParts& parts, std::string job) : parts_(parts), job_(std::move(job)) {}

  // Restores the stored state. A damaged state is dropped: the primary has all of it.
  Status Recover() {
    const StatusOr<uint64_t> version = parts_.Recover();
    TD_ASSIGN_OR_RETURN(position_.term, files().Term());
    if (version.ok()) {
      TD_RETURN_IF_ERROR(CheckJob(job_, parts_.durable().shard().Job()));
      position_.has_state = parts_.durable().shard().Info().initialised;
      position_.last = parts_.durable().log()->written();
      return OkStatus();
    }
    if (version.status().code() != StatusCode::kDataLoss) return version.status();
    LOG(ERROR) << "this standby cannot use its stored state and fetches the checkpoint again: "
               << ToString(version.status());
    position_.has_state = false;
    position_.last = 0;
    return parts_.MakeEmptyShard();
  }

  Position position() const override { return position_; }

  Status Append(std::vector<LogEntry> entries) override {
    TD_REQUIRE(!entries.empty() && entries.front().number == position_.last + 1);
    GroupCommitLog& log = *parts_.durable().log();
    uint64_t bytes = 0;
    for (const LogEntry& entry : entries) bytes += ValueBytes(entry);
    TD_RETURN_IF_ERROR(log.Ready(bytes));
    for (const LogEntry& entry : entries) log.Append(entry);
    std::promise<Status> written;
    log.WhenLogged([&written](const Status& status) { written.set_value(status); });
    if (Status status = written.get_future().get(); !status.ok()) {
      // The log may write these entries later. A fetched checkpoint replaces the log.
      position_.has_state = false;
      return status;
    }
    position_.last = entries.back().number;
    for (LogEntry& entry : entries) {
      Status applied = parts_.durable().shard().checkpoints().Replay(std::move(entry));
      if (applied.ok()) continue;
      position_.has_state = false;  // fetches the checkpoint again
      return applied;
    }
    return OkStatus();
  }

  Status SetTerm(const LogTerm& term) override {
    TD_REQUIRE(position_.has_state);
    TD_RETURN_IF_ERROR(files().SetTerm(term));
    position_.term = term;
    return OkStatus();
  }

  StatusOr<std::string> NewValuesFile() override { return files().NewValuesFile(); }

  Status Install(const std::string& record, const std::string& path, const LogTerm& term) override {
    position_.has_state = false;
    TD_RETURN_IF_ERROR(parts_.MakeEmptyShard());  // ends the writes of the old shard
    TD_RETURN_IF_ERROR(files().InstallCheckpoint(record, path, term));
    return Recover();
  }

 private:
  CheckpointFiles& files() const { return *parts_.storage()->files(); }

  ServerParts& parts_;
  const std::string job_;
  Position position_;
};

Standby::Standby(PserverOptions options, Metrics& metrics)
    : options_(std::move(options)), metrics_(metrics) {}

Standby::~Standby() { follower_.reset(); }

StatusOr<std::unique_ptr<Standby>> Standby::Start(PserverOptions options, const Endpoint& primary,
                                                  Metrics& metrics) {
  if (options.standbys < 1) {
    return InvalidArgument(
        "a standby needs the number of standbys of its primary [TD4028]; hint: set --standbys");
  }
  TD_RETURN_IF_ERROR(CheckOptions(options));
  if (options.job.empty()) {
    return InvalidArgument("a standby needs the name of its job [TD1007]; hint: set --job=NAME");
  }
  std::unique_ptr<Standby> made(new Standby(std::move(options), metrics));
  TD_ASSIGN_OR_RETURN(made->parts_, ServerParts::Open(made->options_, metrics));
  made->state_ = std::make_unique<State>(*made->parts_, made->options_.job);
  TD_RETURN_IF_ERROR(made->state_->Recover());
  LogFollower::Options follow;
  follow.job = made->options_.job;
  follow.member = made->options_.member;
  follow.incarnation = StandbyIncarnation();
  follow.primary = primary;
  follow.secret = made->options_.secret;
  follow.tls = made->options_.rpc.tls;
  follow.insecure_allow_network = made->options_.rpc.insecure_allow_network;
  TD_ASSIGN_OR_RETURN(made->follower_, LogFollower::Start(std::move(follow), *made->state_));
  return made;
}

LogFollower::Progress Standby::progress() const { return follower_->progress(); }

StatusOr<std::unique_ptr<Pserver>> Standby::Promote(uint64_t term) {
  if (parts_ == nullptr) return FailedPrecondition("the standby was promoted before [TD4029]");
  follower_->Stop();
  const StandbyState::Position position = state_->position();
  if (!position.has_state) {
    return FailedPrecondition(
        "this standby cannot be promoted, because it has no state: it has not fetched a checkpoint "
        "[TD4029]; hint: promote another standby, or start the job from a checkpoint");
  }
  if (term <= position.term.number) {
    return FailedPrecondition(
        "this standby has term %d and cannot be promoted to term %d [TD4029]; hint: use a higher "
        "term",
        position.term.number, term);
  }
  // Trainers have called the old primary until now.
  parts_->durable().shard().checkpoints().HearAllTrainers();
  // The state of a server without standbys has no history.
  std::optional<LogSource::Predecessor> predecessor;
  if (position.term.history != 0) predecessor = {position.term, position.last};
  TD_RETURN_IF_ERROR(parts_->BeginReplication({position.term.history, term, 0}, predecessor));
  LOG(INFO) << "promoted to the primary of term " << term << " at log entry " << position.last;
  return Pserver::Serve(options_, std::move(parts_), metrics_);
}

StatusOr<std::unique_ptr<Pserver>> Standby::Begin() {
  if (parts_ == nullptr) return FailedPrecondition("the standby was promoted before [TD4029]");
  follower_->Stop();
  if (state_->position().has_state) {
    return FailedPrecondition(
        "this standby has a state of term %d and cannot begin a new history [TD4029]; hint: "
        "promote it",
        state_->position().term.number);
  }
  TD_RETURN_IF_ERROR(parts_->ResumeReplication());
  LOG(INFO) << "began as the first primary of the server";
  return Pserver::Serve(options_, std::move(parts_), metrics_);
}

}  // namespace tandem::pserver
