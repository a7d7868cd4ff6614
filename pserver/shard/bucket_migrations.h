// Migrations of buckets from one server and to it (docs/internals/bucket-migration.md). A migration
// has these phases: begun and frozen at the source, offered at the target, released at the source,
// learned at the target. Its ownership epoch is used only once. The owner changes when the log
// record of the release is written.
//
// In sync mode, buckets migrate between two steps, while neither server accepts pushes of the
// second step. Rows then have the same version on both servers, and no gathered gradients have to
// migrate. A server takes part in at most one migration before each step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pserver/shard/log/delta_base.h"
#include "pserver/shard/shard_state.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/move_state.h"

namespace tandem::pserver {

// Changes the buckets of the parameters, the slices of the configuration and the marks of trainers.
// If the server is a target without buckets, also changes its version. Not thread-safe (the shard's
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
  // Returns true if trainers push no rows to this server, because it gave all its rows away. In
  // sync mode: returns true if steps change nothing on this server.
  bool GaveAllRows() const;

  // ---- Calls of a coordinator (Shard::Migrations) -----------------------------------------------
  // FAILED_PRECONDITION: buckets cannot move from or to this server. UNAVAILABLE,
  // RESOURCE_EXHAUSTED: as WriteAheadLog::Ready.
  Status CheckMovable(const std::string& job) const;
  // `pushes_held`: pushes are held for a global snapshot, so Freeze fails.
  StatusOr<BucketMigration> Freeze(const std::string& job, const FreezeRequest& request,
                                   bool pushes_held);
  // INVALID_ARGUMENT: the migration is for another server or has no valid buckets.
  Status CheckTarget(const BucketMigration& migration) const;
  // REQUIRES: CheckTarget(migration) is OK.
  Status Offer(const std::string& job, const BucketMigration& migration);
  StatusOr<BucketMap> Release(const std::string& job, const std::vector<BucketMove>& moves);
  Status Refuse(const std::string& job, bool refuse);
  // Learns the moves in `known`. The result has the moves that this server knows, and its buckets.
  StatusOr<MapAnswer> Learn(const BucketMap& known);
  // Applies a logged change again.
  Status Replay(const MoveRecord& record);
  // Ends the freeze if its lease has ended. Call it before any use of a bucket.
  void Thaw();

  // ---- Checks of a push -------------------------------------------------------------------------
  // OUT_OF_RANGE: the sender split the push for another generation of this server, and must split
  // it again.
  Status CheckGeneration(const PushHead& head) const;
  // OUT_OF_RANGE: in sync mode, the server accepts no pushes of this step now, because buckets move
  // before it.
  Status CheckStepHeld(const PushHead& head) const;
  // Returns whether `origin_server`, which received the push before this server, accepted the push.
  // FAILED_PRECONDITION: the answer is unknown.
  StatusOr<bool> TakenElsewhere(const PushHead& head) const;

  // ---- The whole state --------------------------------------------------------------------------
  // Sets the slices as the configuration placed them.
  void Place(const std::vector<SliceSpec>& slices) { moves_.placed = slices; }
  // Replaces the state by that of a snapshot. `header`: the snapshot without values.
  // FAILED_PRECONDITION: buckets moved since the snapshot; nothing changes.
  Status Restore(MoveState moves, const ShardSnapshot& header);

 private:
  struct Frozen {
    std::optional<FreezeRequest> order;  // request of the freeze; nullopt: nothing is frozen
    std::vector<BucketMove> moves;       // moves of the frozen buckets; empty on the target
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
  // Removes a dropped bucket. If its rows cannot be removed from the disk, only logs a warning.
  void ForgetBucket(int bucket);
  bool Idle() const;       // true: steps change nothing on this server; false in a_sync mode
  bool StepHeld() const;   // true: the server rejects pushes of this step; false in a_sync mode
  bool AtItsStep() const;  // true: the frozen buckets move before the shard's current step

  ShardState& state_;
  DeltaBase& base_;
  MoveState moves_;
  Frozen frozen_;
};

}  // namespace tandem::pserver
