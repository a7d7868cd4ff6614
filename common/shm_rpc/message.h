// Messages in an arena of shared memory: pieces, and a table that says where they are.
#pragma once

#include <span>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/shm/arena.h"
#include "common/shm_rpc/ring.h"

namespace tandem {

// A message that lies in an arena, until this goes.
struct LaneMessage {
  RingEntry entry;                                // `pieces` and `table` are set
  Buffer head;                                    // the table, and pieces that were copied
  std::vector<std::shared_ptr<const void>> keep;  // of the others
};
// Pieces that are in the arena already are referenced, others copied, each aligned to
// Device::kAlignment. RESOURCE_EXHAUSTED when the arena is full.
StatusOr<LaneMessage> PutMessage(const EncodedMessage& message, Arena& arena);

inline constexpr uint32_t kLanePiecesMax = 1 << 21;

// The pieces of a message in `arena`, where they are. DATA_LOSS unless all of them, and not more
// than the arena holds, lie in it.
StatusOr<std::vector<std::span<const std::byte>>> GetMessage(const RingEntry& entry,
                                                             std::span<const std::byte> arena);

}  // namespace tandem
