#include "common/codec/wire.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::codec {

void CopyRange(Fragments from, const ByteRange& range, void* to) {
  auto* out = static_cast<std::byte*>(to);
  size_t left = range.bytes, offset = range.offset;
  for (size_t f = range.fragment; left > 0; ++f, offset = 0) {
    CHECK_LT(f, from.size());
    TD_REQUIRE(offset <= from[f].size());
    const size_t n = std::min(left, from[f].size() - offset);
    std::memcpy(out, from[f].data() + offset, n);
    out += n;
    left -= n;
  }
}

WireReader::WireReader(Fragments from) : from_(from) {
  for (const auto& piece : from) left_ += piece.size();
}

bool WireReader::Fail() {
  ok_ = false;
  left_ = 0;
  return false;
}

uint8_t WireReader::Byte() {
  if (left_ == 0) return Fail();
  while (offset_ == from_[fragment_].size()) {
    ++fragment_;
    offset_ = 0;
  }
  --left_;
  return static_cast<uint8_t>(from_[fragment_][offset_++]);
}

void WireReader::Advance(size_t bytes) {
  if (bytes > left_) {
    Fail();
    return;
  }
  left_ -= bytes;
  while (bytes > 0) {
    const size_t n = std::min(bytes, from_[fragment_].size() - offset_);
    bytes -= n;
    offset_ += n;
    if (offset_ == from_[fragment_].size() && bytes > 0) {
      ++fragment_;
      offset_ = 0;
    }
  }
}

uint64_t WireReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const uint8_t byte = Byte();
    if (!ok_) return 0;
    value |= shift < 64 ? static_cast<uint64_t>(byte & 0x7f) << shift : 0;
    if ((byte & 0x80) == 0) return value;
  }
  return Fail();
}

uint32_t WireReader::Tag() {
  const uint64_t tag = Varint();
  if (!ok_) return 0;
  if (tag > UINT32_MAX || (tag >> 3) == 0) return Fail();
  return static_cast<uint32_t>(tag);
}

uint32_t WireReader::Fixed32() {
  uint32_t value = 0;
  for (int shift = 0; shift < 32; shift += 8) value |= static_cast<uint32_t>(Byte()) << shift;
  return ok_ ? value : 0;
}

ByteRange WireReader::Range() {
  const uint64_t bytes = Varint();
  if (!ok_ || bytes > left_) {
    Fail();
    return {};
  }
  const ByteRange range{fragment_, offset_, static_cast<size_t>(bytes)};
  Advance(range.bytes);
  return range;
}

std::string WireReader::Bytes(size_t bytes_max) {
  const ByteRange range = Range();
  if (range.bytes > bytes_max) Fail();
  if (!ok_) return "";
  std::string value(range.bytes, '\0');
  CopyRange(from_, range, value.data());
  return value;
}

size_t WireReader::Enter() {
  const uint64_t bytes = Varint();
  if (!ok_ || bytes > left_) {
    Fail();
    return 0;
  }
  const size_t rest = left_ - static_cast<size_t>(bytes);
  left_ = static_cast<size_t>(bytes);
  return rest;
}

void WireReader::Leave(size_t entered) {
  if (!ok_) return;
  if (left_ != 0) {
    Fail();
  } else {
    TD_REQUIRE(fragment_ <= from_.size());
    left_ = entered;
  }
}

void WireReader::Skip(uint32_t tag, int depth) {
  constexpr int kDepthMax = 100;
  switch (static_cast<WireType>(tag & 7)) {
    case WireType::kVarint:
      Varint();
      return;
    case WireType::kFixed64:
      Advance(8);
      return;
    case WireType::kFixed32:
      Advance(4);
      return;
    case WireType::kBytes:
      Range();
      return;
    case WireType::kGroup:
      while (depth < kDepthMax && !done()) {
        const uint32_t inner = Tag();
        if (inner == WireTag(tag >> 3, WireType::kEndGroup)) return;
        Skip(inner, depth + 1);
      }
      break;
    case WireType::kEndGroup:
      break;
  }
  Fail();
}

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void PutFixed32(std::string& out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(value >> shift));
}

void PutUintField(std::string& out, uint32_t field, uint64_t value) {
  if (value == 0) return;
  PutVarint(out, WireTag(field, WireType::kVarint));
  PutVarint(out, value);
}

void PutBytesField(std::string& out, uint32_t field, std::string_view value) {
  if (value.empty()) return;
  PutVarint(out, WireTag(field, WireType::kBytes));
  PutVarint(out, value.size());
  out.append(value);
}

size_t UintFieldSize(uint32_t field, uint64_t value) {
  return value == 0 ? 0 : VarintSize(WireTag(field, WireType::kVarint)) + VarintSize(value);
}

size_t BytesFieldSize(uint32_t field, size_t bytes) {
  return bytes == 0 ? 0 : VarintSize(WireTag(field, WireType::kBytes)) + VarintSize(bytes) + bytes;
}

}  // namespace tandem::codec
