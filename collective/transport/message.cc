#include "collective/transport/message.h"

#include <algorithm>
#include <cstring>

#include "collective/rendezvous/handshake.h"
#include "common/base/rng.h"

namespace tandem::collective {

MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence) {
  MessageHeader h;
  h.op = static_cast<uint8_t>(call.op);
  h.reduce = static_cast<uint8_t>(call.reduce);
  h.dtype = static_cast<uint8_t>(call.dtype);
  h.root = call.root;
  h.group = static_cast<uint32_t>(call.group);
  h.communicator = communicator;
  h.sequence = sequence;
  h.count = call.count;
  h.what_hash = StableHash(call.what);
  std::memcpy(h.what, call.what.data(), std::min(call.what.size(), sizeof(h.what)));
  return h;
}

MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence, int from,
                         int to) {
  MessageHeader h = MakeHeader(call, communicator, sequence);
  h.root = to;
  h.from = from;
  return h;
}

std::string ToString(const MessageHeader& header) {
  Collective call;
  call.op = static_cast<CollectiveOp>(header.op);
  call.reduce = static_cast<ReduceOp>(header.reduce);
  const StatusOr<DType> dtype = DTypeFromNumber(header.dtype);
  if (!dtype.ok())
    return absl::StrFormat("an operation on elements of unknown type %d", header.dtype);
  call.dtype = *dtype;
  call.root = header.root;
  call.group = static_cast<int>(header.group);
  call.count = header.count;
  call.what = GetText(header.what);
  if (call.op != CollectiveOp::kSendRecv) {
    return absl::StrFormat("%s as operation %d", ToString(call), header.sequence);
  }
  return absl::StrFormat("SendRecv(%s[%d], from rank %d to rank %d) of \"%s\" as message %d",
                         Name(call.dtype), header.count, header.from, header.root, call.what,
                         header.sequence);
}

Status CheckHeader(const MessageHeader& got, const MessageHeader& expected,
                   const std::string& peer) {
  if (got.magic != MessageHeader::kMagic) {
    return DataLoss("%s sent an invalid message header: got 0x%08x, expected 0x%08x", peer,
                    got.magic, MessageHeader::kMagic);
  }
  if (got.version != expected.version) {
    return FailedPrecondition(
        "%s speaks message version %d, this rank speaks version %d [TD3013]; hint: install the "
        "same version of Tandem on all hosts",
        peer, got.version, expected.version);
  }
  if (got.communicator != expected.communicator) {
    return FailedPrecondition("%s sent a message of communicator %d, expected communicator %d",
                              peer, got.communicator, expected.communicator);
  }
  const bool same = got.op == expected.op && got.reduce == expected.reduce &&
                    got.dtype == expected.dtype && got.root == expected.root &&
                    got.group == expected.group && got.from == expected.from &&
                    got.count == expected.count && got.sequence == expected.sequence &&
                    got.what_hash == expected.what_hash;
  if (same) return OkStatus();
  return FailedPrecondition(
      "ranks do not run the same operation: %s runs %s, this rank runs %s; all ranks must make the "
      "same calls in the same order [TD3004]",
      peer, ToString(got), ToString(expected));
}

}  // namespace tandem::collective
