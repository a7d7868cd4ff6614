// The part of Shard that is about dense slices which move between servers: each is a bucket by
// itself (SliceSpec::bucket), which moves as those of rows do (shard_moves.cc).
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "pserver/shard.h"

namespace tandem {
namespace {

constexpr size_t kParcelBytesMax = size_t{1} << 30;  // a message, and a record of the log

}  // namespace

void Shard::SlicesChanged() {
  config_.slices = table_->specs();
  has_values_.assign(table_->size() + sparse_->size(), true);
}

Status Shard::AddSlices(BucketParcel& parcel) {
  size_t bytes = 0;
  for (size_t i = 0; i < table_->size(); ++i) {
    const int slice = static_cast<int>(i);
    const SliceSpec& spec = table_->spec(slice);
    const bool goes = std::any_of(parcel.moves.begin(), parcel.moves.end(),
                                  [&spec](const BucketMove& m) { return m.bucket == spec.bucket; });
    if (!goes) continue;
    bytes += table_->bytes(slice);
    if (bytes > kParcelBytesMax) {
      return ResourceExhausted(
          "slice of %s: %d MB with its optimizer's state do not move at once, %d MB is the most; "
          "hint: start the job with slice_var_up and more pservers, which cuts it smaller",
          spec.variable, bytes >> 20, kParcelBytesMax >> 20);
    }
    TD_ASSIGN_OR_RETURN(SliceImage image, table_->Image(slice));
    if (!sync() || options_.bug == ShardBug::kPreviousStays) image.previous = nullptr;
    parcel.slices.push_back({spec, std::move(image)});
  }
  return OkStatus();
}

// Nothing is changed when what is in the parcel does not fit its moves, or this server.
Status Shard::TakeSlices(const BucketParcel& parcel) {
  std::set<int> missing;
  for (const BucketMove& m : parcel.moves) {
    if (m.bucket >= kRowBuckets) missing.insert(m.bucket);
  }
  ShardConfig all = config_;
  for (const SliceParcel& s : parcel.slices) {
    if (missing.erase(s.spec.bucket) == 0) {
      return InvalidArgument("slice of %s: bucket %d does not move", s.spec.variable,
                             s.spec.bucket);
    }
    all.slices.push_back(s.spec);
  }
  if (!missing.empty()) {
    return InvalidArgument("bucket %d moves, and its slice does not come", *missing.begin());
  }
  TD_RETURN_IF_ERROR(CheckConfig(all));
  for (const SliceParcel& s : parcel.slices) {
    TD_RETURN_IF_ERROR(table_->Add(s.spec));
    SlicesChanged();
    const int slice = static_cast<int>(table_->size()) - 1;
    TD_RETURN_IF_ERROR(table_->SetParam(slice, Floats(s.image.param, s.spec.numel)));
    for (const SliceImage::Slot& slot : s.image.slots) {
      TD_RETURN_IF_ERROR(table_->SetSlot(slice, slot.name, Floats(slot.values, slot.numel)));
    }
    table_->SetPrevious(slice, s.image.previous);
  }
  return OkStatus();
}

void Shard::SayWhichSlices(MapAnswer& answer) const {
  std::map<int, uint64_t> bytes;  // by bucket
  for (size_t i = 0; i < table_->size(); ++i) {
    const int slice = static_cast<int>(i), bucket = table_->spec(slice).bucket;
    answer.slices += bucket == 0;
    if (bucket != 0 && !moves_.offered.contains(bucket)) bytes[bucket] = table_->bytes(slice);
  }
  for (const auto& [bucket, size] : bytes) {
    answer.buckets.push_back(bucket);
    answer.slice_bytes.push_back(size);
  }
}

// OUT_OF_RANGE when it is another server's, or may be.
StatusOr<int> Shard::FindRange(const PullRange& range) const {
  const StatusOr<int> slice = table_->FindRange(range);
  if (slice.ok() ? table_->served(*slice) : !moves_.MovesSlices()) return slice;
  return OutOfRange("%s at element %d is not on this server, or not now", range.variable,
                    range.offset);
}

}  // namespace tandem
