// Stops a run at the first operator that gives a value which is not finite (check_nan_inf).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/exec/executor.h"

namespace tandem {

// Reads every output of every operator again, so steps take about as long as twice the memory they
// write. A device looks by itself, behind each operator, and is asked what it found before each
// communication, so that nothing of it leaves, and behind the run; what the run has updated by then
// is lost.
class NanCheck final : public ExecObserver {
 public:
  // `plan` and `backend`, that of the plan's device, must outlive it. RESOURCE_EXHAUSTED when the
  // device has no memory for what it finds.
  static StatusOr<std::unique_ptr<NanCheck>> Make(const Plan& plan, const Backend& backend);

  // DATA_LOSS naming the variable, the element, which inputs were not finite before, and of which
  // that is not known because the outputs lie in their memory; on a device of BeforeStep and
  // AfterRun, and with the operator.
  Status BeforeStep(const PlanStep& step, int64_t run) override;
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;
  Status AfterRun() override;

 private:
  // A variable of floats that a step reads or writes.
  struct Floats {
    std::string var;
    size_t position;  // in the step's arguments
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
  // Whether the step wrote into this input's memory: what was there before is not known.
  static bool IsGone(const StepFloats& step, const PlanStep& at, const Floats& in);

  const Plan& plan_;
  const Backend& backend_;
  std::vector<StepFloats> steps_;
  // On a device: the number of the search that found something (run by run, step by step), and
  // behind it what it found: of outputs, then of inputs.
  Buffer cells_;
  size_t cells_count_ = 0;
};

// Position of the first element that is NaN or infinite; -1 when none is, or for whole numbers.
int64_t FirstNotFinite(const void* data, DType dtype, int64_t numel);

}  // namespace tandem
