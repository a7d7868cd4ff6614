// The optimizer of one slice: a tiny program (parameter, gradient, slots, one optimizer operator)
// planned once and run by the shared executor, so that a pserver applies exactly the update that a
// trainer would.
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

namespace tandem {

// Not thread-safe.
class UpdateProgram {
 public:
  struct Slot {
    std::string name;  // "fc_0.w@velocity"
    Tensor value;      // f32, as many elements as the slice, or one
  };

  // For `numel` >= 1 f32 elements of variable `var`. Parameters start at 0, slots as the optimizer
  // says. `device` must outlive this. INVALID_ARGUMENT for an unknown optimizer or attribute.
  static StatusOr<std::unique_ptr<UpdateProgram>> Make(const std::string& var, int64_t numel,
                                                       const OptimizerSpec& optimizer,
                                                       const Backend& backend, Device& device);

  // The same for `height` rows of `dim` elements and sparse gradients of at most as many rows
  // (kernels/ops/rows/sparse_rows.h): grad() holds the values of the rows that rows() names.
  static StatusOr<std::unique_ptr<UpdateProgram>> MakeRows(const std::string& var, int64_t height,
                                                           int64_t dim,
                                                           const OptimizerSpec& optimizer,
                                                           const Backend& backend, Device& device);

  // Whether the four spans below may be asked for: memory of a device is copied, by Read and Write.
  bool in_host_memory() const { return param_.place().kind == PlaceKind::kCpu; }
  int64_t numel() const { return param_.numel(); }
  // A value of this program, param_value() or a slot's, from and to host memory.
  const Tensor& param_value() const { return param_; }
  Status Read(const Tensor& value, float* to) const;
  Status Write(const Tensor& value, const float* from);

  // The parameters, in place.
  std::span<float> param() const { return param_.span<float>(); }
  // Where the gradient goes before Apply.
  std::span<float> grad() const { return grad_.span<float>(); }
  // Of MakeRows: ascending, -1 behind the last.
  std::span<int64_t> rows() const { return rows_.span<int64_t>(); }
  const std::vector<Slot>& slots() const { return slots_; }

  // One optimizer step with what stands in grad().
  Status Apply(float learning_rate) { return Apply(grad().data(), learning_rate); }
  // The same with a gradient that lies elsewhere in host memory: not copied where the program
  // allows that.
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
  std::optional<float> device_rate_;  // what learning_rate_ holds on a device
};

}  // namespace tandem
