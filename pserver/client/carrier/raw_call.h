// One unary call, tried again when the server becomes unavailable, in a session where the job has a
// secret. Includes gRPC: for .cc files only.
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

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/client_session.h"
#include "pserver/client/carrier/retry.h"

namespace tandem {

// One call of a client at a time introduces it on a new connection, and others wait for that: a
// server ends connections that send much before it accepted a call (common/rpc/stranger_budget.h).
// Thread-safe.
class Introduction {
 public:
  // True: the caller introduces the client, and calls End. False: `then` is called at that End.
  bool Begin(std::function<void(bool known)> then);
  // `known`: the server answered.
  void End(bool known);

 private:
  Mutex mu_;
  bool under_way_ TD_GUARDED_BY(mu_) = false;
  std::vector<std::function<void(bool)>> waiting_ TD_GUARDED_BY(mu_);
};

// How a client reaches one server.
struct RawServer {
  std::shared_ptr<grpc::Channel> channel;
  std::shared_ptr<ClientSession> session;  // null: the job has no secret
  std::shared_ptr<Introduction> introduction = std::make_shared<Introduction>();
};

// Thread-safe. Keeps itself alive until it is done.
class RawCall : public std::enable_shared_from_this<RawCall> {
 public:
  // Exactly once, on a gRPC thread (or on the caller's when the call cannot be made at all).
  using Done = std::function<void(Status, const grpc::ByteBuffer& reply)>;

  // `method`: "Push", of service ParameterServer. The deadline of `retries` covers all attempts
  // together; each waits for a server that is not there. A server that
  // does not know the session (it was started again) is asked for another one, which counts as no
  // attempt. `lease` is let go when nothing of the call is left: only then may the caller drop its
  // channel, because the last reference to a channel must not be dropped by a gRPC thread (gRPC
  // 1.51 then joins itself and frees its completion queue twice).
  static std::shared_ptr<RawCall> Start(std::shared_ptr<const void> lease, RawServer server,
                                        std::string method, grpc::ByteBuffer request,
                                        const CallRetries& retries, Done done);
  // Ends it soon, with CANCELLED unless it is done already.
  void Cancel();

 private:
  RawCall(std::shared_ptr<const void> lease, RawServer server, std::string method,
          grpc::ByteBuffer request, const CallRetries& retries, Done done);
  // One attempt: Go, which is Send, after an introduction where one is needed. Send opens a session
  // first where one is missing.
  void Attempt();
  void Go();
  bool NeedsIntroduction() const;
  void EndIntroduction(bool known);
  // By which the answer must be there. An introduction takes 1 s at most, so that calls that wait
  // for it keep to their own deadlines.
  Time Until() const;
  // The attempt, or its introduction, ended with `status`; `why`: what the caller is told.
  void Failed(const grpc::Status& status, const Status& why);
  void Send();
  void OpenSession();
  void OnSession(const grpc::Status& status);
  void OnReply(const grpc::Status& status);
  // Sends `request` as `method`; `then` gets the status.
  void Begin(const std::string& method, const grpc::ByteBuffer& request, const std::string& stamp,
             void (RawCall::*then)(const grpc::Status&));
  // True: there will be another attempt.
  bool TriesAgain(const grpc::Status& status);
  Status Explain(const grpc::Status& status) const;
  void Finish(Status status);

  const std::shared_ptr<const void> lease_;  // first, so that it is destroyed last
  const RawServer server_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  const std::string method_;
  const grpc::ByteBuffer request_;
  CallRetries retries_;  // only one attempt or alarm is under way at a time
  Done done_;
  std::string session_;  // in which the call was sent last
  int sessions_lost_ = 0;
  bool introducing_ = false;  // GetStatus is sent before `method_`
  Time introduced_since_;
  OpenSessionRequest offer_;
  grpc::ByteBuffer offer_bytes_;
  const grpc::ByteBuffer introduction_ = SerializeMessage(StatusRequest());
  grpc::ByteBuffer reply_;
  const Time start_ = SteadyNow();
  std::string last_error_;  // of the attempt before

  Mutex mu_;
  bool cancelled_ TD_GUARDED_BY(mu_) = false;
  std::unique_ptr<grpc::ClientContext> context_ TD_GUARDED_BY(mu_);
  std::unique_ptr<grpc::Alarm> alarm_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem
