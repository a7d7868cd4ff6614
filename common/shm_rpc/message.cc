#include "common/shm_rpc/message.h"

#include <algorithm>
#include <cstring>

#include "common/base/require.h"

namespace tandem::shm_rpc {
namespace {

size_t Aligned(size_t bytes) {
  return (bytes + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
}

}  // namespace

StatusOr<PlacedMessage> PutMessage(const codec::EncodedMessage& message, Arena& arena) {
  std::vector<RingFragment> table;
  size_t bytes = Aligned(message.pieces.size() * sizeof(RingFragment));
  for (const codec::EncodedMessage::Piece& piece : message.pieces) {
    const size_t size = piece.data != nullptr ? piece.bytes : piece.owned.size();
    const int64_t at = piece.data != nullptr ? arena.OffsetOf(piece.data, size) : -1;
    table.push_back({at < 0 ? bytes : static_cast<uint64_t>(at), size});
    if (at < 0) bytes += Aligned(size);
  }
  PlacedMessage placed;
  placed.head = arena.Allocate(bytes);
  if (placed.head == nullptr)
    return ResourceExhausted("the shared memory of the connection is full");
  const auto begin = static_cast<uint64_t>(arena.OffsetOf(placed.head.get(), bytes));
  for (size_t i = 0; i < table.size(); ++i) {
    const codec::EncodedMessage::Piece& piece = message.pieces[i];
    if (piece.data != nullptr && arena.OffsetOf(piece.data, piece.bytes) >= 0) {
      placed.keep.push_back(piece.keep);
      continue;
    }
    const void* const from = piece.data != nullptr ? piece.data : piece.owned.data();
    std::memcpy(placed.head.get() + table[i].offset, from, table[i].bytes);
    table[i].offset += begin;
  }
  TD_REQUIRE(table.size() * sizeof(RingFragment) <= bytes);
  std::ranges::copy(std::as_bytes(std::span(table)), placed.head.get());
  placed.entry.pieces = static_cast<uint32_t>(table.size());
  placed.entry.table = begin;
  return placed;
}

StatusOr<std::vector<std::span<const std::byte>>> GetMessage(const RingEntry& entry,
                                                             std::span<const std::byte> arena) {
  const auto inside = [&arena](uint64_t offset, uint64_t bytes) {
    return offset <= arena.size() && bytes <= arena.size() - offset;
  };
  if (entry.pieces > kPiecesMax || entry.table % alignof(RingFragment) != 0 ||
      !inside(entry.table, entry.pieces * sizeof(RingFragment))) {
    return DataLoss("the peer sent a message whose %d fragments lie outside the shared memory",
                    entry.pieces);
  }
  std::vector<RingFragment> table(entry.pieces);
  const auto bytes = std::as_writable_bytes(std::span(table));
  std::ranges::copy(arena.subspan(entry.table, bytes.size()), bytes.begin());
  std::vector<std::span<const std::byte>> pieces;
  size_t left = arena.size();
  for (const RingFragment& piece : table) {
    if (!inside(piece.offset, piece.bytes) || piece.bytes > left) {
      return DataLoss(
          "the peer sent a fragment of %d bytes at offset %d, but the shared memory has only %d "
          "bytes",
          piece.bytes, piece.offset, arena.size());
    }
    left -= piece.bytes;
    if (piece.bytes != 0) pieces.push_back(arena.subspan(piece.offset, piece.bytes));
  }
  return pieces;
}

}  // namespace tandem::shm_rpc
