// Counts the operators, the memory and the communication of a session.
#pragma once

#include <cstdint>

#include "kernels/exec/executor.h"
#include "trainer/modes/mode.h"
#include "trainer/session/counting_comm.h"
#include "trainer/session/programs.h"
#include "trainer/session/run_counts.h"
#include "trainer/session/run_history.h"

namespace tandem::trainer {

// The parts of a session from which CountsOf computes the counters, after the session's last step.
struct RunParts {
  const JobPrograms& programs;
  const exec::Plan& plan;
  const exec::Executor& executor;
  const exec::Scope& scope;
  const RunHistory& history;
  const CountingComm* comm;  // nullptr: the mode has no communication
  const TrainingMode& mode;
  int64_t feed_bytes;
  const exec::Backend& backend;  // the backend with which `plan` was made
  bool tensor_op_math;           // value of KernelSettings::tensor_op_math
};
RunCounts CountsOf(const RunParts& parts);

}  // namespace tandem::trainer
