// How a lane begins: a client that was invited (over gRPC, with whatever proof that asks for)
// connects to the server's Unix socket, says its ticket, and is handed the memory of both
// directions.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

// Where to go, and what to show there: good for one client, for some seconds.
struct ShmRpcTicket {
  std::string socket;  // an abstract name
  std::string ticket;  // kLaneTicketBytes bytes
};
inline constexpr size_t kLaneTicketBytes = 16;
inline constexpr size_t kLaneSocketBytesMax = 100;

struct LaneHello {
  static constexpr uint32_t kMagic = 0x4c4d4454;  // "TDML"
  static constexpr uint32_t kVersion = 1;
  uint32_t magic = kMagic, version = kVersion;
  char ticket[kLaneTicketBytes] = {};
};
// With two file descriptors: of the lane, which the client may write, and of the server, which it
// may read.
struct LaneWelcome {
  uint32_t magic = LaneHello::kMagic, version = LaneHello::kVersion;
  uint64_t lane_bytes = 0, server_bytes = 0;
};

}  // namespace tandem
