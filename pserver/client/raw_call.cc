#include "pserver/client/raw_call.h"

#include <utility>

#include "common/rpc/grpc_status.h"

namespace tandem {

RawCall::RawCall(std::shared_ptr<const void> lease, std::shared_ptr<grpc::Channel> channel,
                 std::string method, std::string token, grpc::ByteBuffer request,
                 const CallRetries& retries, Done done)
    : lease_(std::move(lease)),
      channel_(std::move(channel)),
      stub_(channel_),
      method_(std::move(method)),
      token_(std::move(token)),
      request_(std::move(request)),
      retries_(retries),
      done_(std::move(done)) {}

std::shared_ptr<RawCall> RawCall::Start(std::shared_ptr<const void> lease,
                                        std::shared_ptr<grpc::Channel> channel, std::string method,
                                        std::string token, grpc::ByteBuffer request,
                                        const CallRetries& retries, Done done) {
  auto call = std::shared_ptr<RawCall>(new RawCall(std::move(lease), std::move(channel),
                                                   std::move(method), std::move(token),
                                                   std::move(request), retries, std::move(done)));
  call->Attempt();
  return call;
}

void RawCall::Attempt() {
  grpc::ClientContext* context = nullptr;
  Status ready;
  {
    MutexLock lock(mu_);
    if (cancelled_) {
      ready = Cancelled("the client is going away");
    } else {
      context_ = std::make_unique<grpc::ClientContext>();
      context = context_.get();
      ready = PrepareCall(retries_.deadline(), token_, context);
    }
  }
  if (!ready.ok()) return Finish(ready);
  retries_.Begin();
  reply_.Clear();
  stub_.UnaryCall(context, method_, grpc::StubOptions(), &request_, &reply_,
                  [self = shared_from_this()](grpc::Status status) { self->OnReply(status); });
  // A Cancel between making the context and the call would have been lost.
  MutexLock lock(mu_);
  if (cancelled_ && context_.get() == context) context->TryCancel();
}

Status RawCall::Explain(const grpc::Status& status) const {
  // What gRPC says by itself; a server's own DEADLINE_EXCEEDED tells more and stays.
  if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED ||
      status.error_message() != "Deadline Exceeded") {
    return retries_.attempts() == 1
               ? FromGrpc(status)
               : Annotate(FromGrpc(status), absl::StrFormat("attempt %d", retries_.attempts()));
  }
  return DeadlineExceeded("no answer for %.1f s%s", Seconds(SteadyNow() - start_),
                          last_error_.empty() ? "" : "; before that: " + last_error_);
}

void RawCall::OnReply(const grpc::Status& status) {
  const auto pause = retries_.Pause(static_cast<StatusCode>(status.error_code()), SteadyNow());
  if (pause) {
    MutexLock lock(mu_);
    if (!cancelled_) {
      last_error_ = status.error_message();
      alarm_ = std::make_unique<grpc::Alarm>();
      // The alarm keeps its callback as long as it lives, and this keeps the alarm: the callback
      // lets go when it runs, else nobody would ever be freed.
      auto keep = std::make_shared<std::shared_ptr<RawCall>>(shared_from_this());
      alarm_->Set(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(*pause),
                  [keep](bool) { std::exchange(*keep, nullptr)->Attempt(); });
      return;
    }
  }
  Finish(Explain(status));
}

void RawCall::Finish(Status status) {
  Done done = std::exchange(done_, nullptr);
  done(std::move(status), reply_);
}

void RawCall::Cancel() {
  MutexLock lock(mu_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
  if (alarm_ != nullptr) alarm_->Cancel();
}

}  // namespace tandem
