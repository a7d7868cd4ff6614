// The part of Shard for dense slices that move between servers. Each slice is a bucket
// (SliceSpec::bucket) and moves like a row bucket (shard_moves.cc).
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "pserver/shard/shard.h"

namespace tandem::pserver {

void Shard::SlicesChanged() { config_.slices = params_->slices().specs(); }

// On an error (the contents do not match the moves or this server), nothing changes.
Status Shard::TakeSlices(const BucketMigration& parcel) {
  std::set<int> missing;
  for (const BucketMove& m : parcel.moves) {
    if (m.bucket >= kRowBuckets) missing.insert(m.bucket);
  }
  ShardConfig all = config_;
  for (const SliceMigration& s : parcel.slices) {
    if (missing.erase(s.spec.bucket) == 0) {
      return InvalidArgument("slice of %s: partition %d cannot move", s.spec.variable,
                             s.spec.bucket);
    }
    all.slices.push_back(s.spec);
  }
  if (!missing.empty()) {
    return InvalidArgument("partition %d moves, but its slice is missing", *missing.begin());
  }
  TD_RETURN_IF_ERROR(CheckConfig(all));
  for (const SliceMigration& s : parcel.slices) {
    const Status added = params_->Add(s);
    SlicesChanged();
    TD_RETURN_IF_ERROR(added);
  }
  return OkStatus();
}

void Shard::SayWhichSlices(MapAnswer& answer) const {
  std::map<int, uint64_t> bytes;  // by bucket
  const DenseTable& slices = params_->slices();
  for (size_t i = 0; i < slices.size(); ++i) {
    const int slice = static_cast<int>(i), bucket = slices.spec(slice).bucket;
    answer.slices += bucket == 0;
    if (bucket != 0 && !moves_.offered.contains(bucket)) bytes[bucket] = slices.bytes(slice);
  }
  for (const auto& [bucket, size] : bytes) {
    answer.buckets.push_back(bucket);
    answer.slice_bytes.push_back(size);
  }
}

StatusOr<int> Shard::FindRange(const PullRange& range) const {
  return params_->FindRange(range, moves_);
}

}  // namespace tandem::pserver
