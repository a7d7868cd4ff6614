// Reads the frame headers of what an HTTP/2 client sends (RFC 9113, 4.1), before gRPC does, and
// says when the connection must end. gRPC 1.51 buffers header blocks without a bound
// (CVE-2023-33953) and works on streams that are reset at once (CVE-2023-44487).
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
  // Of all frames but DATA. Header blocks fit into one frame: gRPC's clients send at most 8 KiB.
  uint32_t frame_bytes_max = 16'384;
  // RST_STREAM: a client that cancels all of its calls at once passes.
  double resets_burst = 256, resets_per_second = 32;
  // SETTINGS, PING, PRIORITY, GOAWAY, empty DATA and frames of unknown types.
  double controls_burst = 256, controls_per_second = 64;
};

// Not thread-safe.
class Http2Watch {
 public:
  explicit Http2Watch(const Http2Limits& limits = {});

  // The next bytes, in any pieces. False: the connection must end; so it is with every later call.
  // `stranger`: pays for calls and bytes of a caller that has not proved who it is; else null.
  bool Feed(std::string_view bytes, StrangerShare* stranger, Time now);
  // Why, after Feed said false; "" before.
  const char* why() const { return why_; }

 private:
  bool StartFrame(StrangerShare* stranger, Time now);

  const Http2Limits limits_;
  TokenBucket resets_, controls_;
  size_t preface_ = 0;  // bytes of the preface that were there
  std::array<uint8_t, 9> header_{};
  size_t header_bytes_ = 0;
  uint32_t payload_left_ = 0;
  const char* why_ = "";
};

}  // namespace tandem::rpc
