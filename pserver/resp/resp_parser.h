// Parses the commands of a Redis client: arrays of bulk strings of RESP, the protocol of Redis
// (https://redis.io/docs/reference/protocol-spec).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::pserver {

// The arguments of a command; the first argument is its name. The bytes belong to the buffer that
// the parser read.
class RespArguments {
 public:
  struct Place {
    uint32_t begin, bytes;
  };
  RespArguments(const char* buffer, const std::vector<Place>& places)
      : buffer_(buffer), places_(places) {}
  size_t size() const { return places_.size(); }
  std::string_view operator[](size_t i) const {
    return {buffer_ + places_[i].begin, places_[i].bytes};
  }

 private:
  const char* buffer_;
  const std::vector<Place>& places_;
};

// Parses one command after another. A command may arrive in parts; no byte is parsed twice. Not
// thread-safe.
class RespParser {
 public:
  // `bytes_max`: maximum size of a command, less than 4 GiB. `arguments_max`: maximum number of
  // arguments.
  RespParser(size_t bytes_max, size_t arguments_max) { SetLimits(bytes_max, arguments_max); }
  // Applies to the next command.
  void SetLimits(size_t bytes_max, size_t arguments_max);

  // Parses the command at the begin of `buffer`. Returns true if the command is complete. Returns
  // false if bytes are missing; the next call gets the same bytes, and more. INVALID_ARGUMENT: the
  // bytes are no command, or the command exceeds a limit.
  StatusOr<bool> Parse(std::string_view buffer);
  // The arguments and the size in bytes of the complete command. The arguments are valid until
  // Reset. A command without arguments has no effect. An empty line is such a command, because
  // redis-cli --pipe sends it.
  RespArguments arguments(std::string_view buffer) const { return {buffer.data(), places_}; }
  size_t bytes() const { return at_; }
  // Begins the next command, which is at the begin of the buffer of the next call of Parse.
  void Reset();

 private:
  enum class Result : uint8_t { kOk, kIncomplete, kBad };
  // Reads a number in the form TYPE DIGITS CR LF at position `at` of `buffer`, and sets `at` to the
  // position after it.
  static Result ReadNumber(char type, std::string_view buffer, size_t& at, uint64_t& number);
  Status Mistake(char type, std::string_view buffer) const;

  size_t bytes_max_ = 0, arguments_max_ = 0;
  bool begun_ = false;    // the number of arguments is known
  uint64_t missing_ = 0;  // number of arguments that are not parsed yet
  size_t at_ = 0;         // number of bytes that are parsed
  std::vector<RespArguments::Place> places_;
};

}  // namespace tandem::pserver
