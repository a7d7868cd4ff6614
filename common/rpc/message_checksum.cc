#include "common/rpc/message_checksum.h"

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <vector>

#include "absl/strings/escaping.h"
#include "common/base/crc32c.h"

namespace tandem::rpc {
namespace {

uint32_t With(uint32_t sum, std::string_view bytes) {
  return Crc32(sum, bytes.data(), bytes.size());
}

uint32_t With(uint32_t sum, const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (!message.Valid() || !message.Dump(&slices).ok()) return sum;  // an empty message
  for (const grpc::Slice& slice : slices) sum = Crc32(sum, slice.begin(), slice.size());
  return sum;
}

constexpr std::string_view kEnd("\0", 1);

std::string Value(uint32_t sum) {
  // Without tandem_codec, whose messages a library that links this file would register again.
  std::string value;
  for (int bits = 0; bits < 32; bits += 8) value.push_back(static_cast<char>(sum >> bits & 0xff));
  return value;
}

}  // namespace

bool NeedsChecksums(const Endpoint& server, const TlsFiles& tls) {
  return !tls.enabled() && !server.is_unix();
}

std::string RequestChecksum(std::string_view method, const grpc::ByteBuffer& request) {
  return Value(With(With(With(0, method), kEnd), request));
}

std::string ReplyChecksum(std::string_view method, const grpc::Status& status,
                          const grpc::ByteBuffer& reply) {
  const char code = static_cast<char>(status.error_code());
  uint32_t sum = With(With(With(0, method), kEnd), std::string_view(&code, 1));
  sum = With(With(sum, status.error_message()), kEnd);
  return Value(status.ok() ? With(sum, reply) : sum);
}

Status CompareChecksum(const Metadata& metadata, std::string_view computed,
                       std::string_view message) {
  const auto sent = metadata.find(kChecksumMetadata);
  if (sent == metadata.end()) return OkStatus();
  const std::string_view value(sent->second.data(), sent->second.size());
  if (value == computed) return OkStatus();
  return Unavailable(
      "%s is damaged: its CRC-32 is %s, but its sender computed %s [TD4043]; hint: if this happens "
      "again, check the memory and the network of both hosts, or use TLS",
      message, absl::BytesToHexString(std::string(computed)),
      absl::BytesToHexString(std::string(value)));
}

}  // namespace tandem::rpc
