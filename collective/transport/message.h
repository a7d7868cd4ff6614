// What stands in front of the data of each collective, on each connection that it uses: who agrees
// on what is checked here, before a wrong byte is added to a gradient.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "collective/communicator.h"

namespace tandem {

static_assert(std::endian::native == std::endian::little, "headers travel as they lie in memory");

// 64 bytes of facts, then the name for messages. Zero where not used.
struct MessageHeader {
  static constexpr uint32_t kMagic = 0x434d4454;  // "TDMC"
  static constexpr uint16_t kVersion = 2;

  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint8_t op = 0;      // CollectiveOp
  uint8_t reduce = 0;  // ReduceOp
  uint8_t dtype = 0;   // DType
  uint8_t unused[3] = {};
  int32_t root = 0;           // of kSendRecv: the rank that it is for
  uint64_t communicator = 0;  // the same on all ranks; differs between generations of a job
  uint64_t sequence = 0;      // of the collective, or of messages from this rank to that, from 1
  uint64_t count = 0;         // elements
  uint64_t what_hash = 0;     // StableHash of the whole name
  int32_t from = -1;          // of kSendRecv
  uint32_t group = 0;         // of kReduce and kBroadcast
  uint64_t reserved = 0;      // the plan's hash has its place here
  char what[64] = {};         // its first bytes; not terminated when cut
};
static_assert(sizeof(MessageHeader) == 128);

MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence);
// Of a kSendRecv: what goes with the message from rank `from` to rank `to`.
MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence, int from,
                         int to);

// OK, or FAILED_PRECONDITION (DATA_LOSS when it is no header at all) saying what `peer` runs and
// what this rank runs.
Status CheckHeader(const MessageHeader& got, const MessageHeader& expected,
                   const std::string& peer);

// `AllReduce(sum, f32[10]) of "x" as operation 5`, or
// `SendRecv(f32[10], from rank 0 to rank 1) of "x" as message 5`.
std::string ToString(const MessageHeader& header);

}  // namespace tandem
