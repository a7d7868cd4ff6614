// The durable state of moves on one server: known owners of buckets, moves that it began as the
// source, and buckets offered to it as the target.
//
// The owner of a bucket chooses a number, the ownership epoch, for each move that it begins. The
// number is higher than any it chose or received before. If two records name different owners of a
// bucket, the higher ownership epoch is valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/tables/bucket_map.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// The pushes of a trainer that server `server` accepted.
struct ServerPushState {
  int server = 0;
  TrainerPushState mark;
  uint64_t pushes = 0, last_step = 0;
};
// Adds a mark to `all`. For the same trainer and server, the later incarnation replaces the other;
// marks of the same incarnation are combined.
void AddMark(const ServerPushState& mark, std::vector<ServerPushState>& all);

// Moves as known to one server. Not thread-safe.
struct MoveState {
  BucketMap map;
  uint64_t generation = 0;  // number of times that it gave buckets away or (sync) received some
  std::map<int, uint64_t> begun;  // by bucket: ownership epoch of the last move it began
  // Buckets stored but not served yet, with their ownership epochs.
  std::map<int, uint64_t> offered;
  std::vector<ServerPushState> inherited;  // marks received with buckets
  bool leaving = false;                    // accepts no more buckets
  std::vector<SliceSpec> placed;           // by Configure; empty: not known

  // false: slices are where Configure placed them.
  bool MovesSlices() const {
    return map.MovesSlices() || (!offered.empty() && offered.rbegin()->first >= kRowBuckets);
  }
  bool empty() const {
    return map.version() == 0 && generation == 0 && begun.empty() && offered.empty() && !leaving;
  }

  // ---- Source of a move -------------------------------------------------------------------------
  // Returns moves with new ownership epochs. Changes nothing; see Begin.
  std::vector<BucketMove> MovesOf(const std::vector<int>& buckets, int target) const;
  void Begin(const std::vector<BucketMove>& moves);
  // Whether these moves, which may come from any caller, are the newest known for their buckets.
  bool AreOver(const std::vector<BucketMove>& moves) const;
  // The targets own the buckets from now on.
  void GiveAway(const std::vector<BucketMove>& moves, const BucketMap& news);
  // Cancels moves that were begun and not released. `owner` keeps the buckets, each under a new
  // ownership epoch. Returns these epochs.
  BucketMap TakeBack(int owner);

  // ---- Target of a move -------------------------------------------------------------------------
  // Number of these moves that were offered before or are over.
  size_t Known(const std::vector<BucketMove>& moves) const;
  void Offer(const std::vector<BucketMove>& moves);
  // Whether `news` concerns a bucket that was offered. Learn then removes it from `offered`.
  bool Concerns(const BucketMap& news) const;
  struct Decided {
    std::vector<int> mine, others;  // buckets that are no longer offered, ascending
  };
  Decided Learn(const BucketMap& news, int server);

  // The pushes of the trainer that `server` accepted before its buckets moved here; null: not
  // known.
  const SequenceWindow* Inherited(int server, int trainer, uint64_t incarnation) const;
};

}  // namespace tandem::pserver
