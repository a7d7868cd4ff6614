// Stops a run at the first operator that produces a value that is not finite (check_nan_inf).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"

namespace tandem {

// Reads every output of every operator again; a step takes about as long as if it wrote twice the
// memory. A device searches by itself after each operator. The host reads the result before each
// communication, so that no bad value is sent, and after the run. Updates made by then are lost.
class NanCheck final : public ExecObserver {
 public:
  // `plan` and `backend`, the backend of the plan's device, must outlive this object.
  // RESOURCE_EXHAUSTED: the device has no memory for the results.
  static StatusOr<std::unique_ptr<NanCheck>> Make(const Plan& plan, const Backend& backend);

  // DATA_LOSS: a value is not finite. The message names the variable, the element and the inputs
  // that were not finite. It also names inputs whose state is unknown because an output uses their
  // memory. On a device, BeforeStep and AfterRun return the error, with the operator.
  Status BeforeStep(const PlanStep& step, int64_t run) override;
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;
  Status AfterRun() override;

 private:
  // A floating-point variable that a plan step reads or writes.
  struct Floats {
    std::string var;
    size_t position;  // in the arguments of the step
    TensorDesc desc;
  };
  struct StepFloats {
    std::vector<Floats> in, out;
    std::vector<std::pair<size_t, size_t>> written;  // outputs of any type: position, bytes
  };
  using Found = std::vector<uint64_t>;  // by variable: element, or NonFiniteScan::kNone

  NanCheck(const Plan& plan, const Backend& backend);
  Status Search(const std::vector<Floats>& vars, const void* const* data, NonFiniteScan search);
  Status ReadBack();
  static Status Verdict(const StepFloats& step, const PlanStep& at, std::span<const uint64_t> out,
                        std::span<const uint64_t> in);
  // Returns true if the step wrote into the memory of this input; its earlier values are then
  // unknown.
  static bool IsGone(const StepFloats& step, const PlanStep& at, const Floats& in);

  const Plan& plan_;
  const Backend& backend_;
  std::vector<StepFloats> steps_;
  // Device only. The first cell is the number of the search that found something (counted by run,
  // then by step). Then follow the results: of outputs, then of inputs.
  Buffer cells_;
  size_t cells_count_ = 0;
};

}  // namespace tandem
