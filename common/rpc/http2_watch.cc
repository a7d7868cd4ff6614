#include "common/rpc/http2_watch.h"

#include <algorithm>
#include <cstring>

#include "common/rpc/hello.h"

namespace tandem::rpc {
namespace {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kWindowUpdate = 8,
  kContinuation = 9
};
constexpr uint8_t kEndStream = 1, kEndHeaders = 4;

}  // namespace

Http2Watch::Http2Watch(const Http2Limits& limits)
    : limits_(limits),
      resets_(limits.resets_burst, limits.resets_per_second),
      controls_(limits.controls_burst, limits.controls_per_second) {}

bool Http2Watch::Feed(std::string_view bytes, StrangerShare* stranger, Time now) {
  while (!bytes.empty() && *why_ == '\0') {
    if (preface_ < kHttp2Preface.size()) {
      if (bytes[0] != kHttp2Preface[preface_++]) why_ = "the client does not speak HTTP/2";
      bytes.remove_prefix(1);
    } else if (payload_left_ > 0) {
      const size_t skipped = std::min<size_t>(payload_left_, bytes.size());
      payload_left_ -= static_cast<uint32_t>(skipped);
      bytes.remove_prefix(skipped);
    } else {
      const size_t taken = std::min(header_.size() - header_bytes_, bytes.size());
      memcpy(&header_[header_bytes_], bytes.data(), taken);
      header_bytes_ += taken;
      bytes.remove_prefix(taken);
      if (header_bytes_ < header_.size()) continue;
      header_bytes_ = 0;
      if (!StartFrame(stranger, now)) break;
    }
  }
  return *why_ == '\0';
}

bool Http2Watch::StartFrame(StrangerShare* stranger, Time now) {
  const uint32_t length = uint32_t{header_[0]} << 16 | uint32_t{header_[1]} << 8 | header_[2];
  const uint8_t type = header_[3], flags = header_[4];
  payload_left_ = length;
  if (stranger != nullptr && !stranger->TakeBytes(header_.size() + length, now)) {
    why_ = "the client sent too many bytes before an accepted call";
  } else if (type == kContinuation || (type == kHeaders && (flags & kEndHeaders) == 0)) {
    why_ = "the client sent a header block in several frames";
  } else if (type != kData && length > limits_.frame_bytes_max) {
    why_ = "the client sent a control frame that is too long";
  } else if (type == kHeaders) {
    if (stranger != nullptr && !stranger->TakeCall(now)) {
      why_ = "the client started too many calls before an accepted call";
    }
  } else if (type == kReset) {
    if (!resets_.Take(now)) why_ = "the client reset too many streams";
  } else if (type != kWindowUpdate && (type != kData || (length == 0 && flags != kEndStream))) {
    if (!controls_.Take(now)) why_ = "the client sent too many empty frames";
  }
  return *why_ == '\0';
}

}  // namespace tandem::rpc
