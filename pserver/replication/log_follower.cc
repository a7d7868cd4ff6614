#include "pserver/replication/log_follower.h"

#include <unistd.h>

#include <utility>

#include "common/base/check.h"
#include "common/os/files.h"
#include "common/rpc/credentials/exposure.h"
#include "common/rpc/credentials/identity.h"
#include "common/threads/runner.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/blocking_call.h"
#include "pserver/wire/log_record.h"

namespace tandem::pserver {
namespace {

// Time limit of a request in addition to the time for which the primary may hold it.
constexpr Duration kCallTimeout = std::chrono::seconds(10);
// Time limit of the first part of a checkpoint, for which the primary may have to write it.
constexpr Duration kFirstPartTimeout = std::chrono::minutes(5);

std::string UriOf(const LogFollower::Options& options) {
  if (!options.tls.enabled()) return "";
  return rpc::ToUri({options.job, rpc::PeerRole::kPserver});
}

}  // namespace

struct LogFollower::Connection {
  explicit Connection(ps::RawServer raw) : calls(std::move(raw)) {}
  ps::BlockingCalls calls;
};

StatusOr<std::unique_ptr<LogFollower>> LogFollower::Start(Options options, StandbyState& state) {
  TD_RETURN_IF_ERROR(
      rpc::CheckSendsInTheClear(options.primary, options.tls, options.insecure_allow_network));
  TD_ASSIGN_OR_RETURN(const auto credentials, rpc::MakeCredentials(options.tls, UriOf(options)));
  ps::RawServer raw{rpc::MakeChannel(options.primary, credentials), nullptr};
  if (!options.secret.empty()) {
    raw.session =
        std::make_shared<ps::ClientSession>(options.secret, options.job, ToString(options.primary));
  }
  auto connection = std::make_unique<Connection>(std::move(raw));
  return std::unique_ptr<LogFollower>(
      new LogFollower(std::move(options), state, std::move(connection)));
}

LogFollower::LogFollower(Options options, StandbyState& state,
                         std::unique_ptr<Connection> connection)
    : options_(std::move(options)), state_(state), connection_(std::move(connection)) {
  progress_.position = state_.position();
  thread_ = std::thread([this] { Loop(); });
}

LogFollower::~LogFollower() { Stop(); }

void LogFollower::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    stop_changed_.NotifyAll();
  }
  connection_->calls.Cancel();
  if (thread_.joinable()) thread_.join();
}

bool LogFollower::stopped() const {
  MutexLock lock(mu_);
  return stop_;
}

LogFollower::Progress LogFollower::progress() const {
  MutexLock lock(mu_);
  return progress_;
}

void LogFollower::Loop() {
  SetThreadName("follower");
  while (!stopped()) {
    const Status status = FetchOnce();
    const StandbyState::Position position = state_.position();
    MutexLock lock(mu_);
    if (stop_) return;
    progress_.position = position;
    if (!status.ok() && progress_.status.ok()) {
      LOG(WARNING) << "following the primary " << ToString(options_.primary) << ": "
                   << ToString(status);
    }
    LOG_IF(INFO, status.ok() && !progress_.status.ok())
        << "following the primary " << ToString(options_.primary) << " again";
    progress_.status = status;
    if (status.ok()) continue;
    const Time until = SteadyNow() + options_.pause;
    while (!stop_ && stop_changed_.WaitUntil(mu_, until)) {
    }
  }
}

Status LogFollower::FetchOnce() {
  const StandbyState::Position position = state_.position();
  FetchLogRequest request;
  request.set_job(options_.job);
  request.set_member(static_cast<uint32_t>(options_.member));
  request.set_incarnation(options_.incarnation);
  request.set_history(position.term.history);
  request.set_term(position.term.number);
  request.set_start(position.term.start);
  request.set_has_state(position.has_state);
  request.set_after(position.last);
  request.set_wait_ms(static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.wait).count()));
  FetchLogReply reply;
  TD_RETURN_IF_ERROR(connection_->calls.Call(rpc::PserverCall::kFetchLog, request, &reply,
                                             SteadyNow() + options_.wait + kCallTimeout));
  {
    MutexLock lock(mu_);
    progress_.heard = SteadyNow();
    progress_.primary_last = reply.last();
  }
  if (reply.needs_checkpoint() || !position.has_state) return FetchCheckpoint();
  const LogTerm term = {reply.history(), reply.term(), reply.start()};
  if (term != position.term) TD_RETURN_IF_ERROR(state_.SetTerm(term));
  std::vector<LogEntry> entries;
  for (const std::string& bytes : reply.entry()) {
    TD_ASSIGN_OR_RETURN(LogEntry entry, DecodeLogEntry(position.last + 1 + entries.size(), bytes));
    entries.push_back(std::move(entry));
  }
  return entries.empty() ? OkStatus() : state_.Append(std::move(entries));
}

Status LogFollower::FetchCheckpoint() {
  FetchCheckpointRequest request;
  request.set_job(options_.job);
  request.set_member(static_cast<uint32_t>(options_.member));
  request.set_incarnation(options_.incarnation);
  FetchCheckpointReply reply;
  const auto fetch = [&] {
    return connection_->calls.Call(
        rpc::PserverCall::kFetchCheckpoint, request, &reply,
        SteadyNow() + (request.offset() == 0 ? kFirstPartTimeout : kCallTimeout));
  };
  const Status first = fetch();
  if (first.code() == StatusCode::kNotFound) {
    // The trainers have not sent the initial values yet.
    MutexLock lock(mu_);
    const Time until = SteadyNow() + options_.pause;
    while (!stop_ && stop_changed_.WaitUntil(mu_, until)) {
    }
    return OkStatus();
  }
  TD_RETURN_IF_ERROR(first);
  const Time begin = SteadyNow();
  const std::string record = reply.record();
  const LogTerm term = {reply.history(), reply.term(), reply.start()};
  const uint64_t bytes = reply.bytes();
  TD_ASSIGN_OR_RETURN(const std::string path, state_.NewValuesFile());
  const auto copy = [&]() -> Status {
    FileWriter file;
    TD_RETURN_IF_ERROR(file.Open(path));
    uint64_t written = 0;
    while (true) {
      if (reply.content().empty() && written < bytes) {
        return DataLoss("the primary sent an empty part of its checkpoint at offset %d", written);
      }
      TD_RETURN_IF_ERROR(file.Write(reply.content().data(), reply.content().size()));
      written += reply.content().size();
      if (written >= bytes) return file.SyncAndClose();
      if (stopped()) return Cancelled("the standby stops");
      request.set_offset(written);
      TD_RETURN_IF_ERROR(fetch());
    }
  };
  Status status = copy();
  if (status.ok()) status = state_.Install(record, path, term);
  if (!status.ok()) {
    unlink(path.c_str());
    return Annotate(status, "fetching the checkpoint of the primary");
  }
  LOG(INFO) << "fetched the checkpoint of the primary: " << bytes << " bytes, term " << term.number
            << ", in " << Seconds(SteadyNow() - begin) << " s";
  return OkStatus();
}

}  // namespace tandem::pserver
