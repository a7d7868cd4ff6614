#include "pserver/replica.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "pserver/follower_state.h"
#include "pserver/server_front.h"
#include "pserver/server_parts.h"

namespace tandem::pserver {

StatusOr<std::unique_ptr<Replica>> Replica::Start(PserverOptions options, const Endpoint& primary,
                                                  Metrics& metrics, OnListening on_listening) {
  if (options.durability != Durability::kLogged || options.standbys != 0) {
    return InvalidArgument(
        "a replica keeps a log and has no standbys [TD4033]; hint: set --durability=logged, and "
        "no --standbys");
  }
  TD_RETURN_IF_ERROR(CheckOptions(options));
  if (options.job.empty()) {
    return InvalidArgument("a replica needs the name of its job [TD1007]; hint: set --job=NAME");
  }
  options.shm_rpc = false;
  options.on_silent = nullptr;  // trainers call the primary
  std::unique_ptr<Replica> made(new Replica(std::move(options), metrics));
  made->on_listening_ = std::move(on_listening);
  TD_ASSIGN_OR_RETURN(made->parts_, ServerParts::Open(made->options_, metrics));
  made->state_ = std::make_unique<FollowerState>(
      *made->parts_, made->options_.job, [replica = made.get()] { replica->StopServing(); });
  TD_RETURN_IF_ERROR(made->state_->Recover());
  LogFollower::Options follow;
  follow.job = made->options_.job;
  follow.replica = true;
  follow.incarnation = made->parts_->incarnation();
  follow.primary = primary;
  follow.secret = made->options_.secret;
  follow.tls = made->options_.rpc.tls;
  follow.insecure_allow_network = made->options_.rpc.insecure_allow_network;
  follow.on_step = [replica = made.get()](const LogFollower::Progress& progress) {
    replica->OnStep(progress);
  };
  TD_ASSIGN_OR_RETURN(made->follower_, LogFollower::Start(std::move(follow), *made->state_));
  return made;
}

Replica::Replica(PserverOptions options, Metrics& metrics)
    : options_(std::move(options)), metrics_(metrics), gauges_(metrics) {}

Replica::~Replica() {
  if (follower_ != nullptr) follower_->Stop();
  StopServing();
}

LogFollower::Progress Replica::progress() const {
  MutexLock lock(mu_);
  return progress_;
}

std::optional<Endpoint> Replica::endpoint() const {
  MutexLock lock(mu_);
  if (front_ == nullptr) return std::nullopt;
  return front_->endpoint();
}

std::optional<Endpoint> Replica::resp_endpoint() const {
  MutexLock lock(mu_);
  if (front_ == nullptr) return std::nullopt;
  return front_->resp_endpoint();
}

void Replica::StopServing() {
  history_.Forget();
  std::unique_ptr<ServerFront> front;
  {
    MutexLock lock(mu_);
    front = std::move(front_);
  }
  if (front == nullptr) return;
  TD_REQUIRE(parts_ != nullptr);
  front->StopServing();
  parts_->durable().shard().Shutdown();  // ends the waiting pulls
}

void Replica::OnStep(const LogFollower::Progress& progress) {
  gauges_.Show(progress);
  if (progress.position.has_state) {
    history_.OnStep(progress.position.term, progress.position.last);
  }
  {
    MutexLock lock(mu_);
    progress_ = progress;
    if (front_ != nullptr || progress.current == Time()) return;
  }
  if (failed_) return;
  // Only this thread changes front_. The start may wait for the address.
  StatusOr<std::unique_ptr<ServerFront>> front = ServerFront::Start(
      options_, *parts_, metrics_, {[this] { return this->progress(); }, &history_});
  if (!front.ok()) {
    failed_ = true;
    LOG(ERROR) << "the replica cannot listen: " << ToString(front.status());
    if (options_.on_failure) options_.on_failure(front.status());
    return;
  }
  // A later start must listen at the same addresses.
  if (!options_.rpc.listen.is_unix()) options_.rpc.listen.port = (*front)->endpoint().port;
  if (options_.resp_listen) options_.resp_listen = (*front)->resp_endpoint();
  const ServerFront* listening = nullptr;
  {
    MutexLock lock(mu_);
    front_ = *std::move(front);
    listening = front_.get();
  }
  if (on_listening_) on_listening_(*listening);
}

}  // namespace tandem::pserver
