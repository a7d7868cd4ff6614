#include "pserver/state/shard_snapshot.h"

#include "common/base/require.h"

namespace tandem::pserver {

size_t ShardSnapshot::bytes() const {
  TD_REQUIRE(slices.size() <= config.slices.size());
  size_t sum = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const size_t values = static_cast<size_t>(config.slices[i].numel) * sizeof(float);
    sum += has_previous ? 2 * values : values;
    for (const SliceSnapshot::Slot& slot : slices[i].slots) {
      sum += static_cast<size_t>(slot.numel) * sizeof(float);
    }
  }
  for (const TableSnapshot& table : tables) {
    for (const auto& [bucket, rows] : table.buckets) {
      sum += rows.ids.size() * (sizeof(uint64_t) + sizeof(RowAge)) +
             rows.content.size() * sizeof(float) + rows.waiting.size() * sizeof(WaitingRow);
    }
    sum += table.previous.ids.size() * sizeof(uint64_t) +
           table.previous.content.size() * sizeof(float);
  }
  return sum;
}

}  // namespace tandem::pserver
