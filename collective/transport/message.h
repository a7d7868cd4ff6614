// The header in front of the data of each collective, on each connection that it uses. It lets each
// rank check that its peers run the same operation, before wrong data reach a gradient.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "collective/communicator.h"

namespace tandem::collective {

static_assert(std::endian::native == std::endian::little, "headers travel as they lie in memory");

// 64 bytes of fields, then the name for messages. Unused fields are zero.
struct MessageHeader {
  static constexpr uint32_t kMagic = 0x434d4454;  // "TDMC"
  static constexpr uint16_t kVersion = 2;

  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint8_t op = 0;      // CollectiveOp
  uint8_t reduce = 0;  // ReduceOp
  uint8_t dtype = 0;   // DType
  uint8_t unused[3] = {};
  int32_t root = 0;           // kSendRecv: the receiving rank
  uint64_t communicator = 0;  // the same on all ranks; differs between rendezvous rounds of a job
  uint64_t sequence = 0;      // of the collective, or of messages from sender to receiver; from 1
  uint64_t count = 0;         // elements
  uint64_t what_hash = 0;     // StableHash of the whole name
  int32_t from = -1;          // kSendRecv: the sending rank
  uint32_t group = 0;         // kReduce and kBroadcast
  uint64_t reserved = 0;      // for the hash of the plan
  char what[64] = {};         // first bytes of the name; not terminated if truncated
};
static_assert(sizeof(MessageHeader) == 128);

MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence);
// The header of a kSendRecv message from rank `from` to rank `to`.
MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence, int from,
                         int to);

// FAILED_PRECONDITION: `peer` runs another operation than this rank; the message names both.
// DATA_LOSS: `got` is not a header.
Status CheckHeader(const MessageHeader& got, const MessageHeader& expected,
                   const std::string& peer);

// Example: `AllReduce(sum, f32[10]) of "x" as operation 5`, or
//   `SendRecv(f32[10], from rank 0 to rank 1) of "x" as message 5`.
std::string ToString(const MessageHeader& header);

}  // namespace tandem::collective
