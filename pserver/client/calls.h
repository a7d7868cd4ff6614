// Makes the calls of a client to the servers. Errors name the server.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/wait_group.h"
#include "pserver/client/placement.h"
#include "pserver/client/pushes/resender.h"
#include "pserver/client/wait_reporter.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace tandem::ps {

// Time by which the client waits longer than the timeout in its request. The server's own error,
// which has more details than "deadline exceeded", thus arrives in time.
inline constexpr Duration kGrace = std::chrono::seconds(2);

// Returns whether the server replied that it does not have the requested data now.
inline bool HasMoved(const Status& status) { return status.code() == StatusCode::kOutOfRange; }
// Returns whether `status` means that the server or the connection is lost, or that no reply
// arrived in time.
bool IsGone(const Status& status);
// Returns the pause after `attempts` failed attempts. The pause grows with `attempts` to 100 ms, so
// that a slow operation causes few calls.
Duration PauseOf(int attempts);

// Makes calls. If a server waits for retransmitted pushes, repeats the call. Thread-safe. The
// callbacks of calls refer to parts of the client, which must exist until Close has returned.
class Caller {
 public:
  Caller(PsChannel& channel, const PsOptions& options, Placement& placement, Resender& resender,
         WaitReporter& reporter);

  // Sends a request. Calls `take` exactly once, on a thread of the channel.
  void Send(const PsServer& server, rpc::PserverCall call, codec::EncodedMessage request,
            Time deadline, PsChannel::Take take);
  // CallAndTake and CallAndWait make one call with small messages, and block until the reply or the
  // end of `timeout`.
  Status CallAndTake(const PsServer& server, rpc::PserverCall call,
                     const google::protobuf::MessageLite& request,
                     std::shared_ptr<google::protobuf::MessageLite> reply, Duration timeout);
  template <typename Reply>
  Status CallAndWait(const PsServer& server, rpc::PserverCall call,
                     const google::protobuf::MessageLite& request, Reply* reply, Duration timeout) {
    const auto taken = std::make_shared<Reply>();
    TD_RETURN_IF_ERROR(CallAndTake(server, call, request, taken, timeout));
    *reply = std::move(*taken);
    return OkStatus();
  }
  // Like CallAndTake, but returns false if the server has left the job. A server may leave and stop
  // during the call, so the client asks the other servers once a second whether the server has
  // left.
  StatusOr<bool> CallOwner(const PsServer& server, rpc::PserverCall call,
                           const google::protobuf::MessageLite& request,
                           std::shared_ptr<google::protobuf::MessageLite> reply, Duration timeout);
  // Pauses, then exchanges bucket maps with all owners. The pause grows with `attempts`. Blocks.
  Status ExchangeAndWait(int attempts);

  Time Now() const { return channel_.Now(); }
  void After(Duration pause, std::function<void()> then) { channel_.After(pause, std::move(then)); }
  std::unique_ptr<PsEvent> MakeEvent() { return channel_.MakeEvent(); }
  // Blocks until `event` is set. Returns false if `deadline` passes before. CANCELLED:
  // PsCallbacks::interrupted returned true.
  StatusOr<bool> Await(PsEvent& event, Time deadline);
  Buffer Allocate(const PsServer& server, size_t bytes) {
    return channel_.Allocate(server.index, bytes);
  }

  // Returns a lease, which marks memory of the user as used by a call. Close waits until all copies
  // of all leases are destroyed.
  std::shared_ptr<const void> Lease() { return WaitGroup::Take(leases_); }
  // After BeginClose, no call makes a further attempt.
  void BeginClose();
  bool closing() const { return closing_; }
  // Cancels all calls. Waits for their callbacks, and for up to 5 s for the destruction of all
  // leases. REQUIRES: BeginClose was called.
  void Close();

 private:
  struct PatientCall;
  // A call in progress. The callback of the call writes `status`, then sets the event `ended`.
  struct SmallCall {
    std::unique_ptr<PsEvent> ended;
    Status status;
  };
  void SendPatiently(std::shared_ptr<PatientCall> call);
  void SendAgain(std::shared_ptr<PatientCall> call);
  std::shared_ptr<SmallCall> Begin(const PsServer& server, rpc::PserverCall call,
                                   const google::protobuf::MessageLite& request,
                                   std::shared_ptr<google::protobuf::MessageLite> reply,
                                   Time deadline);

  PsChannel& channel_;
  const PsOptions& options_;
  Placement& placement_;
  Resender& resender_;
  WaitReporter& reporter_;
  const std::shared_ptr<WaitGroup> leases_ = std::make_shared<WaitGroup>();
  std::atomic<bool> closing_{false};
};

}  // namespace tandem::ps
