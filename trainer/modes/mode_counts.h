// The counters of a training mode in one run of a job (trainer/session/run_counts.h).
#pragma once

#include "trainer/ps/ps_counts.h"

namespace tandem::trainer {

struct ModeCounts {
  PsCounts ps;
  Count comm_bytes;        // bytes that collective calls sent from this rank's buffers
  Count comm_flat_bytes;   // size of the buffers that join several parameters, in bytes
  Count comm_at_once;      // largest number of communications in flight at the same time
  Count communicators;     // number of communicators of this rank
  Count recoveries;        // times that this process recovered from the loss of a peer
  Count localsgd_k_steps;  // k of adaptive_localsgd after the last step
  Count pipeline_sections, pipeline_micro_batches;
  Count pipeline_bubble;  // share of a step in which a rank waits, for stages of equal duration
  Count heter_workers;
};

}  // namespace tandem::trainer
