// The optimizer of one slice as a small program: parameter, gradient, slots and one optimizer
// operator. It is planned once and run by the shared executor. A pserver therefore applies exactly
// the update that a trainer would apply.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "kernels/exec/backend.h"
#include "kernels/exec/executor.h"
#include "kernels/exec/plan.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/optimizer.h"

namespace tandem::pserver {

// Runs the optimizer of one slice or of some rows. Not thread-safe.
class UpdateProgram {
 public:
  struct Slot {
    std::string name;  // "fc_0.w@velocity"
    Tensor value;      // f32; one element, or as many as the slice
  };

  // Creates a program for `numel` >= 1 f32 elements of variable `var`. Parameters start at 0, slots
  // at the optimizer's initial values. `device` must outlive this. INVALID_ARGUMENT: unknown
  // optimizer or attribute.
  static StatusOr<std::unique_ptr<UpdateProgram>> Make(const std::string& var, int64_t numel,
                                                       const OptimizerSpec& optimizer,
                                                       const Backend& backend, Device& device);

  // Creates a program for `height` rows of `dim` elements and sparse gradients of at most `height`
  // rows (kernels/ops/rows/sparse_rows.h). grad() holds the values of the rows that rows() names.
  static StatusOr<std::unique_ptr<UpdateProgram>> MakeRows(const std::string& var, int64_t height,
                                                           int64_t dim,
                                                           const OptimizerSpec& optimizer,
                                                           const Backend& backend, Device& device);

  // Whether param(), grad(), rows() and the spans of slots may be used. Values in device memory are
  // copied with Read and Write.
  bool in_host_memory() const { return param_.place().kind == PlaceKind::kCpu; }
  int64_t numel() const { return param_.numel(); }
  // Read and Write copy a value of this program (param_value() or a slot's) to and from host
  // memory.
  const Tensor& param_value() const { return param_; }
  Status Read(const Tensor& value, float* to) const;
  Status Write(const Tensor& value, const float* from);

  // The parameters, in place.
  std::span<float> param() const { return param_.span<float>(); }
  // The gradient for Apply.
  std::span<float> grad() const { return grad_.span<float>(); }
  // Only after MakeRows: ascending row numbers, -1 after the last.
  std::span<int64_t> rows() const { return rows_.span<int64_t>(); }
  const std::vector<Slot>& slots() const { return slots_; }

  // One optimizer step with the gradient in grad().
  Status Apply(float learning_rate) { return Apply(grad().data(), learning_rate); }
  // One optimizer step with a gradient elsewhere in host memory. The gradient is not copied if the
  // program allows that.
  Status Apply(const float* gradient, float learning_rate);

 private:
  explicit UpdateProgram(Device& device) : device_(device), scope_(device) {}
  static StatusOr<std::unique_ptr<UpdateProgram>> Prepare(const Program& program,
                                                          const ParamGrad& pair,
                                                          const OptimizerSpec& optimizer,
                                                          const Backend& backend, Device& device);

  Status ApplyOnDevice(const float* gradient, float learning_rate);

  Device& device_;
  Scope scope_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<Executor> executor_;
  Tensor param_, grad_, rows_, learning_rate_;
  std::vector<const void**> grad_readers_;  // Plan::Readers of the gradient
  std::vector<Slot> slots_;
  std::optional<float> device_rate_;  // value of learning_rate_ on a device
};

}  // namespace tandem::pserver
