// The variables that live from step to step: parameters, optimizer slots, statistics.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/tensor/tensor.h"
#include "kernels/graph/program.h"

namespace tandem {

// Not thread-safe; not changed while an executor that was planned over it runs. Several plans
// (train, evaluate) share one scope.
class Scope {
 public:
  explicit Scope(Device& device) : device_(device) {}  // Not owned; must outlive this.

  Device& device() const { return device_; }
  // Allocates the variable when it is not there yet. FAILED_PRECONDITION when it is there with
  // another description.
  StatusOr<Tensor> Declare(const std::string& name, const TensorDesc& desc);
  const Tensor* Find(std::string_view name) const;
  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }

 private:
  Device& device_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// RESOURCE_EXHAUSTED with the names of the largest variables behind it; any other status as it is.
Status NameLargest(const Status& status, const Program& program);

// Writes element [offset, offset + out.size()) of the first value of variable `name` with the whole
// shape `shape`. The same bits for any cut.
void FillInitial(const std::string& name, const Init& init, const Shape& shape, uint64_t seed,
                 int64_t offset, std::span<float> out);

// Declares every kParam and kState of the program and gives it its first value. RESOURCE_EXHAUSTED
// when they are more than the machine's memory.
Status Initialize(const Program& program, uint64_t seed, Scope& scope);

}  // namespace tandem
