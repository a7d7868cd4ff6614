#include "pserver/client/carrier/raw_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/rpc/credentials/session_proof.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/message_checksum.h"

namespace tandem::ps {
namespace {

// Maximum number of lost sessions per call. A restart of the server loses one session, so more
// losses have another cause.
constexpr int kSessionsLostMax = 4;
// Maximum bytes of a request on a connection that may be new. A server accepts 1 MiB in total from
// unproven callers at one address.
constexpr size_t kUnknownBytesMax = 64 << 10;
constexpr Duration kIntroductionMax = std::chrono::seconds(1);

// Returns whether gRPC itself may have ended the call with `code`, although a reply had arrived: a
// cancelled call, a deadline, or a reply that is too large. Such a status has no checksum.
bool MayBeOwn(grpc::StatusCode code) {
  return code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::DEADLINE_EXCEEDED ||
         code == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

}  // namespace

bool Introduction::Begin(std::function<void(bool known)> then) {
  MutexLock lock(mu_);
  if (under_way_) {
    waiting_.push_back(std::move(then));
    return false;
  }
  under_way_ = true;
  return true;
}

void Introduction::End(bool known) {
  std::vector<std::function<void(bool)>> waiting;
  {
    MutexLock lock(mu_);
    TD_REQUIRE(under_way_);
    under_way_ = false;
    waiting.swap(waiting_);
  }
  for (const auto& then : waiting) then(known);
}

RawServer MakeRawServer(const Endpoint& server, const rpc::TlsFiles& tls,
                        const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                        const std::string& secret, const std::string& job) {
  RawServer made{.channel = rpc::MakeChannel(server, credentials), .session = nullptr};
  if (!secret.empty()) {
    made.session = std::make_shared<ClientSession>(secret, job, ToString(server));
  }
  made.checksums = rpc::NeedsChecksums(server, tls);
  return made;
}

RawCall::RawCall(std::shared_ptr<const void> lease, RawServer server, rpc::PserverCall call,
                 const grpc::ByteBuffer& request, const CallRetries& retries, Done done)
    : lease_(std::move(lease)),
      server_(std::move(server)),
      stub_(server_.channel),
      call_(call),
      request_(request),
      retries_(retries),
      done_(std::move(done)) {}

std::shared_ptr<RawCall> RawCall::Start(std::shared_ptr<const void> lease, RawServer server,
                                        rpc::PserverCall call, const grpc::ByteBuffer& request,
                                        const CallRetries& retries, Done done) {
  auto made = std::shared_ptr<RawCall>(
      new RawCall(std::move(lease), std::move(server), call, request, retries, std::move(done)));
  made->Attempt();
  return made;
}

void RawCall::Attempt() {
  retries_.Begin();
  Go();
}

void RawCall::Go() {
  if (SteadyNow() >= retries_.deadline()) {
    return Finish(Explain({grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"}));
  }
  if (NeedsIntroduction()) {
    const auto then = [self = shared_from_this()](bool known) {
      known ? self->Send() : self->Go();
    };
    if (!server_.introduction->Begin(then)) return;
    introducing_ = true;
    introduced_since_ = SteadyNow();
  }
  Send();
}

bool RawCall::NeedsIntroduction() const {
  return retries_.attempts() > 1 || (request_.Length() > kUnknownBytesMax &&
                                     server_.channel->GetState(false) != GRPC_CHANNEL_READY);
}

void RawCall::EndIntroduction(bool known) {
  if (std::exchange(introducing_, false)) server_.introduction->End(known);
}

Time RawCall::Until() const {
  return introducing_ ? std::min(retries_.deadline(), introduced_since_ + kIntroductionMax)
                      : retries_.deadline();
}

void RawCall::Send() {
  const rpc::PserverCall call = introducing_ ? rpc::PserverCall::kGetStatus : call_;
  std::string stamp;
  if (server_.session != nullptr) {
    ClientSession::Stamp next = server_.session->Next(rpc::NameOf(call));
    if (next.session.empty()) return OpenSession();
    session_ = std::move(next.session);
    stamp = std::move(next.metadata);
  }
  Begin(call, introducing_ ? introduction_ : request_, stamp, &RawCall::OnReply);
}

void RawCall::OpenSession() {
  offer_ = server_.session->Offer();
  offer_bytes_ = rpc::SerializeMessage(offer_);
  Begin(rpc::PserverCall::kOpenSession, offer_bytes_, "", &RawCall::OnSession);
}

void RawCall::Begin(rpc::PserverCall call, const grpc::ByteBuffer& request,
                    const std::string& stamp, void (RawCall::*then)(const grpc::Status&)) {
  grpc::ClientContext* context = nullptr;
  Status ready;
  {
    MutexLock lock(mu_);
    if (cancelled_) {
      ready = Cancelled("the client is shutting down");
    } else {
      context_ = std::make_unique<grpc::ClientContext>();
      context = context_.get();
      ready = rpc::PrepareCall(Until(), context);
    }
  }
  if (!ready.ok()) {
    return Failed({static_cast<grpc::StatusCode>(ready.code()), ""}, ready);
  }
  if (!stamp.empty()) context->AddMetadata(rpc::kStampMetadata, stamp);
  if (server_.checksums) {
    context->AddMetadata(rpc::kChecksumMetadata, rpc::RequestChecksum(rpc::NameOf(call), request));
  }
  reply_.Clear();
  stub_.UnaryCall(context, std::string("/tandem.ParameterServer/") + rpc::NameOf(call),
                  grpc::StubOptions(), &request, &reply_,
                  [self = shared_from_this(), then, call](const grpc::Status& status) {
                    (self.get()->*then)(self->WithoutForeignCancel(self->CheckReply(call, status)));
                  });
  // Repeats the cancellation, because a cancellation between the creation of the context and the
  // start of the call has no effect.
  MutexLock lock(mu_);
  if (cancelled_ && context_.get() == context) context->TryCancel();
}

// A server that SIGTERM ends cancels its calls, so the call may succeed at the restarted server.
grpc::Status RawCall::WithoutForeignCancel(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::CANCELLED) return status;
  MutexLock lock(mu_);
  if (cancelled_) return status;
  return {grpc::StatusCode::UNAVAILABLE,
          absl::StrCat("the server cancelled the call: ", status.error_message())};
}

grpc::Status RawCall::CheckReply(rpc::PserverCall call, const grpc::Status& status) {
  if (!server_.checksums || MayBeOwn(status.error_code())) return status;
  grpc::ClientContext* context = nullptr;
  {
    MutexLock lock(mu_);
    context = context_.get();
  }
  const rpc::Metadata& metadata = context->GetServerTrailingMetadata();
  if (!rpc::HasChecksum(metadata)) return status;
  // The status may be gRPC's own, about bytes that gRPC rejected.
  const std::string text = status.ok() ? "" : absl::StrCat(" (", status.error_message(), ")");
  const Status same =
      rpc::CompareChecksum(metadata, rpc::ReplyChecksum(rpc::NameOf(call), status, reply_),
                           absl::StrCat("the reply to ", rpc::NameOf(call), text));
  if (same.ok()) return status;
  LOG_EVERY_T(WARNING, 1.0) << context->peer() << ": " << same.message();
  return rpc::ToGrpc(same);
}

Status RawCall::Explain(const grpc::Status& status) const {
  // Returns any text that is not gRPC's own: the text comes from the server, which knows more
  // details.
  if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED ||
      status.error_message() != "Deadline Exceeded") {
    return retries_.attempts() == 1 ? rpc::FromGrpc(status)
                                    : Annotate(rpc::FromGrpc(status),
                                               absl::StrFormat("attempt %d", retries_.attempts()));
  }
  return DeadlineExceeded("no reply to %s within %.1f s [TD4025]%s", rpc::NameOf(call_),
                          Seconds(SteadyNow() - start_),
                          last_error_.empty() ? "" : "; the error before: " + last_error_);
}

bool RawCall::TriesAgain(const grpc::Status& status) {
  const auto pause = retries_.Pause(static_cast<StatusCode>(status.error_code()), SteadyNow());
  if (!pause) return false;
  MutexLock lock(mu_);
  if (cancelled_) return false;
  last_error_ = status.error_message();
  alarm_ = std::make_unique<grpc::Alarm>();
  // The alarm owns its callback, and this call owns the alarm. The callback therefore drops its
  // reference to this call when it runs, because the cycle of references would otherwise never be
  // freed.
  auto keep = std::make_shared<std::shared_ptr<RawCall>>(shared_from_this());
  alarm_->Set(std::chrono::system_clock::now() +
                  std::chrono::duration_cast<std::chrono::system_clock::duration>(*pause),
              [keep](bool) { std::exchange(*keep, nullptr)->Attempt(); });
  return true;
}

void RawCall::OnSession(const grpc::Status& status) {
  if (!status.ok()) return Failed(status, server_.session->Explain(Explain(status)));
  OpenSessionReply reply;
  Status accepted = rpc::ParseMessage(reply_, &reply);
  if (accepted.ok()) accepted = server_.session->Accept(offer_, reply);
  if (!accepted.ok()) return Finish(accepted);
  Send();
}

void RawCall::OnReply(const grpc::Status& status) {
  const auto code = static_cast<StatusCode>(status.error_code());
  if (server_.session != nullptr && ClientSession::WasLost(code, status.error_message()) &&
      ++sessions_lost_ <= kSessionsLostMax) {
    server_.session->Forget(session_);
    return Send();
  }
  const bool answered = code != StatusCode::kUnavailable && code != StatusCode::kCancelled &&
                        code != StatusCode::kDeadlineExceeded;
  // Sends the call even if the server rejected the introduction, because the server's rejection of
  // the call states the reason.
  if (introducing_ && answered) {
    EndIntroduction(true);
    return Send();
  }
  Failed(status, Explain(status));
}

void RawCall::Failed(const grpc::Status& status, const Status& why) {
  // The introduction has a shorter deadline than the call. If only the deadline of the introduction
  // has passed, the call tries again.
  const bool late = introducing_ && SteadyNow() < retries_.deadline() &&
                    status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  EndIntroduction(false);
  if (late) return Go();
  if (!TriesAgain(status)) Finish(why);
}

void RawCall::Finish(Status status) {
  EndIntroduction(false);
  TD_REQUIRE(done_ != nullptr);
  Done done = std::exchange(done_, nullptr);
  done(std::move(status), reply_);
}

void RawCall::Cancel() {
  MutexLock lock(mu_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
  if (alarm_ != nullptr) alarm_->Cancel();
}

}  // namespace tandem::ps
