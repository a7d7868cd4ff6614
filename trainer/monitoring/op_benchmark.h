// Measures every operator of a step, in program order: the knob `benchmark`. It synchronizes a
// device before and after each operator, so that the time is the operator's own.
#pragma once

#include <string>
#include <vector>

#include "kernels/exec/executor.h"

namespace tandem::trainer {

class OpBenchmark final : public ExecObserver {
 public:
  explicit OpBenchmark(const Plan& plan);  // Not owned; must outlive this.

  Status BeforeStep(const PlanStep& step, int64_t run) override;
  Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) override;

  // A line for each operator run since the last call: its time, the bytes that it writes, and the
  // bytes of all live temporaries. Then clears the records.
  std::string TakeText();

 private:
  struct Row {
    int op;
    const char* what;  // for a communication: "start ", "wait for "
    double seconds;
  };
  Status WaitForDevice() const {
    return plan_.device() == nullptr ? OkStatus() : plan_.device()->Synchronize();
  }

  const Plan& plan_;
  std::vector<size_t> written_, alive_;  // bytes, by operator
  std::vector<Row> rows_;
};

}  // namespace tandem::trainer
