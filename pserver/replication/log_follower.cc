#include "pserver/replication/log_follower.h"

#include <utility>

#include "common/base/check.h"
#include "common/rpc/credentials/exposure.h"
#include "common/rpc/credentials/identity.h"
#include "common/threads/runner.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/blocking_call.h"

namespace tandem::pserver {
namespace {

std::string UriOf(const LogFollower::Options& options) {
  if (!options.tls.enabled()) return "";
  return rpc::ToUri({options.job, rpc::PeerRole::kPserver});
}

}  // namespace

struct LogFollower::Connection final : PrimaryCalls {
  explicit Connection(ps::RawServer raw) : calls(std::move(raw)) {}
  Status FetchLog(const FetchLogRequest& request, Duration timeout, FetchLogReply* reply) override {
    TD_RETURN_IF_ERROR(
        calls.Call(rpc::PserverCall::kFetchLog, request, reply, SteadyNow() + timeout));
    follower->OnReply(reply->last());
    return OkStatus();
  }
  Status FetchCheckpoint(const FetchCheckpointRequest& request, Duration timeout,
                         FetchCheckpointReply* reply) override {
    return calls.Call(rpc::PserverCall::kFetchCheckpoint, request, reply, SteadyNow() + timeout);
  }
  bool stopped() const override { return follower->stopped(); }

  ps::BlockingCalls calls;
  LogFollower* follower = nullptr;  // set before the first call
};

StatusOr<std::unique_ptr<LogFollower>> LogFollower::Start(Options options, StandbyState& state) {
  TD_RETURN_IF_ERROR(
      rpc::CheckSendsInTheClear(options.primary, options.tls, options.insecure_allow_network));
  TD_ASSIGN_OR_RETURN(const auto credentials, rpc::MakeCredentials(options.tls, UriOf(options)));
  auto connection = std::make_unique<Connection>(
      ps::MakeRawServer(options.primary, options.tls, credentials, options.secret, options.job));
  return std::unique_ptr<LogFollower>(
      new LogFollower(std::move(options), state, std::move(connection)));
}

LogFollower::LogFollower(Options options, StandbyState& state,
                         std::unique_ptr<Connection> connection)
    : options_(std::move(options)), state_(state), connection_(std::move(connection)) {
  connection_->follower = this;
  progress_.position = state_.position();
  thread_ = std::thread([this] { Loop(); });
}

LogFollower::~LogFollower() { Stop(); }

void LogFollower::Stop(Duration grace) {
  {
    const Time until = SteadyNow() + grace;
    MutexLock lock(mu_);
    stop_ = true;
    stop_changed_.NotifyAll();
    while (!ended_ && stop_changed_.WaitUntil(mu_, until)) {
    }
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

void LogFollower::OnReply(uint64_t primary_last) {
  MutexLock lock(mu_);
  progress_.OnReply(primary_last, SteadyNow());
}

void LogFollower::Loop() {
  SetThreadName("follower");
  LogFetcher fetcher(
      {options_.job, options_.member, options_.incarnation, options_.wait, options_.replica},
      state_, *connection_);
  while (!stopped()) {
    const StatusOr<LogFetcher::Next> next = fetcher.FetchOnce();
    const Progress now = Record(next.status());
    if (options_.on_step && !stopped()) options_.on_step(now);
    if (next.ok() && *next == LogFetcher::Next::kNow) continue;
    const Time until = SteadyNow() + options_.pause;
    MutexLock lock(mu_);
    while (!stop_ && stop_changed_.WaitUntil(mu_, until)) {
    }
  }
  MutexLock lock(mu_);
  ended_ = true;
  stop_changed_.NotifyAll();
}

LogFollower::Progress LogFollower::Record(const Status& status) {
  const StandbyState::Position position = state_.position();
  MutexLock lock(mu_);
  if (stop_) return progress_;
  if (!status.ok() && progress_.status.ok()) {
    LOG(WARNING) << "following the primary " << ToString(options_.primary) << ": "
                 << ToString(status);
  }
  LOG_IF(INFO, status.ok() && !progress_.status.ok())
      << "following the primary " << ToString(options_.primary) << " again";
  progress_.OnEnd(position, status);
  return progress_;
}

void LogFollower::Progress::OnReply(uint64_t last, Time now) {
  heard = now;
  primary_last = last;
}

void LogFollower::Progress::OnEnd(const StandbyState::Position& now, const Status& result) {
  position = now;
  status = result;
  if (!now.has_state || !now.complete) current = Time();
  const bool reached = now.has_state && now.complete && now.last >= primary_last;
  if (result.ok() && reached) current = heard;
}

}  // namespace tandem::pserver
