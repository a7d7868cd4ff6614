// The part of Shard for its state as a whole: snapshots, optimizer slots, information.
#include <algorithm>
#include <cstring>
#include <utility>

#include "pserver/shard/shard.h"

namespace tandem::pserver {
namespace {

// Approximate bytes copied under the lock before other calls get their turn.
constexpr size_t kPieceBytes = 1 << 20;
constexpr Duration kPause = std::chrono::microseconds(50);
// Maximum pause after a chunk that took longer, such as a slice of many megabytes. On a busy
// machine, a waiting thread needs this time to wake up.
constexpr Duration kPauseMax = std::chrono::milliseconds(4);

}  // namespace

ShardSnapshot Shard::ImageHead(bool delta) {
  // Without a log, changes since the last update cannot be restored.
  if (options_.log == nullptr || options_.bug == ShardBug::kLogCutShort) Settle();
  ShardSnapshot image{.config = config_, .version = version_, .log_number = settled_number_};
  image.order = base_.NextOrder();
  if (delta) image.base = base_.version();
  image.has_previous = has_previous_ && options_.log != nullptr;
  if (!moves_.empty()) image.moves = std::make_shared<MoveState>(moves_);
  image.marks = trainers_.marks();
  image.tables.resize(params_->tables().size());
  if (image.has_previous) params_->CopyPreviousRows(image);
  return image;
}

StatusOr<ShardSnapshot> Shard::MakeImage(bool delta) {
  ShardSnapshot image = ImageHead(delta);
  TD_RETURN_IF_ERROR(params_->Copy(image));
  return image;
}

StatusOr<Shard::Cut> Shard::BeginSnapshot(bool delta) {
  if (cutting_) {
    TD_ASSIGN_OR_RETURN(ShardSnapshot image, MakeImage(delta));
    return Cut{.image = std::move(image)};
  }
  Cut cut{.number = ++cuts_, .image = ImageHead(delta)};
  params_->BeginSnapshot(cut.image);
  cutting_ = true;
  return cut;
}

StatusOr<bool> Shard::CopyChunk(Cut& cut) {
  if (cut.number != cuts_) {
    return Aborted("the server was restored while it wrote the checkpoint of version %d",
                   cut.image.version);
  }
  TD_RETURN_IF_ERROR(broken_);
  const bool begins = cut.copied.slice == 0;
  if (options_.bug == ShardBug::kCopiesLate && begins) params_->BeginSnapshot(cut.image);
  return params_->CopyChunk(cut.image, kPieceBytes, cut.copied);
}

StatusOr<ShardSnapshot> Shard::FinishSnapshot(Cut& cut) {
  if (cut.number == 0) return std::move(cut.image);
  MutexLock lock(mu_);
  CondVar turn;  // other threads need time to acquire the lock
  while (true) {
    const Time begin = SteadyNow();
    TD_ASSIGN_OR_RETURN(const bool whole, CopyChunk(cut));
    if (whole) break;
    const Time now = SteadyNow();
    (void)turn.WaitUntil(mu_, now + std::clamp<Duration>((now - begin) / 8, kPause, kPauseMax));
  }
  cutting_ = false;
  TD_RETURN_IF_ERROR(params_->TakeCut(cut.image));
  return std::move(cut.image);
}

void Shard::AbandonSnapshot(uint64_t number) {
  MutexLock lock(mu_);
  if (number != cuts_ || !cutting_) return;
  cutting_ = false;
  params_->DropCut();
}

SnapshotFn Shard::CopyOf(Cut cut) {
  struct Begun {
    Begun(Shard& s, Cut c) : shard(s), cut(std::move(c)) {}
    ~Begun() { shard.AbandonSnapshot(cut.number); }  // no effect if the snapshot was finished
    Shard& shard;
    Cut cut;
  };
  return [begun = std::make_shared<Begun>(*this, std::move(cut))] {
    return begun->shard.FinishSnapshot(begun->cut);
  };
}

void Shard::Kept(const ShardSnapshot& image) {
  kept_number_ = image.log_number;
  base_.Kept(image);
}

StatusOr<ShardSnapshot> Shard::Image(bool delta) {
  Cut cut;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(broken_);
    if (!initialised()) {
      return FailedPrecondition(
          "checkpoint: the parameters of this server are not initialised yet");
    }
    if (delta && !base_.version()) {
      return FailedPrecondition(
          "a delta needs a full checkpoint as its base, but this server has written none since its "
          "start, its last restore or its last migration; hint: tandem save");
    }
    TD_ASSIGN_OR_RETURN(cut, BeginSnapshot(delta));
  }
  return CopyOf(std::move(cut))();
}

std::string Shard::Job() const {
  MutexLock lock(job_mu_);
  return job_;
}

ShardInfo Shard::Info() const {
  MutexLock lock(mu_);
  ShardInfo info;
  info.configured = params_ != nullptr;
  info.initialised = initialised();
  info.config = config_;
  info.version = version_;
  for (size_t i = 0; i < config_.tables.size() && params_ != nullptr; ++i) {
    info.tables.push_back(params_->tables().table(static_cast<int>(i)).Info());
  }
  for (int b = 0; b < kRowBuckets; ++b) info.buckets += Serves(b);
  info.map_version = moves_.map.version();
  info.last_cut = std::max(last_cut_, hold_.cut);
  info.trainers = trainers_.Info();
  // A log entry that waits for pushes may have a newer incarnation.
  for (TrainerInfo& t : info.trainers) {
    const auto replayed = replayed_.find(t.trainer);
    if (replayed != replayed_.end()) t.incarnation = std::max(t.incarnation, replayed->second);
  }
  return info;
}

}  // namespace tandem::pserver
