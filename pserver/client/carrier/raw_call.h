// One call with one request and one reply, with retries while the server is unavailable. If the job
// has a secret, the call belongs to a session. Includes gRPC: for .cc files only.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/endpoint.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/channel.h"
#include "common/rpc/pserver_call.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/client_session.h"
#include "pserver/client/carrier/retry.h"

namespace tandem::ps {

// Lets one call at a time introduce the client to a server, while the other calls wait. An
// introduction is a GetStatus call, which is small. A new connection needs an introduction, because
// a server closes a connection that sends much data before the server has accepted a call on the
// connection (common/rpc/stranger_budget.h). Thread-safe.
class Introduction {
 public:
  // Returns true if no introduction was in progress. The caller must then make the GetStatus call
  // and call End after it. Returns false if an introduction is in progress: its End will call
  // `then` with the same `known`.
  bool Begin(std::function<void(bool known)> then);
  // Ends the introduction, and calls `then` of each waiting call. `known`: whether the server
  // replied to the GetStatus call, if only with a rejection.
  void End(bool known);

 private:
  Mutex mu_;
  bool under_way_ TD_GUARDED_BY(mu_) = false;
  std::vector<std::function<void(bool)>> waiting_ TD_GUARDED_BY(mu_);
};

// Connection of a client to one server, with its session.
struct RawServer {
  std::shared_ptr<grpc::Channel> channel;
  std::shared_ptr<ClientSession> session;  // null: the job has no secret, so calls need no session
  std::shared_ptr<Introduction> introduction = std::make_shared<Introduction>();
  bool checksums = false;  // whether requests have checksums (common/rpc/message_checksum.h)
};

// Makes a channel that is not connected yet. `credentials`: MakeCredentials(tls). `secret` empty:
// the job has no secret.
RawServer MakeRawServer(const Endpoint& server, const rpc::TlsFiles& tls,
                        const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                        const std::string& secret, const std::string& job);

// A call in progress. Thread-safe. The call keeps itself alive until it is done.
class RawCall : public std::enable_shared_from_this<RawCall> {
 public:
  // Called exactly once: on a gRPC thread, or on the caller's thread if the call cannot be started.
  using Done = std::function<void(Status, const grpc::ByteBuffer& reply)>;

  // Starts a call. The deadline of `retries` covers all attempts. Each attempt waits until the
  // server is available. If the server does not know the session (after a restart), the call opens
  // a new session, which does not count as an attempt.
  //
  // `lease` is released when all parts of the call are destroyed. Until then, the caller must hold
  // a reference to the gRPC channel: if a gRPC thread dropped the last reference, gRPC 1.51 would
  // join its own thread and free its completion queue twice.
  static std::shared_ptr<RawCall> Start(std::shared_ptr<const void> lease, RawServer server,
                                        rpc::PserverCall call, const grpc::ByteBuffer& request,
                                        const CallRetries& retries, Done done);
  // Makes the call end soon with CANCELLED, unless the call is already done.
  void Cancel();

 private:
  RawCall(std::shared_ptr<const void> lease, RawServer server, rpc::PserverCall call,
          const grpc::ByteBuffer& request, const CallRetries& retries, Done done);
  // Begins an attempt.
  void Attempt();
  void Go();
  bool NeedsIntroduction() const;
  void EndIntroduction(bool known);
  // Returns the time at which the current request must end. An introduction has at most 1 s, so
  // that the calls that wait for it can meet their deadlines.
  Time Until() const;
  // Handles a failed attempt or a failed introduction. `why`: the status for the caller if no other
  // attempt follows.
  void Failed(const grpc::Status& status, const Status& why);
  void Send();
  void OpenSession();
  void OnSession(const grpc::Status& status);
  void OnReply(const grpc::Status& status);
  // Sends `request` to the method of `call`. `then` receives the status of the reply: UNAVAILABLE
  // if the reply is damaged.
  void Begin(rpc::PserverCall call, const grpc::ByteBuffer& request, const std::string& stamp,
             void (RawCall::*then)(const grpc::Status&));
  // Compares the checksum of the reply to `call`. Returns `status`, or UNAVAILABLE.
  grpc::Status CheckReply(rpc::PserverCall call, const grpc::Status& status);
  // Schedules another attempt after a pause. Returns false if no further attempt is allowed.
  bool TriesAgain(const grpc::Status& status);
  // Returns `status`, or UNAVAILABLE if the server and not Cancel() ended the call with CANCELLED.
  grpc::Status WithoutForeignCancel(const grpc::Status& status) TD_EXCLUDES(mu_);
  Status Explain(const grpc::Status& status) const;
  void Finish(Status status);

  const std::shared_ptr<const void> lease_;  // first member, so that it is destroyed last
  const RawServer server_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  const rpc::PserverCall call_;
  const grpc::ByteBuffer request_;
  CallRetries retries_;  // not guarded, because only one attempt or alarm is active at a time
  Done done_;
  std::string session_;  // id of the session of the last attempt
  int sessions_lost_ = 0;
  // true: a GetStatus call, which introduces the client, is in progress before `call_`.
  bool introducing_ = false;
  Time introduced_since_;
  OpenSessionRequest offer_;
  grpc::ByteBuffer offer_bytes_;
  const grpc::ByteBuffer introduction_ = rpc::SerializeMessage(StatusRequest());
  grpc::ByteBuffer reply_;
  const Time start_ = SteadyNow();
  std::string last_error_;  // error of the newest failed attempt

  Mutex mu_;
  bool cancelled_ TD_GUARDED_BY(mu_) = false;
  std::unique_ptr<grpc::ClientContext> context_ TD_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Alarm> alarm_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
