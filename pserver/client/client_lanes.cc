// The part of PsClient that chooses what carries a push or a pull.
#include <utility>

#include "common/rpc/byte_buffer.h"
#include "pserver/client/client_impl.h"

namespace tandem {
namespace {

constexpr Duration kInviteTimeout = std::chrono::seconds(3);

const char* NameOf(LaneMethod method) { return method == LANE_METHOD_PUSH ? "Push" : "Pull"; }

size_t BytesOf(Fragments message) {
  size_t bytes = 0;
  for (const auto& fragment : message) bytes += fragment.size();
  return bytes;
}

// What another try may mend: the lane was lost, or the server is on its way down.
bool WasLost(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
}

}  // namespace

Status PsClient::Impl::OpenLanes() {
  if (options.transport == PsTransport::kGrpc) return OkStatus();
  for (auto& server : servers) {
    server->lane = std::make_unique<ServerLane>(
        server->name, [this, &server = *server]() -> StatusOr<LaneInvitation> {
          OpenLaneRequest request;
          OpenLaneReply reply;
          FillCaller(&request);
          TD_RETURN_IF_ERROR(CallAndWait(server, "OpenLane", request, &reply, kInviteTimeout));
          return LaneInvitation{reply.socket(), reply.ticket()};
        });
  }
  for (auto& server : servers) {
    const Status opened = server->lane->WaitForFirst();
    lanes += opened.ok();
    if (opened.ok() || options.transport == PsTransport::kAuto) continue;
    return FailedPrecondition("%s: no shared memory, which was asked for: %s", server->name,
                              std::string(opened.message()));
  }
  return OkStatus();
}

void PsClient::Impl::SendByGrpc(Server& server, LaneMethod method, EncodedMessage request,
                                Time deadline, Take take) {
  Call(server, NameOf(method), ToByteBuffer(std::move(request)), deadline,
       [take = std::move(take)](const Status& status, const grpc::ByteBuffer& bytes) {
         take(status, ReceivedMessage(bytes).fragments());
       });
}

void PsClient::Impl::Send(Server& server, LaneMethod method, EncodedMessage request, Time deadline,
                          Take take) {
  if (server.lane == nullptr) {
    return SendByGrpc(server, method, std::move(request), deadline, std::move(take));
  }
  struct Sent {
    EncodedMessage request;
    Take take;
  };
  const auto sent = std::make_shared<Sent>(Sent{std::move(request), std::move(take)});
  PsCall call{.server = server.index,
              .method = NameOf(method),
              .begin = SteadyNow(),
              .end = {},
              .sent = sent->request.bytes()};
  const auto reply = [this, &server, method, deadline, sent, call](const Status& status,
                                                                   Fragments answer) mutable {
    if (!WasLost(status)) {
      call.end = SteadyNow();
      call.received = BytesOf(answer);
      call.ok = status.ok();
      if (options.on_call) options.on_call(call);
      return sent->take(Annotate(status, server.name), answer);
    }
    SendByGrpc(server, method, std::move(sent->request), deadline, std::move(sent->take));
  };
  if (server.lane->Call(static_cast<uint32_t>(method), sent->request, deadline, reply)) {
    ++lane_calls;
  } else {
    SendByGrpc(server, method, std::move(sent->request), deadline, std::move(sent->take));
  }
}

}  // namespace tandem
