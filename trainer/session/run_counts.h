// Counters of a training run: the composition of its program and its activity. The trainer's result
// contains these counters, so that tools can compare runs (`tandem bench knobs`).
#pragma once

#include <map>
#include <string>

#include "trainer/modes/mode_counts.h"

namespace tandem::trainer {

// Counters of the training program and its plan.
struct ProgramCounts {
  Count ops;  // number of operators in the program
  std::map<std::string, double> ops_by_type;
  Count ops_16bit;                        // number of operators that write 16-bit tensors
  Count ops_conditional;                  // number of operators that have a condition
  std::map<std::string, double> passes;   // number of program changes, by the pass that made them
  std::map<std::string, double> by_impl;  // number of operators by implementation (onednn, direct)
  Count plan_threads;                     // number of threads that run operators
  Count plan_inplace;                     // number of outputs that reuse an input's memory
  Count held_bytes;                       // bytes of parameters and state of this rank
  Count passing_bytes;    // peak bytes of other ranks' parameters on this rank (sharding)
  Count arena_bytes;      // bytes allocated for temporaries
  Count arena_bytes_min;  // peak bytes of live temporaries
};

struct DeviceCounts {
  Count launches;  // number of plan steps and graphs that training started on a device
  // Lower bound of a training run's time on the device, in ms (kernels/exec/roofline.h).
  Count limit_ms;
  // Device memory: calls of the driver, bytes that the driver allocated, bytes in use.
  Count driver_calls, driver_bytes, used_bytes;
};

// Counters of the communications that operators of one type started.
struct CommTypeCounts {
  double started = 0;
  double out_bytes = 0;  // total size in bytes of the outputs of these communications
};

struct RunCounts {
  ProgramCounts program;
  ModeCounts mode;
  DeviceCounts device;
  std::map<std::string, CommTypeCounts> comm;  // counters by type of the operator
  Count runs;                                  // number of runs of the executor
  Count drops;           // number of executor runs after which temporaries were dropped
  Count repeated_steps;  // steps that the job repeated after a loss of all ranks
  Count feed_bytes;      // bytes of batches copied to the program's data variables
  Count loss_scaling;    // scale of the loss (amp) after the last step
  Count peak_bytes;      // largest resident memory of the process in bytes
};

// Returns all counters by their names in results ("ps.pushes", "ops.TYPE"). A counter that is not
// in the map is 0.
std::map<std::string, double> CountsByName(const RunCounts& counts);

}  // namespace tandem::trainer
