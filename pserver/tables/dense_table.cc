#include "pserver/tables/dense_table.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "common/base/nearest.h"
#include "common/base/require.h"
#include "common/tensor/reduce.h"

namespace tandem::pserver {
namespace {

// Maximum bytes of the slices in one migration: the limit of a message and of a WAL record.
constexpr size_t kMigrationBytesMax = size_t{1} << 30;

// Checks that the update of the slice needs no values outside the slice. UNIMPLEMENTED: the
// optimizer needs the gradients of all slices. INVALID_ARGUMENT: the optimizer needs norms of whole
// variables, but the slice is a part of a variable.
Status CheckScope(const SliceSpec& slice, const graph::OptimizerSpec& optimizer) {
  TD_ASSIGN_OR_RETURN(const graph::UpdateScope reach, graph::ReachOf(optimizer));
  if (reach == graph::UpdateScope::kAll) {
    return Unimplemented(
        "optimizer.clip_global_norm is not supported on pservers, because each server has only the "
        "gradients of its own slices [TD1108]; hint: use clip_norm");
  }
  if (reach == graph::UpdateScope::kElement || slice.numel == slice.shape.numel())
    return OkStatus();
  return InvalidArgument(
      "optimizer %s needs norms of complete variables, but this server has only a part of a "
      "variable [TD1108]; hint: set slice_var_up: false",
      optimizer.type);
}

}  // namespace

StatusOr<std::unique_ptr<DenseTable>> DenseTable::Make(const ShardConfig& config,
                                                       const exec::Backend& backend, Device& device,
                                                       std::shared_ptr<Arena> arena,
                                                       ForkJoin* workers) {
  auto table = std::unique_ptr<DenseTable>(
      new DenseTable(config, backend, device, std::move(arena), workers));
  for (const SliceSpec& spec : config.slices) TD_RETURN_IF_ERROR(table->Append(spec));
  table->Index();
  return table;
}

DenseTable::DenseTable(const ShardConfig& config, const exec::Backend& backend, Device& device,
                       std::shared_ptr<Arena> arena, ForkJoin* workers)
    : workers_(workers),
      backend_(backend),
      device_(device),
      optimizer_(config.optimizer),
      trainers_(static_cast<size_t>(config.trainers)),
      pool_(0, std::move(arena)),
      snapshot_([this](int slice) { return Snapshot(slice); }) {}

Status DenseTable::Append(const SliceSpec& spec) {
  TD_RETURN_IF_ERROR(Annotate(CheckScope(spec, optimizer_), "variable " + spec.variable));
  auto update = UpdateProgram::Make(spec.variable, spec.numel, optimizer_, backend_, device_);
  if (!update.ok()) return Annotate(update.status(), "variable " + spec.variable);
  if (device_.place().kind != PlaceKind::kCpu && spec.numel > staged_numel_) {
    TD_ASSIGN_OR_RETURN(staged_,
                        backend_.AllocatePinned(static_cast<size_t>(spec.numel) * sizeof(float)));
    staged_numel_ = spec.numel;
  }
  slices_.push_back({.spec = spec,
                     .update = std::move(*update),
                     .params = nullptr,
                     .previous = nullptr,
                     .pulled = std::vector<Buffer>(trainers_)});
  return OkStatus();
}

void DenseTable::Index() {
  index_ = SliceIndex(specs());
  size_t bytes = 0;
  for (const Slice& s : slices_) bytes += static_cast<size_t>(s.spec.numel) * sizeof(float);
  // The pool keeps buffers for one gradient of every trainer and for three copies of the
  // parameters.
  pool_.SetSpareBytesMax((trainers_ + 3) * (bytes + 4096));
}

// ---- Slices that move

Status DenseTable::Add(const SliceSpec& spec) {
  TD_REQUIRE(spec.bucket == 0 || FindBucket(spec.bucket) < 0);
  TD_RETURN_IF_ERROR(snapshot_.CopyAll());
  TD_RETURN_IF_ERROR(Append(spec));
  Index();
  return OkStatus();
}

int DenseTable::Remove(int bucket) {
  const int slice = FindBucket(bucket);
  if (slice < 0) return slice;
  // If there is no memory for the copies, CowSliceSnapshot::Finish later returns the error.
  if (!snapshot_.CopyAll().ok()) snapshot_.Abandon();
  slices_.erase(slices_.begin() + slice);
  Index();
  return slice;
}

int DenseTable::FindBucket(int bucket) const {
  const auto it = std::find_if(slices_.begin(), slices_.end(),
                               [bucket](const Slice& s) { return s.spec.bucket == bucket; });
  return it == slices_.end() ? -1 : static_cast<int>(it - slices_.begin());
}

void DenseTable::Keep(int bucket, bool served) {
  if (const int slice = FindBucket(bucket); slice >= 0) At(slice).served = served;
}

bool DenseTable::Serves(int bucket) const {
  const int slice = FindBucket(bucket);
  return slice >= 0 && At(slice).served;
}

std::vector<SliceSpec> DenseTable::specs() const {
  std::vector<SliceSpec> all;
  for (const Slice& s : slices_) all.push_back(s.spec);
  return all;
}

size_t DenseTable::bytes(int slice) const {
  const Slice& s = At(slice);
  int64_t numel = s.spec.numel;
  for (const UpdateProgram::Slot& slot : s.update->slots()) numel += slot.value.numel();
  return static_cast<size_t>(numel) * sizeof(float);
}

StatusOr<std::vector<SliceMigration>> DenseTable::Migrations(std::span<const BucketMove> moves,
                                                             bool previous) {
  std::vector<SliceMigration> migrations;
  size_t bytes_sum = 0;
  for (int slice = 0; slice < static_cast<int>(size()); ++slice) {
    const bool moves_away = std::ranges::any_of(
        moves, [&](const BucketMove& move) { return move.bucket == spec(slice).bucket; });
    if (!moves_away) continue;
    bytes_sum += bytes(slice);
    if (bytes_sum > kMigrationBytesMax) {
      return ResourceExhausted(
          "the slice of %s cannot move: the slice has %d MB with its optimizer state, but at most "
          "%d MB can move at once [TD1109]; hint: start the job with slice_var_up and more "
          "pservers, which makes smaller slices",
          spec(slice).variable, bytes_sum >> 20, kMigrationBytesMax >> 20);
    }
    TD_ASSIGN_OR_RETURN(SliceSnapshot snapshot, Snapshot(slice));
    if (!previous) snapshot.previous = nullptr;
    migrations.push_back({spec(slice), std::move(snapshot)});
  }
  return migrations;
}

// ---- Updates

Status DenseTable::ApplySlice(int slice, const SliceGradients& gradients,
                              std::span<const int> ranks, float learning_rate) {
  Slice& s = At(slice);
  TD_RETURN_IF_ERROR(snapshot_.CopySlice(slice));
  // In training, this call copies nothing, because the pulls of the trainers have already made the
  // copy.
  TD_ASSIGN_OR_RETURN(s.previous, Params(slice));
  s.params.reset();
  std::vector<const std::byte*> contributions;
  for (const int rank : ranks) contributions.push_back(gradients.Get(slice, rank).get());
  const bool one = contributions.size() == 1;
  std::byte* const out = s.update->in_host_memory()
                             ? reinterpret_cast<std::byte*>(s.update->grad().data())
                             : staged_.get();
  if (!one) {
    ReduceTree(ReduceOp::kSum, DType::kF32, contributions, {&out, 1},
               static_cast<size_t>(s.spec.numel));
  }
  const auto* const sum = reinterpret_cast<const float*>(one ? contributions[0] : out);
  TD_RETURN_IF_ERROR(Annotate(s.update->Apply(sum, learning_rate), "update of " + s.spec.variable));
  return Params(slice).status();  // copies the new values now, while they are in the CPU cache
}

int DenseTable::parts() const {
  constexpr int64_t kPartElements = 1 << 16;
  if (workers_ == nullptr || staged_ != nullptr) return 1;
  int64_t elements = 0;
  for (const Slice& s : slices_) elements += s.spec.numel;
  const int64_t most = std::min<int64_t>(workers_->threads(), std::ssize(slices_));
  return static_cast<int>(std::max<int64_t>(1, std::min(elements / kPartElements, most)));
}

Status DenseTable::ApplyStep(const SliceGradients& gradients, std::span<const int> ranks,
                             float learning_rate) {
  TD_REQUIRE(!ranks.empty() && std::ranges::is_sorted(ranks));
  TD_REQUIRE(gradients.items() == slices_.size());
  std::atomic<size_t> next = 0;
  std::vector<Status> done(static_cast<size_t>(parts()));
  const auto work = [&](int part) {
    Status& status = done[static_cast<size_t>(part)];
    while (status.ok()) {
      const size_t slice = next++;
      if (slice >= slices_.size()) return;
      status = ApplySlice(static_cast<int>(slice), gradients, ranks, learning_rate);
    }
  };
  done.size() == 1 ? work(0) : workers_->Run(static_cast<int>(done.size()), work);
  for (const Status& status : done) TD_RETURN_IF_ERROR(status);
  return OkStatus();
}

Status DenseTable::Apply(int slice, std::span<const float> gradient, float learning_rate) {
  Slice& s = At(slice);
  CHECK_EQ(static_cast<int64_t>(gradient.size()), s.spec.numel);
  TD_RETURN_IF_ERROR(snapshot_.CopySlice(slice));
  s.params.reset();
  return Annotate(s.update->Apply(gradient.data(), learning_rate), "update of " + s.spec.variable);
}

void DenseTable::Pulled(int slice, int trainer, Buffer values) {
  TD_REQUIRE(trainer >= 0 && static_cast<size_t>(trainer) < trainers_);
  At(slice).pulled[static_cast<size_t>(trainer)] = std::move(values);
}

StatusOr<bool> DenseTable::Compensated(int slice, int trainer, float strength,
                                       std::span<const float> gradient, float* out) {
  const Slice& s = At(slice);
  TD_REQUIRE(trainer >= 0 && static_cast<size_t>(trainer) < trainers_);
  TD_REQUIRE(static_cast<int64_t>(gradient.size()) == s.spec.numel);
  const Buffer& pulled = s.pulled[static_cast<size_t>(trainer)];
  if (pulled == nullptr) return false;
  const auto* const then = reinterpret_cast<const float*>(pulled.get());
  Buffer copy;
  if (!s.update->in_host_memory()) {
    TD_ASSIGN_OR_RETURN(copy, Params(slice));
  }
  const float* const now =
      copy == nullptr ? s.update->param().data() : reinterpret_cast<const float*>(copy.get());
  for (size_t i = 0; i < gradient.size(); ++i) {
    const float g = gradient[i];
    out[i] = g + strength * g * g * (now[i] - then[i]);
  }
  return true;
}

Status DenseTable::SetParam(int slice, std::span<const float> values) {
  Slice& s = At(slice);
  if (static_cast<int64_t>(values.size()) != s.spec.numel) {
    return InvalidArgument("the slice of %s that starts at element %d has %d values, expected %d",
                           s.spec.variable, s.spec.offset, values.size(), s.spec.numel);
  }
  s.params.reset();
  return s.update->Write(s.update->param_value(), values.data());
}

Status DenseTable::SetSlot(int slice, const std::string& slot, std::span<const float> values) {
  Slice& s = At(slice);
  std::vector<std::string> names;
  for (const UpdateProgram::Slot& have : s.update->slots()) {
    names.push_back(have.name);
    if (have.name != slot) continue;
    if (static_cast<int64_t>(values.size()) != have.value.numel()) {
      return InvalidArgument(
          "slot %s of the slice that starts at element %d has %d values, expected %d", slot,
          s.spec.offset, values.size(), have.value.numel());
    }
    return s.update->Write(have.value, values.data());
  }
  return NotFound("variable %s has no optimizer slot \"%s\"%s", s.spec.variable, slot,
                  OrDidYouMean(slot, names));
}

StatusOr<Buffer> DenseTable::CopyOf(const UpdateProgram& update, const Tensor& value) {
  TD_ASSIGN_OR_RETURN(Buffer copy, pool_.Take(value.bytes()));
  std::byte* const to = staged_ == nullptr ? copy.get() : staged_.get();
  TD_RETURN_IF_ERROR(update.Read(value, reinterpret_cast<float*>(to)));
  if (to != copy.get()) std::memcpy(copy.get(), to, value.bytes());
  return copy;
}

StatusOr<Buffer> DenseTable::Params(int slice) {
  Slice& s = At(slice);
  if (s.params == nullptr) {
    TD_ASSIGN_OR_RETURN(s.params, CopyOf(*s.update, s.update->param_value()));
  }
  return s.params;
}

StatusOr<SliceSnapshot> DenseTable::Snapshot(int slice) {
  SliceSnapshot snapshot;
  TD_ASSIGN_OR_RETURN(snapshot.param, Params(slice));
  snapshot.previous = At(slice).previous;
  const UpdateProgram& update = *At(slice).update;
  for (const UpdateProgram::Slot& slot : update.slots()) {
    TD_ASSIGN_OR_RETURN(Buffer copy, CopyOf(update, slot.value));
    snapshot.slots.push_back({slot.name, slot.value.numel(), std::move(copy)});
  }
  return snapshot;
}

}  // namespace tandem::pserver
