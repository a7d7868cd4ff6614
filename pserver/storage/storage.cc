#include "pserver/storage/storage.h"

#include <utility>

namespace tandem::pserver {

StatusOr<std::optional<ShardSnapshot>> Storage::Read() {
  SnapshotAssembler assembler;
  TD_ASSIGN_OR_RETURN(const bool found, Read(assembler));
  if (!found) return std::optional<ShardSnapshot>();
  return std::optional<ShardSnapshot>(std::move(assembler.snapshot()));
}

StatusOr<ShardSnapshot> Storage::ReadGlobalSnapshot(uint64_t number) {
  SnapshotAssembler assembler;
  TD_RETURN_IF_ERROR(ReadGlobalSnapshot(number, assembler));
  return std::move(assembler.snapshot());
}

StatusOr<uint64_t> Storage::LastSnapshotNumber() {
  TD_ASSIGN_OR_RETURN(const std::vector<StoredGlobalSnapshot> stored, GlobalSnapshots());
  return stored.empty() ? 0 : stored.back().number;
}

}  // namespace tandem::pserver
