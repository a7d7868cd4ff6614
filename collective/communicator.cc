#include "collective/communicator.h"

#include <cstdlib>

namespace tandem::collective {

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
    case CollectiveOp::kReduceScatter:
      return "ReduceScatter";
    case CollectiveOp::kAllToAll:
      return "AllToAll";
    case CollectiveOp::kSendRecv:
      return "SendRecv";
  }
  return "unknown operation";
}

std::string ToString(const Collective& call) {
  size_t count = call.count;
  for (const Collective::Piece& piece : call.more) count += piece.count;
  const std::string data = absl::StrFormat("%s[%d]", Name(call.dtype), count);
  const char* name = Name(call.op);
  std::string args;
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduceScatter:
      args = absl::StrFormat("%s, %s", Name(call.reduce), data);
      break;
    case CollectiveOp::kReduce:
      args = absl::StrFormat("%s, %s, root %d", Name(call.reduce), data, call.root);
      break;
    case CollectiveOp::kBroadcast:
      args = absl::StrFormat("%s, root %d", data, call.root);
      break;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllToAll:
      args = data;
      break;
    case CollectiveOp::kSendRecv:
      if (call.to < 0 || call.from < 0) name = call.to < 0 ? "Recv" : "Send";
      args = data;
      if (call.to >= 0) args += absl::StrFormat(", to rank %d", call.to);
      if (call.from >= 0) args += absl::StrFormat(", from rank %d", call.from);
      break;
    case CollectiveOp::kBarrier:
      break;
  }
  if (call.group > 0) args += absl::StrFormat(" of each %d ranks", call.group);
  const std::string of = call.what.empty() ? "" : absl::StrFormat(" of \"%s\"", call.what);
  return absl::StrFormat("%s(%s)%s", name, args, of);
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

bool Reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}

Status CheckPeers(const Collective& call, int rank, int size) {
  if (call.op != CollectiveOp::kSendRecv) return OkStatus();
  if (call.to < 0 && call.from < 0)
    return InvalidArgument("%s: the communicator has no ranks", ToString(call));
  for (const int peer : {call.to, call.from}) {
    if (peer < size && peer != rank) continue;
    return InvalidArgument("%s: the peer must be another rank, from 0 to %d", ToString(call),
                           size - 1);
  }
  return OkStatus();
}

// Checks the buffers of one piece of a call: their sizes, null pointers and overlap.
Status CheckMemory(const Collective& call, const Collective::Piece& piece, int rank, int size) {
  constexpr size_t kBytesMax = size_t{1} << 50;
  const size_t element = SizeOf(call.dtype);
  if (piece.count > kBytesMax / element / static_cast<size_t>(size)) {
    return InvalidArgument("%s: too many elements, the number of bytes overflows", ToString(call));
  }
  if (piece.count == 0) return OkStatus();
  const CollectiveOp op = call.op;
  const bool sends = op != CollectiveOp::kSendRecv || call.to >= 0;
  const bool receives = op != CollectiveOp::kSendRecv || call.from >= 0;
  if ((sends && piece.in == nullptr) || (receives && piece.out == nullptr)) {
    return InvalidArgument("%s: a buffer is null", ToString(call));
  }
  if (!sends || !receives) return OkStatus();
  const size_t bytes = piece.count * element, all = bytes * static_cast<size_t>(size);
  const bool scatters = op == CollectiveOp::kReduceScatter,
             gathers = op == CollectiveOp::kAllGather;
  const size_t in_bytes = scatters || op == CollectiveOp::kAllToAll ? all : bytes;
  const size_t out_bytes = gathers || op == CollectiveOp::kAllToAll ? all : bytes;
  const char* in = static_cast<const char*>(piece.in);
  const char* out = static_cast<const char*>(piece.out);
  const size_t own = static_cast<size_t>(rank) * bytes;
  const bool in_place = in + (scatters ? own : 0) == out + (gathers ? own : 0);
  if (!in_place && in < out + out_bytes && out < in + in_bytes) {
    return InvalidArgument("%s: input and output overlap, but are not the same buffer",
                           ToString(call));
  }
  return OkStatus();
}

}  // namespace

Status CheckCall(const Collective& call, int rank, int size) {
  if (Reduces(call.op) && !CanReduce(call.dtype)) {
    return InvalidArgument("%s: element type %s does not support a reduction", ToString(call),
                           Name(call.dtype));
  }
  const bool may_group = call.op == CollectiveOp::kReduce || call.op == CollectiveOp::kBroadcast;
  if (call.group < 0 || (call.group > 0 && (!may_group || size % call.group != 0))) {
    return InvalidArgument("%s: %d ranks cannot be divided into groups of %d", ToString(call), size,
                           call.group);
  }
  const int roots = call.group > 0 ? call.group : size;
  if (call.root < 0 || call.root >= roots) {
    return InvalidArgument("%s: the root is out of range, expected 0 to %d", ToString(call),
                           roots - 1);
  }
  TD_RETURN_IF_ERROR(CheckPeers(call, rank, size));
  TD_RETURN_IF_ERROR(CheckMemory(call, {call.in, call.out, call.count}, rank, size));
  for (const Collective::Piece& piece : call.more) {
    TD_RETURN_IF_ERROR(CheckMemory(call, piece, rank, size));
  }
  return OkStatus();
}

StatusOr<Buffer> Communicator::Allocate(size_t bytes) {
  constexpr size_t kAlign = Device::kAlignment;
  const size_t rounded = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlign, rounded));
  if (memory == nullptr)
    return ResourceExhausted("cannot allocate %d bytes for a collective operation: out of memory",
                             bytes);
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

std::shared_ptr<Work> Communicator::ReduceScatter(const void* in, void* out, size_t count,
                                                  DType dtype, ReduceOp reduce,
                                                  CallOptions options) {
  Collective call =
      MakeCall(CollectiveOp::kReduceScatter, in, out, count, dtype, std::move(options));
  call.reduce = reduce;
  return Start(std::move(call));
}

std::shared_ptr<Work> Communicator::AllToAll(const void* in, void* out, size_t count, DType dtype,
                                             CallOptions options) {
  return Start(MakeCall(CollectiveOp::kAllToAll, in, out, count, dtype, std::move(options)));
}

std::shared_ptr<Work> Communicator::Send(const void* in, size_t count, DType dtype, int to,
                                         CallOptions options) {
  return SendRecv(in, to, nullptr, -1, count, dtype, std::move(options));
}

std::shared_ptr<Work> Communicator::Recv(void* out, size_t count, DType dtype, int from,
                                         CallOptions options) {
  return SendRecv(nullptr, -1, out, from, count, dtype, std::move(options));
}

std::shared_ptr<Work> Communicator::SendRecv(const void* in, int to, void* out, int from,
                                             size_t count, DType dtype, CallOptions options) {
  Collective call = MakeCall(CollectiveOp::kSendRecv, in, out, count, dtype, std::move(options));
  call.to = to;
  call.from = from;
  return Start(std::move(call));
}

std::shared_ptr<Work> Communicator::Barrier(CallOptions options) {
  return Start(
      MakeCall(CollectiveOp::kBarrier, nullptr, nullptr, 0, DType::kU8, std::move(options)));
}

}  // namespace tandem::collective
