#include "tests/ops/kernel_run.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "kernels/ops/core/kernel_settings.h"

namespace tandem::optest {
namespace {

constexpr unsigned char kGuard = 0xA5;
constexpr unsigned char kPoison = 0xFF;

}  // namespace

GuardedBuffer::GuardedBuffer(size_t bytes) : bytes_(bytes) {
  auto memory = device_.Allocate(bytes + 2 * kGuardBytes);
  CHECK(memory.ok()) << memory.status();
  base_ = *std::move(memory);
  std::memset(base_.get(), kGuard, bytes + 2 * kGuardBytes);
  Poison();
}

void GuardedBuffer::Poison() { std::memset(data(), kPoison, bytes_); }

bool GuardedBuffer::GuardsIntact() const {
  const auto intact = [](const std::byte* zone) {
    return std::all_of(zone, zone + kGuardBytes,
                       [](std::byte b) { return b == std::byte{kGuard}; });
  };
  return intact(base_.get()) && intact(base_.get() + kGuardBytes + bytes_);
}

KernelRun::KernelRun(const OpCase& c, const std::vector<Value>& inputs, Device* device)
    : op_(MakeOp(c)), def_(*ops::FindOp(c.op)), inputs_(inputs), device_(device) {
  size_t position = 0;
  for (const auto& slot : op_.inputs) {
    for (size_t i = 0; i < std::max<size_t>(slot.size(), 1); ++i, ++position) {
      const bool present = !slot.empty();
      in_ptr_desc_.push_back(present ? &inputs_[position].desc : nullptr);
      in_.push_back(present ? std::make_unique<GuardedBuffer>(inputs_[position].desc.bytes())
                            : nullptr);
    }
  }
}

StatusOr<std::unique_ptr<KernelRun>> KernelRun::Make(const OpCase& c,
                                                     const std::vector<Value>& inputs,
                                                     Device* device) {
  std::unique_ptr<KernelRun> run(new KernelRun(c, inputs, device));
  TD_RETURN_IF_ERROR(run->Infer());
  return run;
}

Status KernelRun::Infer() {
  std::vector<bool> there;  // for each output position, whether it has a variable
  for (const auto& slot : op_.outputs) {
    for (size_t i = 0; i < std::max<size_t>(slot.size(), 1); ++i) there.push_back(!slot.empty());
  }
  out_desc_.resize(there.size());
  TD_RETURN_IF_ERROR(def_.infer(ops::OpView(op_, def_, in_ptr_desc_, {}), out_desc_));
  for (size_t i = 0; i < there.size(); ++i) {
    const bool present = there[i];
    out_ptr_desc_.push_back(present ? &out_desc_[i] : nullptr);
    out_.push_back(present ? std::make_unique<GuardedBuffer>(out_desc_[i].bytes()) : nullptr);
  }
  return OkStatus();
}

size_t KernelRun::BytesMoved() const {
  size_t bytes = 0;
  for (const auto* descs : {&in_ptr_desc_, &out_ptr_desc_}) {
    for (const TensorDesc* desc : *descs) bytes += desc == nullptr ? 0 : desc->bytes();
  }
  return bytes;
}

Status KernelRun::Prepare(const ops::KernelImpl& impl, int threads, size_t conv_scratch_max) {
  const ops::OpView view(op_, def_, in_ptr_desc_, out_ptr_desc_);
  const ops::KernelSettings settings{.conv = {.scratch_max = conv_scratch_max}};
  TD_ASSIGN_OR_RETURN(kernel_, impl.prepare(view, ops::PrepareContext{.settings = settings,
                                                                      .threads = threads,
                                                                      .device = device_}));
  scratch_ = nullptr;
  return OkStatus();
}

const GuardedBuffer& KernelRun::OutputBuffer(size_t position) const {
  for (const auto& [out, in] : alias_) {
    if (static_cast<size_t>(out) == position) return *in_[static_cast<size_t>(in)];
  }
  return *out_[position];
}

std::vector<const GuardedBuffer*> KernelRun::Buffers() const {
  std::vector<const GuardedBuffer*> buffers = {scratch_.get()};
  for (const auto* side : {&in_, &out_}) {
    for (const auto& buffer : *side) {
      if (buffer != nullptr) buffers.push_back(buffer.get());
    }
  }
  return buffers;
}

Status KernelRun::Upload() {
  for (const GuardedBuffer* buffer : Buffers()) {
    Buffer& copy = copies_[buffer];
    // Scratch memory is uploaded only once: later runs reuse the copy on the device.
    if (copy != nullptr && buffer == scratch_.get()) continue;
    if (copy == nullptr) {
      TD_ASSIGN_OR_RETURN(copy, device_->Allocate(buffer->whole_bytes()));
    }
    TD_RETURN_IF_ERROR(device_->CopyFromHost(copy.get(), buffer->whole(), buffer->whole_bytes()));
  }
  return OkStatus();
}

Status KernelRun::Download() {
  TD_RETURN_IF_ERROR(device_->Synchronize());
  for (const GuardedBuffer* buffer : Buffers()) {
    const Buffer& copy = copies_.at(buffer);
    if (buffer == scratch_.get()) continue;
    TD_RETURN_IF_ERROR(device_->CopyToHost(buffer->whole(), copy.get(), buffer->whole_bytes()));
  }
  // Scratch memory may be large, so only the guard zones around it are copied.
  const size_t end = scratch_->whole_bytes() - GuardedBuffer::kGuardBytes;
  const std::byte* const copy = copies_.at(scratch_.get()).get();
  for (const size_t zone : {size_t{0}, end}) {
    TD_RETURN_IF_ERROR(
        device_->CopyToHost(scratch_->whole() + zone, copy + zone, GuardedBuffer::kGuardBytes));
  }
  return OkStatus();
}

void* KernelRun::Address(const GuardedBuffer& buffer) const {
  if (device_ == nullptr) return buffer.data();
  return copies_.at(&buffer).get() + GuardedBuffer::kGuardBytes;
}

void KernelRun::Bind() {
  in_data_.clear();
  out_data_.clear();
  for (size_t s = 0; s < op_.inputs.size(); ++s) {
    for (size_t i = 0; i < std::max<size_t>(op_.inputs[s].size(), 1); ++i) {
      const auto& buffer = in_[in_data_.size()];
      const bool given = buffer != nullptr && !def_.inputs[s].shape_only;
      in_data_.push_back(given ? Address(*buffer) : nullptr);
    }
  }
  for (size_t i = 0; i < out_.size(); ++i) {
    out_data_.push_back(out_[i] == nullptr ? nullptr : Address(OutputBuffer(i)));
  }
  args_ = {.in = in_data_.data(),
           .out = out_data_.data(),
           .scratch = Address(*scratch_),
           .state = kernel_.state.get(),
           .stream = device_ == nullptr ? nullptr : device_->stream()};
}

Status KernelRun::Run() {
  if (scratch_ == nullptr) scratch_ = std::make_unique<GuardedBuffer>(kernel_.scratch_bytes);
  for (const auto& buffer : out_) {
    if (buffer != nullptr) buffer->Poison();
  }
  if (device_ == nullptr) scratch_->Poison();
  for (size_t i = 0; i < in_.size(); ++i) {
    if (in_[i] != nullptr) Store(inputs_[i], in_[i]->data());
  }
  if (device_ != nullptr) TD_RETURN_IF_ERROR(Upload());
  Bind();
  TD_RETURN_IF_ERROR(kernel_.run(args_));
  if (device_ != nullptr) TD_RETURN_IF_ERROR(Download());
  return CheckMemory();
}

Status KernelRun::CheckMemory() const {
  if (!scratch_->GuardsIntact()) return Internal("wrote outside its scratch memory");
  for (size_t i = 0; i < out_.size(); ++i) {
    if (out_[i] != nullptr && !out_[i]->GuardsIntact())
      return Internal("wrote outside output %d", i);
  }
  for (size_t i = 0; i < in_.size(); ++i) {
    if (in_[i] == nullptr) continue;
    if (!in_[i]->GuardsIntact()) return Internal("wrote outside input %d", i);
    const bool shared = std::any_of(alias_.begin(), alias_.end(), [i](const auto& pair) {
      return static_cast<size_t>(pair.second) == i;
    });
    GuardedBuffer before(in_[i]->bytes());
    Store(inputs_[i], before.data());
    if (!shared && in_[i]->bytes() > 0 &&
        std::memcmp(before.data(), in_[i]->data(), before.bytes()) != 0) {
      return Internal("changed input %d", i);
    }
  }
  return OkStatus();
}

Value KernelRun::Output(size_t position) const {
  return Load(out_desc_[position], OutputBuffer(position).data());
}

std::string KernelRun::OutputBits(size_t position) const {
  const GuardedBuffer& buffer = OutputBuffer(position);
  return {static_cast<const char*>(buffer.data()), buffer.bytes()};
}

}  // namespace tandem::optest
