// The counters of a mode in a run (trainer/session/run_counts.h).
#pragma once

#include "trainer/ps/ps_counts.h"

namespace tandem::trainer {

struct ModeCounts {
  PsCounts ps;
  Count comm_bytes;        // bytes of this rank's buffers that collectives transferred
  Count comm_flat_bytes;   // buffers that join several parameters
  Count comm_at_once;      // largest number of concurrent communications
  Count communicators;     // communicators of the rank
  Count recoveries;        // recoveries of this process from the loss of a peer
  Count localsgd_k_steps;  // adaptive_localsgd's k after the last step
  Count pipeline_sections, pipeline_micro_batches;
  Count pipeline_bubble;  // share of a step that a rank waits
  Count heter_workers;
};

}  // namespace tandem::trainer
