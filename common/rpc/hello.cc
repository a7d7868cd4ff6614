#include "common/rpc/hello.h"

namespace tandem::rpc {
namespace {

Hello ReadClientHello(std::string_view bytes) {
  // Checks for a TLS record of type handshake (RFC 8446, 5.1) that contains a ClientHello (4.1.2).
  constexpr size_t kTypeAt = 0, kMajorAt = 1, kMessageAt = 5;
  constexpr char kHandshake = 22, kMajor = 3, kClientHello = 1;
  const auto differs = [bytes](size_t at, char expected) {
    return bytes.size() > at && bytes[at] != expected;
  };
  if (differs(kTypeAt, kHandshake) || differs(kMajorAt, kMajor) ||
      differs(kMessageAt, kClientHello)) {
    return Hello::kOther;
  }
  return bytes.size() >= kHelloBytes ? Hello::kGood : Hello::kMore;
}

}  // namespace

Hello ReadHello(std::string_view bytes, bool tls) {
  if (tls) return ReadClientHello(bytes);
  const std::string_view start = bytes.substr(0, kHttp2Preface.size());
  if (!kHttp2Preface.starts_with(start)) return Hello::kOther;
  return start.size() == kHttp2Preface.size() ? Hello::kGood : Hello::kMore;
}

std::string_view ClientRandom(std::string_view hello) {
  // Offset of the random bytes, after record header (5), message header (4), version (2) (RFC 8446,
  // 4.1.2).
  constexpr size_t kAt = 11;
  return hello.substr(kAt, kHelloBytes - kAt);
}

}  // namespace tandem::rpc
