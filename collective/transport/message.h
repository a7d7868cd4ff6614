// The header that precedes the data of a collective on each connection that the collective uses. A
// rank compares the headers of its peers with its own header. So the rank detects a peer that runs
// another operation, before the rank reduces wrong data.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "collective/communicator.h"

namespace tandem::collective {

static_assert(std::endian::native == std::endian::little, "headers travel as they lie in memory");

// 64 bytes of fields, followed by the name of the data for messages. Unused fields are zero.
struct MessageHeader {
  static constexpr uint32_t kMagic = 0x434d4454;  // the characters "TDMC"
  static constexpr uint16_t kVersion = 2;

  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint8_t op = 0;      // operation, a value of CollectiveOp
  uint8_t reduce = 0;  // reduction, a value of ReduceOp
  uint8_t dtype = 0;   // element type, a value of DType
  uint8_t unused[3] = {};
  int32_t root = 0;           // rank of the root; kSendRecv: the receiving rank
  uint64_t communicator = 0;  // number of the communicator in this rendezvous round
  uint64_t sequence = 0;      // number of the collective, or of the message; the first is 1
  uint64_t count = 0;         // number of elements
  uint64_t what_hash = 0;     // StableHash of the whole name of the data
  int32_t from = -1;          // kSendRecv: the sending rank; otherwise -1
  uint32_t group = 0;         // group size of kReduce and kBroadcast; 0: no groups
  uint64_t reserved = 0;      // unused; intended for the hash of the plan
  char what[64] = {};  // the first bytes of the name of the data; not zero-terminated if truncated
};
static_assert(sizeof(MessageHeader) == 128);

MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence);
// Makes the header of a kSendRecv message from rank `from` to rank `to`.
MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence, int from,
                         int to);

// Checks that the header `got` of `peer` is equal to `expected`. FAILED_PRECONDITION: `peer` runs
// another operation than this rank, or has another version of Tandem; the message names the
// operations or versions of both ranks. DATA_LOSS: `got` is not a header.
Status CheckHeader(const MessageHeader& got, const MessageHeader& expected,
                   const std::string& peer);

// Returns the header as text for messages. Examples: `AllReduce(sum, f32[10]) of "x" as operation
// 5`, `SendRecv(f32[10], from rank 0 to rank 1) of "x" as message 5`.
std::string ToString(const MessageHeader& header);

}  // namespace tandem::collective
