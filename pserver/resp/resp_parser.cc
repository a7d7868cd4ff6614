#include "pserver/resp/resp_parser.h"

#include <cctype>
#include <string>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

constexpr size_t kDigitsMax = 10;

// Returns the byte as text for a message.
std::string Shown(char byte) {
  if (std::isprint(static_cast<unsigned char>(byte))) return std::string("'") + byte + "'";
  return absl::StrFormat("byte 0x%02x", static_cast<unsigned char>(byte));
}

}  // namespace

void RespParser::SetLimits(size_t bytes_max, size_t arguments_max) {
  TD_REQUIRE(bytes_max <= UINT32_MAX);
  bytes_max_ = bytes_max;
  arguments_max_ = arguments_max;
}

void RespParser::Reset() {
  begun_ = false;
  missing_ = 0;
  at_ = 0;
  places_.clear();
  constexpr size_t kKeptPlaces = 4096;  // a large command must not keep its memory
  if (places_.capacity() > kKeptPlaces) places_ = {};
}

RespParser::Result RespParser::ReadNumber(char type, std::string_view buffer, size_t& at,
                                          uint64_t& number) {
  if (at >= buffer.size()) return Result::kIncomplete;
  if (buffer[at] != type) return Result::kBad;
  uint64_t read = 0;
  size_t i = at + 1;
  for (; i < buffer.size() && buffer[i] >= '0' && buffer[i] <= '9'; ++i) {
    if (i - at > kDigitsMax) return Result::kBad;
    read = 10 * read + static_cast<uint64_t>(buffer[i] - '0');
  }
  if (i >= buffer.size()) return Result::kIncomplete;
  if (i == at + 1 || buffer[i] != '\r') return Result::kBad;
  if (i + 1 >= buffer.size()) return Result::kIncomplete;
  if (buffer[i + 1] != '\n') return Result::kBad;
  number = read;
  at = i + 2;
  return Result::kOk;
}

Status RespParser::Mistake(char type, std::string_view buffer) const {
  if (buffer[at_] != type) {
    return InvalidArgument(
        "Protocol error: %s at the begin of %s, expected '%c' [TD4041]; hint: use a client of "
        "Redis, which sends commands as arrays of bulk strings",
        Shown(buffer[at_]), type == '*' ? "a command" : "an argument", type);
  }
  return InvalidArgument(
      "Protocol error: the number after '%c' is invalid, expected 1 to %d digits and CR LF "
      "[TD4041]",
      type, kDigitsMax);
}

StatusOr<bool> RespParser::Parse(std::string_view buffer) {
  TD_REQUIRE(buffer.size() >= at_);
  const auto too_long = [this](uint64_t bytes) {
    return InvalidArgument(
        "the command has at least %d bytes, expected at most %d (command_bytes_max) [TD4041]; "
        "hint: divide it into several commands",
        bytes, bytes_max_);
  };
  if (!begun_) {
    if (buffer.starts_with("\r\n")) {
      at_ = 2;
      return true;
    }
    if (buffer == "\r") return false;
    const Result result = ReadNumber('*', buffer, at_, missing_);
    if (result == Result::kIncomplete) return false;
    if (result == Result::kBad) return Mistake('*', buffer);
    if (missing_ > arguments_max_) {
      return InvalidArgument(
          "the command has %d arguments, expected at most %d (arguments_max) [TD4041]; hint: "
          "divide it into several commands",
          missing_, arguments_max_);
    }
    begun_ = true;
  }
  while (missing_ > 0) {
    size_t begin = at_;
    uint64_t bytes = 0;
    const Result result = ReadNumber('$', buffer, begin, bytes);
    if (result == Result::kBad) return Mistake('$', buffer);
    if (result == Result::kIncomplete) return false;
    const size_t end = begin + bytes + 2;
    if (end > bytes_max_) return too_long(end);
    if (end > buffer.size()) return false;
    if (buffer[end - 2] != '\r' || buffer[end - 1] != '\n') {
      return InvalidArgument(
          "Protocol error: argument %d does not end with CR LF after its %d bytes [TD4041]",
          places_.size(), bytes);
    }
    places_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(bytes)});
    at_ = end;
    --missing_;
  }
  return true;
}

}  // namespace tandem::pserver
