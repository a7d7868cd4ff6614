#include "pserver/client/calls.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/rpc/byte_buffer.h"

namespace tandem::ps {
namespace {

// Interval at which a waiting CallOwner checks whether its server has left the job.
constexpr Duration kLookInterval = std::chrono::seconds(1);
constexpr Duration kLeaseTimeout = std::chrono::seconds(5);
// Interval at which a waiting thread calls PsCallbacks::interrupted.
constexpr Duration kInterruptInterval = std::chrono::milliseconds(100);

}  // namespace

bool IsGone(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled ||
         status.code() == StatusCode::kDeadlineExceeded;
}

Duration PauseOf(int attempts) {
  TD_REQUIRE(attempts >= 0);
  return std::chrono::milliseconds(std::min(1 << std::min(attempts, 10), 100));
}

struct Caller::PatientCall {
  const PsServer& server;
  rpc::PserverCall call;
  codec::EncodedMessage request;
  Time deadline;
  PsChannel::Take take;
  int attempts = 0;
};

Caller::Caller(PsChannel& channel, const PsOptions& options, Placement& placement,
               Resender& resender, WaitReporter& reporter)
    : channel_(channel),
      options_(options),
      placement_(placement),
      resender_(resender),
      reporter_(reporter) {}

void Caller::Send(const PsServer& server, rpc::PserverCall call, codec::EncodedMessage request,
                  Time deadline, PsChannel::Take take) {
  if (reporter_.enabled()) {
    reporter_.Begin();
    take = [this, take = std::move(take)](const Status& status, codec::Fragments answer) {
      reporter_.End();
      take(status, answer);
    };
  }
  if (resender_.enabled() || rpc::RowOf(call).patient) {
    return SendPatiently(std::make_shared<PatientCall>(
        PatientCall{server, call, std::move(request), deadline, std::move(take)}));
  }
  channel_.Call(server.index, call, std::move(request), deadline,
                [&server, take = std::move(take)](const Status& status, codec::Fragments answer) {
                  take(Annotate(status, server.name), answer);
                });
}

void Caller::SendPatiently(std::shared_ptr<PatientCall> call) {
  channel_.Call(call->server.index, call->call, call->request, call->deadline,
                [this, call](const Status& status, codec::Fragments answer) {
                  const bool asks = status.code() == StatusCode::kDataLoss;
                  const bool waits =
                      status.code() == StatusCode::kUnavailable && resender_.enabled();
                  const Duration pause = PauseOf(call->attempts++);
                  const bool time = channel_.Now() + pause < call->deadline;
                  if ((!asks && !waits) || !time) {
                    return call->take(Annotate(status, call->server.name), answer);
                  }
                  if (asks) resender_.SendAgain(static_cast<size_t>(call->server.index));
                  channel_.After(pause, [this, call] { SendAgain(call); });
                });
}

// Repeats `call`. Configure calls the servers in index order, so servers with a lower index are
// already configured. Such a server may wait for pushes that were lost with this trainer's
// predecessor, and may then block other trainers, whose pushes `call->server` needs. Each retry
// therefore first exchanges maps with the servers of lower index.
void Caller::SendAgain(std::shared_ptr<PatientCall> call) {
  std::set<size_t> before;
  if (!resender_.enabled()) {
    for (int i = 0; i < call->server.index; ++i) before.insert(static_cast<size_t>(i));
  }
  placement_.Exchange(before, [this, call] { SendPatiently(call); });
}

std::shared_ptr<Caller::SmallCall> Caller::Begin(
    const PsServer& server, rpc::PserverCall call, const google::protobuf::MessageLite& request,
    std::shared_ptr<google::protobuf::MessageLite> reply, Time deadline) {
  auto made = std::make_shared<SmallCall>(SmallCall{channel_.MakeEvent(), OkStatus()});
  Send(server, call, rpc::EncodedProto(request), deadline,
       [made, reply, &server](const Status& status, codec::Fragments answer) {
         made->status =
             status.ok() ? Annotate(rpc::ParseMessage(answer, reply.get()), server.name) : status;
         made->ended->Set();
       });
  return made;
}

Status Caller::CallAndTake(const PsServer& server, rpc::PserverCall call,
                           const google::protobuf::MessageLite& request,
                           std::shared_ptr<google::protobuf::MessageLite> reply, Duration timeout) {
  const auto made = Begin(server, call, request, reply, channel_.Now() + timeout + kGrace);
  TD_ASSIGN_OR_RETURN(const bool ended, Await(*made->ended, channel_.Now() + timeout + 2 * kGrace));
  if (ended) return made->status;
  return DeadlineExceeded("%s did not reply to %s in time [TD4025]", server.name,
                          rpc::NameOf(call));
}

StatusOr<bool> Caller::CallOwner(const PsServer& server, rpc::PserverCall call,
                                 const google::protobuf::MessageLite& request,
                                 std::shared_ptr<google::protobuf::MessageLite> reply,
                                 Duration timeout) {
  const Time give_up = channel_.Now() + timeout + kGrace;
  for (int attempts = 0; !placement_.HasLeft(server); ++attempts) {
    const auto made = Begin(server, call, request, reply, give_up);
    while (true) {
      TD_ASSIGN_OR_RETURN(const bool ended, Await(*made->ended, channel_.Now() + kLookInterval));
      if (ended) break;
      if (channel_.Now() >= give_up + kGrace) {
        return DeadlineExceeded("%s did not reply to %s in time [TD4025]", server.name,
                                rpc::NameOf(call));
      }
      TD_RETURN_IF_ERROR(ExchangeAndWait(0));
      if (placement_.HasLeft(server)) return false;
    }
    if (made->status.ok()) return true;
    if (!IsGone(made->status)) return made->status;
    TD_RETURN_IF_ERROR(ExchangeAndWait(attempts));
    if (placement_.HasLeft(server)) return false;
    const bool late = made->status.code() == StatusCode::kDeadlineExceeded;
    if (!placement_.IsAdded(server) || late || channel_.Now() >= give_up) return made->status;
  }
  return false;
}

Status Caller::ExchangeAndWait(int attempts) {
  const auto ended = std::shared_ptr<PsEvent>(channel_.MakeEvent());
  channel_.After(PauseOf(attempts),
                 [this, ended] { placement_.ExchangeAll({}, 1, [ended] { ended->Set(); }); });
  TD_ASSIGN_OR_RETURN(const bool exchanged,
                      Await(*ended, channel_.Now() + options_.patience.call_timeout()));
  if (exchanged) return OkStatus();
  return DeadlineExceeded(
      "no server replied in time to the request for the map of row buckets [TD4025]");
}

StatusOr<bool> Caller::Await(PsEvent& event, Time deadline) {
  const auto& interrupted = options_.callbacks.interrupted;
  while (interrupted != nullptr) {
    if (interrupted()) return Cancelled("the wait for a server was interrupted");
    const Time next = channel_.Now() + kInterruptInterval;
    if (next >= deadline) break;
    if (event.WaitUntil(next)) return true;
  }
  return event.WaitUntil(deadline);
}

void Caller::BeginClose() {
  closing_ = true;
  reporter_.Stop();
}

void Caller::Close() {
  TD_REQUIRE(closing_);
  channel_.Close();
  if (!leases_->WaitForNone(SteadyNow() + kLeaseTimeout)) {
    LOG(WARNING) << "the memory of an unfinished push is still in use";
  }
}

}  // namespace tandem::ps
