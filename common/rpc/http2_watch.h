// Checks the frame headers that an HTTP/2 client sends (RFC 9113, 4.1), before gRPC reads them, and
// decides when the connection must end. This protects gRPC 1.51, which buffers header blocks
// without a limit (CVE-2023-33953) and processes streams that are reset immediately
// (CVE-2023-44487).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/clock.h"
#include "common/rpc/stranger_budget.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct Http2Limits {
  // Maximum payload of a frame in bytes. DATA frames are exempt. A header block fits into one
  // frame, because gRPC's clients send at most 8 KiB.
  uint32_t frame_bytes_max = 16'384;
  // Rate limit for RST_STREAM frames. A client that cancels all its calls at once stays below this
  // limit.
  double resets_burst = 256, resets_per_second = 32;
  // Rate limit for SETTINGS, PING, PRIORITY, GOAWAY, empty DATA frames and frames of unknown types.
  double controls_burst = 256, controls_per_second = 64;
};

// Checks the HTTP/2 frames of one connection. Not thread-safe.
class Http2Watch {
 public:
  explicit Http2Watch(const Http2Limits& limits = {});

  // Checks the next received bytes; frames may be split anywhere. Returns false if the connection
  // must end; every later call returns false too. `stranger` is the caller's share of the budget
  // for calls and bytes; null: the caller is trusted and has no such budget.
  bool Feed(std::string_view bytes, StrangerShare* stranger, Time now);
  // Returns why Feed() returned false, or "" if no call of Feed() returned false.
  const char* why() const { return why_; }

 private:
  bool StartFrame(StrangerShare* stranger, Time now);

  const Http2Limits limits_;
  TokenBucket resets_, controls_;
  size_t preface_ = 0;  // number of received bytes of the HTTP/2 preface
  std::array<uint8_t, 9> header_{};
  size_t header_bytes_ = 0;
  uint32_t payload_left_ = 0;
  const char* why_ = "";
};

}  // namespace tandem::rpc
