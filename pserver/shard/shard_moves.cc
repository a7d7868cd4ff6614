// The part of Shard for buckets that move between servers (docs/ARCHITECTURE.md, "Buckets that
// move"). A move is begun and frozen at the source, offered at the target, released at the source,
// and learned at the target. Its ownership epoch is used once. The owner changes with the log
// record of the release.
#include <algorithm>
#include <set>
#include <utility>

#include "common/base/step_number.h"
#include "pserver/shard/shard.h"

namespace tandem::pserver {

bool Shard::Serves(int bucket) const { return params_ != nullptr && params_->Serves(bucket); }

Status Shard::DropBucket(int bucket) {
  TD_RETURN_IF_ERROR(params_->Drop(bucket));
  if (bucket >= kRowBuckets) SlicesChanged();
  return OkStatus();
}

void Shard::ForgetBucket(int bucket) {
  const Status status = DropBucket(bucket);
  LOG_IF(WARNING, !status.ok()) << "cannot remove the rows of row bucket " << bucket
                                << ", which moved to another server, "
                                << "from the disk: " << ToString(status);
}

Status Shard::CheckMovable(const std::string& job) const {
  TD_RETURN_IF_ERROR(broken_);
  if (!initialised())
    return FailedPrecondition("migration: the parameters of this server are not initialised yet");
  TD_RETURN_IF_ERROR(CheckJob(job, config_.job));
  if (options_.replayable) {
    return FailedPrecondition(
        "rows cannot move with durability replayable, because trainers retransmit pushes to the "
        "old server [TD1108]; hint: --durability=logged");
  }
  return options_.log == nullptr ? OkStatus() : options_.log->Ready(0);
}

void Shard::NoteMove(LogEntry::Kind kind, MoveRecord record) {
  if (options_.log != nullptr && !replaying_) {
    LogEntry entry{++log_number_, kind, {}, {}};
    entry.move = std::make_shared<MoveRecord>(std::move(record));
    options_.log->Append(std::move(entry));
  }
  base_.Forget();  // pushes alone no longer explain the state of its rows
  // Gathered gradients after this change are in no snapshot. The change may then be replayed twice,
  // which has no effect.
  if (params_->NothingGathered()) Settle();
}

void Shard::Thaw() {
  if (frozen_.order && clock_.Now() >= frozen_.until) {
    for (const BucketMove& move : frozen_.moves) params_->Keep(move.bucket, true);
    frozen_ = {};
  }
  if (sync() && !frozen_.order && !replaying_) TakeBack();
}

StatusOr<BucketMigration> Shard::MakeParcel() {
  BucketMigration parcel{.config = config_,
                         .source = options_.index,
                         .target = frozen_.order->target,
                         .version = version_,
                         .moves = frozen_.moves,
                         .rows = {},
                         .scalars = {},
                         .marks = {},
                         .map = moves_.map,
                         .previous = {},
                         .slices = {}};
  parcel.config.slices.clear();
  std::vector<int> buckets;
  for (const BucketMove& move : frozen_.moves) {
    if (move.bucket < kRowBuckets) buckets.push_back(move.bucket);
  }
  for (size_t i = 0; i < params_->tables().size(); ++i) {
    const SparseTable& table = params_->tables().table(static_cast<int>(i));
    TableSpec& spec = parcel.config.tables[i];
    spec.bucket_begin = spec.bucket_end = 0;
    TD_ASSIGN_OR_RETURN(RowValues rows, table.Rows(buckets, version_));
    parcel.rows.push_back(std::move(rows));
    for (const auto& [slot, value] : table.scalars()) {
      parcel.scalars.push_back({spec.variable, slot, value});
    }
  }
  if (sync()) AddPrevious(buckets, parcel);
  const bool previous = sync() && options_.bug != ShardBug::kPreviousStays;
  TD_ASSIGN_OR_RETURN(parcel.slices, params_->SlicesOf(parcel.moves, previous));
  if (options_.bug == ShardBug::kMarksStay) return parcel;
  parcel.marks = moves_.inherited;
  for (int r = 0; r < trainers_.size(); ++r) {
    const TrainerRegistry::Trainer& t = trainers_[r];
    const TrainerPushState mark{r, t.incarnation, t.completed, t.taken};
    AddMark({options_.index, mark, t.pushes, t.last_step}, parcel.marks);
  }
  return parcel;
}

Status Shard::CheckFreeze(const FreezeRequest& order) const {
  if (order.target < 0 || (order.target == options_.index && !sync())) {
    return InvalidArgument("row buckets cannot move from pserver %d to pserver %d", options_.index,
                           order.target);
  }
  if (order.buckets.empty()) return InvalidArgument("migration: no row buckets are named");
  if (!std::is_sorted(order.buckets.begin(), order.buckets.end(), std::less_equal<>())) {
    return InvalidArgument("migration: the row buckets must be in ascending order");
  }
  if (order.buckets.front() < 0 || order.buckets.back() >= kBucketsMax) {
    return InvalidArgument("migration: row buckets %d to %d are out of range, expected below %d",
                           order.buckets.front(), order.buckets.back(), kBucketsMax);
  }
  if (sync() && order.step == 0) {
    return InvalidArgument(
        "migration: sync mode needs a step before which row buckets move, but none is named");
  }
  return OkStatus();
}

Status Shard::BeginMove(const FreezeRequest& order) {
  if (sync() && version_ >= order.step) {
    return Aborted("row buckets were to move before step %d, but this server is at step %d",
                   DisplayStep(order.step), DisplayStep(version_));
  }
  if (order.target == options_.index) {
    frozen_ = {order, {}, {}};
    return OkStatus();
  }
  for (const int b : order.buckets) {
    if (!Serves(b)) return OutOfRange("row bucket %d is not on this server", b);
  }
  std::vector<BucketMove> moves = moves_.MovesOf(order.buckets, order.target);
  NoteMove(LogEntry::Kind::kMoveBegun, {moves, {}, {}});
  moves_.Begin(moves);
  for (const int b : order.buckets) {
    if (!sync()) params_->Keep(b, false);
  }
  frozen_ = {order, std::move(moves), {}};
  return OkStatus();
}

StatusOr<BucketMigration> Shard::FreezeBuckets(const std::string& job, const FreezeRequest& order) {
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(CheckMovable(job));
  TD_RETURN_IF_ERROR(CheckFreeze(order));
  if (hold_.cut != 0 && clock_.Now() < hold_.until) {
    return Unavailable("rows cannot move while a snapshot is in progress; hint: try again later");
  }
  Thaw();
  if (!frozen_.order) {
    if (order.lease > Duration::zero()) TD_RETURN_IF_ERROR(BeginMove(order));
  } else if (frozen_.order->buckets != order.buckets || frozen_.order->target != order.target ||
             frozen_.order->step != order.step) {
    return Unavailable(
        "other row buckets are being transferred from this server; hint: try again later");
  }
  frozen_.until = clock_.Now() + order.lease;
  Thaw();
  if (frozen_.moves.empty() || (sync() && !AtItsStep())) {
    BucketMigration none{.source = options_.index};
    none.version = version_;
    return none;
  }
  StatusOr<BucketMigration> parcel = MakeParcel();
  if (!parcel.ok()) {
    frozen_.until = clock_.Now();
    Thaw();
  }
  return parcel;
}

Status Shard::BeginWith(const BucketMigration& parcel) {
  TD_RETURN_IF_ERROR(CheckConfig(parcel.config));
  TD_RETURN_IF_ERROR(CheckOptions(parcel.config));
  TD_RETURN_IF_ERROR(SetUp(parcel.config));
  params_->SetAllGiven();
  version_ = parcel.version;
  Status status = params_->SetScalars(parcel.scalars);
  Settle();
  if (status.ok() && options_.keep_first) {
    const StatusOr<ShardSnapshot> image = MakeImage(/*delta=*/false);
    status = image.ok() ? options_.keep_first(*image) : image.status();
  }
  if (!status.ok()) params_ = nullptr;  // as if nothing had been received
  return status;
}

Status Shard::OfferBuckets(const std::string& job, const BucketMigration& parcel) {
  Ready ready;
  Status status;
  {
    MutexLock lock(mu_);
    status = Offer(job, parcel);
    // Trainers may be further than this server knew.
    WakeWaiters(ready);
    barriers_.Wake(ready);
  }
  Run(std::move(ready));
  return status;
}

Status Shard::Offer(const std::string& job, const BucketMigration& parcel) {
  TD_RETURN_IF_ERROR(broken_);
  if (parcel.target != options_.index) {
    return InvalidArgument("the row buckets are for pserver %d, but this is pserver %d",
                           parcel.target, options_.index);
  }
  if (parcel.moves.empty())
    return InvalidArgument("migration: the message contains no row buckets");
  for (const BucketMove& m : parcel.moves) {
    if (m.bucket < 0 || m.bucket >= kBucketsMax || m.server != options_.index ||
        m.epoch > kEpochMax) {
      return InvalidArgument(
          "the ownership of row bucket %d by pserver %d with epoch %d is invalid", m.bucket,
          m.server, m.epoch);
    }
  }
  const bool begins = params_ == nullptr && !parcel.config.job.empty();
  if (begins) TD_RETURN_IF_ERROR(BeginWith(parcel));
  TD_RETURN_IF_ERROR(CheckMovable(job));
  for (const BucketMove& m : parcel.moves) {
    if (Serves(m.bucket) && moves_.map.epoch(m.bucket) < m.epoch) {
      return FailedPrecondition("row bucket %d is already on this server", m.bucket);
    }
  }
  const size_t known = moves_.Known(parcel.moves);
  if (known == parcel.moves.size()) return OkStatus();  // the call is repeated
  if (known != 0)
    return FailedPrecondition(
        "the row buckets were not accepted, because some of their migrations have already ended");
  if (moves_.leaving) {
    return FailedPrecondition(
        "pserver %d is being drained and accepts no rows; hint: add it again with tandem rebalance "
        "--add=HOST:PORT",
        options_.index);
  }
  if (sync()) TD_RETURN_IF_ERROR(CheckOfferStep(parcel));
  TD_RETURN_IF_ERROR(TakeParcel(parcel));
  if (sync()) frozen_ = {};  // from now on the offer holds the step
  NoteMove(LogEntry::Kind::kMoveOffered, {{}, parcel, {}});
  return OkStatus();
}

Status Shard::RefuseBuckets(const std::string& job, bool refuse) {
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(CheckMovable(job));
  if (moves_.leaving == refuse) return OkStatus();
  moves_.leaving = refuse;
  NoteMove(LogEntry::Kind::kMoveRefused, {{}, {}, {}, refuse});
  return OkStatus();
}

Status Shard::TakeParcel(const BucketMigration& parcel) {
  Status status;
  const uint64_t rows_version = sync() ? parcel.version : version_;
  const bool idle = Idle();
  for (const BucketMove& m : parcel.moves) {
    status = DropBucket(m.bucket);
    if (!status.ok()) return status;
  }
  status = TakeSlices(parcel);
  for (const BucketMove& m : parcel.moves) {
    params_->Keep(m.bucket, options_.bug == ShardBug::kOwnsTooSoon);
  }
  for (const RowValues& rows : parcel.rows) {
    const int table = params_->tables().Find(rows.variable);
    if (status.ok() && table < 0) status = NotFound("there is no table \"%s\"", rows.variable);
    if (status.ok()) status = params_->tables().table(table).SetRows(rows, rows_version);
  }
  if (status.ok() && sync()) status = TakeStep(parcel, idle);
  if (!status.ok()) {
    for (const BucketMove& m : parcel.moves) TD_RETURN_IF_ERROR(DropBucket(m.bucket));
    return status;
  }
  moves_.Offer(parcel.moves);
  for (const ServerPushState& mark : parcel.marks) TakeMark(mark, parcel.source);
  return OkStatus();
}

// Restarted trainers and the progress of trainers must be known here too.
void Shard::TakeMark(const ServerPushState& mark, int source) {
  if (mark.server != options_.index) AddMark(mark, moves_.inherited);
  const int trainer = mark.mark.trainer;
  if (mark.server != source || trainer < 0 || trainer >= config_.trainers) return;
  TrainerRegistry::Trainer& t = trainers_[trainer];
  if (mark.mark.incarnation > t.incarnation) t.Replace(mark.mark.incarnation, version_);
  if (mark.mark.incarnation != t.incarnation) return;
  t.completed |= mark.mark.completed;
  if (mark.pushes != 0) t.last_step = std::max(t.last_step, mark.last_step);
  if (t.pushes == 0) t.pushes = mark.pushes;
}

StatusOr<BucketMap> Shard::ReleaseBuckets(const std::string& job,
                                          const std::vector<BucketMove>& moves) {
  Ready ready;
  StatusOr<BucketMap> map = Release(job, moves, ready);
  Run(std::move(ready));
  return map;
}

StatusOr<BucketMap> Shard::Release(const std::string& job, const std::vector<BucketMove>& moves,
                                   Ready& ready) {
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(CheckMovable(job));
  if (moves_.AreOver(moves)) return moves_.map;  // the call is repeated
  Thaw();
  if (frozen_.moves != moves || (sync() && !AtItsStep())) {
    return Aborted(
        "the migration of these row buckets has ended: its lease expired, or pserver %d was "
        "restarted; the buckets are still on that server",
        options_.index);
  }
  MoveRecord record{moves, {}, {}};
  record.map.SetAddress(moves.front().server, frozen_.order->address);
  GiveAway(record);
  NoteMove(LogEntry::Kind::kMoveReleased, std::move(record));
  FailGonePulls(ready);
  return moves_.map;
}

// Must not fail: after a partial change, two servers might serve a bucket.
void Shard::GiveAway(const MoveRecord& record) {
  moves_.GiveAway(record.moves, record.map);
  frozen_ = {};
  for (const BucketMove& move : record.moves) ForgetBucket(move.bucket);
  table_metrics_->Show(params_->tables());
}

// Only this server can give away the buckets that it serves.
Status Shard::CheckNews(const BucketMap& known) const {
  for (const BucketMove& m : known.moves()) {
    if (m.epoch <= moves_.map.epoch(m.bucket) || !Serves(m.bucket)) continue;
    return FailedPrecondition(
        "this server owns row bucket %d and never gave it to pserver %d (epoch %d); hint: check "
        "that the caller is of the same run of job \"%s\"",
        m.bucket, m.server, m.epoch, config_.job);
  }
  return OkStatus();
}

void Shard::LearnMoves(const BucketMap& known) {
  const MoveState::Decided decided = moves_.Learn(known, options_.index);
  for (const int bucket : decided.mine) params_->Keep(bucket, true);
  for (const int bucket : decided.others) ForgetBucket(bucket);
  if (!decided.mine.empty() && sync()) ++moves_.generation;
}

StatusOr<MapAnswer> Shard::ExchangeMap(const Caller& caller, bool observer, const BucketMap& known,
                                       uint64_t min_step) {
  Ready ready;
  StatusOr<MapAnswer> answer;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(broken_);
    if (observer) {
      if (params_ != nullptr) TD_RETURN_IF_ERROR(CheckJob(caller.job, config_.job));
    } else {
      TD_RETURN_IF_ERROR(CheckCaller(caller));
      Hear(caller.trainer, min_step, ready);
    }
    answer = Learn(known);
  }
  Run(std::move(ready));
  return answer;
}

StatusOr<MapAnswer> Shard::Learn(const BucketMap& known) {
  MapAnswer answer{.map = {}, .generation = 0, .index = options_.index, .buckets = {}};
  if (params_ == nullptr) return answer;
  Thaw();
  TD_RETURN_IF_ERROR(CheckNews(known));
  if (moves_.Concerns(known)) {
    TD_RETURN_IF_ERROR(CheckMovable(config_.job));
    LearnMoves(known);
    NoteMove(LogEntry::Kind::kMoveLearned, {{}, {}, known});
  } else {
    moves_.map.Learn(known);
  }
  answer.map = moves_.map;
  answer.generation = moves_.generation;
  for (int b = 0; b < kRowBuckets; ++b) {
    const bool frozen = std::any_of(frozen_.moves.begin(), frozen_.moves.end(),
                                    [b](const BucketMove& m) { return m.bucket == b; });
    if (Serves(b) || frozen) answer.buckets.push_back(b);
  }
  answer.rows = params_->tables().rows();
  SayWhichSlices(answer);
  answer.leaving = moves_.leaving;
  if (!frozen_.moves.empty()) answer.frozen_for = frozen_.order->target;
  answer.version = version_;
  answer.sync = sync();
  return answer;
}

Status Shard::ReplayMove(const LogEntry& entry) {
  if (params_ == nullptr) return FailedPrecondition("this server is not configured");
  base_.Forget();
  switch (entry.kind) {
    case LogEntry::Kind::kMoveBegun:
      moves_.Begin(entry.move->moves);
      break;
    case LogEntry::Kind::kMoveOffered:
      TD_RETURN_IF_ERROR(TakeParcel(entry.move->parcel));
      break;
    case LogEntry::Kind::kMoveReleased:
      GiveAway(*entry.move);
      break;
    case LogEntry::Kind::kMoveRefused:
      moves_.leaving = entry.move->leaving;
      break;
    default:
      LearnMoves(entry.move->map);
  }
  if (params_->NothingGathered()) Settle();
  return OkStatus();
}

// OK, or the reason why a push with `head.generation` can never be accepted.
Status Shard::CheckGeneration(const PushHead& head) const {
  if (head.generation == moves_.generation || options_.bug == ShardBug::kOldRowsTaken) {
    return OkStatus();
  }
  return OutOfRange(
      "trainer %d push %d was partitioned with ownership epoch %d, but this server has epoch %d; "
      "send it again",
      head.caller.trainer, head.sequence, head.generation, moves_.generation);
}

// Whether the server that received the push before accepted it.
StatusOr<bool> Shard::TakenElsewhere(const PushHead& head) const {
  const int server = head.origin_server - 1;
  const SequenceWindow* taken =
      moves_.Inherited(server, head.caller.trainer, head.caller.incarnation);
  if (taken == nullptr) return false;
  const SequenceWindow::Seen seen = taken->Look(head.origin_sequence);
  if (seen == SequenceWindow::Seen::kTooOld) {
    return FailedPrecondition(
        "trainer %d push %d to pserver %d is too old to tell whether it was accepted",
        head.caller.trainer, head.origin_sequence, server);
  }
  return seen == SequenceWindow::Seen::kTaken;
}

}  // namespace tandem::pserver
