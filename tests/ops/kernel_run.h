// Runs one implementation of one operator without a program. Guard zones surround each tensor.
// Outputs and scratch memory are filled with NaN before each run.
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

// Memory between two guard zones with a known pattern. It is aligned like the arena of a plan.
class GuardedBuffer {
 public:
  static constexpr size_t kGuardBytes = 128;

  explicit GuardedBuffer(size_t bytes);
  void* data() const { return base_.get() + kGuardBytes; }
  size_t bytes() const { return bytes_; }
  // Sets every byte to 0xFF, which is NaN as f32 and -1 as an integer.
  void Poison();
  bool GuardsIntact() const;
  // Returns the memory including both guard zones.
  std::byte* whole() const { return base_.get(); }
  size_t whole_bytes() const { return bytes_ + 2 * kGuardBytes; }

 private:
  CpuDevice device_;
  Buffer base_;
  size_t bytes_;
};

// One operator that can be prepared and run. Not movable, because views point to its members.
class KernelRun {
 public:
  // Infers the shapes of the outputs. `inputs` has one value per position, as DrawInputs returns
  // them. If `device` is set, the kernel runs on this device, with copies of all memory including
  // guard zones; nullptr: in host memory. The caller owns `device`.
  static StatusOr<std::unique_ptr<KernelRun>> Make(const OpCase& c,
                                                   const std::vector<Value>& inputs,
                                                   Device* device = nullptr);
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

  const ops::OpDef& def() const { return def_; }
  // Descriptions of the outputs, by position.
  const std::vector<TensorDesc>& outputs() const { return out_desc_; }
  bool HasOutput(size_t position) const { return out_ptr_desc_[position] != nullptr; }
  bool HasInput(size_t position) const { return in_ptr_desc_[position] != nullptr; }
  size_t BytesMoved() const;  // size of all inputs and outputs in bytes

  // Maximum size of a convolution's scratch memory on a device, in bytes. The size is limited,
  // because the scratch memory is copied to the device before the first run.
  static constexpr size_t kDeviceConvScratch = size_t{32} << 20;
  Status Prepare(const ops::KernelImpl& impl, int threads, size_t conv_scratch_max = SIZE_MAX);
  // From the next run on, the output and the input of each pair share memory. Empty: no output
  // shares memory with an input.
  void Alias(std::span<const ops::InplacePair> pairs) { alias_.assign(pairs.begin(), pairs.end()); }
  // Stores the inputs, fills outputs and scratch with NaN, and runs the kernel once. INTERNAL: the
  // kernel wrote outside its outputs and scratch, or changed an input that shares no memory with an
  // output.
  Status Run();
  // Runs the prepared kernel again without storing inputs or filling outputs. Benchmarks measure
  // the time of this call.
  Status RunAgain() { return kernel_.run(args_); }
  // Returns the output at `position` of the last run. REQUIRES: HasOutput(position).
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

  const ops::Op op_;
  const ops::OpDef& def_;
  const std::vector<Value> inputs_;
  std::vector<const TensorDesc*> in_ptr_desc_, out_ptr_desc_;
  std::vector<TensorDesc> out_desc_;
  std::vector<std::unique_ptr<GuardedBuffer>> in_, out_;
  std::unique_ptr<GuardedBuffer> scratch_;  // scratch memory, allocated by the first run
  std::vector<ops::InplacePair> alias_;
  Device* const device_;
  // Copies of the buffers in the memory of the device.
  std::map<const GuardedBuffer*, Buffer> copies_;
  ops::Kernel kernel_;
  std::vector<const void*> in_data_;
  std::vector<void*> out_data_;
  ops::KernelArgs args_{};
};

}  // namespace tandem::optest
