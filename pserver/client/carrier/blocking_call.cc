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
                           google::protobuf::MessageLite* reply, Time deadline) const {
  const auto ended = std::make_shared<std::promise<Status>>();
  const CallRetries once(/*retries=*/0, deadline, /*stream=*/0);
  RawCall::Start(WaitGroup::Take(leases_), server_, call, rpc::SerializeMessage(request), once,
                 [ended, reply](const Status& status, const grpc::ByteBuffer& bytes) {
                   ended->set_value(status.ok() ? rpc::ParseMessage(bytes, reply) : status);
                 });
  return ended->get_future().get();  // returns at the deadline of the call at the latest
}

}  // namespace tandem::ps
