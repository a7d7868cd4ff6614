// What a server knows of moves of buckets and must not forget: who owns which bucket as far as it
// heard, which moves it began as their source, and what it was offered as their target.
//
// The owner of a bucket picks a number, the epoch, for each move that it begins, higher than any
// that it picked or heard of before. Of two that tell of one bucket the higher epoch is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/tensor/bucket_map.h"
#include "pserver/state/shard_types.h"

namespace tandem {

// Which pushes of a trainer server `server` took.
struct ServerPushState {
  int server = 0;
  TrainerPushState mark;
  uint64_t pushes = 0, last_step = 0;
};
// Takes up a mark: of the same trainer and server the later one, of the same incarnation both.
void AddMark(const ServerPushState& mark, std::vector<ServerPushState>& all);

// Not thread-safe.
struct MoveState {
  BucketMap map;
  uint64_t generation = 0;          // times that it gave buckets away, or (sync) got some
  std::map<int, uint64_t> begun;    // by bucket, the epoch that it chose last for a move
  std::map<int, uint64_t> offered;  // buckets that are kept and not served yet, with their epochs
  std::vector<ServerPushState> inherited;  // that came with buckets
  bool leaving = false;                    // takes no more buckets
  std::vector<SliceSpec> placed;           // by Configure; empty where that is not known

  // Else slices are where they were placed.
  bool MovesSlices() const {
    return map.MovesSlices() || (!offered.empty() && offered.rbegin()->first >= kRowBuckets);
  }
  bool empty() const {
    return map.version() == 0 && generation == 0 && begun.empty() && offered.empty() && !leaving;
  }

  // ---- As the source
  // Moves with epochs of their own. Nothing is changed: see Begin.
  std::vector<BucketMove> MovesOf(const std::vector<int>& buckets, int target) const;
  void Begin(const std::vector<BucketMove>& moves);
  // Whether these moves are what was heard last of their buckets. Of any moves, from outside.
  bool AreOver(const std::vector<BucketMove>& moves) const;
  // From now on the buckets are the targets'.
  void GiveAway(const std::vector<BucketMove>& moves, const BucketMap& news);
  // Moves that were begun and came to nothing are over: `owner` has the buckets still, under an
  // epoch of its own each, which is what is returned.
  BucketMap TakeBack(int owner);

  // ---- As the target
  // Of these moves, those that were offered before or are over.
  size_t Known(const std::vector<BucketMove>& moves) const;
  void Offer(const std::vector<BucketMove>& moves);
  // Whether the news concern a bucket that was offered: Learn takes it out.
  bool Concerns(const BucketMap& news) const;
  struct Decided {
    std::vector<int> mine, others;  // buckets that were offered, and are not any more; ascending
  };
  Decided Learn(const BucketMap& news, int server);

  // What that server took of the trainer before its buckets came here; null: nothing is known.
  const SequenceWindow* Inherited(int server, int trainer, uint64_t incarnation) const;
};

}  // namespace tandem
