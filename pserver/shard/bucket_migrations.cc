#include "pserver/shard/bucket_migrations.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/base/visitor.h"
#include "pserver/shard/migration_contents.h"

namespace tandem::pserver {

bool BucketMigrations::Serves() const {
  return state_.params->ServesAny() || !moves_.offered.empty();
}

bool BucketMigrations::AtItsStep() const {
  TD_REQUIRE(BetweenSteps());
  if (!frozen_.order) return false;
  return state_.sync() ? frozen_.order->step == state_.version
                       : frozen_.boundary.Reached(state_.trainers);
}

// Sync: a step cannot begin on the target before the target knows whether the source released the
// offered buckets. After a release, the target owns the buckets from this step on.
bool BucketMigrations::NextStepHeld() const {
  TD_REQUIRE(state_.sync());
  return !moves_.offered.empty() || AtItsStep();
}

bool BucketMigrations::StepHeld(const PushHead& head) const {
  if (!BetweenSteps()) return false;
  if (state_.sync()) return head.step == state_.version && NextStepHeld();
  const int trainer = head.caller.trainer;
  const bool is_new = !head.once || head.step >= state_.trainers[trainer].once_steps;
  if (is_new && !moves_.offered.empty()) return true;
  return frozen_.order && !(head.once && frozen_.boundary.Admits(trainer, head.step));
}

bool BucketMigrations::GaveAllRows() const {
  if (state_.sync()) return Idle();
  return state_.params->tables().size() != 0 && !state_.params->tables().ServesAny();
}

// ---- Source of a migration ----------------------------------------------------------------------

Status BucketMigrations::CheckMovable(const std::string& job) const {
  TD_RETURN_IF_ERROR(state_.broken);
  TD_RETURN_IF_ERROR(state_.CheckInitialised());
  TD_RETURN_IF_ERROR(CheckJob(job, state_.config.job));
  if (state_.options.replayable) {
    return FailedPrecondition(
        "rows cannot move with durability replayable, because trainers retransmit pushes to the "
        "old server [TD1108]; hint: use --durability=logged");
  }
  return state_.journal.Ready(0);
}

Status BucketMigrations::CheckFreeze(const FreezeRequest& request) const {
  const int index = state_.options.index;
  // A loss of the primary's disk could lose the end of a move, so that two servers own a row.
  if (state_.options.replication == Replication::kAsync) {
    return FailedPrecondition(
        "--replication=async of the pserver does not support moves of rows, because the loss of a "
        "move would leave two owners [TD4038]; hint: use --replication=quorum");
  }
  if (request.target < 0 || (request.target == index && !BetweenSteps())) {
    return InvalidArgument(
        "pserver %d cannot move row buckets to pserver %d: the request names an invalid target",
        index, request.target);
  }
  if (request.buckets.empty())
    return InvalidArgument("migration: the request names no row bucket, expected at least one");
  if (!std::is_sorted(request.buckets.begin(), request.buckets.end(), std::less_equal<>())) {
    return InvalidArgument("migration: the row buckets must be in ascending order");
  }
  if (request.buckets.front() < 0 || request.buckets.back() >= kBucketsMax) {
    return InvalidArgument("migration: row buckets %d to %d are out of range, expected below %d",
                           request.buckets.front(), request.buckets.back(), kBucketsMax);
  }
  if (state_.config.each_step_once && !request.knows_trainer_steps) {
    return FailedPrecondition(
        "the job has a stream, so row buckets move only between the steps of each trainer, which "
        "the "
        "caller does not know [TD6022]; hint: use tandem of the version of the pservers");
  }
  if (state_.sync() && request.step == 0) {
    return InvalidArgument(
        "migration: sync mode needs the step at which row buckets move, but the request names no "
        "step");
  }
  return OkStatus();
}

StatusOr<BucketMigration> BucketMigrations::Freeze(const std::string& job,
                                                   const FreezeRequest& request, bool pushes_held) {
  TD_RETURN_IF_ERROR(CheckMovable(job));
  TD_RETURN_IF_ERROR(CheckFreeze(request));
  if (pushes_held) {
    return Unavailable("rows cannot move while a snapshot is in progress; hint: try again later");
  }
  Thaw();
  if (!frozen_.order) {
    if (request.lease > Duration::zero()) TD_RETURN_IF_ERROR(Begin(request));
  } else if (frozen_.order->buckets != request.buckets || frozen_.order->target != request.target ||
             frozen_.order->step != request.step) {
    return Unavailable(
        "other row buckets are being transferred from this server; hint: try again later");
  }
  if (frozen_.order && !request.trainer_steps.empty() && state_.config.each_step_once) {
    TD_RETURN_IF_ERROR(frozen_.boundary.Agree(request.trainer_steps, state_.trainers));
  }
  frozen_.until = state_.clock.Now() + request.lease;
  Thaw();
  if (frozen_.moves.empty() || (BetweenSteps() && !AtItsStep())) {
    BucketMigration none{.source = state_.options.index};
    none.version = state_.version;
    if (state_.config.each_step_once) none.trainer_steps = OnceSteps(state_.trainers);
    return none;
  }
  StatusOr<BucketMigration> migration =
      PackMigration(state_, moves_, frozen_.moves, frozen_.order->target);
  if (!migration.ok()) {
    frozen_.until = state_.clock.Now();
    Thaw();
  }
  return migration;
}

Status BucketMigrations::Begin(const FreezeRequest& request) {
  if (state_.sync() && state_.version >= request.step) {
    return Aborted(
        "the request moves row buckets before step %d, but this server is already at step %d",
        DisplayStep(request.step), DisplayStep(state_.version));
  }
  StepBoundary boundary;
  boundary.BeginAt(state_.trainers);
  if (request.target == state_.options.index) {
    frozen_ = {.order = request, .moves = {}, .until = {}, .boundary = boundary};
    return OkStatus();
  }
  for (const int b : request.buckets) {
    if (!state_.Serves(b)) return OutOfRange("row bucket %d is not on this server", b);
  }
  std::vector<BucketMove> moves = moves_.MovesOf(request.buckets, request.target);
  Note(MoveBegunRecord{moves});
  moves_.Begin(moves);
  for (const int b : request.buckets) {
    if (!BetweenSteps()) state_.params->Keep(b, false);
  }
  frozen_ = {.order = request, .moves = std::move(moves), .until = {}, .boundary = boundary};
  return OkStatus();
}

void BucketMigrations::Thaw() {
  if (frozen_.order && state_.clock.Now() >= frozen_.until) {
    for (const BucketMove& move : frozen_.moves) state_.params->Keep(move.bucket, true);
    frozen_ = {};
  }
  if (BetweenSteps() && !frozen_.order && !state_.journal.replaying()) TakeBack();
}

void BucketMigrations::EndFreeze() {
  frozen_.until = state_.clock.Now();
  Thaw();
}

// Gives cancelled moves new ownership epochs, so that the targets learn of the cancellation.
void BucketMigrations::TakeBack() {
  if (moves_.begun.empty()) return;
  if (!state_.journal.Ready(0).ok()) return;  // no room in the log; a later call of Thaw retries
  BucketMap back = moves_.TakeBack(state_.options.index);
  if (back.moves().empty()) return;
  Note(MoveLearnedRecord{std::move(back)});
}

StatusOr<BucketMap> BucketMigrations::Release(const std::string& job,
                                              const std::vector<BucketMove>& moves) {
  TD_RETURN_IF_ERROR(CheckMovable(job));
  // If the moves are complete, this call repeats an earlier call.
  if (moves_.AreOver(moves)) return moves_.map;
  Thaw();
  if (frozen_.moves != moves || (BetweenSteps() && !AtItsStep())) {
    return Aborted(
        "the migration of these row buckets has ended: its lease expired, or pserver %d was "
        "restarted; the buckets are still on that server",
        state_.options.index);
  }
  MoveReleasedRecord record{.moves = moves, .map = {}};
  record.map.SetAddress(moves.front().server, frozen_.order->address);
  GiveAway(record);
  Note(std::move(record));
  return moves_.map;
}

// Drops the buckets of a release that is already in the log. Must not fail: after a partial change,
// two servers might serve the same bucket.
void BucketMigrations::GiveAway(const MoveReleasedRecord& record) {
  moves_.GiveAway(record.moves, record.map);
  frozen_ = {};
  for (const BucketMove& move : record.moves) ForgetBucket(move.bucket);
  state_.ShowTables();
}

// ---- Target of a migration ----------------------------------------------------------------------

Status BucketMigrations::CheckTarget(const BucketMigration& migration) const {
  const int index = state_.options.index;
  if (migration.target != index) {
    return InvalidArgument("the row buckets are for pserver %d, but this server is pserver %d",
                           migration.target, index);
  }
  if (migration.moves.empty())
    return InvalidArgument("migration: the message contains no row buckets");
  for (const BucketMove& m : migration.moves) {
    if (m.bucket < 0 || m.bucket >= kBucketsMax || m.server != index || m.epoch > kEpochMax) {
      return InvalidArgument(
          "migration: row bucket %d, owner pserver %d, epoch %d: expected a bucket below %d, owner "
          "pserver %d (this server) and an epoch of at most %d",
          m.bucket, m.server, m.epoch, kBucketsMax, index, kEpochMax);
    }
  }
  return OkStatus();
}

Status BucketMigrations::Offer(const std::string& job, const BucketMigration& migration) {
  TD_REQUIRE(CheckTarget(migration).ok());
  TD_RETURN_IF_ERROR(CheckMovable(job));
  for (const BucketMove& m : migration.moves) {
    if (state_.Serves(m.bucket) && moves_.map.epoch(m.bucket) < m.epoch) {
      return FailedPrecondition("row bucket %d is already on this server", m.bucket);
    }
  }
  const size_t known = moves_.Known(migration.moves);
  // If all buckets were offered before, this call repeats an earlier call.
  if (known == migration.moves.size()) return OkStatus();
  if (known != 0)
    return FailedPrecondition(
        "this server rejects the row buckets, because the migrations of some buckets have already "
        "ended");
  TD_RETURN_IF_ERROR(CheckOffer(migration));
  TD_RETURN_IF_ERROR(Take(migration));
  // From now on, the offer prevents the begin of the step, so the freeze is no longer needed.
  if (BetweenSteps()) frozen_ = {};
  Note(MoveOfferedRecord{std::make_shared<BucketMigration>(migration)});
  return OkStatus();
}

Status BucketMigrations::CheckOffer(const BucketMigration& migration) const {
  if (moves_.leaving) {
    return FailedPrecondition(
        "pserver %d is being drained and accepts no rows; hint: add this pserver again with tandem "
        "rebalance --add=HOST:PORT",
        state_.options.index);
  }
  if (state_.sync()) return CheckOfferStep(migration);
  return state_.config.each_step_once ? CheckOfferSteps(migration) : OkStatus();
}

Status BucketMigrations::CheckOfferSteps(const BucketMigration& migration) const {
  if (!Serves()) return OkStatus();  // this server takes over the steps of the source
  const bool asked = frozen_.order && frozen_.moves.empty() && moves_.offered.empty();
  if (asked && AtItsStep() && migration.trainer_steps == OnceSteps(state_.trainers) &&
      state_.clock.Now() < frozen_.until) {
    return OkStatus();
  }
  return Aborted(
      "row buckets of pserver %d arrive, but this server does not wait for these buckets, or the "
      "two servers have different steps of a trainer",
      migration.source);
}

Status BucketMigrations::CheckOfferStep(const BucketMigration& migration) const {
  if (Idle() && state_.version <= migration.version) return OkStatus();
  const bool asked = frozen_.order && frozen_.moves.empty() && NextStepHeld() &&
                     moves_.offered.empty() && state_.params->step().NothingGathered();
  if (asked && state_.version == migration.version && state_.clock.Now() < frozen_.until) {
    return OkStatus();
  }
  return Aborted(
      "row buckets arrive for step %d, but this server is at step %d and does not wait for these "
      "buckets",
      DisplayStep(migration.version), DisplayStep(state_.version));
}

Status BucketMigrations::Take(const BucketMigration& migration) {
  const bool idle = Idle(), between_steps = !migration.trainer_steps.empty();
  const bool takes_over_steps = between_steps && !Serves();
  for (const BucketMove& m : migration.moves) TD_RETURN_IF_ERROR(DropBucket(m.bucket));
  Status taken = UnpackMigration(migration, idle, state_);
  if (!taken.ok()) {
    for (const BucketMove& m : migration.moves) TD_RETURN_IF_ERROR(DropBucket(m.bucket));
    return taken;
  }
  moves_.Offer(migration.moves);
  moves_.offered_between_steps = between_steps;
  state_.config.each_step_once |= between_steps;
  for (const ServerPushState& mark : migration.marks) {
    TakeMark(mark, migration.source, takes_over_steps);
  }
  if (!between_steps) return OkStatus();
  // This server and the buckets have these steps. A new process of a trainer may repeat one that
  // the source has, and which the source refuses now. The process then sends the rows to this
  // server.
  for (TrainerRegistry::Trainer& t : state_.trainers) t.once_adopted = t.once_steps;
  return OkStatus();
}

// Copies the incarnation and the progress of a trainer from the source of the buckets.
// `takes_over_steps`: this server had no buckets, so it has the trainer's steps of the source.
void BucketMigrations::TakeMark(const ServerPushState& mark, int source, bool takes_over_steps) {
  if (mark.server != state_.options.index) AddMark(mark, moves_.inherited);
  const int trainer = mark.mark.trainer;
  if (mark.server != source || trainer < 0 || trainer >= state_.config.trainers) return;
  TrainerRegistry::Trainer& t = state_.trainers[trainer];
  if (mark.mark.incarnation > t.incarnation) t.Replace(mark.mark.incarnation, state_.version);
  if (takes_over_steps) {
    t.once_steps = mark.mark.steps;
    // This server may know a later incarnation.
    t.rolled_back = mark.mark.incarnation == t.incarnation && mark.mark.rolled_back;
  }
  if (mark.mark.incarnation != t.incarnation) return;
  t.completed |= mark.mark.completed;
  if (mark.pushes != 0) t.last_step = std::max(t.last_step, mark.last_step);
  if (t.pushes == 0) t.pushes = mark.pushes;
}

Status BucketMigrations::Refuse(const std::string& job, bool refuse) {
  TD_RETURN_IF_ERROR(CheckMovable(job));
  if (moves_.leaving == refuse) return OkStatus();
  moves_.leaving = refuse;
  Note(MoveRefusedRecord{refuse});
  return OkStatus();
}

// ---- Knowledge of migrations --------------------------------------------------------------------

// FAILED_PRECONDITION: `known` says that another server owns a bucket that this server serves. Only
// this server can give such a bucket away.
Status BucketMigrations::CheckNews(const BucketMap& known) const {
  for (const BucketMove& m : known.moves()) {
    if (m.epoch <= moves_.map.epoch(m.bucket) || !state_.Serves(m.bucket)) continue;
    return FailedPrecondition(
        "this server owns row bucket %d and never transferred this bucket to pserver %d (epoch "
        "%d); hint: check that the caller is of the same run of job \"%s\"",
        m.bucket, m.server, m.epoch, state_.config.job);
  }
  return OkStatus();
}

void BucketMigrations::LearnMoves(const BucketMap& known) {
  const MoveState::Decided decided = moves_.Learn(known, state_.options.index);
  for (const int bucket : decided.mine) state_.params->Keep(bucket, true);
  for (const int bucket : decided.others) ForgetBucket(bucket);
  const bool between_steps = state_.sync() || moves_.offered_between_steps;
  if (!decided.mine.empty() && between_steps) ++moves_.generation;
}

StatusOr<MapAnswer> BucketMigrations::Learn(const BucketMap& known) {
  if (state_.params == nullptr) return Answer();
  Thaw();
  TD_RETURN_IF_ERROR(CheckNews(known));
  if (moves_.Concerns(known)) {
    TD_RETURN_IF_ERROR(CheckMovable(state_.config.job));
    LearnMoves(known);
    Note(MoveLearnedRecord{known});
  } else {
    moves_.map.Learn(known);
  }
  return Answer();
}

MapAnswer BucketMigrations::Answer() const {
  if (state_.params == nullptr) {
    return MapAnswer{.map = {}, .generation = 0, .index = state_.options.index, .buckets = {}};
  }
  MapAnswer answer{.map = moves_.map,
                   .generation = moves_.generation,
                   .index = state_.options.index,
                   .buckets = {}};
  for (int b = 0; b < kRowBuckets; ++b) {
    const bool frozen = std::any_of(frozen_.moves.begin(), frozen_.moves.end(),
                                    [b](const BucketMove& m) { return m.bucket == b; });
    if (state_.Serves(b) || frozen) answer.buckets.push_back(b);
  }
  answer.rows = state_.params->tables().rows();
  AddSlices(answer);
  answer.leaving = moves_.leaving;
  if (!frozen_.moves.empty()) answer.frozen_for = frozen_.order->target;
  answer.version = state_.version;
  answer.sync = state_.sync();
  answer.each_step_once = state_.config.each_step_once;
  return answer;
}

void BucketMigrations::AddSlices(MapAnswer& answer) const {
  std::map<int, uint64_t> bytes;  // by bucket: bytes of the slice
  const DenseTable& slices = state_.params->slices();
  for (size_t i = 0; i < slices.size(); ++i) {
    const int slice = static_cast<int>(i), bucket = slices.spec(slice).bucket;
    answer.slices += bucket == 0;
    if (bucket != 0 && !moves_.offered.contains(bucket)) bytes[bucket] = slices.bytes(slice);
  }
  for (const auto& [bucket, size] : bytes) {
    answer.buckets.push_back(bucket);
    answer.slice_bytes.push_back(size);
  }
}

// ---- Checks of a push ---------------------------------------------------------------------------

Status BucketMigrations::CheckGeneration(const PushHead& head) const {
  if (head.generation == moves_.generation) return OkStatus();
  return OutOfRange(
      "trainer %d: push %d has ownership epoch %d, but this server has epoch %d; hint: partition "
      "and send the push again",
      head.caller.trainer, head.sequence, head.generation, moves_.generation);
}

Status BucketMigrations::CheckStepHeld(const PushHead& head) const {
  if (!StepHeld(head)) return OkStatus();
  return OutOfRange(
      "trainer %d: push %d cannot be applied yet, because row buckets move before step %d; hint: "
      "send the push again later",
      head.caller.trainer, head.sequence, DisplayStep(head.step));
}

StatusOr<bool> BucketMigrations::TakenElsewhere(const PushHead& head) const {
  TD_REQUIRE(head.origin_server != 0);
  // When the rows moved, both servers had the same steps of the trainer. A message of a later step
  // has all contents for this server.
  if (head.once && state_.config.each_step_once)
    return head.step < state_.trainers[head.caller.trainer].once_steps;
  const int server = head.origin_server - 1;
  const SequenceWindow* taken =
      moves_.Inherited(server, head.caller.trainer, head.caller.incarnation);
  if (taken == nullptr) return false;
  const SequenceWindow::Seen seen = taken->Look(head.origin_sequence);
  if (seen == SequenceWindow::Seen::kTooOld) {
    return FailedPrecondition(
        "trainer %d: push %d to pserver %d is too old: this server no longer knows whether it "
        "accepted the push",
        head.caller.trainer, head.origin_sequence, server);
  }
  return seen == SequenceWindow::Seen::kTaken;
}

// ---- The log and the whole state ----------------------------------------------------------------

void BucketMigrations::Note(MoveRecord record) {
  state_.journal.Note(std::move(record));
  base_.Forget();  // a delta would contain only the changes by pushes, not this change
  // If a step is being gathered, does not settle the log position, because its gradients are in no
  // snapshot and must stay in the log. A replay may then repeat this change, which has no effect.
  if (state_.params->step().NothingGathered()) state_.Settle();
}

Status BucketMigrations::Replay(const MoveRecord& record) {
  TD_REQUIRE(state_.journal.replaying());
  if (state_.params == nullptr) return FailedPrecondition("this server is not configured");
  base_.Forget();
  TD_RETURN_IF_ERROR(std::visit(Visitor{[&](const MoveBegunRecord& r) {
                                          moves_.Begin(r.moves);
                                          return OkStatus();
                                        },
                                        [&](const MoveOfferedRecord& r) {
                                          TD_REQUIRE(r.migration != nullptr);
                                          return Take(*r.migration);
                                        },
                                        [&](const MoveReleasedRecord& r) {
                                          GiveAway(r);
                                          return OkStatus();
                                        },
                                        [&](const MoveLearnedRecord& r) {
                                          LearnMoves(r.map);
                                          return OkStatus();
                                        },
                                        [&](const MoveRefusedRecord& r) {
                                          moves_.leaving = r.leaving;
                                          return OkStatus();
                                        }},
                                record));
  if (state_.params->step().NothingGathered()) state_.Settle();
  return OkStatus();
}

Status BucketMigrations::CheckRestore(const MoveState& moves, const ShardSnapshot& header) const {
  if (moves.generation >= moves_.generation && moves.map.version() >= moves_.map.version()) {
    return OkStatus();
  }
  return FailedPrecondition(
      "the checkpoint of version %d cannot be restored alone, because row buckets moved between "
      "servers after this checkpoint [TD7012]; hint: write checkpoints directly after a "
      "migration",
      header.version);
}

void BucketMigrations::Restore(MoveState moves, const ShardSnapshot& header) {
  TD_REQUIRE(CheckRestore(moves, header).ok());
  if (!moves.MovesSlices()) moves.placed = header.config.slices;
  moves_ = std::move(moves);
  frozen_ = {};
}

Status BucketMigrations::DropBucket(int bucket) {
  TD_RETURN_IF_ERROR(state_.params->Drop(bucket));
  if (bucket >= kRowBuckets) state_.config.slices = state_.params->slices().specs();
  return OkStatus();
}

void BucketMigrations::ForgetBucket(int bucket) {
  const Status status = DropBucket(bucket);
  LOG_IF(WARNING, !status.ok()) << "cannot remove the rows of row bucket " << bucket
                                << ", which moved to another server, "
                                << "from the disk: " << ToString(status);
}

}  // namespace tandem::pserver
