// Counters of a training run: its composition and its activity. The trainer's result holds them, so
// that tools can compare runs (`tandem bench knobs`).
#pragma once

#include <map>
#include <string>

#include "trainer/modes/mode_counts.h"

namespace tandem::trainer {

// The training program and its plan.
struct ProgramCounts {
  Count ops;  // operators
  std::map<std::string, double> ops_by_type;
  Count ops_16bit;                        // operators that write 16-bit tensors
  Count ops_conditional;                  // operators that have a condition
  std::map<std::string, double> passes;   // locations that the pass changed, by its name
  std::map<std::string, double> by_impl;  // operators by implementation: onednn, direct
  Count plan_threads;                     // threads that run operators
  Count plan_inplace;                     // outputs that reuse an input's memory
  Count held_bytes;                       // parameters and state of this rank
  Count passing_bytes;    // peak size of other ranks' parameters on this rank (sharding)
  Count arena_bytes;      // temporaries
  Count arena_bytes_min;  // peak size of live temporaries
};

struct DeviceCounts {
  Count launches;  // plan steps and graphs that training started on a device
  // Lower bound of a training run's time on the device (kernels/exec/roofline.h).
  Count limit_ms;
  Count driver_calls, driver_bytes, used_bytes;  // memory of the device
};

// Communications that operators of one type started.
struct CommTypeCounts {
  double started = 0;
  double out_bytes = 0;  // full size of their outputs
};

struct RunCounts {
  ProgramCounts program;
  ModeCounts mode;
  DeviceCounts device;
  std::map<std::string, CommTypeCounts> comm;  // by type of operator
  Count runs;                                  // runs of the executor
  Count drops;                                 // executor runs after which temporaries were dropped
  Count repeated_steps;  // steps done again: the job had done them before all its ranks died
  Count feed_bytes;      // bytes of batches copied to the program's data variables
  Count loss_scaling;    // amp's scale after the last step
  Count peak_bytes;      // largest resident memory of the process
};

// All counters by the names in results ("ps.pushes", "ops.TYPE"). A missing name means 0.
std::map<std::string, double> CountsByName(const RunCounts& counts);

}  // namespace tandem::trainer
