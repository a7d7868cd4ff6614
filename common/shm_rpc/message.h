// Messages in an arena of shared memory: their pieces, and a table with the offsets of the pieces.
#pragma once

#include <span>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/shm/arena.h"
#include "common/shm_rpc/ring.h"

namespace tandem::shm_rpc {

// A message in an arena. Its memory is kept until destruction.
struct PlacedMessage {
  RingEntry entry;                                // `pieces` and `table` are set
  Buffer head;                                    // the table, and the copied pieces
  std::vector<std::shared_ptr<const void>> keep;  // owners of the referenced pieces
};
// References pieces that are already in the arena and copies the others, each aligned to
// Device::kAlignment. RESOURCE_EXHAUSTED: the arena is full.
StatusOr<PlacedMessage> PutMessage(const codec::EncodedMessage& message, Arena& arena);

inline constexpr uint32_t kPiecesMax = 1 << 21;

// Returns the pieces of a message, in place in `arena`. DATA_LOSS: a piece is not inside the arena,
// or the pieces are together larger than the arena.
StatusOr<std::vector<std::span<const std::byte>>> GetMessage(const RingEntry& entry,
                                                             std::span<const std::byte> arena);

}  // namespace tandem::shm_rpc
