#include "pserver/service/snapshot_calls.h"

#include <algorithm>
#include <utility>

#include "common/codec/bucket_map_proto.h"
#include "proto/pserver.pb.h"
#include "pserver/service/lease.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/shard/global_snapshot_calls.h"

namespace tandem::pserver {
namespace {

SnapshotFrontier FromProto(const CutMarkDef& def) {
  return {static_cast<int>(std::min<uint32_t>(def.trainer_id(), INT32_MAX)),
          def.incarnation(),
          def.completed(),
          {{def.sent().begin(), def.sent().end()}, {def.ended().begin(), def.ended().end()}}};
}

void ToProto(const SnapshotFrontier& mark, CutMarkDef* def) {
  def->set_trainer_id(static_cast<uint32_t>(mark.trainer));
  def->set_incarnation(mark.incarnation);
  def->set_completed(mark.completed);
  def->mutable_sent()->Add(mark.numbers.sent.begin(), mark.numbers.sent.end());
  def->mutable_ended()->Add(mark.numbers.ended.begin(), mark.numbers.ended.end());
}

}  // namespace

Status HoldPushes(const HoldPushesRequest& request, DurableShard& durable, HoldPushesReply* reply) {
  if (request.over()) {
    durable.shard().global_snapshots().Release(request.job(), request.cut(), request.taker());
    return OkStatus();
  }
  TD_ASSIGN_OR_RETURN(const std::vector<StoredGlobalSnapshot> stored, durable.GlobalSnapshots());
  TD_ASSIGN_OR_RETURN(const PausedState held, durable.shard().global_snapshots().Hold(
                                                  request.job(), request.cut(),
                                                  LeaseOf(request.lease_ms()), request.taker()));
  for (const SnapshotFrontier& mark : held.marks) ToProto(mark, reply->add_mark());
  ToProto(held.map, reply->mutable_map());
  if (held.step) reply->set_step(*held.step);
  for (const StoredGlobalSnapshot& snapshot : stored) {
    reply->add_cut(snapshot.number);
    if (snapshot.abandoned) reply->add_abandoned(snapshot.number);
  }
  return OkStatus();
}

void TakeSnapshot(const TakeCutRequest& request, DurableShard& durable, TakeCutReply* reply,
                  std::function<void(const Status&)> done) {
  SnapshotRequest order{.record = {.number = request.cut(),
                                   .time_us = request.time_us(),
                                   .complete = request.complete(),
                                   .whole = {request.whole().begin(), request.whole().end()}},
                        .marks = {},
                        .map_version = request.map_version(),
                        .lease = LeaseOf(request.lease_ms()),
                        .taker = request.taker()};
  for (const CutMarkDef& mark : request.mark()) order.marks.push_back(FromProto(mark));
  if (request.has_step()) order.step = request.step();
  GlobalSnapshotOrder all{.request = std::move(order)};
  if (request.has_rebuilt()) all.rebuilt = request.rebuilt();
  durable.TakeGlobalSnapshot(
      request.job(), std::move(all),
      [reply, done = std::move(done)](const StatusOr<DurableShard::SnapshotPart>& part) {
        if (!part.ok()) return done(part.status());
        reply->set_version(part->version);
        reply->set_bytes(part->bytes);
        reply->set_held_us(static_cast<uint64_t>(Seconds(part->held) * 1e6));
        done(OkStatus());
      });
}

}  // namespace tandem::pserver
