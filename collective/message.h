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
  static constexpr uint16_t kVersion = 1;

  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint8_t op = 0;      // CollectiveOp
  uint8_t reduce = 0;  // ReduceOp
  uint8_t dtype = 0;   // DType
  uint8_t unused[3] = {};
  int32_t root = 0;
  uint64_t communicator = 0;  // the same on all ranks; differs between generations of a job
  uint64_t sequence = 0;      // of the operation, from 1
  uint64_t count = 0;         // elements
  uint64_t what_hash = 0;     // StableHash of the whole name
  uint64_t reserved[2] = {};  // step and plan hash have their place here
  char what[64] = {};         // its first bytes; not terminated when cut
};
static_assert(sizeof(MessageHeader) == 128);

MessageHeader MakeHeader(const Collective& call, uint64_t communicator, uint64_t sequence);

// OK, or FAILED_PRECONDITION (DATA_LOSS when it is no header at all) saying what `peer` runs and
// what this rank runs.
Status CheckHeader(const MessageHeader& got, const MessageHeader& expected,
                   const std::string& peer);

// `AllReduce(sum, f32[10]) of "x"`.
std::string ToString(const MessageHeader& header);

}  // namespace tandem
