#include "pserver/standby.h"

#include <chrono>
#include <utility>

#include "common/base/check.h"
#include "pserver/follower_state.h"
#include "pserver/server_parts.h"

namespace tandem::pserver {
namespace {

// The clock of the host, so that a later start has a higher number.
uint64_t StandbyIncarnation() {
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
}

}  // namespace

Standby::Standby(PserverOptions options, Metrics& metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      gauges_(metrics),
      promotions_(metrics.GetCounter("tandem_pserver_promotions_total",
                                     "Promotions of this process to the primary of its server")) {}

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
  made->state_ = std::make_unique<FollowerState>(*made->parts_, made->options_.job);
  TD_RETURN_IF_ERROR(made->state_->Recover());
  LogFollower::Options follow;
  follow.job = made->options_.job;
  follow.member = made->options_.member;
  follow.incarnation = StandbyIncarnation();
  follow.primary = primary;
  follow.secret = made->options_.secret;
  follow.tls = made->options_.rpc.tls;
  follow.insecure_allow_network = made->options_.rpc.insecure_allow_network;
  follow.on_step = [gauges = &made->gauges_](const LogFollower::Progress& progress) {
    gauges->Show(progress);
  };
  TD_ASSIGN_OR_RETURN(made->follower_, LogFollower::Start(std::move(follow), *made->state_));
  return made;
}

LogFollower::Progress Standby::progress() const { return follower_->progress(); }

StatusOr<std::unique_ptr<Pserver>> Standby::Promote(uint64_t term) {
  if (parts_ == nullptr) return FailedPrecondition("the standby was promoted before [TD4029]");
  follower_->Stop();
  TD_RETURN_IF_ERROR(
      state_->Promote(term, follower_->progress().primary_last, options_.replication));
  promotions_.Add(1);
  gauges_.Clear();
  LOG(INFO) << "promoted to the primary of term " << term << " at log entry "
            << state_->position().last;
  return Pserver::Serve(options_, std::move(parts_), metrics_);
}

StatusOr<std::unique_ptr<Pserver>> Standby::Begin() {
  if (parts_ == nullptr) return FailedPrecondition("the standby was promoted before [TD4029]");
  follower_->Stop();
  TD_RETURN_IF_ERROR(state_->Begin());
  LOG(INFO) << "began as the first primary of the server";
  return Pserver::Serve(options_, std::move(parts_), metrics_);
}

}  // namespace tandem::pserver
