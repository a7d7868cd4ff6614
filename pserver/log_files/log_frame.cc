#include "pserver/log_files/log_frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/base/crc32c.h"
#include "common/base/require.h"

namespace tandem::pserver {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr size_t kCheckedBytes = 24;  // bytes of a head before its checksum
constexpr size_t kMagicBytes = 5;
constexpr size_t kMagicAndFormatBytes = 8;

uint32_t SumOf(const char* head, std::string_view payload) {
  return Crc32c(Crc32c(0, head, kCheckedBytes), payload.data(),
                std::min(payload.size(), kPayloadHeadBytes));
}

}  // namespace

FrameHeadBytes EncodeFrameHead(const FrameHead& head, std::string_view payload) {
  TD_REQUIRE(payload.size() >= std::min<uint64_t>(head.bytes, kPayloadHeadBytes));
  FrameHeadBytes bytes;
  std::memcpy(bytes.data(), &head.number, sizeof(head.number));
  std::memcpy(bytes.data() + 8, &head.time_us, sizeof(head.time_us));
  std::memcpy(bytes.data() + 16, &head.bytes, sizeof(head.bytes));
  const uint32_t sum = SumOf(bytes.data(), payload);
  std::memcpy(bytes.data() + kCheckedBytes, &sum, sizeof(sum));
  return bytes;
}

FrameHead DecodeFrameHead(std::string_view bytes) {
  TD_REQUIRE(bytes.size() >= kFrameHeadBytes);
  FrameHead head;
  std::memcpy(&head.number, bytes.data(), sizeof(head.number));
  std::memcpy(&head.time_us, bytes.data() + 8, sizeof(head.time_us));
  std::memcpy(&head.bytes, bytes.data() + 16, sizeof(head.bytes));
  return head;
}

bool FrameHeadMatches(std::string_view head, std::string_view payload) {
  TD_REQUIRE(head.size() >= kFrameHeadBytes);
  uint32_t sum = 0;
  std::memcpy(&sum, head.data() + kCheckedBytes, sizeof(sum));
  return sum == SumOf(head.data(), payload);
}

std::array<char, kFileHeadBytes> EncodeFileHead(int format) {
  TD_REQUIRE(format >= 0 && format <= 999);
  std::array<char, kFileHeadBytes> bytes;
  const std::string text = absl::StrFormat("TDLOG%03d", format);
  std::memcpy(bytes.data(), text.data(), kMagicAndFormatBytes);
  const uint32_t sum = Crc32c(0, bytes.data(), kMagicAndFormatBytes);
  std::memcpy(bytes.data() + kMagicAndFormatBytes, &sum, sizeof(sum));
  return bytes;
}

std::optional<int> DecodeFileHead(std::string_view bytes) {
  TD_REQUIRE(bytes.size() >= kFileHeadBytes);
  uint32_t sum = 0;
  std::memcpy(&sum, bytes.data() + kMagicAndFormatBytes, sizeof(sum));
  int format = 0;
  const std::string_view digits = bytes.substr(kMagicBytes, kMagicAndFormatBytes - kMagicBytes);
  if (!bytes.starts_with("TDLOG") || sum != Crc32c(0, bytes.data(), kMagicAndFormatBytes) ||
      !absl::SimpleAtoi(std::string(digits), &format)) {
    return std::nullopt;
  }
  return format;
}

}  // namespace tandem::pserver
