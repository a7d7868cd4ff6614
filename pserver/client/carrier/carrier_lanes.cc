// The part of GrpcPsChannel that uses shared memory.
#include <utility>

#include "pserver/client/carrier/grpc_ps_channel.h"

namespace tandem::ps {
namespace {

// A retry may succeed: the connection was lost, or the server is stopping.
bool WasLost(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
}

}  // namespace

StatusOr<int> GrpcPsChannel::OpenLanes(const Invite& invite) {
  if (options_.transport == PsTransport::kGrpc) return 0;
  for (auto& server : servers_) {
    server->lane = std::make_unique<ShmRpcConnection>(
        server->name, [invite, index = server->index] { return invite(index); });
  }
  const bool asked_for = options_.transport == PsTransport::kShm;
  const Time until = SteadyNow() + (asked_for ? options_.start_timeout : Duration::zero());
  int lanes = 0;
  for (auto& server : servers_) {
    const Status opened = server->lane->WaitForFirst(until);
    lanes += opened.ok();
    if (opened.ok() || !asked_for) continue;
    return FailedPrecondition(
        "cannot use shared memory with %s, which pserver_transport: Shm requires: %s", server->name,
        std::string(opened.message()));
  }
  return lanes;
}

void GrpcPsChannel::CallByLane(Server& server, uint32_t lane_method, const char* method,
                               codec::EncodedMessage request, Time deadline, Take take) {
  struct Sent {
    codec::EncodedMessage request;
    Take take;
  };
  const auto sent = std::make_shared<Sent>(Sent{std::move(request), std::move(take)});
  const auto again = [this, &server, method, deadline, sent] {
    CallByGrpc(server, method, std::move(sent->request), deadline, std::move(sent->take));
  };
  const auto reply = [sent, again](const Status& status, codec::Fragments answer) {
    if (WasLost(status)) return again();
    sent->take(status, answer);
  };
  if (server.lane->Call(lane_method, sent->request, deadline, reply)) {
    ++lane_calls_;
  } else {
    again();
  }
}

}  // namespace tandem::ps
