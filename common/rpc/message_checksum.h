// Checksums of the messages of a call. The sender puts the checksum of a message into metadata, and
// the receiver compares it before it uses the message. Clients send checksums over TCP without TLS.
// A server sends checksums in replies to requests that have one. Includes gRPC, so include it in
// .cc files and wrappers only.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/string_ref.h>

#include <map>
#include <string>
#include <string_view>

#include "common/base/endpoint.h"
#include "common/base/status.h"
#include "common/rpc/credentials/tls_files.h"

namespace tandem::rpc {

// Name of the metadata of a request, and of the trailing metadata of a reply. The value is a CRC-32
// (RFC 1952) in 4 bytes, little-endian.
inline constexpr char kChecksumMetadata[] = "x-tandem-crc32-bin";

// Returns whether calls to `server` have checksums: over TCP without TLS. TLS finds changed bytes
// itself, and Unix-domain sockets are memory of the host.
bool NeedsChecksums(const Endpoint& server, const TlsFiles& tls);

// Returns the value of the metadata. `method`: name of the RPC in its service. The checksum covers
// `method`, then a byte 0, then the message.
std::string RequestChecksum(std::string_view method, const grpc::ByteBuffer& request);
// The checksum covers `method`, a byte 0, the number of the status code as one byte, and the
// message of the status, a byte 0. If the status is OK, the reply follows.
std::string ReplyChecksum(std::string_view method, const grpc::Status& status,
                          const grpc::ByteBuffer& reply);

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;
inline bool HasChecksum(const Metadata& metadata) {
  return metadata.find(kChecksumMetadata) != metadata.end();
}
// Compares the checksum in `metadata` with `computed`. OK also if `metadata` has no checksum.
// UNAVAILABLE: the checksums differ, so the sender must send the message again. `message`: the name
// of the message in the error, as in "the reply of Push".
Status CompareChecksum(const Metadata& metadata, std::string_view computed,
                       std::string_view message);

}  // namespace tandem::rpc
