#include "pserver/service/move_calls.h"

#include <algorithm>

#include "proto/pserver.pb.h"
#include "pserver/service/lease.h"
#include "pserver/shard/migration_calls.h"
#include "pserver/wire/move_convert.h"
#include "pserver/wire/proto_convert.h"

namespace tandem::pserver {

namespace {

void FillMap(const MapAnswer& answer, ExchangeMapReply* reply) {
  ToProto(answer.map, reply->mutable_map());
  reply->set_generation(answer.generation);
  reply->set_index(static_cast<uint32_t>(answer.index));
  reply->mutable_bucket()->Add(answer.buckets.begin(), answer.buckets.end());
  reply->set_rows(answer.rows);
  reply->set_slices(static_cast<uint32_t>(answer.slices));
  reply->mutable_slice_bytes()->Add(answer.slice_bytes.begin(), answer.slice_bytes.end());
  reply->set_leaving(answer.leaving);
  reply->set_frozen_for(answer.frozen_for + 1);
  reply->set_version(answer.version);
  reply->set_sync(answer.sync);
  reply->set_each_step_once(answer.each_step_once);
}

}  // namespace

Status ExchangeMap(const ExchangeMapRequest& request, Shard& shard, ExchangeMapReply* reply) {
  TD_ASSIGN_OR_RETURN(const MapAnswer answer,
                      shard.migrations().Exchange(CallerOf(request), request.observer(),
                                                  FromProto(request.known()), request.min_step()));
  FillMap(answer, reply);
  return OkStatus();
}

Status ShowMap(const ExchangeMapRequest& request, bool reader, Shard& shard,
               ExchangeMapReply* reply) {
  const bool reads = request.observer() && request.known().move_size() == 0;
  if (!reads && reader) {
    return PermissionDenied(
        "ExchangeMap: a caller with role reader must set observer and name no moves, because it is "
        "no trainer [TD6009]; hint: read with tandem.ps.Reader, tandem read or tandem follow");
  }
  if (!reads) {
    return FailedPrecondition(
        "this server is a replica, which learns of moves only from its primary [TD4033]; hint: "
        "call its primary");
  }
  TD_ASSIGN_OR_RETURN(const MapAnswer answer, shard.migrations().Look(request.job()));
  FillMap(answer, reply);
  return OkStatus();
}

Status FreezeBuckets(const FreezeBucketsRequest& request, Shard& shard, FreezeBucketsReply* reply) {
  FreezeRequest order{
      .buckets = {request.bucket().begin(), request.bucket().end()},
      .target = static_cast<int>(std::min<uint32_t>(request.target(), INT32_MAX)),
      .address = request.target_address(),
      .lease = LeaseOf(request.lease_ms()),
      .step = request.step(),
      .trainer_steps = {request.trainer_step().begin(), request.trainer_step().end()},
      .knows_trainer_steps = request.knows_trainer_steps()};
  if (request.over()) order.lease = Duration::zero();
  TD_ASSIGN_OR_RETURN(const BucketMigration parcel,
                      shard.migrations().Freeze(request.job(), order));
  ToProto(parcel, reply->mutable_parcel());
  return OkStatus();
}

Status OfferBuckets(const OfferBucketsRequest& request, Shard& shard) {
  TD_ASSIGN_OR_RETURN(const BucketMigration parcel, FromProto(request.parcel()));
  return shard.migrations().Offer(request.job(), parcel);
}

Status ReleaseBuckets(const ReleaseBucketsRequest& request, Shard& shard,
                      ReleaseBucketsReply* reply) {
  if (request.move_size() == 0)
    return InvalidArgument("migration: the request names no row bucket, expected at least one");
  TD_ASSIGN_OR_RETURN(const BucketMap map,
                      shard.migrations().Release(request.job(), FromProto(request.move())));
  ToProto(map, reply->mutable_map());
  return OkStatus();
}

}  // namespace tandem::pserver
