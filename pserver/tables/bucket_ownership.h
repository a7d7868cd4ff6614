// Records which row buckets (common/tables/row_buckets.h) of a table a server keeps, and which of
// these buckets it serves. The server has the rows of a kept bucket. It reads and updates rows only
// in served buckets. A bucket that is moving between servers is kept, but not served.
#pragma once

#include <bitset>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/tables/row_buckets.h"
#include "pserver/state/shard_config.h"

namespace tandem::pserver {

// The kept and the served buckets of a table, to check row ids. Each served bucket is also kept.
// Not thread-safe.
class BucketOwnership {
 public:
  using Buckets = std::bitset<kRowBuckets>;

  // Keeps and serves the buckets that `spec` names.
  explicit BucketOwnership(const TableSpec& spec);

  // Keeps a bucket and sets whether it is served.
  void Keep(int bucket, bool served);
  void Drop(int bucket);
  bool serves(int bucket) const { return served_[static_cast<size_t>(bucket)]; }
  bool ServesAny() const { return served_.any(); }
  const Buckets& kept() const { return kept_; }

  // INVALID_ARGUMENT: an id is outside [0, height), is not in a bucket of this server, or with
  // `ascending` is not above the id before it. The message names the id. OUT_OF_RANGE: after a call
  // of Keep or Drop, this server does not serve the id.
  Status CheckServed(std::span<const uint64_t> ids, bool ascending) const;
  // Like CheckServed, but accepts the ids of all kept buckets, in any order.
  Status CheckKept(std::span<const uint64_t> ids) const;

 private:
  const std::string table_;
  const uint64_t height_;  // number of rows of the table
  const int begin_, end_;  // range of the buckets in the spec of the table
  Buckets kept_, served_;
  bool changed_ = false;  // Keep or Drop was called before
};

}  // namespace tandem::pserver
