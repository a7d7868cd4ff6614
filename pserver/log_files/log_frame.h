// The format of the files of an update log.
//
// A file begins with a header of kFileHeadBytes bytes: the text "TDLOG", the format in three
// decimal digits, and the CRC32C of these eight bytes. Frames follow, one for each entry:
//   offset  0  number of the entry, 8 bytes
//           8  time of the write in microseconds of Unix time, 8 bytes
//          16  length of the payload in bytes, 8 bytes
//          24  CRC32C of the 24 bytes before and of the first kPayloadHeadBytes bytes of the
//          payload 28  payload
// All numbers are little-endian. The first bytes of the payload are the kind of the entry and the
// CRC32C of the rest (pserver/wire/log_record.h), so the two checksums cover every byte, and each
// byte is added to a checksum once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::pserver {

inline constexpr size_t kFileHeadBytes = 12;
inline constexpr size_t kFrameHeadBytes = 28;
inline constexpr size_t kPayloadHeadBytes = 5;
inline constexpr int kLogFileFormat = 1;

struct FrameHead {
  uint64_t number = 0;
  int64_t time_us = 0;  // microseconds of Unix time
  uint64_t bytes = 0;   // length of the payload
};
using FrameHeadBytes = std::array<char, kFrameHeadBytes>;

// `payload`: the payload or its first kPayloadHeadBytes bytes.
FrameHeadBytes EncodeFrameHead(const FrameHead& head, std::string_view payload);
// Decodes the head without a comparison of its checksum. `bytes`: at least kFrameHeadBytes bytes.
FrameHead DecodeFrameHead(std::string_view bytes);
// Returns whether the checksum of the head matches. `payload`: as in EncodeFrameHead.
bool FrameHeadMatches(std::string_view head, std::string_view payload);

std::array<char, kFileHeadBytes> EncodeFileHead(int format = kLogFileFormat);
// Returns the format of the file; empty: the bytes are no header. `bytes`: at least kFileHeadBytes
// bytes.
std::optional<int> DecodeFileHead(std::string_view bytes);

}  // namespace tandem::pserver
