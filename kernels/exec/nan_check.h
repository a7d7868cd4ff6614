// Stops a run at the first operator that produces a value that is not finite (check_nan_inf).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"

namespace tandem::exec {

// Searches every output of every operator for values that are not finite. A step takes about as
// long as if it wrote its outputs twice. On a device, a kernel searches after each operator. The
// host reads the results before each communication, so that no bad value is sent, and after the
// run. Until the host reads a result, the device continues, so parameter updates may already
// contain a bad value.
class NanCheck final : public ExecObserver {
 public:
  // `backend` is the backend of the plan's device. `plan` and `backend` must outlive this object.
  // RESOURCE_EXHAUSTED: the device has no memory for the search results.
  static StatusOr<std::unique_ptr<NanCheck>> Make(const Plan& plan, const Backend& backend);

  // DATA_LOSS: a value is not finite. The message names the variable, the element and the inputs
  // that were not finite. The message also names inputs whose earlier values are unknown, because
  // an output uses their memory. On a device, BeforeStep and AfterRun report the error and name the
  // operator that caused it.
  Status BeforeStep(const PlanStep& step, int64_t run) override;
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;
  Status AfterRun() override;

 private:
  // A floating-point variable that a plan step reads or writes.
  struct Floats {
    std::string var;
    size_t position;  // position of the variable in the arguments of the plan step
    TensorDesc desc;
  };
  struct StepFloats {
    std::vector<Floats> in, out;
    // By output of any element type: its position in the arguments and its size in bytes.
    std::vector<std::pair<size_t, size_t>> written;
  };
  // By variable: the position of its first element that is not finite. NonFiniteScan::kNone: all
  // elements are finite.
  using Found = std::vector<uint64_t>;

  NanCheck(const Plan& plan, const Backend& backend);
  Status Search(const std::vector<Floats>& vars, const void* const* data, NonFiniteScan search);
  Status ReadBack();
  static Status Verdict(const StepFloats& step, const PlanStep& at, std::span<const uint64_t> out,
                        std::span<const uint64_t> in);
  // Returns true if the step wrote an output to memory of `in`. The earlier values of `in` are then
  // unknown.
  static bool IsGone(const StepFloats& step, const PlanStep& at, const Floats& in);

  const Plan& plan_;
  const Backend& backend_;
  std::vector<StepFloats> steps_;
  // Device only. The first cell is the number of the first search that found an element that is not
  // finite. The number is run * number of plan steps + index of the step. The next cells are the
  // results for the outputs of that step, then for the inputs.
  Buffer cells_;
  size_t cells_count_ = 0;
};

}  // namespace tandem::exec
