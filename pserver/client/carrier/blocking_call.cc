#include "pserver/client/carrier/blocking_call.h"

#include <future>

#include "common/base/check.h"
#include "common/rpc/byte_buffer.h"

namespace tandem::ps {

BlockingCalls::~BlockingCalls() {
  CHECK(leases_->WaitForNone(SteadyNow() + std::chrono::seconds(60)))
      << "ended calls do not go away";
}

Status BlockingCalls::Call(rpc::PserverCall call, const google::protobuf::MessageLite& request,
                           google::protobuf::MessageLite* reply, Time deadline) {
  const auto ended = std::make_shared<std::promise<Status>>();
  const CallRetries once(/*retries=*/0, deadline, /*stream=*/0);
  std::shared_ptr<RawCall> begun;
  {
    MutexLock lock(mu_);
    if (cancelled_) return Cancelled("the call was cancelled before it started");
    begun =
        RawCall::Start(WaitGroup::Take(leases_), server_, call, rpc::SerializeMessage(request),
                       once, [ended, reply](const Status& status, const grpc::ByteBuffer& bytes) {
                         ended->set_value(status.ok() ? rpc::ParseMessage(bytes, reply) : status);
                       });
    calls_.insert(begun);
  }
  Status status = ended->get_future().get();  // ends at the deadline at the latest
  MutexLock lock(mu_);
  calls_.erase(begun);
  return status;
}

void BlockingCalls::Cancel() {
  MutexLock lock(mu_);
  cancelled_ = true;
  for (const auto& call : calls_) call->Cancel();
}

}  // namespace tandem::ps
