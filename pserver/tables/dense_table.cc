#include "pserver/tables/dense_table.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "common/base/nearest.h"
#include "common/tensor/reduce.h"

namespace tandem::pserver {
namespace {

// The update of a slice must not depend on values outside the slice.
Status CheckCut(const SliceSpec& slice, const OptimizerSpec& optimizer) {
  TD_ASSIGN_OR_RETURN(const UpdateScope reach, ReachOf(optimizer));
  if (reach == UpdateScope::kAll) {
    return Unimplemented(
        "optimizer.clip_global_norm is not supported on pservers, because each server has only its "
        "own gradients [TD1108]; hint: clip_norm");
  }
  if (reach == UpdateScope::kElement || slice.numel == slice.shape.numel()) return OkStatus();
  return InvalidArgument(
      "optimizer %s needs norms of complete variables, but this server has only a part of a "
      "variable [TD1108]; hint: slice_var_up: false",
      optimizer.type);
}

}  // namespace

StatusOr<std::unique_ptr<DenseTable>> DenseTable::Make(const ShardConfig& config,
                                                       const Backend& backend, Device& device,
                                                       std::shared_ptr<Arena> arena,
                                                       ForkJoin* workers) {
  auto table = std::unique_ptr<DenseTable>(
      new DenseTable(config, backend, device, std::move(arena), workers));
  for (const SliceSpec& spec : config.slices) TD_RETURN_IF_ERROR(table->Append(spec));
  table->Index();
  return table;
}

Status DenseTable::Append(const SliceSpec& spec) {
  TD_RETURN_IF_ERROR(Annotate(CheckCut(spec, optimizer_), "variable " + spec.variable));
  auto update = UpdateProgram::Make(spec.variable, spec.numel, optimizer_, backend_, device_);
  if (!update.ok()) return Annotate(update.status(), "variable " + spec.variable);
  if (device_.place().kind != PlaceKind::kCpu && spec.numel > staged_numel_) {
    TD_ASSIGN_OR_RETURN(staged_,
                        backend_.AllocatePinned(static_cast<size_t>(spec.numel) * sizeof(float)));
    staged_numel_ = spec.numel;
  }
  slices_.push_back({spec, std::move(*update), {}, nullptr, nullptr});
  slices_.back().gathered.resize(gathered_.size());
  slices_.back().pulled.resize(gathered_.size());
  return OkStatus();
}

void DenseTable::Index() {
  by_variable_.clear();
  names_.clear();
  size_t bytes = 0;
  for (size_t i = 0; i < slices_.size(); ++i) {
    const SliceSpec& spec = slices_[i].spec;
    bytes += static_cast<size_t>(spec.numel) * sizeof(float);
    std::vector<int>& same = by_variable_[spec.variable];
    if (same.empty()) names_.push_back(spec.variable);
    same.insert(std::upper_bound(
                    same.begin(), same.end(), spec.offset,
                    [&](int64_t offset, int slice) { return offset < slices_[slice].spec.offset; }),
                static_cast<int>(i));
  }
  // Keeps spare blocks for one gradient of every trainer and three snapshots.
  pool_.SetSpareBytesMax((gathered_.size() + 3) * (bytes + 4096));
}

// ---- Slices that move

Status DenseTable::Add(const SliceSpec& spec) {
  TD_RETURN_IF_ERROR(CaptureAll());
  TD_RETURN_IF_ERROR(Append(spec));
  Index();
  return OkStatus();
}

void DenseTable::Remove(int bucket) {
  const int slice = FindBucket(bucket);
  if (slice < 0) return;
  // Without memory for the copies, the snapshot fails (TakeCut).
  if (!CaptureAll().ok()) DropCut();
  for (size_t t = 0; t < gathered_.size(); ++t)
    gathered_[t] -= slices_[slice].gathered[t] != nullptr;
  slices_.erase(slices_.begin() + slice);
  Index();
}

int DenseTable::FindBucket(int bucket) const {
  const auto it = std::find_if(slices_.begin(), slices_.end(),
                               [bucket](const Slice& s) { return s.spec.bucket == bucket; });
  return it == slices_.end() ? -1 : static_cast<int>(it - slices_.begin());
}

void DenseTable::Keep(int bucket, bool served) {
  if (const int slice = FindBucket(bucket); slice >= 0) slices_[slice].served = served;
}

bool DenseTable::Serves(int bucket) const {
  const int slice = FindBucket(bucket);
  return slice >= 0 && slices_[slice].served;
}

std::vector<SliceSpec> DenseTable::specs() const {
  std::vector<SliceSpec> all;
  for (const Slice& s : slices_) all.push_back(s.spec);
  return all;
}

size_t DenseTable::bytes(int slice) const {
  const Slice& s = slices_[slice];
  int64_t numel = s.spec.numel;
  for (const UpdateProgram::Slot& slot : s.update->slots()) numel += slot.value.numel();
  return static_cast<size_t>(numel) * sizeof(float);
}

StatusOr<int> DenseTable::FindRange(const PullRange& range) const {
  const auto it = by_variable_.find(range.variable);
  if (it == by_variable_.end()) {
    return NotFound("unknown variable \"%s\" [TD1205]%s", range.variable,
                    OrDidYouMean(range.variable, names_));
  }
  for (int slice : it->second) {
    const SliceSpec& s = slices_[slice].spec;
    if (range.numel >= 1 && range.offset >= s.offset && range.numel <= s.numel &&
        range.offset - s.offset <= s.numel - range.numel) {
      return slice;
    }
  }
  std::string have;
  for (int slice : it->second) {
    const SliceSpec& s = slices_[slice].spec;
    have += absl::StrFormat("%s[%d, %d)", have.empty() ? "" : ", ", s.offset, s.offset + s.numel);
  }
  return NotFound("elements %d to %d+%d of %s are not on this server, which has elements %s",
                  range.offset, range.offset, range.numel, range.variable, have);
}

StatusOr<int> DenseTable::Find(const std::string& variable, int64_t offset) const {
  TD_ASSIGN_OR_RETURN(const int slice, FindRange({variable, offset, 1}));
  if (slices_[slice].spec.offset != offset) {
    return NotFound("%s has no slice that begins at element %d; the nearest begins at element %d",
                    variable, offset, slices_[slice].spec.offset);
  }
  return slice;
}

void DenseTable::Gather(int slice, int trainer, Buffer gradient) {
  Buffer& place = slices_[slice].gathered[trainer];
  CHECK(place == nullptr && gradient != nullptr);
  place = std::move(gradient);
  ++gathered_[trainer];
}

void DenseTable::Drop(int trainer) {
  for (Slice& s : slices_) s.gathered[trainer].reset();
  gathered_[trainer] = 0;
}

Status DenseTable::ApplyGathered(Slice& s, std::span<const int> ranks, float learning_rate) {
  const int slice = static_cast<int>(&s - slices_.data());
  TD_RETURN_IF_ERROR(BeforeChange(slice));
  // No extra cost in training: the trainers' pulls have already made this copy.
  TD_ASSIGN_OR_RETURN(s.previous, Snapshot(slice));
  s.snapshot.reset();
  std::vector<const std::byte*> contributions;
  for (const int rank : ranks) {
    CHECK(s.gathered[rank] != nullptr);
    contributions.push_back(s.gathered[rank].get());
  }
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
  return Snapshot(slice).status();  // while the values are in the cache
}

int DenseTable::parts() const {
  constexpr int64_t kPartElements = 1 << 16;
  if (workers_ == nullptr || staged_ != nullptr) return 1;
  int64_t elements = 0;
  for (const Slice& s : slices_) elements += s.spec.numel;
  const int64_t most = std::min<int64_t>(workers_->threads(), std::ssize(slices_));
  return static_cast<int>(std::max<int64_t>(1, std::min(elements / kPartElements, most)));
}

Status DenseTable::ApplyGathered(std::span<const int> ranks, float learning_rate) {
  std::atomic<size_t> next = 0;
  std::vector<Status> done(static_cast<size_t>(parts()));
  const auto work = [&](int part) {
    Status& status = done[static_cast<size_t>(part)];
    while (status.ok()) {
      const size_t slice = next++;
      if (slice >= slices_.size()) return;
      status = ApplyGathered(slices_[slice], ranks, learning_rate);
    }
  };
  done.size() == 1 ? work(0) : workers_->Run(static_cast<int>(done.size()), work);
  for (const Status& status : done) TD_RETURN_IF_ERROR(status);
  for (size_t trainer = 0; trainer < gathered_.size(); ++trainer) {
    if (gathered_[trainer] != 0) Drop(static_cast<int>(trainer));
  }
  return OkStatus();
}

Status DenseTable::Apply(int slice, std::span<const float> gradient, float learning_rate) {
  Slice& s = slices_[slice];
  CHECK_EQ(static_cast<int64_t>(gradient.size()), s.spec.numel);
  TD_RETURN_IF_ERROR(BeforeChange(slice));
  s.snapshot.reset();
  return Annotate(s.update->Apply(gradient.data(), learning_rate), "update of " + s.spec.variable);
}

void DenseTable::Pulled(int slice, int trainer, Buffer values) {
  slices_[slice].pulled[trainer] = std::move(values);
}

StatusOr<bool> DenseTable::Compensated(int slice, int trainer, float strength,
                                       std::span<const float> gradient, float* out) {
  const Slice& s = slices_[slice];
  if (s.pulled[trainer] == nullptr) return false;
  const auto* const then = reinterpret_cast<const float*>(s.pulled[trainer].get());
  Buffer copy;
  if (!s.update->in_host_memory()) {
    TD_ASSIGN_OR_RETURN(copy, Snapshot(slice));
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
  Slice& s = slices_[slice];
  if (static_cast<int64_t>(values.size()) != s.spec.numel) {
    return InvalidArgument("%s at element %d has %d values, expected %d", s.spec.variable,
                           s.spec.offset, values.size(), s.spec.numel);
  }
  s.snapshot.reset();
  return s.update->Write(s.update->param_value(), values.data());
}

Status DenseTable::SetSlot(int slice, const std::string& slot, std::span<const float> values) {
  Slice& s = slices_[slice];
  std::vector<std::string> names;
  for (const UpdateProgram::Slot& have : s.update->slots()) {
    names.push_back(have.name);
    if (have.name != slot) continue;
    if (static_cast<int64_t>(values.size()) != have.value.numel()) {
      return InvalidArgument("slot %s at element %d has %d values, expected %d", slot,
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

StatusOr<Buffer> DenseTable::Snapshot(int slice) {
  Slice& s = slices_[slice];
  if (s.snapshot == nullptr) {
    TD_ASSIGN_OR_RETURN(s.snapshot, CopyOf(*s.update, s.update->param_value()));
  }
  return s.snapshot;
}

StatusOr<SliceSnapshot> DenseTable::Image(int slice) {
  SliceSnapshot image;
  TD_ASSIGN_OR_RETURN(image.param, Snapshot(slice));
  image.previous = slices_[slice].previous;
  const UpdateProgram& update = *slices_[slice].update;
  for (const UpdateProgram::Slot& slot : update.slots()) {
    TD_ASSIGN_OR_RETURN(Buffer copy, CopyOf(update, slot.value));
    image.slots.push_back({slot.name, slot.value.numel(), std::move(copy)});
  }
  return image;
}

void DenseTable::BeginSnapshot() {
  cut_.assign(slices_.size(), {});
  for (Slice& s : slices_) s.cutting = true;
}

Status DenseTable::Capture(int slice) {
  // A slice added or removed since BeginSnapshot is not part of it: CaptureAll ran before the
  // change.
  if (static_cast<size_t>(slice) >= slices_.size() || !slices_[slice].cutting) return OkStatus();
  TD_ASSIGN_OR_RETURN(cut_[slice], Image(slice));
  slices_[slice].cutting = false;
  return OkStatus();
}

Status DenseTable::CaptureAll() {
  for (size_t i = 0; i < slices_.size(); ++i) TD_RETURN_IF_ERROR(Capture(static_cast<int>(i)));
  return OkStatus();
}

void DenseTable::DropCut() {
  cut_.assign(cut_.size(), {});
  for (Slice& s : slices_) s.cutting = false;
}

StatusOr<std::vector<SliceSnapshot>> DenseTable::TakeCut() {
  std::vector<SliceSnapshot> cut = std::exchange(cut_, {});
  for (const SliceSnapshot& image : cut) {
    if (image.param == nullptr)
      return ResourceExhausted("cannot copy a slice that moves: out of memory [TD2116]");
  }
  return cut;
}

}  // namespace tandem::pserver
