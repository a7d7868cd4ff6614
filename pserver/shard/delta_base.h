// Upon which image deltas build: the newest whole one that is on the disk and of the same past, for
// a delta has of tables what changed since.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/mutex.h"
#include "pserver/state/shard_types.h"

namespace tandem {

// Thread-safe: images are written on other threads than those that make them. Takes no other lock.
class DeltaBase {
 public:
  // Its version; nothing when there is none, and no delta can be made.
  std::optional<uint64_t> version() const;
  // ShardSnapshot::order of an image that is made now.
  uint64_t NextOrder();
  // Whether the next checkpoint is to be a delta: there is a base, and fewer than `deltas_max` were
  // taken since. Counts it.
  bool TakesDelta(int deltas_max);

  // This image is on the disk. A whole one is the base from now on, unless Forget came behind it.
  void Kept(const ShardSnapshot& image);
  // This image, which was restored, is on the disk: its base is the base.
  void GoOnBehind(const ShardSnapshot& image);
  // Changes came that deltas do not tell: no image that was made up to now may be the base.
  void Forget();

 private:
  mutable Mutex mu_;
  std::optional<uint64_t> version_ TD_GUARDED_BY(mu_);
  uint64_t made_ TD_GUARDED_BY(mu_) = 0;       // images
  uint64_t order_min_ TD_GUARDED_BY(mu_) = 0;  // older images are of another past
  int deltas_ TD_GUARDED_BY(mu_) = 0;          // taken since the base
};

}  // namespace tandem
