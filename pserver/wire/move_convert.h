// Converts between messages about moves of buckets (proto/pserver.proto) and the types of
// bucket_move.h and move_state.h.
#pragma once

#include "common/base/status.h"
#include "common/codec/bucket_map_proto.h"
#include "pserver/state/bucket_move.h"

namespace tandem {
class MoveEntry;
class MovesMeta;
class ParcelDef;
class TrainerMark;
}  // namespace tandem

namespace tandem::pserver {

StatusOr<TrainerPushState> FromProto(const TrainerMark& mark);
void ToProto(const TrainerPushState& mark, TrainerMark* out);

StatusOr<BucketMigration> FromProto(const ParcelDef& parcel);
void ToProto(const BucketMigration& parcel, ParcelDef* out);
StatusOr<MoveState> FromProto(const MovesMeta& meta);
void ToProto(const MoveState& state, MovesMeta* out);

}  // namespace tandem::pserver
