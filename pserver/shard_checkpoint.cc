// The part of Shard that is about its state as a whole: images, optimizer slots, information.
#include <algorithm>
#include <cstring>
#include <utility>

#include "pserver/shard.h"

namespace tandem {
namespace {

// Copied with the lock held, about; then others have their turn.
constexpr size_t kPieceBytes = 1 << 20;
constexpr Duration kPause = std::chrono::microseconds(50);

}  // namespace

ShardImage Shard::ImageHead(bool delta) {
  // No log brings back what came since the last update.
  if (options_.log == nullptr || options_.bug == ShardBug::kLogCutShort) Settle();
  ShardImage image{config_, version_, settled_number_, {}, {}, {}, false, nullptr, ++images_made_};
  if (delta) image.base = Base();
  image.has_previous = has_previous_ && options_.log != nullptr;
  if (!moves_.empty()) image.moves = std::make_shared<MoveState>(moves_);
  for (const Trainer& t : trainers_) image.marks.push_back(t.settled);
  image.tables.resize(sparse_->size());
  for (size_t i = 0; image.has_previous && i < sparse_->size(); ++i) {
    image.tables[i].previous = sparse_->table(static_cast<int>(i)).Previous();
  }
  return image;
}

StatusOr<ShardImage> Shard::MakeImage(bool delta) {
  ShardImage image = ImageHead(delta);
  for (size_t i = 0; i < sparse_->size(); ++i) {
    TD_ASSIGN_OR_RETURN(TableImage table,
                        sparse_->table(static_cast<int>(i)).Image(version_, image.base));
    table.previous = std::move(image.tables[i].previous);
    image.tables[i] = std::move(table);
  }
  for (size_t i = 0; i < table_->size(); ++i) {
    TD_ASSIGN_OR_RETURN(SliceImage slice, table_->Image(static_cast<int>(i)));
    image.slices.push_back(std::move(slice));
  }
  return image;
}

StatusOr<Shard::Cut> Shard::BeginCut(bool delta) {
  if (cutting_) {
    TD_ASSIGN_OR_RETURN(ShardImage image, MakeImage(delta));
    return Cut{.image = std::move(image)};
  }
  Cut cut{.number = ++cuts_, .image = ImageHead(delta)};
  BeginCopy(cut.image);
  cutting_ = true;
  return cut;
}

void Shard::BeginCopy(const ShardImage& image) {
  table_->BeginCut();
  for (size_t i = 0; i < sparse_->size(); ++i) {
    sparse_->table(static_cast<int>(i)).BeginCut(version_, image.base);
  }
}

StatusOr<bool> Shard::CopySome(Cut& cut) {
  if (cut.number != cuts_) {
    return Aborted("the server was restored while the checkpoint of version %d was made",
                   cut.image.version);
  }
  TD_RETURN_IF_ERROR(broken_);
  if (options_.bug == ShardBug::kCopiesLate && cut.slice == 0) BeginCopy(cut.image);
  size_t bytes = 0;
  const std::vector<SliceSpec>& slices = cut.image.config.slices;
  for (; cut.slice < slices.size() && bytes < kPieceBytes; ++cut.slice) {
    TD_RETURN_IF_ERROR(table_->Capture(static_cast<int>(cut.slice)));
    bytes += static_cast<size_t>(slices[cut.slice].numel) * sizeof(float);
  }
  for (; cut.table < sparse_->size() && bytes < kPieceBytes; ++cut.table, cut.bucket = 0) {
    SparseTable& table = sparse_->table(static_cast<int>(cut.table));
    for (; cut.bucket < kRowBuckets && bytes < kPieceBytes; ++cut.bucket) {
      bytes += table.Capture(cut.bucket);
    }
    if (cut.bucket < kRowBuckets) break;
  }
  return cut.slice == slices.size() && cut.table == sparse_->size();
}

Status Shard::TakeCut(ShardImage& image) {
  cutting_ = false;
  StatusOr<std::vector<SliceImage>> slices = table_->TakeCut();
  Status status = slices.status();
  if (slices.ok()) image.slices = *std::move(slices);
  for (size_t i = 0; i < sparse_->size(); ++i) {
    StatusOr<TableImage> table = sparse_->table(static_cast<int>(i)).TakeCut();
    status.Update(table.status());
    if (!table.ok()) continue;
    table->previous = std::move(image.tables[i].previous);
    image.tables[i] = *std::move(table);
  }
  return status;
}

StatusOr<ShardImage> Shard::FinishCut(Cut& cut) {
  if (cut.number == 0) return std::move(cut.image);
  MutexLock lock(mu_);
  CondVar turn;  // of others, who need some time to take the lock
  while (true) {
    TD_ASSIGN_OR_RETURN(const bool whole, CopySome(cut));
    if (whole) break;
    (void)turn.WaitUntil(mu_, SteadyNow() + kPause);
  }
  TD_RETURN_IF_ERROR(TakeCut(cut.image));
  return std::move(cut.image);
}

void Shard::GiveUpCut(uint64_t number) {
  MutexLock lock(mu_);
  if (number != cuts_ || !cutting_) return;
  cutting_ = false;
  table_->DropCut();
  for (size_t i = 0; i < sparse_->size(); ++i) sparse_->table(static_cast<int>(i)).DropCut();
}

ImageCopy Shard::CopyOf(Cut cut) {
  struct Begun {
    Begun(Shard& s, Cut c) : shard(s), cut(std::move(c)) {}
    ~Begun() { shard.GiveUpCut(cut.number); }  // unless it was finished
    Shard& shard;
    Cut cut;
  };
  return [begun = std::make_shared<Begun>(*this, std::move(cut))] {
    return begun->shard.FinishCut(begun->cut);
  };
}

std::optional<uint64_t> Shard::Base() const {
  MutexLock lock(base_mu_);
  return base_;
}

void Shard::ForgetBase() {
  MutexLock lock(base_mu_);
  base_.reset();
  base_order_min_ = images_made_ + 1;
}

void Shard::Kept(const ShardImage& image) {
  kept_number_ = image.log_number;
  MutexLock lock(base_mu_);
  if (image.base || image.order < base_order_min_) return;
  base_ = image.version;
  deltas_ = 0;
}

void Shard::GoOnBehind(const ShardImage& image) {
  MutexLock lock(base_mu_);
  base_ = image.whole;
  deltas_ = 0;
}

StatusOr<ShardImage> Shard::Image(bool delta) {
  Cut cut;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(broken_);
    if (!initialised()) {
      return FailedPrecondition("nothing to save: the first values are not there");
    }
    if (delta && !Base()) {
      return FailedPrecondition(
          "no delta: since it began, went back to a checkpoint or gave rows away this server wrote "
          "no "
          "whole one; hint: tandem save");
    }
    TD_ASSIGN_OR_RETURN(cut, BeginCut(delta));
  }
  return CopyOf(std::move(cut))();
}

StatusOr<std::pair<uint64_t, std::vector<SlotValues>>> Shard::PullState(
    const std::string& job, const std::vector<std::string>& variables) {
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(broken_);
  TD_RETURN_IF_ERROR(Waits());
  if (!initialised()) return FailedPrecondition("the first values are not there");
  TD_RETURN_IF_ERROR(CheckJob(job, config_.job));
  std::vector<bool> wanted(table_->size(), variables.empty());
  for (const std::string& variable : variables) {
    bool found = sparse_->Find(variable) >= 0;
    for (size_t i = 0; i < table_->size(); ++i) {
      if (table_->spec(static_cast<int>(i)).variable != variable) continue;
      wanted[i] = found = true;
    }
    if (!found) TD_RETURN_IF_ERROR(FindRange({variable, 0, 1}).status());
  }
  std::vector<SlotValues> slots;
  for (size_t i = 0; i < table_->size(); ++i) {
    if (!wanted[i] || moves_.offered.contains(table_->spec(static_cast<int>(i)).bucket)) continue;
    const SliceSpec& spec = table_->spec(static_cast<int>(i));
    TD_ASSIGN_OR_RETURN(SliceImage image, table_->Image(static_cast<int>(i)));
    for (SliceImage::Slot& slot : image.slots) {
      slots.push_back({spec.variable, spec.offset, slot.name, slot.numel, std::move(slot.values)});
    }
  }
  for (size_t i = 0; i < sparse_->size(); ++i) {
    const SparseTable& table = sparse_->table(static_cast<int>(i));
    const std::string& name = table.spec().variable;
    const bool asked = std::find(variables.begin(), variables.end(), name) != variables.end();
    if (!variables.empty() && !asked) continue;
    for (const auto& [slot, value] : table.scalars()) {
      TD_ASSIGN_OR_RETURN(Buffer copy, table_->pool().Take(sizeof(float)));
      std::memcpy(copy.get(), &value, sizeof(float));
      slots.push_back({name, 0, slot, 1, std::move(copy)});
    }
  }
  return std::make_pair(version_, std::move(slots));
}

std::string Shard::Job() const {
  MutexLock lock(mu_);
  return table_ != nullptr ? config_.job : options_.job;
}

ShardInfo Shard::Info() const {
  MutexLock lock(mu_);
  ShardInfo info;
  info.configured = table_ != nullptr;
  info.initialised = initialised();
  info.config = config_;
  info.version = version_;
  for (size_t i = 0; sparse_ != nullptr && i < sparse_->size(); ++i) {
    info.tables.push_back(sparse_->table(static_cast<int>(i)).Info());
  }
  for (int b = 0; b < kRowBuckets; ++b) info.buckets += Serves(b);
  info.map_version = moves_.map.version();
  const Time now = clock_.Now();
  for (int r = 0; r < static_cast<int>(trainers_.size()); ++r) {
    const Trainer& t = trainers_[r];
    info.trainers.push_back(
        {r, t.seen, t.completed, t.lost, t.incarnation, t.pushes, t.last_step, t.skipped,
         t.lost_pushes, t.waiting != 0 ? 0 : Seconds(now - t.last_seen),
         t.waited == nullptr ? 0 : t.waited->Value(), t.waited_recently.Sum(now)});
  }
  return info;
}

}  // namespace tandem
