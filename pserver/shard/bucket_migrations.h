// Migrations of buckets from this server and to this server (docs/internals/bucket-migration.md). A
// migration has these phases: begun and frozen at the source, offered at the target, released at
// the source, learned at the target. Each migration of a bucket has a new ownership epoch. The
// owner changes when the source has written the log record of the release.
//
// In sync mode, buckets migrate between two steps, while neither server accepts pushes of the
// second step. Rows then have the same version on both servers, and no gathered gradients have to
// migrate. A server takes part in at most one migration before each step.
//
// With ShardConfig::each_step_once, buckets migrate between two steps of each trainer
// (StepBoundary). Both servers then have the same steps of each trainer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pserver/shard/log/delta_base.h"
#include "pserver/shard/shard_state.h"
#include "pserver/shard/trainers/step_boundary.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/move_state.h"

namespace tandem::pserver {

// Changes the buckets of the parameters, the slices of the configuration and the marks of trainers.
// On a target without buckets, also changes the version of the shard. Not thread-safe (the shard's
// lock guards it).
class BucketMigrations {
 public:
  // Both arguments must outlive this object.
  BucketMigrations(ShardState& state, DeltaBase& base) : state_(state), base_(base) {}

  const MoveState& moves() const { return moves_; }
  // Returns whether buckets of this server are moving: they are frozen here or offered here.
  bool moving() const { return !frozen_.moves.empty() || !moves_.offered.empty(); }
  BucketPlacement placement() const {
    return {.map_version = moves_.map.version(), .moving = moving()};
  }
  // Returns whether trainers push no rows to this server, because this server gave all its rows
  // away. In sync mode, returns whether steps change nothing on this server.
  bool GaveAllRows() const;

  // ---- Calls of a coordinator (Shard::Migrations) -----------------------------------------------
  // Checks whether buckets can move from or to this server. FAILED_PRECONDITION: buckets cannot
  // move. UNAVAILABLE, RESOURCE_EXHAUSTED: an error of WriteAheadLog::Ready.
  Status CheckMovable(const std::string& job) const;
  // `pushes_held`: whether pushes are held for a global snapshot; if true, Freeze returns
  // UNAVAILABLE.
  StatusOr<BucketMigration> Freeze(const std::string& job, const FreezeRequest& request,
                                   bool pushes_held);
  // INVALID_ARGUMENT: the migration is for another server or has no valid buckets.
  Status CheckTarget(const BucketMigration& migration) const;
  // REQUIRES: CheckTarget(migration) is OK.
  Status Offer(const std::string& job, const BucketMigration& migration);
  StatusOr<BucketMap> Release(const std::string& job, const std::vector<BucketMove>& moves);
  Status Refuse(const std::string& job, bool refuse);
  // Learns the moves in `known`. Returns the moves that this server knows, and its buckets.
  StatusOr<MapAnswer> Learn(const BucketMap& known);
  // Returns the moves and buckets of this server.
  MapAnswer Answer() const;
  // Repeats a logged change, during the replay of the log.
  Status Replay(const MoveRecord& record);
  // Ends the freeze if its lease has ended. The owner calls Thaw before any use of a bucket.
  void Thaw();
  void EndFreeze();  // ends the freeze before its lease has ended

  // ---- Checks of a push -------------------------------------------------------------------------
  // OUT_OF_RANGE: the sender partitioned the push for another generation of this server, and must
  // partition the push again.
  Status CheckGeneration(const PushHead& head) const;
  // OUT_OF_RANGE: buckets move before the step of the push, so the server does not accept the push
  // now. Always OK if buckets do not move between steps.
  Status CheckStepHeld(const PushHead& head) const;
  // Returns whether `head.origin_server`, which received the push before this server, accepted the
  // push. FAILED_PRECONDITION: this server does not know the answer.
  StatusOr<bool> TakenElsewhere(const PushHead& head) const;

  // ---- The whole state --------------------------------------------------------------------------
  // Records `slices`: the slices as the configuration placed them.
  void Place(const std::vector<SliceSpec>& slices) { moves_.placed = slices; }
  // Returns OK if Restore may be called. FAILED_PRECONDITION: buckets moved since the snapshot.
  Status CheckRestore(const MoveState& moves, const ShardSnapshot& header) const;
  // Replaces the state by the state in a snapshot. `header`: the snapshot without values. REQUIRES:
  // CheckRestore is OK.
  void Restore(MoveState moves, const ShardSnapshot& header);

 private:
  struct Frozen {
    std::optional<FreezeRequest> order;  // request of the freeze; nullopt: nothing is frozen
    std::vector<BucketMove> moves;       // moves of the frozen buckets; empty on the target
    Time until;                          // end of the lease of the freeze
    StepBoundary boundary;               // only with ShardConfig::each_step_once
  };

  Status CheckFreeze(const FreezeRequest& request) const;
  Status Begin(const FreezeRequest& request);
  Status CheckOffer(const BucketMigration& migration) const;
  Status CheckOfferStep(const BucketMigration& migration) const;
  Status CheckOfferSteps(const BucketMigration& migration) const;
  Status Take(const BucketMigration& migration);
  void TakeMark(const ServerPushState& mark, int source, bool takes_over_steps);
  void GiveAway(const MoveReleasedRecord& record);
  Status CheckNews(const BucketMap& known) const;
  void LearnMoves(const BucketMap& known);
  void AddSlices(MapAnswer& answer) const;
  void TakeBack();
  void Note(MoveRecord record);
  Status DropBucket(int bucket);
  // Removes a bucket that now belongs to another server. If the rows cannot be removed from the
  // disk, only logs a warning.
  void ForgetBucket(int bucket);
  bool Serves() const;  // whether the server has a bucket, also an offered one
  // Returns whether buckets move only between steps, while pushes wait and pulls continue.
  bool BetweenSteps() const { return state_.sync() || state_.config.each_step_once; }
  bool Idle() const { return state_.sync() && !Serves(); }  // true: steps change nothing here
  // Returns whether the server rejects a push of the step now. Sync: the step is the version.
  bool StepHeld(const PushHead& head) const;
  bool NextStepHeld() const;  // sync: whether the server rejects pushes of the next step
  // Returns whether the shard has reached the step before which the buckets of the freeze move.
  // Returns false if nothing is frozen. Used only if BetweenSteps().
  bool AtItsStep() const;

  ShardState& state_;
  DeltaBase& base_;
  MoveState moves_;
  Frozen frozen_;
};

}  // namespace tandem::pserver
