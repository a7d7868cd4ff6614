// Records which row buckets (common/tables/row_buckets.h) of a table a server keeps, and which of
// these buckets the server serves. The server has the rows of a kept bucket, but reads and updates
// rows only in served buckets. A bucket that is moving between servers is kept, but not served.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/tables/row_buckets.h"
#include "pserver/state/shard_config.h"

namespace tandem::pserver {

// The kept and the served buckets of a table, and checks of row ids against these buckets. Each
// served bucket is also kept. Not thread-safe.
class BucketOwnership {
 public:
  using Buckets = std::bitset<kRowBuckets>;

  // Keeps and serves the buckets that `spec` names.
  explicit BucketOwnership(const TableSpec& spec);

  // Adds `bucket` to the kept buckets, and sets whether this server serves the bucket.
  void Keep(int bucket, bool served);
  void Drop(int bucket);
  bool serves(int bucket) const { return served_[static_cast<size_t>(bucket)]; }
  bool ServesAny() const { return served_.any(); }
  const Buckets& kept() const { return kept_; }

  // Checks that this server serves the rows `ids`. INVALID_ARGUMENT: an id is outside [0, height),
  // or is not in a bucket of this server, or `ascending` is true and an id is not higher than the
  // previous id. OUT_OF_RANGE: this server does not serve an id, and Keep or Drop was called
  // before.
  Status CheckServed(std::span<const uint64_t> ids, bool ascending) const;
  // Like CheckServed, but also accepts ids of kept buckets that are not served. The order is
  // arbitrary.
  Status CheckKept(std::span<const uint64_t> ids) const;

 private:
  const std::string table_;
  const uint64_t height_;  // number of rows of the table
  const int begin_, end_;  // buckets [begin_, end_) of the table's TableSpec
  Buckets kept_, served_;
  bool changed_ = false;  // whether Keep or Drop was called
};

}  // namespace tandem::pserver
