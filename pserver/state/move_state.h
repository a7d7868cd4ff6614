// The durable state of moves on one server: the known owners of buckets, the moves that the server
// began as their source, and the buckets that other servers offered to this server.
//
// The owner of a bucket chooses a number, the ownership epoch, for each move that the owner begins.
// The number is higher than any epoch of the bucket that the owner chose or received before. If two
// records name different owners of a bucket, the record with the higher epoch is valid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/tables/bucket_map.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// The pushes of one trainer that server `server` accepted.
struct ServerPushState {
  int server = 0;
  TrainerPushState mark;
  uint64_t pushes = 0, last_step = 0;
};
// Adds a mark to `all`. If `all` has a mark of the same trainer and server, the mark with the later
// incarnation stays. Two marks of the same incarnation are merged.
void AddMark(const ServerPushState& mark, std::vector<ServerPushState>& all);

// The moves that one server knows. Not thread-safe.
struct MoveState {
  BucketMap map;
  // Number of times that the server gave buckets away or, if buckets move between steps, received
  // buckets.
  uint64_t generation = 0;
  // By bucket: ownership epoch of the last move that this server began.
  std::map<int, uint64_t> begun;
  // By offered bucket (stored, but not served yet): the ownership epoch of the offer.
  std::map<int, uint64_t> offered;
  // Whether the newest offer moves between the steps of each trainer
  // (BucketMigration::trainer_steps).
  bool offered_between_steps = false;
  std::vector<ServerPushState> inherited;  // marks that arrived with buckets
  bool leaving = false;                    // true: the server accepts no more buckets
  std::vector<SliceSpec> placed;           // slices as Configure placed them; empty: unknown

  // Returns whether slices have moved or are offered. false: each slice is on the server where
  // Configure placed it.
  bool MovesSlices() const {
    return map.MovesSlices() || (!offered.empty() && offered.rbegin()->first >= kRowBuckets);
  }
  bool empty() const {
    return map.version() == 0 && generation == 0 && begun.empty() && offered.empty() && !leaving;
  }

  // ---- Source of a move -------------------------------------------------------------------------
  // Returns moves of `buckets` to `target` with new ownership epochs. Changes nothing; Begin
  // records the moves.
  std::vector<BucketMove> MovesOf(const std::vector<int>& buckets, int target) const;
  void Begin(const std::vector<BucketMove>& moves);
  // Returns whether each of `moves` is the newest known move of its bucket. Returns false for
  // invalid moves, which a faulty caller may send.
  bool AreOver(const std::vector<BucketMove>& moves) const;
  // Records a release: the targets own the buckets from now on.
  void GiveAway(const std::vector<BucketMove>& moves, const BucketMap& news);
  // Cancels the moves that were begun and not released. Server `owner` keeps the buckets, each with
  // a new ownership epoch. Returns the buckets with these epochs.
  BucketMap TakeBack(int owner);

  // ---- Target of a move -------------------------------------------------------------------------
  // Returns the number of `moves` that were offered before or are over.
  size_t Known(const std::vector<BucketMove>& moves) const;
  void Offer(const std::vector<BucketMove>& moves);
  // Returns whether `news` has a newer move of an offered bucket. Learn then removes the bucket
  // from `offered`, unless the offer has a higher epoch than `news`.
  bool Concerns(const BucketMap& news) const;
  struct Decided {
    // Buckets that are no longer offered, ascending. `mine`: owned by this server. `others`: owned
    // by another server.
    std::vector<int> mine, others;
  };
  Decided Learn(const BucketMap& news, int server);

  // Returns the pushes of `trainer` that `server` accepted before buckets moved from `server` to
  // this server; null: unknown.
  const SequenceWindow* Inherited(int server, int trainer, uint64_t incarnation) const;
};

}  // namespace tandem::pserver
