#include "collective/communicator.h"

#include <cstdlib>

namespace tandem {

const char* Name(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return "AllReduce";
    case CollectiveOp::kReduce:
      return "Reduce";
    case CollectiveOp::kBroadcast:
      return "Broadcast";
    case CollectiveOp::kAllGather:
      return "AllGather";
    case CollectiveOp::kBarrier:
      return "Barrier";
  }
  return "an unknown operation";
}

std::string ToString(const Collective& call) {
  const std::string data = absl::StrFormat("%s[%d]", Name(call.dtype), call.count);
  std::string args;
  switch (call.op) {
    case CollectiveOp::kAllReduce:
      args = absl::StrFormat("%s, %s", Name(call.reduce), data);
      break;
    case CollectiveOp::kReduce:
      args = absl::StrFormat("%s, %s, root %d", Name(call.reduce), data, call.root);
      break;
    case CollectiveOp::kBroadcast:
      args = absl::StrFormat("%s, root %d", data, call.root);
      break;
    case CollectiveOp::kAllGather:
      args = data;
      break;
    case CollectiveOp::kBarrier:
      break;
  }
  const std::string of = call.what.empty() ? "" : absl::StrFormat(" of \"%s\"", call.what);
  return absl::StrFormat("%s(%s)%s", Name(call.op), args, of);
}

namespace {
Collective MakeCall(CollectiveOp op, const void* in, void* out, size_t count, DType dtype,
                    CallOptions options) {
  Collective call;
  call.op = op;
  call.in = in;
  call.out = out;
  call.count = count;
  call.dtype = dtype;
  call.what = std::move(options.what);
  call.deadline = options.deadline;
  return call;
}
}  // namespace

StatusOr<Buffer> Communicator::Allocate(size_t bytes) {
  constexpr size_t kAlign = Device::kAlignment;
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlign, rounded));
  if (memory == nullptr) return ResourceExhausted("no memory for %d bytes", bytes);
  return Buffer(memory, [](std::byte* p) { std::free(p); });
}

std::shared_ptr<Work> Communicator::AllReduce(const void* in, void* out, size_t count, DType dtype,
                                              ReduceOp reduce, CallOptions options) {
  Collective call = MakeCall(CollectiveOp::kAllReduce, in, out, count, dtype, std::move(options));
  call.reduce = reduce;
  return Start(std::move(call));
}

std::shared_ptr<Work> Communicator::Reduce(const void* in, void* out, size_t count, DType dtype,
                                           ReduceOp reduce, int root, CallOptions options) {
  Collective call = MakeCall(CollectiveOp::kReduce, in, out, count, dtype, std::move(options));
  call.reduce = reduce;
  call.root = root;
  return Start(std::move(call));
}

std::shared_ptr<Work> Communicator::Broadcast(void* data, size_t count, DType dtype, int root,
                                              CallOptions options) {
  Collective call =
      MakeCall(CollectiveOp::kBroadcast, data, data, count, dtype, std::move(options));
  call.root = root;
  return Start(std::move(call));
}

std::shared_ptr<Work> Communicator::AllGather(const void* in, void* out, size_t count, DType dtype,
                                              CallOptions options) {
  return Start(MakeCall(CollectiveOp::kAllGather, in, out, count, dtype, std::move(options)));
}

std::shared_ptr<Work> Communicator::Barrier(CallOptions options) {
  return Start(
      MakeCall(CollectiveOp::kBarrier, nullptr, nullptr, 0, DType::kU8, std::move(options)));
}

}  // namespace tandem
