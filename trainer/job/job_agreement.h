// The settings that all ranks of a job must share, as one list for all modes. Ranks compare their
// lists after the rendezvous; pservers compare each trainer's list with the first trainer's. The
// list has every field of the job and of its strategy, set or default, except those in NotCompared.
// A new field or knob is therefore included automatically.
#pragma once

#include <span>
#include <string>

#include "collective/communicator.h"
#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::reader {
class Dataset;
}  // namespace tandem::reader

namespace tandem::trainer {

// A field that may differ between ranks, with all its subfields.
struct NotComparedField {
  const char* path;  // from JobConfig: "strategy.runtime_flags.nccl_debug"
  const char* why;
};
std::span<const NotComparedField> NotCompared();

// The list of an effective job for `workers` workers. It also describes program and data: a hash of
// the program's file, the number of training samples, and a hash of the integers in some samples.
// Reads these files; relative paths start at `job_dir`. Long values are shortened and followed by a
// hash.
StatusOr<Agreement> AgreementOf(const JobConfig& config, const std::string& job_dir, int workers,
                                const reader::Dataset& train);

// All ranks must call this together, with host memory. INVALID_ARGUMENT: a rank's list differs from
// rank 0's. All ranks return the same message; it names the first such rank and the first
// difference.
Status AgreeAmongRanks(collective::Communicator& ranks, const Agreement& mine, Time deadline);

}  // namespace tandem::trainer
