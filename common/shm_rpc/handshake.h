// The handshake of shm RPC. A client gets a ticket over gRPC, with the authentication that gRPC
// requires. The client connects to the server's socket, sends the ticket, and gets the memory of
// both directions.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::shm_rpc {

// A permission to connect once. It is valid for one client and for some seconds.
struct ShmRpcTicket {
  std::string socket;  // abstract name of the server's Unix socket
  std::string ticket;  // kTicketBytes random bytes
};
inline constexpr size_t kTicketBytes = 16;
inline constexpr size_t kSocketBytesMax = 100;

struct Hello {
  static constexpr uint32_t kMagic = 0x4c4d4454;  // the characters "TDML"
  static constexpr uint32_t kVersion = 1;
  uint32_t magic = kMagic, version = kVersion;
  char ticket[kTicketBytes] = {};
};
// The server's reply to a Hello. It comes with two file descriptors: the memory of this connection,
// which the client may write, and the memory of the server, which the client may only read.
struct Welcome {
  uint32_t magic = Hello::kMagic, version = Hello::kVersion;
  uint64_t connection_bytes = 0, server_bytes = 0;
};

}  // namespace tandem::shm_rpc
