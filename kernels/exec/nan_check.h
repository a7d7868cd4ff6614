// Stops a run at the first operator that gives a value which is not finite (check_nan_inf).
#pragma once

#include <string>
#include <vector>

#include "kernels/exec/executor.h"

namespace tandem {

// Reads every output of every operator again, so steps take about as long as twice the memory they
// write. On the CPU alone.
class NanCheck final : public ExecObserver {
 public:
  explicit NanCheck(const Plan& plan) : plan_(plan) {}  // Not owned; must outlive this.

  // DATA_LOSS naming the variable, the element, and which inputs were not finite before.
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;

 private:
  const Plan& plan_;
};

// Position of the first element that is NaN or infinite; -1 when none is, or for whole numbers.
int64_t FirstNotFinite(const void* data, DType dtype, int64_t numel);

}  // namespace tandem
