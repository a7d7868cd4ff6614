// Migrations of buckets from and to one server (docs/internals/bucket-migration.md). A migration is
// begun and frozen at the source, offered at the target, released at the source, and learned at the
// target. Its ownership epoch is used once. The owner changes with the log record of the release.
//
// In sync mode, buckets migrate between two steps, while neither server accepts pushes of the
// second step. Rows then have the same version on both servers, and no gathered gradients have to
// migrate. A server takes part in at most one migration before each step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pserver/shard/delta_base.h"
#include "pserver/shard/shard_state.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/move_state.h"

namespace tandem::pserver {

// Changes the buckets of the parameters, the slices of the configuration, the marks of trainers
// and, as the target of a server without buckets, the version. Not thread-safe (the shard's lock
// guards it).
class BucketMigrations {
 public:
  // Both must outlive it.
  BucketMigrations(ShardState& state, DeltaBase& base) : state_(state), base_(base) {}

  const MoveState& moves() const { return moves_; }
  // Buckets are moving if they are frozen or offered.
  bool moving() const { return !frozen_.moves.empty() || !moves_.offered.empty(); }
  BucketPlacement placement() const {
    return {.map_version = moves_.map.version(), .moving = moving()};
  }
  // Trainers push no rows here: all rows were given away. In sync mode: steps change nothing here.
  bool GaveAllRows() const;

  // ---- Calls of a coordinator (Shard::Migrations)
  // ------------------------------------------------- FAILED_PRECONDITION: buckets cannot move from
  // or to this server. UNAVAILABLE, RESOURCE_EXHAUSTED: as WriteAheadLog::Ready.
  Status CheckMovable(const std::string& job) const;
  // `pushes_held`: for a global snapshot.
  StatusOr<BucketMigration> Freeze(const std::string& job, const FreezeRequest& request,
                                   bool pushes_held);
  // INVALID_ARGUMENT: the migration is for another server or has no valid buckets.
  Status CheckTarget(const BucketMigration& migration) const;
  // REQUIRES: CheckTarget(migration) is OK.
  Status Offer(const std::string& job, const BucketMigration& migration);
  StatusOr<BucketMap> Release(const std::string& job, const std::vector<BucketMove>& moves);
  Status Refuse(const std::string& job, bool refuse);
  // Learns the moves in `known`; the answer tells the buckets of this server.
  StatusOr<MapAnswer> Learn(const BucketMap& known);
  // Makes a logged change again.
  Status Replay(const MoveRecord& record);
  // Ends the freeze after its lease. Call it before any use of a bucket.
  void Thaw();

  // ---- Checks of a push
  // --------------------------------------------------------------------------- OUT_OF_RANGE: the
  // sender chose the rows by another generation; it must choose again.
  Status CheckGeneration(const PushHead& head) const;
  // OUT_OF_RANGE: no pushes of this step are accepted now (sync).
  Status CheckStepHeld(const PushHead& head) const;
  // Whether the server that received the push before accepted it. FAILED_PRECONDITION: unknown.
  StatusOr<bool> TakenElsewhere(const PushHead& head) const;

  // ---- The whole state
  // ---------------------------------------------------------------------------- Slices are where
  // the configuration placed them.
  void Place(const std::vector<SliceSpec>& slices) { moves_.placed = slices; }
  // Replaces the state by that of a snapshot with these slices. FAILED_PRECONDITION: buckets moved
  // since; nothing changes.
  Status Restore(MoveState moves, const ShardSnapshot& header);

 private:
  struct Frozen {
    std::optional<FreezeRequest> order;  // null: none
    std::vector<BucketMove> moves;       // empty on the target
    Time until;
  };

  Status CheckFreeze(const FreezeRequest& request) const;
  Status Begin(const FreezeRequest& request);
  Status CheckOffer(const BucketMigration& migration) const;
  Status CheckOfferStep(const BucketMigration& migration) const;
  Status Take(const BucketMigration& migration);
  void TakeMark(const ServerPushState& mark, int source);
  void GiveAway(const MoveReleasedRecord& record);
  Status CheckNews(const BucketMap& known) const;
  void LearnMoves(const BucketMap& known);
  MapAnswer Answer() const;
  void AddSlices(MapAnswer& answer) const;
  void TakeBack();
  void Note(MoveRecord record);
  Status DropBucket(int bucket);
  // Removes data of a dropped bucket before it returns.
  void ForgetBucket(int bucket);
  bool Idle() const;       // steps change nothing on this server (sync)
  bool StepHeld() const;   // no pushes of the current step are accepted (sync)
  bool AtItsStep() const;  // at the step before which the frozen buckets move

  ShardState& state_;
  DeltaBase& base_;
  MoveState moves_;
  Frozen frozen_;
};

}  // namespace tandem::pserver
