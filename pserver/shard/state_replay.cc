#include "pserver/shard/state_replay.h"

#include <cstring>
#include <utility>

#include "common/base/require.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/storage/snapshot_chunks.h"

namespace tandem::pserver {
namespace {

Shard::Options OptionsOf(int server) {
  Shard::Options options;
  options.index = server;
  return options;
}

}  // namespace

StateReplay::StateReplay(int server, const exec::Backend& backend, Device& device)
    : shard_(OptionsOf(server), clock_, backend, device, metrics_) {}

Status StateReplay::Begin(const SnapshotReader& read, uint64_t log_number) {
  Shard::Checkpoints checkpoints = shard_.checkpoints();
  TD_ASSIGN_OR_RETURN(const ShardSnapshot image,
                      checkpoints.Restore([&read, log_number](SnapshotSink& sink) {
                        NumberedSink numbered(sink, log_number);
                        return read(numbered);
                      }));
  checkpoints.Resume(image);
  return OkStatus();
}

Status StateReplay::Add(LogEntry entry) {
  if (std::holds_alternative<OrderRecord>(entry.record)) {
    return FailedPrecondition(
        "entry %d of the update log has no values, because only trainers have them with "
        "--durability=replayable [TD4012]; hint: use --durability=logged",
        entry.number);
  }
  return shard_.checkpoints().Replay(std::move(entry));
}

uint64_t StateReplay::settled_number() { return shard_.checkpoints().settled_number(); }

StatusOr<std::vector<float>> StateReplay::Row(const std::string& table, uint64_t id) {
  PullQuery query{.caller = {.job = shard_.Job()}, .observer = true, .rows = {{table, {id}}}};
  StatusOr<std::vector<float>> row = Internal("the pull of a row did not end");
  shard_.Pull(query, clock_.Now(), [&row](const StatusOr<PullResult>& pulled) {
    if (!pulled.ok()) {
      row = pulled.status();
      return;
    }
    TD_REQUIRE(pulled->slices.size() == 1);
    const PulledSlice& slice = pulled->slices[0];
    std::vector<float> values(static_cast<size_t>(slice.numel));
    std::memcpy(values.data(), reinterpret_cast<const float*>(slice.values.get()) + slice.first,
                values.size() * sizeof(float));
    row = std::move(values);
  });
  return row;
}

StatusOr<TablePage> StateReplay::Page(const std::string& table, int bucket) {
  constexpr uint64_t kPageBytes = 4 << 20;
  return shard_.reads().PullTable(shard_.Job(), table, bucket, /*slots=*/true, kPageBytes);
}

StatusOr<ShardSnapshot> StateReplay::Snapshot() { return shard_.checkpoints().Take(); }

}  // namespace tandem::pserver
