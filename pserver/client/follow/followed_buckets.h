// The row buckets of a followed table: which server serves each, and from which server the follower
// has its rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tables/row_buckets.h"

namespace tandem::ps {

// A bucket moves between servers while it is followed, and the servers report their buckets at
// different times. So several servers may claim one bucket. The claim with the highest ownership
// epoch is valid: each move of a bucket increases its epoch. Not thread-safe.
class FollowedBuckets {
 public:
  // Row buckets [begin, end), which a server serves since this ownership epoch.
  struct Range {
    int begin = 0, end = 0;
    uint64_t epoch = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };

  // Follows the buckets [begin, end). Claims of other buckets have no effect.
  explicit FollowedBuckets(size_t servers, int begin = 0, int end = kRowBuckets)
      : begin_(static_cast<size_t>(begin)),
        end_(static_cast<size_t>(end)),
        claims_(servers),
        held_(servers) {}

  void AddServer() {  // adds a server without claims
    claims_.emplace_back();
    held_.emplace_back();
  }
  // Replaces the claims of a server. The follower no longer has the rows of buckets that the server
  // does not serve since the same epoch: the server did not send their changes with these claims.
  // REQUIRES: 0 <= begin < end <= kRowBuckets.
  void SetClaims(size_t server, std::span<const Range> ranges);
  // Records that the follower has the rows of exactly these buckets from the server, as of these
  // epochs. Ignores buckets that the follower has from another server.
  void SetHeld(size_t server, std::span<const Range> ranges);
  // Records that the follower has all rows of a bucket from a server. Returns false, and does
  // nothing, if the server's claim is not the valid one.
  bool Hold(size_t server, int bucket);
  // Returns whether the follower has the rows of the bucket from this server, and the server still
  // serves it since the same epoch.
  bool Holds(size_t server, int bucket) const;

  // Returns the buckets of which the follower needs all rows from this server, ascending.
  std::vector<int> Wanted(size_t server) const;
  // Returns the buckets of which the follower has the rows from this server, ascending.
  std::vector<Range> Held(size_t server) const { return RangesOf(held_[server]); }
  // Returns the parts of `ranges` of which the follower has the rows from no server, ascending.
  std::vector<Range> NotHeld(std::span<const Range> ranges) const;
  // Returns whether the server has the valid claim of a bucket.
  bool IsNeeded(size_t server) const;
  // Returns whether no server claims some bucket.
  bool LacksOwner() const;
  // Returns whether every bucket has a server and the follower has its rows.
  bool Complete() const;

 private:
  // By bucket: the epoch + 1; 0: none.
  using Epochs = std::array<uint64_t, kRowBuckets>;

  // Returns the epochs of the followed buckets.
  Epochs EpochsOf(std::span<const Range> ranges) const;
  static std::vector<Range> RangesOf(const Epochs& epochs);
  bool IsHeld(size_t bucket) const;  // from any server
  // Returns the index of the server with the valid claim; -1: no server claims the bucket.
  int OwnerOf(size_t bucket) const;

  const size_t begin_, end_;           // the followed buckets
  std::vector<Epochs> claims_, held_;  // by server; a bucket is held from one server at most
};

}  // namespace tandem::ps
