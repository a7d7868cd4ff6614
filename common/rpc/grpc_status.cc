#include "common/rpc/grpc_status.h"

#include <chrono>
#include <string>

namespace tandem::rpc {

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  constexpr size_t kMessageMax = 2048;
  std::string message(status.message());
  if (message.size() > kMessageMax) message = message.substr(0, kMessageMax) + "...";
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return OkStatus();
  return Status(static_cast<StatusCode>(status.error_code()), status.error_message());
}

Status PrepareCall(Time deadline, grpc::ClientContext* context) {
  if (deadline == Time::max()) return InvalidArgument("the call has no deadline");
  const Duration left = deadline - SteadyNow();
  if (left <= Duration::zero())
    return DeadlineExceeded("the deadline passed before the call was sent");
  // gRPC requires a deadline in wall-clock time, and converts it to steady time immediately.
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
  context->set_wait_for_ready(true);
  return OkStatus();
}

}  // namespace tandem::rpc
