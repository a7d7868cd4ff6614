#include "pserver/shard/snapshot_loader.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

using Kind = SnapshotChunk::Kind;

Status SnapshotLoader::Begin(ShardSnapshot head) {
  TD_RETURN_IF_ERROR(CheckConfig(head.config));
  TD_RETURN_IF_ERROR(factory_.Check(head.config));
  if (head.tables.size() != head.config.tables.size()) {
    return DataLoss(
        "the checkpoint contains %d tables, but the configuration in the checkpoint has %d tables",
        head.tables.size(), head.config.tables.size());
  }
  TD_ASSIGN_OR_RETURN(params_, factory_.Make(head.config));
  if (head.moves != nullptr) {
    TD_RETURN_IF_ERROR(params_->PlaceBuckets(*head.moves, server_));
  }
  for (size_t i = 0; i < head.tables.size(); ++i) {
    SparseTable& table = params_->tables().table(static_cast<int>(i));
    for (const auto& [slot, value] : head.tables[i].scalars) {
      TD_RETURN_IF_ERROR(table.SetScalar(slot, value));
    }
    table.schedule().Set(head.tables[i].checks);
  }
  header_ = std::move(head);
  return OkStatus();
}

Status SnapshotLoader::Take(SnapshotChunk chunk) {
  const int index = static_cast<int>(chunk.index);
  switch (chunk.kind) {
    case Kind::kSlice: {
      const SliceSpec& spec = header_.config.slices[chunk.index];
      TD_RETURN_IF_ERROR(params_->slices().SetParam(index, Floats(chunk.slice.param, spec.numel)));
      for (const SliceSnapshot::Slot& slot : chunk.slice.slots) {
        TD_RETURN_IF_ERROR(
            params_->slices().SetSlot(index, slot.name, Floats(slot.values, slot.numel)));
      }
      break;
    }
    case Kind::kRows:
      return params_->tables().table(index).SetRows(chunk.rows, header_.version);
    case Kind::kPreviousSlice:
      params_->slices().SetPrevious(index, std::move(chunk.slice.previous));
      break;
    case Kind::kPreviousRows:
      params_->tables().table(index).SetPrevious(chunk.rows);
      break;
  }
  return OkStatus();
}

std::unique_ptr<ShardParams> SnapshotLoader::TakeParams() {
  TD_REQUIRE(params_ != nullptr);
  params_->progress().SetAll();
  return std::move(params_);
}

}  // namespace tandem::pserver
