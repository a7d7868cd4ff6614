// Runs one implementation of one operator separately. Each tensor is surrounded by guard zones;
// outputs and scratch are filled with NaN before.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "tests/ops/op_case.h"

namespace tandem::optest {

// Memory between two zones of a known pattern, aligned like the arena of a plan.
class GuardedBuffer {
 public:
  static constexpr size_t kGuardBytes = 128;

  explicit GuardedBuffer(size_t bytes);
  void* data() const { return base_.get() + kGuardBytes; }
  size_t bytes() const { return bytes_; }
  // Sets every byte to 0xFF: NaN as f32, -1 as an integer.
  void Poison();
  bool GuardsIntact() const;
  // The memory including both zones.
  std::byte* whole() const { return base_.get(); }
  size_t whole_bytes() const { return bytes_ + 2 * kGuardBytes; }

 private:
  CpuDevice device_;
  Buffer base_;
  size_t bytes_;
};

// One operator that can be prepared and run. Not movable: views point into it.
class KernelRun {
 public:
  // Infers the outputs. `inputs` by position, as DrawInputs returns them. `device`: where the
  // kernel runs, on copies of everything including guard zones; nullptr: in host memory. Not owned.
  static StatusOr<std::unique_ptr<KernelRun>> Make(const OpCase& c,
                                                   const std::vector<Value>& inputs,
                                                   Device* device = nullptr);
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

  const OpDef& def() const { return def_; }
  const std::vector<TensorDesc>& outputs() const { return out_desc_; }  // by position
  bool HasOutput(size_t position) const { return out_ptr_desc_[position] != nullptr; }
  bool HasInput(size_t position) const { return in_ptr_desc_[position] != nullptr; }
  size_t BytesMoved() const;  // inputs and outputs, each once

  // Scratch is copied to a device before the first run, so it is smaller there.
  static constexpr size_t kDeviceConvScratch = size_t{32} << 20;
  Status Prepare(const KernelImpl& impl, int threads, size_t conv_scratch_max = SIZE_MAX);
  // Lets (output, input) pairs share memory in the next runs; empty: none.
  void Alias(std::span<const InplacePair> pairs) { alias_.assign(pairs.begin(), pairs.end()); }
  // Stores the inputs, poisons outputs and scratch, and runs once. INTERNAL: the kernel wrote
  // outside its outputs and scratch, or changed an input that does not share its memory.
  Status Run();
  // Runs the prepared kernel again, without these steps: for timing.
  Status RunAgain() { return kernel_.run(args_); }
  // Output of the last run. REQUIRES: HasOutput(position).
  Value Output(size_t position) const;
  std::string OutputBits(size_t position) const;

 private:
  KernelRun(const OpCase& c, const std::vector<Value>& inputs, Device* device);
  Status Infer();
  void Bind();
  std::vector<const GuardedBuffer*> Buffers() const;
  Status Upload();
  Status Download();
  void* Address(const GuardedBuffer& buffer) const;
  Status CheckMemory() const;
  const GuardedBuffer& OutputBuffer(size_t position) const;

  const Op op_;
  const OpDef& def_;
  const std::vector<Value> inputs_;
  std::vector<const TensorDesc*> in_ptr_desc_, out_ptr_desc_;
  std::vector<TensorDesc> out_desc_;
  std::vector<std::unique_ptr<GuardedBuffer>> in_, out_;
  std::unique_ptr<GuardedBuffer> scratch_;  // from the first run on
  std::vector<InplacePair> alias_;
  Device* const device_;
  std::map<const GuardedBuffer*, Buffer> copies_;  // on the device
  Kernel kernel_;
  std::vector<const void*> in_data_;
  std::vector<void*> out_data_;
  KernelArgs args_{};
};

}  // namespace tandem::optest
