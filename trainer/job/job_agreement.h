// What all ranks of a job must have alike for its result to make sense, in one list for all modes:
// ranks compare it among themselves when they have met, pservers that of each trainer with the
// first one's. It has every field of the job and of its strategy, at its default or not, but those
// that NotCompared names; so a new field or knob is in it by itself.
#pragma once

#include <span>
#include <string>

#include "collective/communicator.h"
#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

class Dataset;
class JobConfig;

// A field that may differ from rank to rank, and all that is in it.
struct NotComparedField {
  const char* path;  // from JobConfig: "strategy.runtime_flags.nccl_debug"
  const char* why;
};
std::span<const NotComparedField> NotCompared();

// The list of an effective job for `workers` workers. Beside the fields, program and data as they
// are: a hash of the program's file, the number of training samples and a hash of whole numbers in
// some of them. Reads these files; relative paths begin at `job_dir`. Long values are shortened,
// with a hash.
StatusOr<Agreement> AgreementOf(const JobConfig& config, const std::string& job_dir, int workers,
                                const Dataset& train);

// Called by all ranks together, for host memory. INVALID_ARGUMENT on all of them, in the same
// words, naming the first rank whose list is not that of rank 0, and the first difference.
Status AgreeAmongRanks(Communicator& ranks, const Agreement& mine, Time deadline);

}  // namespace tandem
