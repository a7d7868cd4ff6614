// Reading and writing protobuf's wire format by hand, over memory in pieces
// (https://protobuf.dev/programming-guides/encoding/). Only what tensor_codec.cc needs; everything
// else goes through protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// A received message: its bytes in order, in pieces of any size. Not owned.
using Fragments = std::span<const std::span<const std::byte>>;

// Some bytes of a received message: from `offset` in piece `fragment` on, across as many as needed.
struct ByteRange {
  size_t fragment = 0, offset = 0, bytes = 0;
};

// REQUIRES: the range came from a WireReader over the same fragments.
void CopyRange(Fragments from, const ByteRange& range, void* to);

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

// A cursor. After the first error everything reads as 0 and done() is true: check ok() at the end.
class WireReader {
 public:
  explicit WireReader(Fragments from);

  bool ok() const { return ok_; }
  bool done() const { return left_ == 0; }  // of the message now being read, or after an error
  size_t left() const { return left_; }

  // The next tag: field number and type in one number, as on the wire. 0 after an error.
  uint32_t Tag();
  uint64_t Varint();
  uint32_t Fixed32();
  // A length-delimited field: at most `bytes_max` bytes copied, or where they are.
  std::string Bytes(size_t bytes_max);
  ByteRange Range();
  // Enters a length-delimited field: done() then tells its end. Leave() with what Enter gave.
  size_t Enter();
  void Leave(size_t entered);
  // Passes over a field that nobody knows.
  void Skip(uint32_t tag, int depth = 0);

 private:
  bool Fail();
  uint8_t Byte();
  void Advance(size_t bytes);

  Fragments from_;
  size_t fragment_ = 0, offset_ = 0;
  size_t left_ = 0;  // to the end of the innermost message
  bool ok_ = true;
};

constexpr uint32_t WireTag(uint32_t field, WireType type) {
  return field << 3 | static_cast<uint32_t>(type);
}

// Appending to a string.
size_t VarintSize(uint64_t value);
void PutVarint(std::string& out, uint64_t value);
void PutFixed32(std::string& out, uint32_t value);
// The next three leave out zero and empty values, as protobuf does.
void PutUintField(std::string& out, uint32_t field, uint64_t value);
void PutBytesField(std::string& out, uint32_t field, std::string_view value);
size_t UintFieldSize(uint32_t field, uint64_t value);
size_t BytesFieldSize(uint32_t field, size_t bytes);

}  // namespace tandem
