// Reads and writes protobuf's wire format directly, over fragmented memory
// (https://protobuf.dev/programming-guides/encoding/). This file implements only the parts of the
// format that tensor_codec.cc needs. All other messages use protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::codec {

// The bytes of a received message, in order, as fragments of any size. The memory is not owned.
using Fragments = std::span<const std::span<const std::byte>>;

// A range of bytes in a received message. It starts at byte `offset` of fragment `fragment` and may
// continue in the next fragments.
struct ByteRange {
  size_t fragment = 0, offset = 0, bytes = 0;
};

// Copies the bytes of `range` to `to`. REQUIRES: a WireReader over `from` returned `range`.
void CopyRange(Fragments from, const ByteRange& range, void* to);

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

// Reads the fields of a message in order. After the first error, every read returns 0 and done()
// returns true. Callers therefore need to check ok() only at the end. Not thread-safe.
class WireReader {
 public:
  explicit WireReader(Fragments from);

  bool ok() const { return ok_; }
  bool done() const { return left_ == 0; }  // the current message has ended, or an error occurred
  size_t left() const { return left_; }

  // Returns the next tag: field number and wire type in one number. 0: an error occurred.
  uint32_t Tag();
  uint64_t Varint();
  uint32_t Fixed32();
  // Read a length-delimited field. Bytes() returns a copy, and fails for a field of more than
  // `bytes_max` bytes. Range() returns the location of the field's bytes.
  std::string Bytes(size_t bytes_max);
  ByteRange Range();
  // Enters a length-delimited field as a nested message. From then on done() returns true at the
  // end of this field. The caller then passes the result of Enter to Leave, which returns to the
  // outer message.
  size_t Enter();
  void Leave(size_t entered);
  // Skips the field whose tag was just read.
  void Skip(uint32_t tag, int depth = 0);

 private:
  bool Fail();
  uint8_t Byte();
  void Advance(size_t bytes);

  Fragments from_;
  size_t fragment_ = 0, offset_ = 0;
  size_t left_ = 0;  // bytes left until the end of the innermost message
  bool ok_ = true;
};

constexpr uint32_t WireTag(uint32_t field, WireType type) {
  return field << 3 | static_cast<uint32_t>(type);
}

// VarintSize returns the length of a varint in bytes. The functions Put... append a value to `out`.
size_t VarintSize(uint64_t value);
void PutVarint(std::string& out, uint64_t value);
void PutFixed32(std::string& out, uint32_t value);
// Append a field to `out`. A value that is 0 or empty is omitted, as in protobuf.
void PutUintField(std::string& out, uint32_t field, uint64_t value);
void PutBytesField(std::string& out, uint32_t field, std::string_view value);
size_t UintFieldSize(uint32_t field, uint64_t value);
size_t BytesFieldSize(uint32_t field, size_t bytes);

}  // namespace tandem::codec
