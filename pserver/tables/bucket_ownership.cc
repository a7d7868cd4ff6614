#include "pserver/tables/bucket_ownership.h"

#include "common/base/require.h"

namespace tandem::pserver {

BucketOwnership::BucketOwnership(const TableSpec& spec)
    : table_(spec.variable),
      height_(static_cast<uint64_t>(spec.height())),
      begin_(spec.bucket_begin),
      end_(spec.bucket_end) {
  TD_REQUIRE(begin_ >= 0 && begin_ <= end_ && end_ <= kRowBuckets);
  for (int b = begin_; b < end_; ++b) kept_[static_cast<size_t>(b)] = true;
  served_ = kept_;
}

void BucketOwnership::Keep(int bucket, bool served) {
  TD_REQUIRE(bucket >= 0 && bucket < kRowBuckets);
  changed_ = true;
  kept_[static_cast<size_t>(bucket)] = true;
  served_[static_cast<size_t>(bucket)] = served;
}

void BucketOwnership::Drop(int bucket) {
  TD_REQUIRE(bucket >= 0 && bucket < kRowBuckets);
  changed_ = true;
  kept_[static_cast<size_t>(bucket)] = served_[static_cast<size_t>(bucket)] = false;
}

Status BucketOwnership::CheckServed(std::span<const uint64_t> ids, bool ascending) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= height_) {
      return InvalidArgument("row %d of table %s is out of range, expected 0 to %d",
                             static_cast<int64_t>(ids[i]), table_, height_ - 1);
    }
    if (ascending && i > 0 && ids[i] <= ids[i - 1]) {
      return InvalidArgument("rows of table %s must ascend, but row %d follows row %d", table_,
                             ids[i], ids[i - 1]);
    }
    const int bucket = RowBucket(ids[i]);
    if (served_[static_cast<size_t>(bucket)]) continue;
    if (changed_) {
      return OutOfRange(
          "row %d of table %s is in row bucket %d, which is %s", ids[i], table_, bucket,
          kept_[static_cast<size_t>(bucket)] ? "being transferred to or from this server"
                                             : "not on this server");
    }
    return InvalidArgument(
        "row %d of table %s is in row bucket %d, but this server owns buckets %d to %d", ids[i],
        table_, bucket, begin_, end_ - 1);
  }
  return OkStatus();
}

Status BucketOwnership::CheckKept(std::span<const uint64_t> ids) const {
  for (const uint64_t id : ids) {
    if (id < height_ && kept_[static_cast<size_t>(RowBucket(id))]) continue;
    return CheckServed({&id, 1}, false);
  }
  return OkStatus();
}

}  // namespace tandem::pserver
