// Measures every operator of a step in program order (knob `benchmark`). Synchronizes the device
// before and after each operator, so that the time of an operator contains no work of another
// operator.
#pragma once

#include <string>
#include <vector>

#include "kernels/exec/executor.h"

namespace tandem::trainer {

class OpBenchmark final : public exec::ExecObserver {
 public:
  // `plan` is not owned and must outlive this object.
  explicit OpBenchmark(const exec::Plan& plan);

  Status BeforeStep(const exec::PlanStep& step, int64_t run) override;
  Status OnStep(const exec::PlanStep& step, int64_t run, Time begin, Time end) override;

  // Returns a line for each operator run since the last call: its time, the bytes that it writes,
  // and the bytes of all live temporaries. Clears the records.
  std::string TakeText();

 private:
  struct Row {
    int op;
    const char* what;  // for a communication: "start " or "wait for "; else ""
    double seconds;
  };
  Status WaitForDevice() const {
    return plan_.device() == nullptr ? OkStatus() : plan_.device()->Synchronize();
  }

  const exec::Plan& plan_;
  std::vector<size_t> written_, alive_;  // bytes that each operator writes, and live bytes
  std::vector<Row> rows_;
};

}  // namespace tandem::trainer
