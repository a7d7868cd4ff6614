#include "pserver/standby.h"

#include <chrono>
#include <utility>

#include "common/base/check.h"
#include "pserver/follower_state.h"
#include "pserver/server_parts.h"

namespace tandem::pserver {
namespace {

// Time for which Hold waits for the reply to a request. The calls to a primary that has ended fail
// at once, and those to a lost host do not.
constexpr Duration kReplyGrace = std::chrono::milliseconds(300);

}  // namespace

Standby::Standby(PserverOptions options, Metrics& metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      gauges_(metrics),
      promotions_(metrics.GetCounter("tandem_pserver_promotions_total",
                                     "Promotions of this process to the primary of its server")) {}

Standby::~Standby() { Hold(); }

StatusOr<std::unique_ptr<Standby>> Standby::Start(PserverOptions options, Metrics& metrics) {
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
  made->state_ = std::make_unique<FollowerState>(*made->parts_, made->options_.job);
  TD_RETURN_IF_ERROR(made->state_->Recover());
  MutexLock lock(made->mu_);
  made->held_.position = made->state_->position();
  return made;
}

Status Standby::Follow(const Endpoint& primary, uint64_t incarnation) {
  if (parts_ == nullptr) return FailedPrecondition("the standby was promoted before [TD4029]");
  Hold();
  LogFollower::Options follow;
  follow.job = options_.job;
  follow.member = options_.member;
  follow.incarnation = incarnation;
  follow.primary = primary;
  follow.secret = options_.secret;
  follow.tls = options_.rpc.tls;
  follow.insecure_allow_network = options_.rpc.insecure_allow_network;
  follow.on_step = [this](const LogFollower::Progress& progress) { gauges_.Show(progress); };
  TD_ASSIGN_OR_RETURN(std::shared_ptr<LogFollower> follower,
                      LogFollower::Start(std::move(follow), *state_));
  MutexLock lock(mu_);
  follower_ = std::move(follower);
  return OkStatus();
}

void Standby::Hold() {
  std::shared_ptr<LogFollower> follower;
  {
    MutexLock lock(mu_);
    follower = follower_;
  }
  if (follower == nullptr) return;
  follower->Stop(kReplyGrace);  // may also wait for the end of a write
  MutexLock lock(mu_);
  held_ = follower->progress();
  held_.position = state_->position();
  follower_ = nullptr;
}

LogFollower::Progress Standby::progress() const {
  MutexLock lock(mu_);
  return follower_ != nullptr ? follower_->progress() : held_;
}

StatusOr<std::unique_ptr<Pserver>> Standby::Promote(uint64_t term) {
  if (parts_ == nullptr) return FailedPrecondition("the standby was promoted before [TD4029]");
  Hold();
  TD_RETURN_IF_ERROR(state_->Promote(term, progress().primary_last, options_.replication));
  promotions_.Add(1);
  gauges_.Clear();
  LOG(INFO) << "promoted to the primary of term " << term << " at log entry "
            << state_->position().last;
  return Pserver::Serve(options_, std::move(parts_), metrics_);
}

StatusOr<std::unique_ptr<Pserver>> Standby::Begin() {
  if (parts_ == nullptr) return FailedPrecondition("the standby was promoted before [TD4029]");
  Hold();
  TD_RETURN_IF_ERROR(state_->Begin());
  LOG(INFO) << "began as the first primary of the server";
  return Pserver::Serve(options_, std::move(parts_), metrics_);
}

}  // namespace tandem::pserver
