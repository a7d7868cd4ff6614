// Stores messages in an arena of shared memory. A message consists of its pieces and a table with
// the offsets of the pieces.
#pragma once

#include <span>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/shm/arena.h"
#include "common/shm_rpc/ring.h"

namespace tandem::shm_rpc {

// A message in an arena. Its memory stays allocated until this object is destroyed.
struct PlacedMessage {
  RingEntry entry;  // only its fields `pieces` and `table` are set
  Buffer head;      // memory of the table and of the copied pieces
  // Owners of the pieces that are referenced, not copied.
  std::vector<std::shared_ptr<const void>> keep;
};
// Stores a message in `arena`. Pieces that are already in the arena are referenced; other pieces
// are copied, each aligned to Device::kAlignment. RESOURCE_EXHAUSTED: the arena is full.
StatusOr<PlacedMessage> PutMessage(const codec::EncodedMessage& message, Arena& arena);

inline constexpr uint32_t kPiecesMax = 1 << 21;

// Returns the pieces of a message without a copy, as ranges of `arena`. DATA_LOSS: a piece is not
// inside the arena, or all pieces together are larger than the arena.
StatusOr<std::vector<std::span<const std::byte>>> GetMessage(const RingEntry& entry,
                                                             std::span<const std::byte> arena);

}  // namespace tandem::shm_rpc
